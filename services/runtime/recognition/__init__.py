"""Finds in a text what names persons, accounts and whatever a tenant lists, for all who judge what may pass."""
