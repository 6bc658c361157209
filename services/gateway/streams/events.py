"""Event streams of our own making: events, signs of life, pauses."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

Item = TypeVar("Item")

DONE = b"data: [DONE]\n\n"
# A comment line, which every SSE client skips; it keeps proxies from closing a silent connection.
KEEP_ALIVE = b": keep-alive\n\n"
MEDIA_TYPE = "text/event-stream; charset=utf-8"
# No proxy may collect the pieces, and none may keep them.
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def sse(data: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


async def with_pauses(items: AsyncGenerator[Item], every_seconds: float) -> AsyncGenerator[Item | None]:
    """The items, and None whenever none came for `every_seconds`. Closes `items` at the end."""
    async with aclosing(items):
        coming = asyncio.ensure_future(anext(items))
        try:
            while True:
                done, _ = await asyncio.wait({coming}, timeout=every_seconds)
                if not done:
                    yield None
                    continue
                try:
                    item = coming.result()
                except StopAsyncIteration:
                    return
                yield item
                coming = asyncio.ensure_future(anext(items))
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})
            if not coming.cancelled():
                coming.exception()  # it came too late for anybody to care
