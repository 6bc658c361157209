"""What the guard found, and how long it took."""

from prometheus_client import Counter, Histogram

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)

FINDINGS = Counter(
    "sabueso_gateway_guard_findings_total", "Things found in texts, by what was done.", ["side", "kind", "action"]
)
UNSCANNED = Counter("sabueso_gateway_guard_unscanned_total", "Parts that could not be looked at.", ["kind"])
INPUT_SECONDS = Histogram("sabueso_gateway_guard_input_seconds", "Time to check a request.", buckets=_BUCKETS)
