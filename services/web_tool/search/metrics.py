"""Numbers of the search."""

from prometheus_client import Counter, Gauge

PROVIDER_CALLS = Counter(
    "sabueso_web_tool_provider_calls_total",
    "Queries put to a search provider, by what came of them: results, empty, partial, timeout, configuration, quota, "
    "request, unreachable, answer; left when the caller hung up, resting when it was not asked.",
    ["provider", "outcome"],
)
PROVIDER_STATE = Gauge(
    "sabueso_web_tool_provider_state", "Breaker of a search provider: 0 closed, 1 on trial, 2 open.", ["provider"]
)
INTERNAL_DATA = Counter(
    "sabueso_web_tool_internal_data_total",
    "Queries with internal data, by kind and by what became of them: refuse, redact.",
    ["kind", "action"],
)
