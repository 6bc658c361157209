"""Chooses tools and arguments from the question alone, without a model turn."""
