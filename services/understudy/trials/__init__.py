"""Measurements of the stand-in: what the figures in its comments come from."""
