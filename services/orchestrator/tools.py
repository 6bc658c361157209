"""A tool: what the model reads of it, how its arguments are checked, and how it is called."""

import json
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model, field_validator
from pydantic.json_schema import SkipJsonSchema

from services.orchestrator.arguments import ArgumentForm, Arguments, strict_json
from services.orchestrator.calling.shown_schema import shown
from services.orchestrator.model import ToolSpec
from services.orchestrator.result_cache import CacheKey
from services.orchestrator.results import Found

NAMES = ("vector_search", "sql_query", "web_search", "calculate")
SERVICES: Mapping[str, str] = {
    "vector_search": "retrieval",
    "sql_query": "sql_tool",
    "web_search": "web_tool",
    "calculate": "orchestrator",
}
# How a tenant's own tools are counted: metrics must not have a label a tenant.
VERIFIED_QUERY, EXTERNAL = "verified_query", "external"
# What specialists of a plan may use, by the kinds of tools; whoever finds numbers may reckon with them.
SPECIALISTS: Mapping[str, tuple[str, ...]] = {
    "documents": ("vector_search", "calculate"),
    "sql": ("sql_query", VERIFIED_QUERY, "calculate"),
    "web": ("web_search", "calculate"),
    "external": (EXTERNAL, "calculate"),
}


def _searchable(text: str) -> str:
    """Composed and decomposed accents are one query, and one cache key."""
    return unicodedata.normalize("NFC", text).strip()


Query = Annotated[str, AfterValidator(_searchable)]


class VectorSearch(Arguments):
    """Arguments of vector_search, without the collections of a tenant."""

    query: Query = Field(
        min_length=1, max_length=4096, description="What to look for: a full sentence in the user's words."
    )
    top_k: int = Field(default=5, ge=1, le=20, description="Passages wanted.")
    collection: str | SkipJsonSchema[None] = Field(default=None, description="Search only this collection.")


class SqlQuery(Arguments):
    """Arguments of sql_query."""

    query: str = Field(
        min_length=1, max_length=16_384, description="One PostgreSQL SELECT with $1, $2 … for every value."
    )
    params: list[Any] = Field(default=[], max_length=100, description="One value per placeholder, in order.")

    @field_validator("params", mode="before")
    @classmethod
    def _written_as_text(cls, value: Any) -> Any:
        """Several models write the list as a JSON text."""
        if not isinstance(value, str):
            return value
        try:
            return strict_json(value or "[]")
        except ValueError:
            return value

    @field_validator("params")
    @classmethod
    def _are_json(cls, value: list[Any]) -> list[Any]:
        json.dumps(value, allow_nan=False)  # its ValueError says what is wrong
        return value


class SourcedSqlQuery(SqlQuery):
    """Arguments of sql_query where there are several databases."""

    source: str | SkipJsonSchema[None] = Field(default=None, description="Database to ask.")


class WebSearch(Arguments):
    """Arguments of web_search."""

    query: Query = Field(min_length=1, max_length=400, description="What to search for, in a few words.")


@lru_cache(maxsize=256)
def vector_search_of(collections: tuple[str, ...]) -> type[VectorSearch]:
    """VectorSearch whose `collection` is one of `collections`."""
    if not collections:
        return VectorSearch
    one_of: Any = Literal[collections] | SkipJsonSchema[None]
    described = Field(default=None, description="Search only this collection.")
    return create_model("VectorSearch", __base__=VectorSearch, collection=(one_of, described))


@lru_cache(maxsize=256)
def sql_query_of(sources: tuple[str, ...]) -> type[SqlQuery]:
    """SqlQuery, with a `source` that is one of `sources` where there are several."""
    if len(sources) < 2:
        return SqlQuery
    one_of: Any = Literal[sources] | SkipJsonSchema[None]
    described = Field(default=None, description=f"Database to ask; `{sources[0]}` where none is named.")
    return create_model("SqlQuery", __base__=SourcedSqlQuery, source=(one_of, described))


def _no_sources(arguments: Any, found: Found) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Tool:
    """A tool of one tenant.

    `service` is what is named when it does not answer. `call` takes checked arguments and the seconds it may take.
    `cache_version` stands for all that changes results besides the arguments, and `cache_context` says what does so
    for certain arguments only; `cache_ttl_seconds` 0 means no cache. `cache_sources` says what a result was made from,
    as in the cache's `Entry.sources`. `semantic_argument` names the argument that is free text, if one is; from a
    cosine similarity of `min_similarity` on, unless it is 0, the result of nearly the same text serves. `origin`: the
    foreign server that it belongs to; empty for ours. `writes`: calling it may change something outside.
    """

    name: str
    service: str
    description: str
    form: ArgumentForm
    result: type[Found]
    call: Callable[[Any, float], Awaitable[Found]]
    timeout_seconds: float
    cache_ttl_seconds: int = 0
    cache_version: str = ""
    cache_context: Callable[[Any], str] = lambda _: ""
    cache_sources: Callable[[Any, Found], Sequence[str]] = _no_sources
    semantic_argument: str = ""
    min_similarity: float = 0
    origin: str = ""
    writes: bool = False

    @property
    def spec(self) -> ToolSpec:
        """What the model reads."""
        return ToolSpec(self.name, self.description, shown(self.form.schema))

    @property
    def kind(self) -> str:
        """The name under which it is counted: one of a closed list."""
        if self.origin:
            return EXTERNAL
        return self.name if self.name in NAMES else VERIFIED_QUERY

    def key(self, arguments: Any) -> CacheKey:
        """What the call is known by in the cache."""
        version = self.cache_version + self.cache_context(arguments)
        return CacheKey(self.name, self.form.canonical(arguments), version, self.semantic_argument, self.min_similarity)


def for_specialist(tools: Mapping[str, Tool], specialist: str) -> dict[str, Tool]:
    """The tools of a specialist, in their order; all where it is empty. Nothing where there are none of its own."""
    if not specialist:
        return dict(tools)
    found = {name: tool for name, tool in tools.items() if tool.kind in SPECIALISTS[specialist]}
    return found if any(tool.kind != "calculate" for tool in found.values()) else {}
