"""Pools of model servers: which models there are, which replica answers, and what happens when one does not."""
