"""Stands in for vLLM where there is no GPU."""
