"""Finds text that gives orders to a model: in what a user writes, and in what documents, pages and tools bring in."""
