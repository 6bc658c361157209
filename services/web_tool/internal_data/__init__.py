"""Keeps internal data out of what is asked of the public web."""
