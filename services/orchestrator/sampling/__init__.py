"""Offers a share of the finished answers to evaluation, where a tenant wants it. No answer ever waits for it."""
