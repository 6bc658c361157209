"""Exact limits of tenants, keys and models."""
