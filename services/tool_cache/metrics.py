"""Numbers of the tool cache."""

from prometheus_client import Counter

LOOKUPS = Counter("sabueso_tool_cache_lookups", "Calls looked up, by result: hit, miss.", ["result"])
RESULTS = Counter(
    "sabueso_tool_cache_results",
    "Results offered, by what became of them: stored, too_large, no_ttl, outdated.",
    ["outcome"],
)
