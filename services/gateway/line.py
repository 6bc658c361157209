"""The client's end of one request: its body is counted, its hang-up noticed, and it hears the answer to the end."""

import asyncio
import contextlib
from collections.abc import Awaitable, MutableMapping
from typing import Any

from starlette.types import Receive, Scope, Send

from services.gateway.errors import ApiError
from services.gateway.incoming import incoming_of
from services.gateway.streams.drain import shutdown_of, shutting_down

Message = MutableMapping[str, Any]

# A refused body is read on for a while: a server that closes with unread bytes resets the connection, and the client
# sees a broken pipe where it should see why it was refused.
_LINGER_SECONDS, _LINGER_BYTES = 5.0, 64 * 1024 * 1024


class HungUp(Exception):
    """The client has gone; nobody waits for an answer."""


class Line:
    """Wraps ASGI's `receive` and `send` of one request.

    HTTP/1.1 is what our server speaks; HTTP/2 of clients ends at the ingress, which resets its streams likewise.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self._shutdown = shutdown_of(scope)
        self._incoming = incoming_of(scope)
        self._length = int(headers.get(b"content-length", b"0"))
        self._heard_all = not self._length and b"transfer-encoding" not in headers
        self._without_body = self._heard_all
        self._asks_first = b"expect" in headers  # and sends nothing before it is told to
        self._most_bytes = 0
        self._silence_seconds: float | None = None
        self._received = 0
        self._started = False
        self._answered = False
        self._serving: asyncio.Task[Any] | None = None
        self._cancellations = 0
        self._listens = False
        self._listening: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_complete(self) -> bool:
        """Whether the whole body is known to be here, so that nobody needs to wait for it."""
        return self._incoming is not None and self._incoming.complete

    def limit(self, most_bytes: int, silence_seconds: float | None = None) -> None:
        """Sets the largest body, and the longest wait for more of it. Raises a 413 at once when more is announced."""
        self._most_bytes = most_bytes
        self._silence_seconds = silence_seconds or self._silence_seconds
        self._check(self._length)

    async def receive(self) -> Message:
        """As ASGI's. Raises a 413 when the body passes the limit, and a 408 when no more of it comes."""
        if self._without_body:
            self._without_body = False
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._listens:
            await asyncio.shield(self._gone)
            return {"type": "http.disconnect"}
        self._asks_first = False
        message = await self._more()
        if message["type"] == "http.disconnect":
            return await self._hang_up(message)
        self._received += len(message.get("body", b""))
        self._heard_all = not message.get("more_body", False)
        self._check(self._received)
        if self._heard_all:
            self._begin_to_listen()
        return message

    async def send(self, message: Message) -> None:
        """As ASGI's."""
        self._started = True
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            if not self._heard_all and not self._asks_first:
                await self._send({**message, "more_body": True})
                await self._linger()
                message = {"type": "http.response.body", "body": b""}
            self._answered = True
        await self._send(message)

    async def serve(self, work: Awaitable[None]) -> None:
        """Runs `work`, and cancels it as soon as the client hangs up. Raises HungUp then.

        Raises a 503 when the process ends before the answer has begun; a stream that has begun ends by itself.
        """
        # Not in a task of its own, which costs more than to tell one cancellation from another.
        self._serving = asyncio.current_task()

        def refuse() -> None:
            if not self._started:
                self._cancel()

        self._gone.add_done_callback(self._give_up)
        if self._heard_all:  # who sends no body is not read from otherwise
            self._begin_to_listen()
        try:
            with self._shutdown.at_end(refuse):
                await work
        except asyncio.CancelledError as cancelled:
            raise self._meaning(cancelled) from None
        finally:
            self._serving = None
            if self._incoming is not None:
                self._incoming.on_gone = None
            if self._listening is not None:
                self._listening.cancel()
            self._gone.cancel()

    def _give_up(self, gone: "asyncio.Future[None]") -> None:
        if not self._answered and not gone.cancelled():
            self._cancel()

    def _cancel(self) -> None:
        if self._serving is not None:
            self._cancellations += self._serving.cancel()

    def _meaning(self, cancelled: asyncio.CancelledError) -> BaseException:
        """Why the work was cancelled: by the client, by the end of the process, or by whoever runs the task."""
        current = self._serving
        if current is None or not self._cancellations:
            return cancelled
        for _ in range(self._cancellations):
            current.uncancel()
        if current.cancelling():
            return cancelled
        return HungUp() if self._gone.done() and not self._gone.cancelled() else shutting_down()

    async def _hang_up(self, message: Message) -> Message:
        self._note_gone()
        if not self._answered:
            await asyncio.get_running_loop().create_future()  # `serve` cancels this wait
        return message

    async def _more(self) -> Message:
        if self.is_complete:
            return await self._receive()
        # A client that is gone without a word would hold its place among the concurrent requests for ever.
        try:
            async with asyncio.timeout(self._silence_seconds):
                return await self._receive()
        except TimeoutError:
            message = f"Nothing more of the body came within {self._silence_seconds:g} s."
            raise ApiError(408, message, code="request_timeout", headers={"Connection": "close"}) from None

    def _check(self, size: int) -> None:
        if self._most_bytes and size > self._most_bytes:
            raise ApiError(
                413,
                f"The body is larger than this tenant's limit of {self._most_bytes} bytes.",
                code="request_too_large",
            )

    def _begin_to_listen(self) -> None:
        self._listens = True
        if self._incoming is None:
            self._listening = asyncio.create_task(self._listen())
            return
        self._incoming.on_gone = self._note_gone
        if self._incoming.gone:
            self._note_gone()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._note_gone()

    def _note_gone(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    async def _linger(self) -> None:
        left = _LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return
