"""Numbers of the tool cache."""

from prometheus_client import Counter, Gauge, Histogram

LOOKUPS = Counter(
    "sabueso_tool_cache_lookups",
    "Calls looked up, by result: hit (the same call), semantic (a near-equal one), wait (the same call, which another "
    "caller made meanwhile), miss, stale (a miss because a source changed), bypass (the store did not answer).",
    ["result"],
)
RESULTS = Counter(
    "sabueso_tool_cache_results",
    "Results offered, by what became of them: stored, too_large, no_ttl, outdated (a source or the day changed "
    "meanwhile), full (the store), not_json, bypass (the store did not answer).",
    ["outcome"],
)
WAITS = Counter(
    "sabueso_tool_cache_waits",
    "Waits for another caller's result, by how they ended: result, lease (the other gave up), timeout, bypass.",
    ["outcome"],
)
WAITING = Gauge("sabueso_tool_cache_waiting_calls", "Calls that wait for another caller's result.")
AGE = Histogram(
    "sabueso_tool_cache_hit_age_seconds",
    "Age of results that were found.",
    buckets=(1, 10, 60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600),
)
SIZE = Histogram(
    "sabueso_tool_cache_value_bytes",
    "Size of results that were stored, before compression.",
    buckets=tuple(4**n * 1024 for n in range(6)),
)
