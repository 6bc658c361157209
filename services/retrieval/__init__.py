"""Query to passages; owns Qdrant."""
