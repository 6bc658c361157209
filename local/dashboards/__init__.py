"""Grafana's dashboards: what is on them, and the program that writes them into the chart."""
