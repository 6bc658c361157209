"""Asks a model behind an OpenAI-compatible URL which functions it would call, and reads its calls."""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import httpx2
import openai
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from services.evaluation.answered import Answered, Call
from services.evaluation.golden.item import Item
from services.evaluation.runs.record import Record
from services.evaluation.runs.variant import Variant
from services.evaluation.tools.bfcl import Case, Function

_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 300.0
RETRIES = 6
# How the failure of a question begins that no server has answered.
UNREACHABLE = "unreachable"
# What OpenAI's API takes for a name.
_LONGEST_NAME = 64
_MOST_CHARS = 300
_UNREADABLE = "(unreadable)"


class FunctionAsker:
    """Puts each case to the model with its own functions. Nothing is run: the calls are all that is wanted."""

    def __init__(
        self, url: str, api_key: str, cases: Sequence[Case], *, max_tokens: int = 1024, retries: int = RETRIES
    ) -> None:
        """`url` ends in `/v1`; `max_tokens` bounds an answer."""
        self._cases = {case.item.id: case for case in cases}
        self._max_tokens = max_tokens
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=api_key or "none",
            max_retries=retries,
            timeout=openai.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
            http_client=httpx2.AsyncClient(trust_env=False),
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def ask(self, item: Item, variant: Variant) -> Record:
        """See Asks."""
        asked_at, began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", time.perf_counter()
        answered, failure = None, ""
        try:
            answered = await self._answered(self._cases[item.id], variant.model)
        except openai.APIStatusError as error:
            failure = f"http_{error.status_code}: {_reason(error)}"
        except openai.OpenAIError as error:
            failure = f"{UNREACHABLE}: {type(error).__name__}"
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            failure = f"unreadable: {type(error).__name__}: {error}"
        seconds = round(time.perf_counter() - began, 4)
        return Record(
            item.id, variant.name, answered, failure=failure[:_MOST_CHARS], asked_at=asked_at, seconds=seconds
        )

    async def _answered(self, case: Case, model: str) -> Answered:
        names = sendable([one.name for one in case.functions])
        body = {
            "model": model,
            "messages": [{"role": role, "content": text} for role, text in case.messages],
            "tools": [_as_tool(names[one.name], one) for one in case.functions],
            "tool_choice": "auto",
            "temperature": 0,
            "max_tokens": self._max_tokens,
        }
        began = time.perf_counter()
        said = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=body)
        took = 1000 * (time.perf_counter() - began)
        answer: dict[str, Any] = json.loads(said.text)
        message = answer["choices"][0]["message"]
        usage: Mapping[str, int] = answer.get("usage") or {}
        return Answered(
            case.item.question,
            message.get("content") or "",
            case.item.language,
            calls=calls_of(message.get("tool_calls") or (), case, names),
            model=model,
            milliseconds={"total": round(took, 1)},
            tokens={"prompt": usage.get("prompt_tokens", 0), "completion": usage.get("completion_tokens", 0)},
        )


def sendable(names: Sequence[str]) -> dict[str, str]:
    """Each function's name as OpenAI's API takes it: letters, digits, `_` and `-`; different for each."""
    found: dict[str, str] = {}
    for name in names:
        plain = "".join(one if one.isascii() and (one.isalnum() or one in "_-") else "_" for one in name)
        sent, number = plain[:_LONGEST_NAME] or "_", 1
        while sent in found.values():
            number += 1
            sent = f"{plain[: _LONGEST_NAME - 4]}_{number}"
        found[name] = sent
    return found


def calls_of(written: Sequence[Any], case: Case, names: Mapping[str, str]) -> tuple[Call, ...]:
    """The calls as the model wrote them, by the functions' own names.

    One that cannot be read has what was written under a name that is no argument's: it is right nowhere.
    Valid are those of a function that there is, with a JSON object that fits its schema.
    """
    own = {sent: name for name, sent in names.items()}
    found: list[Call] = []
    for one in written:
        function = one["function"]
        name = own.get(function["name"], str(function["name"]))
        arguments = _object(function.get("arguments") or "{}")
        valid = arguments is not None and name in names and _fits(arguments, case.parameters[name])
        found.append(Call(name, {_UNREADABLE: _text(function)} if arguments is None else arguments, valid=valid))
    return tuple(found)


def _object(text: Any) -> dict[str, Any] | None:
    # Some servers send the object itself.
    value = text
    if isinstance(text, str):
        try:
            value = json.loads(text)
        except ValueError:
            return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def _text(function: Mapping[str, Any]) -> str:
    return str(function.get("arguments"))[:_MOST_CHARS]


def _fits(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    # A null is no argument, as in `matching`.
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        return cast(Any, Draft202012Validator(schema)).is_valid(given)
    except SchemaError:
        return False


def _as_tool(name: str, function: Function) -> dict[str, Any]:
    parameters = dict(function.parameters)
    return {
        "type": "function",
        "function": {"name": name, "description": function.description, "parameters": parameters},
    }


def _reason(error: openai.APIStatusError) -> str:
    try:
        said: Any = json.loads(error.response.text)["error"]
        return str(cast(dict[str, Any], said).get("message", said) if isinstance(said, dict) else said)
    except (ValueError, KeyError, TypeError):
        return "no reason given"
