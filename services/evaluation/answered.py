"""What the product did with one question: what every metric reads, whoever asked and however it was kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

# A value as JSON has it.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class Passage:
    """A piece of evidence that the model was shown, in the order shown."""

    text: str
    # Of the document, the statement or the page; what a golden item's `sources` name.
    source: str = ""
    # What the ranking gave it; None where nothing ranks (rows of a statement).
    score: float | None = None


@dataclass(frozen=True)
class Call:
    """A tool call as the model (or the router) made it. `turn` counts from 0; calls of one turn ran side by side."""

    tool: str
    arguments: Mapping[str, Json]
    turn: int = 0
    # Whether the call could be read and its arguments fitted the tool's schema.
    valid: bool = True


@dataclass(frozen=True)
class Answered:
    """One answer with all that led to it."""

    question: str
    answer: str
    # "es" or "en"; of the question.
    language: str
    # "answered", "partial" or "refused".
    finish: str = "answered"
    passages: tuple[Passage, ...] = ()
    calls: tuple[Call, ...] = ()
    strategy: str = ""
    model: str = ""
    tenant: str = ""
    # Joins feedback and traces.
    answer_id: str = ""
    trace_id: str = ""
    milliseconds: Mapping[str, float] = field(default_factory=dict[str, float])
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    degraded: tuple[str, ...] = ()
