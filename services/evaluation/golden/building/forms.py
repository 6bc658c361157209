"""The answers that a model is asked for, as JSON Schemas. Plain ones: not every server follows references."""

from collections.abc import Mapping

from services.evaluation.answered import Json

_TEXT: Json = {"type": "string"}
_TRUTH: Json = {"type": "boolean"}


def _object(**fields: Json) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _list(count: int, **fields: Json) -> dict[str, Json]:
    return _object(items={"type": "array", "items": _object(**fields), "minItems": 1, "maxItems": count})


def questions(count: int) -> Mapping[str, Json]:
    """At most `count` questions on a passage."""
    return _list(count, question=_TEXT, reference=_TEXT, quote=_TEXT)


TWO_PASSAGES: Mapping[str, Json] = _list(2, question=_TEXT, reference=_TEXT, first_quote=_TEXT, second_quote=_TEXT)
FALSE_PREMISE: Mapping[str, Json] = _object(question=_TEXT, premise=_TEXT, quote=_TEXT, correction=_TEXT)
UNANSWERABLE: Mapping[str, Json] = _object(question=_TEXT)
CLOSED_BOOK: Mapping[str, Json] = _object(known=_TRUTH, answer=_TEXT)
SAME: Mapping[str, Json] = _object(reason=_TEXT, same=_TRUTH)
CLEAR: Mapping[str, Json] = _object(reason=_TEXT, by_itself=_TRUTH, answered=_TRUTH, one_answer=_TRUTH)
FOUND: Mapping[str, Json] = _object(reason=_TEXT, found=_TRUTH)
