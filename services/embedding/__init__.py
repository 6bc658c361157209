"""Texts to vectors, batched."""
