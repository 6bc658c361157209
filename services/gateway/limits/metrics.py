"""The limiter's numbers. Never by tenant, key or model: each label has a handful of values."""

from prometheus_client import Counter, Gauge, Histogram

DECISIONS = Counter(
    "sabueso_gateway_limiter_decisions_total",
    "Requests by what the limits said: `admitted`, or the kind of limit that refused, or why nobody could say.",
    ["decision"],
)
LEASES = Gauge("sabueso_gateway_limiter_active_leases", "Requests of this process that hold a lease.")
FALLBACKS = Counter(
    "sabueso_gateway_limiter_fallbacks_total",
    "Requests whose limits were not counted in Valkey, for want of it, by what was done: `local`, `open`, `closed`.",
    ["policy"],
)
STORE_LOST = Gauge("sabueso_gateway_limiter_store_lost", "1 while limits are not counted in Valkey.")
STORE_SECONDS = Histogram(
    "sabueso_gateway_limiter_store_seconds",
    "Time of one call to Valkey, failures included.",
    ["call"],
    buckets=(0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1),
)
RESERVED = Counter("sabueso_gateway_limiter_reserved_tokens_total", "Tokens that were reserved before requests ran.")
REFUNDED = Counter("sabueso_gateway_limiter_refunded_tokens_total", "Tokens that were reserved and not spent.")
OVERSPENT = Counter("sabueso_gateway_limiter_overspent_tokens_total", "Tokens that were spent and not reserved.")
UNMETERED = Counter(
    "sabueso_gateway_limiter_unmetered_requests_total",
    "Requests whose model did not say what they cost: their estimate was charged.",
)
LATE = Counter(
    "sabueso_gateway_limiter_late_settlements_total",
    "Requests that were settled later, or never, for want of Valkey.",
    ["outcome"],
)
