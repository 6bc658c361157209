"""An answer that is sent as it comes, with signs of life in its silences."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from services.gateway.errors import failure_of
from services.gateway.streams.drain import shutdown_of, shutting_down
from services.gateway.streams.events import HEADERS, KEEP_ALIVE, MEDIA_TYPE, sse


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
        *,
        keep_alive_seconds: float = 0,
    ) -> None:
        """An event stream, whose pieces are whole events, gets a comment after so many seconds of silence; 0: none."""
        super().__init__(pieces, status, headers, media_type)
        self._pieces = pieces
        self._keep_alive_seconds = keep_alive_seconds
        self._sent_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._pieces):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if self.headers.get("content-type", "").startswith("text/event-stream"):
                last = await self._send_events(scope, send)
            else:
                last = await self._send_bytes(send)
            await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _send_bytes(self, send: Send) -> bytes:
        # With a length, the client knows the end by the last byte: that piece must be sent as the last one.
        held = b""
        hold = "content-length" in self.headers
        async for piece in self._pieces:
            now, held = (held, piece) if hold else (piece, b"")
            if now:
                await send({"type": "http.response.body", "body": now, "more_body": True})
        return held

    async def _send_events(self, scope: Scope, send: Send) -> bytes:
        loop = asyncio.get_running_loop()
        until_end = asyncio.timeout(None)
        try:
            async with until_end, self._signs_of_life(send):
                with shutdown_of(scope).at_end(lambda: until_end.reschedule(loop.time())):
                    async for piece in self._pieces:
                        self._sent_at = loop.time()
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            if not until_end.expired():
                raise
            return sse(failure_of(shutting_down()).body())
        return b""

    @contextlib.asynccontextmanager
    async def _signs_of_life(self, send: Send) -> AsyncGenerator[None]:
        if not self._keep_alive_seconds:
            yield
            return
        breathing = asyncio.create_task(self._breathe(send))
        try:
            yield
        finally:
            breathing.cancel()
            # Not gathered: a comment may wait for a reader who never comes.
            await asyncio.wait({breathing})

    async def _breathe(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        self._sent_at = loop.time()
        while True:
            wait = self._sent_at + self._keep_alive_seconds - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            self._sent_at = loop.time()
            await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})


def event_stream(events: AsyncGenerator[bytes]) -> Response:
    """An SSE answer."""
    return Pieces(events, headers=HEADERS, media_type=MEDIA_TYPE)
