"""Completeness: aspects of the question that the answer covers ÷ all of them, right or wrong."""

from typing import Any, cast

from services.evaluation.answered import Answered, Json
from services.evaluation.golden.item import Item
from services.evaluation.metrics.claims import distinct
from services.evaluation.metrics.embedder import Embedder
from services.evaluation.metrics.metric import Asking, Found, Metric, answer_text
from services.evaluation.metrics.verdicts import judged

NAME = "completeness"
_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"aspects": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}},
    "required": ["aspects"],
    "additionalProperties": False,
}


async def measure(answered: Answered, item: Item | None, asking: Asking, embedder: Embedder | None) -> Found:
    """`claim_count` counts aspects. What a question asks for is taken out without the answer in sight."""
    text = answer_text(answered)
    found = cast(Any, await asking.ask("aspects", {"question": answered.question}, _SCHEMA))
    aspects = distinct(found["aspects"]) or [answered.question]
    verdicts = await judged(asking, "coverage", "aspect", aspects, "covered", {"answer": text})
    covered = sum(one.holds for one in verdicts)
    return Found(covered / len(aspects), len(aspects), {"aspects": [one.shown("covered") for one in verdicts]})


METRIC = Metric(NAME, measure)
