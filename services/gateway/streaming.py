"""Answers that come in pieces: Server-Sent Events with a sign of life, and bytes passed on as they arrive."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

Item = TypeVar("Item")

DONE = b"data: [DONE]\n\n"
# A comment line, which every SSE client skips; it keeps proxies from closing a silent connection.
KEEP_ALIVE = b": keep-alive\n\n"
# No proxy may collect the pieces, and none may keep them.
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def sse(data: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class Pieces(StreamingResponse):
    """Sends what a generator yields, and closes the generator whatever happens.

    Starlette's own leaves a generator to the garbage collector when a client hangs up while bytes are being written.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        super().__init__(pieces, status, headers, media_type)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._pieces) as pieces:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            # With a length, the client knows the end by the last byte: that piece must be sent as the last one.
            held = b""
            hold = "content-length" in self.headers
            async for piece in pieces:
                now, held = (held, piece) if hold else (piece, b"")
                if now:
                    await send({"type": "http.response.body", "body": now, "more_body": True})
            await send({"type": "http.response.body", "body": held, "more_body": False})


def event_stream(events: AsyncGenerator[bytes]) -> Response:
    """An SSE answer."""
    return Pieces(events, headers=HEADERS, media_type="text/event-stream; charset=utf-8")


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
