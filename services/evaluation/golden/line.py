"""How an item is written: one JSON object a line, as item.schema.json says."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from services.evaluation.golden.item import ExpectedCall, Item, Stratum
from services.evaluation.tools.expectation import WrongExpectation, check

SCHEMA_VERSION = 1


class WrongLine(ValueError):
    """A line that is no item. `line` counts from 1; the message names it and the field."""

    def __init__(self, line: int, field: str, reason: str) -> None:
        super().__init__(f"line {line}: {field}: {reason}")
        self.line = line
        self.field = field


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class CallLine(_Written):
    """A tool call that is expected."""

    tool: str = Field(min_length=1, description="Name of the tool, as the model calls it.")
    arguments: dict[str, JsonValue] = Field(
        default={}, description="Expectation by argument: a value, or an object such as {any_of: […]}."
    )
    group: int = Field(default=0, ge=0, description="Calls of one group may run side by side.")
    alternatives: list["CallLine"] = Field(default=[], description="Other calls that are as right.")
    closed: bool = Field(default=False, description="Whether arguments that are not named are wrong.")

    @model_validator(mode="after")
    def _expectations_are_known(self) -> Self:
        for name, expected in self.arguments.items():
            try:
                check(expected)
            except WrongExpectation as error:
                raise ValueError(f"argument `{name}`: {error}") from None
        return self

    def call(self) -> ExpectedCall:
        """As logic has it."""
        arguments: dict[str, Any] = dict(self.arguments)
        others = tuple(one.call() for one in self.alternatives)
        return ExpectedCall(self.tool, arguments, self.group, others, self.closed)


class ItemLine(_Written):
    """One line of a golden set."""

    id: str = Field(pattern=r"^[\w.:-]+$", description="Unique in the set, never reused.")
    question: str = Field(min_length=1, description="As a person would ask it.")
    language: Literal["es", "en"] = Field(description="Of the question.")
    stratum: Stratum = Field(description="What makes it hard.")
    sources: list[str] = Field(default=[], description="Documents, `table:…` or `page:…` that hold the answer.")
    calls: list[CallLine] = Field(default=[], description="Tool calls that are expected.")
    reference: str | None = Field(default=None, description="The right answer; null where it is a refusal.")
    split: Literal["dev", "test"] = Field(default="dev", description="Which half it belongs to.")
    provenance: str = Field(default="", description="Who or what made it, and from what.")
    reviewer: str = Field(default="", description="Who looked at it; empty: nobody yet.")
    family: str = Field(default="", description="Questions that belong together, such as translations.")
    made_from: list[str] = Field(default=[], description="Documents it was written from, besides its sources.")
    contains: list[list[str]] = Field(default=[], description="What an answer must say, each in one of its forms.")

    other_calls: list[list[CallLine]] = Field(default=[], description="Other sets of calls that are as right.")

    def item(self) -> Item:
        """As logic has it."""
        return Item(
            self.id,
            self.question,
            self.language,
            self.stratum,
            tuple(self.sources),
            tuple(one.call() for one in self.calls),
            self.reference,
            self.split,
            self.provenance,
            self.reviewer,
            self.family,
            tuple(self.made_from),
            tuple(map(tuple, self.contains)),
            tuple(tuple(one.call() for one in calls) for calls in self.other_calls),
        )


def parse(text: str, number: int = 1) -> Item:
    """The item of a line. Raises WrongLine."""
    try:
        return ItemLine.model_validate_json(text).item()
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "line"
        raise WrongLine(number, field, first["msg"]) from None
    except ValueError as error:  # numbers and nesting beyond Python's limits
        raise WrongLine(number, "line", str(error)) from None


def parse_all(text: str) -> list[Item]:
    """The items of a file, in its order. Raises WrongLine, also for an id that comes twice."""
    items: list[Item] = []
    seen: dict[str, int] = {}
    # A line ends with a line feed only: other separators may stand in a text.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        item = parse(line, number)
        if (before := seen.setdefault(item.id, number)) != number:
            raise WrongLine(number, "id", f"`{item.id}` is on line {before} already")
        items.append(item)
    return items


def write(item: Item) -> str:
    """The line, without its end: fields in the schema's order, what has its default left out. Raises ValueError."""
    line = ItemLine.model_validate(asdict(item))
    return json.dumps(line.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)


def write_all(items: Iterable[Item]) -> str:
    """A file's text: ordered by id, so that the same items are the same bytes."""
    return "".join(f"{write(one)}\n" for one in sorted(items, key=lambda one: one.id))


def fingerprint(items: Iterable[Item]) -> str:
    """SHA-256 of the canonical text, in hex digits. Who reviewed an item changes nothing of what it asks."""
    return hashlib.sha256(write_all(replace(one, reviewer="") for one in items).encode()).hexdigest()


def schema() -> dict[str, Any]:
    """JSON Schema of a line."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **ItemLine.model_json_schema()}
