"""Batch get and put of tool results."""
