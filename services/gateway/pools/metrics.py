"""Numbers of the pools. Labels are names of the configuration and addresses of replicas, never a client's words."""

from prometheus_client import Counter, Gauge, Histogram

_LABELS = ["pool", "replica"]
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 120)

IN_FLIGHT = Gauge("sabueso_gateway_replica_in_flight", "Requests at a replica.", _LABELS)
CAPACITY = Gauge("sabueso_gateway_replica_capacity", "Requests that a replica may get at once now.", _LABELS)
HEALTHY = Gauge("sabueso_gateway_replica_healthy", "1 while a replica is asked, 0 while it is left alone.", _LABELS)
LOAD_AGE_SECONDS = Gauge("sabueso_gateway_replica_load_age_seconds", "Age of what a replica said of its load.", _LABELS)
EJECTIONS = Counter("sabueso_gateway_replica_ejections_total", "Times that a replica was ejected.", _LABELS)
ATTEMPTS = Counter("sabueso_gateway_attempts_total", "Attempts at a replica by how they ended.", [*_LABELS, "outcome"])
RETRIES = Counter("sabueso_gateway_retries_total", "Second and further attempts.", ["pool", "reason"])
HEDGES = Counter("sabueso_gateway_hedges_total", "Requests that a second replica was asked for as well.", ["pool"])
FALLBACKS = Counter("sabueso_gateway_fallbacks_total", "Requests that another model answered.", ["pool"])
FIRST_TOKEN_SECONDS = Histogram(
    "sabueso_gateway_upstream_first_token_seconds",
    "From the request to a replica to the first content of its stream.",
    ["pool"],
    buckets=_BUCKETS,
)
