"""The ways of answering a question."""
