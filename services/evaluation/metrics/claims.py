"""The atomic claims of a text, as a judge takes them out."""

from typing import Any, cast

from services.evaluation.answered import Json
from services.evaluation.metrics.metric import Asking, NotScored
from services.evaluation.score import Status

TASK = "claims"
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string", "minLength": 1}}},
    "required": ["claims"],
    "additionalProperties": False,
}


async def claims_of(asking: Asking, question: str, text: str) -> list[str]:
    """At least one, in the order of `text`; the same claim twice is one. Raises NotScored."""
    answer = cast(Any, await asking.ask(TASK, {"question": question, "text": text}, SCHEMA))
    claims = distinct(answer["claims"])
    if not claims:
        raise NotScored(Status.NO_CLAIMS, "the judge found no claim in it")
    return claims


def distinct(texts: list[str]) -> list[str]:
    """Without blanks and repetitions: who says a true thing twice is no more faithful."""
    kept: dict[str, str] = {}
    for text in texts:
        if words := " ".join(text.casefold().split()):
            kept.setdefault(words, text.strip())
    return list(kept.values())
