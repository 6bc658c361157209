"""Reckons exactly what a model must not reckon in its head."""
