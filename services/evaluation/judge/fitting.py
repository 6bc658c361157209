"""Whether an answer of a judge fits, and the one more chance that it gets."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import jsonschema

from services.evaluation.answered import Json
from services.evaluation.judge.judge import Check, JudgeFailed

_LONGEST_COMPLAINT = 300
# What models put around JSON where the server does not hold them to a schema.
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.S)
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.S)


class Unfit(ValueError):
    """The answer does not fit. The message says how, in words for the judge."""


async def fitting_answer(
    reply: Callable[[str], Awaitable[str]], schema: Mapping[str, Json], check: Check, on_repeat: Callable[[], None]
) -> Json:
    """What `reply` answers, called with no complaint and, where the answer does not fit, once more with one.

    Raises JudgeFailed, and whatever `reply` raises.
    """
    try:
        return fitted(await reply(""), schema, check)
    except Unfit as error:
        on_repeat()
        complaint = str(error)
    try:
        return fitted(await reply(complaint), schema, check)
    except Unfit:
        raise JudgeFailed("its answer did not fit, nor did the second one") from None


def fitted(text: str, schema: Mapping[str, Json], check: Check) -> Json:
    """The JSON in `text`. Raises Unfit."""
    text = _THOUGHTS.sub("", text)
    if fenced := _FENCE.match(text):
        text = fenced[1]
    try:
        answer = cast(Json, json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        raise Unfit("it is not JSON, or it breaks off") from None
    validator = jsonschema.Draft202012Validator(dict(schema))
    for error in validator.iter_errors(answer):  # pyright: ignore[reportUnknownMemberType]
        raise Unfit(f"{error.json_path}: {error.message}"[:_LONGEST_COMPLAINT])
    if complaint := check(answer):
        raise Unfit(complaint[:_LONGEST_COMPLAINT])
    return answer


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
