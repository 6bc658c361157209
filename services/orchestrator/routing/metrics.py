"""What is counted of routes."""

from prometheus_client import Counter, Histogram

ROUTES = Counter(
    "sabueso_orchestrator_routes_total",
    "Questions that the router was asked, by what it said: calls, no tool, or why it abstained.",
    ["outcome"],
)
ROUTE_SECONDS = Histogram(
    "sabueso_orchestrator_route_seconds",
    "Time of a route, embedding included.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
)
