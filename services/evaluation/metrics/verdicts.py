"""A judge's verdicts on a list of texts, each under the number of its text: order and number are never trusted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from services.evaluation.answered import Json, Passage
from services.evaluation.metrics.metric import Asking

# A long list of verdicts would break off; so many are asked for at a time.
BATCH = 20


@dataclass(frozen=True)
class Verdict:
    """On one text. `passages`: those that it was derived from, counted from 1 in the order shown."""

    text: str
    holds: bool
    reason: str
    passages: tuple[int, ...] = ()

    def shown(self, name: str) -> dict[str, object]:
        """For a report."""
        about: dict[str, object] = {"text": self.text, name: self.holds, "reason": self.reason}
        return about | ({"passages": list(self.passages)} if self.passages else {})


async def support(asking: Asking, claims: Sequence[str], passages: Sequence[Passage]) -> list[Verdict]:
    """Which claims follow from the passages. Raises JudgeFailed, OverBudget."""
    shown = numbered("passage", [passage.text for passage in passages])
    sources: dict[str, Json] = {"type": "array", "items": _number(len(passages))}
    return await judged(asking, "support", "claim", claims, "supported", {"passages": shown}, {"passages": sources})


async def judged(
    asking: Asking,
    task: str,
    kind: str,
    texts: Sequence[str],
    says: str,
    facts: Mapping[str, Json],
    more: Mapping[str, Json] | None = None,
) -> list[Verdict]:
    """Verdicts in the order of `texts`, which are shown to the judge as `kind`s with numbers.

    `says`: the verdict's field. `facts`: what is shown besides. `more`: fields of a verdict besides, by schema.
    """
    found: list[Verdict] = []
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        schema = _schema(kind, len(batch), says, more or {})
        asked = {f"{kind}s": numbered(kind, batch), **facts}
        answer = cast(Any, await asking.ask(task, asked, schema, partial(_misaligned, kind, len(batch))))
        by_number = {one[kind]: one for one in answer["verdicts"]}
        for number, text in enumerate(batch, start=1):
            one = by_number[number]
            found.append(Verdict(text, one[says], one["reason"], tuple(sorted(set(one.get("passages", ()))))))
    return found


def numbered(kind: str, texts: Sequence[str]) -> list[Json]:
    """As the prompts have it."""
    return [{kind: number, "text": text} for number, text in enumerate(texts, start=1)]


def _misaligned(kind: str, count: int, answer: Json) -> str:
    """A complaint where not every text has exactly one verdict."""
    numbers = Counter(one[kind] for one in cast(Any, answer)["verdicts"])
    wrong = [str(number) for number in range(1, count + 1) if numbers[number] != 1]
    return f"there must be exactly one verdict on {kind} {', '.join(wrong)}" if wrong else ""


def _schema(kind: str, count: int, says: str, more: Mapping[str, Json]) -> dict[str, Json]:
    # In this order: a reason given first leads to the verdict instead of defending it.
    properties: dict[str, Json] = {
        kind: _number(count),
        "reason": {"type": "string"},
        **more,
        says: {"type": "boolean"},
    }
    verdict: dict[str, Json] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    verdicts: dict[str, Json] = {"type": "array", "items": verdict, "minItems": count, "maxItems": count}
    return {
        "type": "object",
        "properties": {"verdicts": verdicts},
        "required": ["verdicts"],
        "additionalProperties": False,
    }


def _number(most: int) -> dict[str, Json]:
    return {"type": "integer", "minimum": 1, "maximum": most}
