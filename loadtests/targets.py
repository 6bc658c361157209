"""What the parts are to cost. The latencies of answers are those of slo.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """`field` of the figure `key` (see baseline.key_of) is to be at most `limit`, or at least, with `at_least`.

    `why` is said where it is missed, `why_not` where it was not measured.
    """

    what: str
    key: str
    field: str
    limit: float
    unit: str = "ms"
    at_least: bool = False
    why: str = ""
    why_not: str = ""

    def value(self, figures: Mapping[str, Mapping[str, Any]]) -> float | None:
        """None where it was not measured."""
        return figures.get(self.key, {}).get(self.field)

    def reached(self, value: float) -> bool:
        """Whether that is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit

    def times(self, value: float) -> float:
        """How many times the limit a value is that misses it, above 1."""
        return self.limit / value if self.at_least else value / self.limit


_NUMPY = "exact search in numpy"
_ST = "sentence-transformers"
_SHIPPED = "shield and reviewer read every passage and every sentence; the loop alone is the row above"
_INGESTION = "`make load-ingest` indexes documents of ten pages and judges the answers beside them"
_WORKER = "`make chaos` asserts it for a hostile workbook of 400 MB (faults.md), for no PDF"
_FRESH = "it installs from the network, which `make bench` stays away from"

TARGETS = (
    Target("the agent's own time an answer, p50", "agent_overhead", "p50", 8, why=_SHIPPED),
    Target("the same, p95", "agent_overhead", "p95", 20, why=_SHIPPED),
    Target("the loop beside LangGraph, processor's time", "agent_loop / LangGraph", "cpu_ratio", 0.5, "×"),
    Target("the loop beside Pydantic AI, processor's time", "agent_loop / Pydantic AI", "cpu_ratio", 0.5, "×"),
    Target("the first event of a stream, p95", "first_event", "p95", 60),
    Target("gateway, added at 50 requests/s, p50", "gateway_added.sabueso", "p50", 1.5),
    Target("the same, p99", "gateway_added.sabueso", "p99", 5),
    Target("gateway, requests/s on one core", "gateway_throughput.sabueso", "p50", 800, "1/s", at_least=True),
    Target("added median beside Portkey", "gateway_added / Portkey", "ratio", 0.7, "×"),
    Target("time of a request at full load beside Portkey", "gateway_full_load / Portkey", "ratio", 1 / 1.5, "×"),
    Target("hybrid search, 100,000 chunks, p50", f"hybrid_search_100k / {_NUMPY}", "p50", 6),
    Target("the same, p99", f"hybrid_search_100k / {_NUMPY}", "p99", 20),
    Target("its recall@10 against exact", f"hybrid_search_100k / {_NUMPY}", "recall_at_10", 0.98, "", at_least=True),
    Target("from 10,000 to 100,000 chunks, p50", "hybrid_search_growth_100k / 10k", "ratio", 3, "×"),
    Target("from 10,000 to a million chunks, p50", "hybrid_search_growth_1m / 10k", "ratio", 3, "×"),
    Target("query embedding, p50", "query_embedding", "p50", 8),
    Target("the same with four callers", "query_embedding_4_callers / one caller", "ratio", 2, "×",
           why="two cores compute four texts: twice is the least, and the service's own work comes on top"),
    Target("document embedding, processor's time", f"document_embedding_int8 / {_ST}", "cpu_ratio", 1 / 1.3, "×"),
    Target("late interaction, 20 passages, p50", "late_interaction_20 / numpy", "p50", 10),
    Target("cross-encoder, processor's time", f"cross_encoder_int8 / {_ST}", "cpu_ratio", 1 / 1.5, "×"),
    Target("SQL guard, p50", "sql_guard / sqlglot.parse", "p50", 1,
           why="the parser takes a quarter; the rest are our lexer, the comparison of both, and the resolver"),
    Target("the same, p99", "sql_guard / sqlglot.parse", "p99", 5),
    Target("a whole sql_query on an indexed table, p50", "sql_query / asyncpg", "p50", 6),
    Target("tool cache, four exact lookups, p50", "cache_lookup_4 / MGET", "p50", 1.5),
    Target("near-equal question among 10,000, without embedding, p50", "semantic_cache_near / GPTCache", "p50", 6),
    Target("a PDF of 200 pages until it can be found", "ingestion_200_pages", "p50", 120, "s", why_not=_INGESTION),
    Target("memory of a worker meanwhile", "ingestion_memory", "p50", 700, "MiB", why_not=_WORKER),
    Target("whole stack idle", "memory_idle.total", "p50", 2048, "MiB"),
    Target("whole stack after the benches", "memory_loaded.total", "p50", 3072, "MiB"),
    Target("start of the stack", "start_up", "p50", 20, "s"),
    Target("`make up` where nothing is installed", "make_up_fresh", "p50", 180, "s", why_not=_FRESH),
)  # fmt: skip
