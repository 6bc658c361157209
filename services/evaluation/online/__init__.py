"""Measures a sample of live traffic: scores without a reference, drift, and what people said of the same answers."""
