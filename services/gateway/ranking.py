"""Answers of rerankers that a pool serves: what was asked for, best first, whatever the server made of `top_n`."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

import orjson
from starlette.responses import Response

from services.gateway.errors import ApiError
from services.gateway.streams.pieces import Pieces


def check_top_n(asked: Mapping[str, Any]) -> None:
    """Raises a 400 for a `top_n` that asks for nothing: servers take it as all, as none, or as an error of theirs."""
    top_n = asked.get("top_n")
    if top_n is not None and (not isinstance(top_n, int) or isinstance(top_n, bool) or top_n < 1):
        raise ApiError(400, "top_n: it is a whole number, 1 or more.", code="invalid_field", param="top_n")


async def in_order(response: Response, top_n: int | None) -> Response:
    """The response with its results by descending score, at most `top_n`; the very same bytes where they are so."""
    if not isinstance(response, Pieces) or response.status_code != 200:
        return response
    async with aclosing(cast(AsyncGenerator[bytes], response.body_iterator)) as pieces:
        body = b"".join([piece async for piece in pieces])
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return Response(ordered(body, top_n), 200, headers)


def ordered(body: bytes, top_n: int | None) -> bytes:
    """The body of a ranking in order; `body` itself where it is already, or is no ranking."""
    try:
        answer = orjson.loads(body)
        results = cast(list[dict[str, Any]], answer["results"])
        best = sorted(results, key=lambda one: -float(one["relevance_score"]))[:top_n]
    except (ValueError, TypeError, KeyError):
        return body
    return body if best == results else orjson.dumps({**answer, "results": best})
