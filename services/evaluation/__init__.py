"""Measures retrieval and answers against golden sets."""
