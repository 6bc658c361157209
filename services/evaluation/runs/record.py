"""What a run keeps of one question put to one variant; a line of JSON in the run's folder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from services.evaluation.answered import Answered, Call, Passage
from services.evaluation.score import Score, Status
from services.evaluation.tools.accuracy import OfTool, Selection, Share


class Evidence(StrEnum):
    """Where a record's passages come from."""

    # All that the model was shown.
    SHOWN = "shown"
    # Only what the answer cites, as quoted: the stack does not tell what else was shown.
    QUOTES = "quotes"
    # What the search found; no model was asked.
    FOUND = "found"
    # Nothing is retrieved by this variant.
    NONE = "none"


@dataclass(frozen=True)
class Record:
    """`answered` is None where the question failed; `failure` then says why, `code: message`.

    `cited`: sources that the answer cites. `asked_at`: ISO 8601, UTC. `seconds`: wall time, retries included.
    """

    item_id: str
    variant: str
    answered: Answered | None
    evidence: Evidence = Evidence.NONE
    cited: tuple[str, ...] = ()
    failure: str = ""
    asked_at: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """A run has one record of each."""
        return self.item_id, self.variant


@dataclass(frozen=True)
class Scored:
    """A score of one record."""

    item_id: str
    variant: str
    score: Score


def record_line(record: Record) -> dict[str, Any]:
    """As JSON has it."""
    return asdict(record)


def read_record(line: Mapping[str, Any]) -> Record:
    """The inverse. Raises KeyError, TypeError and ValueError for what is no record."""
    answered = line["answered"]
    rest = {name: value for name, value in line.items() if name not in ("answered", "evidence", "cited")}
    return Record(
        answered=None if answered is None else read_answered(answered),
        evidence=Evidence(line["evidence"]),
        cited=tuple(line["cited"]),
        **rest,
    )


def read_answered(line: Mapping[str, Any]) -> Answered:
    """An answer as JSON has it."""
    passages = tuple(Passage(**one) for one in line["passages"])
    calls = tuple(Call(**one) for one in line["calls"])
    rest = {name: value for name, value in line.items() if name not in ("passages", "calls", "degraded")}
    return Answered(passages=passages, calls=calls, degraded=tuple(line["degraded"]), **rest)


def scored_line(scored: Scored) -> dict[str, Any]:
    """As JSON has it; flat, so that it is easily looked through."""
    return {"item_id": scored.item_id, "variant": scored.variant, **asdict(scored.score)}


def read_scored(line: Mapping[str, Any]) -> Scored:
    """The inverse. Raises KeyError, TypeError and ValueError for what is no score."""
    rest = {name: value for name, value in line.items() if name not in ("item_id", "variant", "status")}
    return Scored(line["item_id"], line["variant"], Score(status=Status(line["status"]), **rest))


def by_variant(scored: Sequence[Scored]) -> dict[str, dict[str, dict[str, Score]]]:
    """Scores by variant, metric and item."""
    found: dict[str, dict[str, dict[str, Score]]] = {}
    for one in scored:
        found.setdefault(one.variant, {}).setdefault(one.score.metric, {})[one.item_id] = one.score
    return found


def selection_line(one: Selection) -> dict[str, Any]:
    """Figures of tool selection as JSON has them: a cell of the confusion matrix is [expected, called, count]."""
    cells = [[expected, called, count] for (expected, called), count in one.confusion.items()]
    return asdict(replace(one, confusion={})) | {"confusion": cells}


def read_selection(line: Mapping[str, Any]) -> Selection:
    """The inverse. Raises KeyError, TypeError and ValueError for what is none."""
    counts = {"question_count", "missing_count", "unjudged_count"}
    shares = {name: Share(**value) for name, value in line.items() if name not in {"tools", "confusion", *counts}}
    return Selection(
        **shares,
        **{name: line[name] for name in counts},
        tools={name: OfTool(**value) for name, value in line["tools"].items()},
        confusion={(expected, called): count for expected, called, count in line["confusion"]},
    )
