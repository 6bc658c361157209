"""A tool: what the model reads of it, how its arguments are checked, and how it is called."""

import json
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from services.orchestrator.model import ToolSpec
from services.orchestrator.results import Found

NAMES = ("vector_search", "sql_query", "web_search")
SERVICES: Mapping[str, str] = {"vector_search": "retrieval", "sql_query": "sql_tool", "web_search": "web_tool"}


class Arguments(BaseModel):
    """Base of all arguments: what is not in the schema is refused, so that the model learns of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _null_means_absent(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        fields = cast(dict[str, Any], values)
        return {key: value for key, value in fields.items() if value is not None}


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
            return json.loads(value or "[]")
        except ValueError:
            return value

    @field_validator("params")
    @classmethod
    def _are_json(cls, value: list[Any]) -> list[Any]:
        json.dumps(value, allow_nan=False)  # its ValueError says what is wrong
        return value


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
def schema(arguments: type[Arguments]) -> Mapping[str, Any]:
    """JSON Schema of the arguments, without what pydantic adds for people."""
    whole = arguments.model_json_schema()
    properties = {
        name: {key: value for key, value in prop.items() if key != "title" and not (key == "default" and value is None)}
        for name, prop in whole["properties"].items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": whole.get("required", []),
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class Tool:
    """A tool of one tenant.

    `service` is what is named when it does not answer. `call` takes checked arguments and the seconds it may take.
    `cache_version` stands for all that changes results besides the arguments, and `cache_context` says what does so
    for certain arguments only; `cache_ttl_seconds` 0 means no cache.
    """

    name: str
    service: str
    description: str
    arguments: type[Arguments]
    result: type[Found]
    call: Callable[[Any, float], Awaitable[Found]]
    timeout_seconds: float
    cache_ttl_seconds: int = 0
    cache_version: str = ""
    cache_context: Callable[[Any], str] = lambda _: ""

    @property
    def spec(self) -> ToolSpec:
        """What the model reads."""
        return ToolSpec(self.name, self.description, schema(self.arguments))
