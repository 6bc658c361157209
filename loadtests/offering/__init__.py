"""Offers load by the clock with Locust, keeps every sample, and judges the run."""
