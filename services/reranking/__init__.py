"""Query and texts to scores."""
