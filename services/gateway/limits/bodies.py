"""Reads and parses the body of a request for a model, once for all who need it."""

import asyncio
import json
import re
from typing import Any, cast

import orjson
from starlette.types import Message, Receive

from services.gateway.errors import ApiError

# Parsers differ in which of two they believe, and the bytes go on as they came: what was checked must be what is used.
_ONCE = ("model", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "stream")
# Letters that fold to one of theirs: some servers (all in Go) take `Model` for `model`, and the later of both.
_FOLDED = frozenset(_ONCE)
_ONCE_QUOTED = re.compile(rb'"(model|max_(?:completion_|output_)?tokens|n|best_of|stream)(?=")')
# Letters of those names, written as escapes (`_` is 5f, `a` to `z` are 61 to 7a); no encoder does so.
_ESCAPED_LETTER = re.compile(rb"\\u00[567]")


async def read(receive: Receive, seconds: float | None) -> bytes:
    """The whole body. Raises a 408 when it is not there after `seconds`; None: it is known to be there."""
    if seconds is None:
        return await _read(receive)
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive)
    except TimeoutError:
        message = f"The body was not sent completely within {seconds:g} s."
        raise ApiError(408, message, code="request_timeout", headers={"Connection": "close"}) from None


async def _read(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def replayed(body: bytes, receive: Receive) -> Receive:
    """ASGI's `receive` as if nobody had read the body yet."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def parse(body: bytes, *, model_needed: bool) -> dict[str, Any]:
    """A request for a model: a JSON object with one `model`. Raises a 400."""
    try:
        asked: Any = orjson.loads(body)  # refuses NaN, and nesting deeper than 1024
        if isinstance(asked, dict) and _may_repeat(body):
            json.loads(body, object_pairs_hook=_refuse_repeated)
    except (ValueError, RecursionError):
        raise ApiError(400, "The body is not valid JSON.", code="invalid_json") from None
    if not isinstance(asked, dict):
        raise ApiError(400, "The body is not a JSON object.", code="invalid_json")
    asked = cast(dict[str, Any], asked)
    for name in asked:
        if (folded := name.casefold()) in _FOLDED and folded != name:
            raise ApiError(400, f"{name}: write `{folded}`.", code="invalid_field", param=name)
    model: Any = asked.get("model")
    if model is None and not model_needed:
        return asked
    if not isinstance(model, str) or not model:
        raise ApiError(400, "model: name the model to ask, such as `sabueso`.", code="missing_model", param="model")
    return asked


def _may_repeat(body: bytes) -> bool:
    """Whether a name that counts may be there twice. Quick, and seldom wrong; only then is the body read again."""
    found: list[bytes] = _ONCE_QUOTED.findall(body)
    return len(set(found)) < len(found) or _ESCAPED_LETTER.search(body) is not None


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        for name in _ONCE:
            if names.count(name) > 1:
                raise ApiError(400, f"{name}: given twice.", code="invalid_field", param=name)
