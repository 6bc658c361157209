"""Answer relevance: mean cosine between the question and questions generated from the answer (RAGAS)."""

from typing import Any, cast

from services.evaluation.answered import Answered, Json
from services.evaluation.golden.item import Item
from services.evaluation.metrics.embedder import Embedder, EmbedderFailed, cosines
from services.evaluation.metrics.metric import Asking, Found, Metric, NotScored, answer_text
from services.evaluation.score import Status

NAME = "answer_relevance"
QUESTIONS = 3
_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "noncommittal": {"type": "boolean"},
        "questions": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": QUESTIONS,
            "maxItems": QUESTIONS,
        },
    },
    "required": ["noncommittal", "questions"],
    "additionalProperties": False,
}


async def measure(answered: Answered, item: Item | None, asking: Asking, embedder: Embedder | None) -> Found:
    """The questions are asked for at once: three times the same to a judge at temperature 0 would give one three times.

    The mean is bounded to [0, 1], and not each cosine: a generated question that points away counts as far as it does,
    as the definition has it; only a mean below 0, which no scale of quality has, is 0. (Above 1 it is rounding.)
    """
    text = answer_text(answered)
    if embedder is None:
        raise EmbedderFailed("nothing embeds questions")
    answer = cast(Any, await asking.ask("questions", {"answer": text, "count": QUESTIONS}, _SCHEMA))
    if answer["noncommittal"]:
        raise NotScored(Status.NO_CLAIMS, "the judge found the answer noncommittal")
    vectors = await embedder.embed([answered.question, *answer["questions"]], answered.language)
    found = cosines(vectors[1:], vectors[0])
    details = {
        "questions": [
            {"text": text, "cosine": round(float(cosine), 4)}
            for text, cosine in zip(answer["questions"], found, strict=True)
        ]
    }
    return Found(min(1.0, max(0.0, float(found.mean()))), details=details)


METRIC = Metric(NAME, measure, alarm_below=0.70)
