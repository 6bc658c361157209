"""Figures, a smoke test under load, and latency budgets."""
