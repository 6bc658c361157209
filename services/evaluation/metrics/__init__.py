"""How good one answer is, metric by metric."""
