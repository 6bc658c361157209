"""Measures decisions of the agent on labelled sets: each module prints its table."""
