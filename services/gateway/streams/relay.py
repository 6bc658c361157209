"""A model's answer on its way to the client: as it comes, whatever becomes of it on the way."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import orjson
from prometheus_client import Counter
from starlette.responses import Response

from services.gateway.errors import ApiError, failure_of
from services.gateway.metering import Meter
from services.gateway.streams.asking import Outgoing
from services.gateway.streams.body_reading import BodyReader
from services.gateway.streams.chunks import ChunkRelay
from services.gateway.streams.events import HEADERS, KEEP_ALIVE, MEDIA_TYPE, sse
from services.gateway.streams.framing import EventTooLarge, Framer
from services.gateway.streams.opening import NotOpened, Opened, Outcome
from services.gateway.streams.pieces import Pieces
from services.gateway.streams.reading import error_of
from services.runtime.errors import DeadlineExceeded, DependencyFailed, ServiceError

BROKEN = Counter(
    "sabueso_gateway_broken_streams_total",
    "Streams of models without a good end: cut, silent, too_large, the model's own error, failed before they began.",
    ["reason"],
)
# After `[DONE]` nothing more is to come; the end of the body lets the connection be used again.
_END_SECONDS = 1.0
_MOST_ERROR_BYTES = 64 * 1024
# Of the model's answer: what belongs to its connection, and what we say ourselves.
_NOT_RETURNED = {
    "connection", "keep-alive", "proxy-authenticate", "trailer", "transfer-encoding", "upgrade", "server", "date",
    "set-cookie", "x-request-id",
}  # fmt: skip


async def answer(
    opening: Awaitable[Opened], outgoing: Outgoing, *, meter: Meter, keep_alive_seconds: float = 15
) -> Response:
    """The response, as soon as `opening` has ended, and of a stream at the latest after `keep_alive_seconds`.

    Then comments go out until the model begins, and a failure can be an error event only; an earlier one is raised.
    `opening` is cancelled, or what it opened is closed, when the request ends.
    """
    relay = _Relay(outgoing, meter)
    if outgoing.streamed:
        task = asyncio.ensure_future(opening)
        _when_over(lambda: relay.abandon_opening(task))
        done, _ = await asyncio.wait({task}, timeout=keep_alive_seconds)
        if not done:
            return Pieces(relay.late(task), 200, HEADERS, MEDIA_TYPE, keep_alive_seconds=keep_alive_seconds)
        opened = await task
    else:
        opened = await opening
        _when_over(lambda: relay.abandon(opened))
    headers = _returned(opened.upstream.headers)
    if opened.framer is None:
        return Pieces(relay.body(opened), opened.upstream.status, headers)
    headers.pop("content-length", None)
    events = relay.stream(opened, opened.framer)
    return Pieces(events, opened.upstream.status, headers | HEADERS, keep_alive_seconds=keep_alive_seconds)


def _when_over(call: Callable[[], None]) -> None:
    """Should the client go before the response is sent, nobody else ends what was opened for it."""
    request = asyncio.current_task()
    if request is not None:
        request.add_done_callback(lambda _: call())


class _Relay:
    """One answer."""

    def __init__(self, outgoing: Outgoing, meter: Meter) -> None:
        self._outgoing = outgoing
        self._meter = meter
        self._chunks = ChunkRelay(meter, hides_usage=outgoing.hides_usage)
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    def abandon(self, opened: Opened) -> None:
        """Ends what is still open when the request is over. Does not wait for it."""
        if not self._closed:
            self._closing = asyncio.ensure_future(self._close(opened, "abandoned"))

    def abandon_opening(self, task: "asyncio.Future[Opened]") -> None:
        """The same of what may not be open yet."""
        if not task.done():
            task.cancel()
        elif not task.cancelled() and task.exception() is None:
            self.abandon(task.result())

    async def late(self, task: "asyncio.Future[Opened]") -> AsyncGenerator[bytes]:
        """A stream whose headers have gone out before there was anything to say."""
        yield KEEP_ALIVE
        try:
            opened = await task
            if opened.framer is None:
                raise await self._refusal(opened)
        except (ApiError, ServiceError) as error:
            BROKEN.labels("failed before").inc()
            yield self._failure(error)
            return
        async with contextlib.aclosing(self.stream(opened, opened.framer)) as pieces:
            async for piece in pieces:
                yield piece

    async def stream(self, opened: Opened, framer: Framer) -> AsyncGenerator[bytes]:
        """An event stream: whole events only, so that a cut leaves no half of one."""
        outcome: Outcome = "abandoned"
        chunks = self._chunks
        try:
            try:
                if out := chunks.passed(opened.events):
                    yield out
                while not (chunks.done or chunks.failed):
                    piece = await anext(opened.rest, None)
                    out = chunks.ended(framer.end()) if piece is None else chunks.passed(framer.feed(piece))
                    if out:
                        yield out
                    if piece is None:
                        break
                problem = None if chunks.complete or chunks.failed else _cut_off()
            except (EventTooLarge, ServiceError) as error:
                problem = error
            outcome = "broken" if problem or chunks.failed else "complete"
            if problem is not None:
                yield self._failure(problem)
            if outcome == "broken":
                BROKEN.labels(_reason(problem)).inc()
            else:
                if out := await self._read_to_end(opened, framer):
                    yield out
        finally:
            await self._close(opened, outcome)

    async def _read_to_end(self, opened: Opened, framer: Framer) -> bytes:
        """At most the LF of a CRLF that ended the last event and came in two."""
        out = b""
        with contextlib.suppress(TimeoutError, ServiceError, EventTooLarge):
            async with asyncio.timeout(_END_SECONDS):
                while piece := await anext(opened.rest, b""):
                    out += self._chunks.passed(framer.feed(piece))
        return out

    async def body(self, opened: Opened) -> AsyncGenerator[bytes]:
        """An answer in one piece, as it comes."""
        outcome: Outcome = "abandoned"
        reader = BodyReader()
        try:
            piece: bytes | None = opened.first
            while piece is not None:
                reader.feed(piece)
                following = await anext(opened.rest, None)
                if following is None and opened.upstream.status < 400:
                    # Before the client knows that it has everything, and asks again.
                    reader.tell(self._meter, writes=self._outgoing.path.endswith("completions"))
                if piece:
                    yield piece
                piece = following
            outcome = "complete"
        except ServiceError:
            outcome = "broken"
            raise
        finally:
            await self._close(opened, outcome)

    def _failure(self, error: Exception) -> bytes:
        if isinstance(error, EventTooLarge):
            error = ApiError(502, "The model sent a line without an end.", code="bad_model_answer")
        body: dict[str, Any] = failure_of(error).body()
        if self._outgoing.path.endswith("/responses"):
            # The form of that API; and, as the stock clients raise by it only, the error object as well.
            return b"event: error\n" + sse({**body["error"], "type": "error", **body})
        return sse(body)

    async def _refusal(self, opened: Opened) -> NotOpened:
        """What an answer says that is no stream."""
        body = opened.first
        try:
            while len(body) < _MOST_ERROR_BYTES and (piece := await anext(opened.rest, b"")):
                body += piece
        finally:
            await self._close(opened, "abandoned" if len(body) >= _MOST_ERROR_BYTES else "complete")
        try:
            error = error_of(orjson.loads(body)) or {}
        except orjson.JSONDecodeError:
            error = {}
        status = opened.upstream.status
        message = str(error.get("message") or f"The model's server answered {status}.")
        return NotOpened(status, message, code=str(error.get("type") or "bad_model_answer"))

    async def _close(self, opened: Opened, outcome: Outcome) -> None:
        if not self._closed:
            self._closed = True
            await opened.close(outcome)


def _returned(headers: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in headers.items() if k not in _NOT_RETURNED and not k.startswith("x-ratelimit-")}


def _cut_off() -> DependencyFailed:
    return DependencyFailed("The model pool broke off in the middle of its answer.", dependency="model pool")


def _reason(problem: Exception | None) -> str:
    match problem:
        case None:
            return "error"
        case EventTooLarge():
            return "too_large"
        case DeadlineExceeded():
            return "silent"
        case _:
            return "cut"
