"""Numbers of the semantic layer."""

from prometheus_client import Counter

LOOKUPS = Counter(
    "sabueso_tool_cache_semantic_lookups",
    "Questions looked for in other words, by outcome: hit, no_candidate, not_comparable, dissimilar, degenerate (the "
    "model told nothing apart), unverified, failed.",
    ["outcome"],
)
ADDED = Counter(
    "sabueso_tool_cache_semantic_added",
    "Questions to be found in other words, by outcome: added, not_comparable, midnight, dropped (too many), failed.",
    ["outcome"],
)
