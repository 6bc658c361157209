"""What others made for the same work, each in an environment of its own; nothing here is imported by the product."""
