"""The first events of a model's answer: until there is content, the request can still be tried elsewhere."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import orjson

from services.gateway.errors import ApiError
from services.gateway.streams.asking import Outgoing
from services.gateway.streams.framing import Event, EventTooLarge, Framer
from services.gateway.streams.reading import error_of, read

# An error is short; what has not shown content after so much is passed on as it is.
_MOST_HELD_BYTES = 64 * 1024
# An error object in place of an answer, by how it begins.
_ERROR = re.compile(rb'\s*\{\s*"(?:error"\s*:\s*[{"]|object"\s*:\s*"error")')
_ENOUGH_TO_TELL_BYTES = 64

Outcome = Literal["complete", "abandoned", "broken"]


class Upstream(Protocol):
    """An answer whose headers have come."""

    @property
    def status(self) -> int:
        """HTTP's."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    def pieces(self) -> AsyncGenerator[bytes]:
        """The body as it comes; called once. Raises DependencyFailed on a cut, DeadlineExceeded on a silence."""
        ...

    async def close(self, outcome: Outcome) -> None:
        """Frees the connection; called once. Abandoned: the client, or we, did not want the rest."""
        ...


class NotOpened(ApiError):
    """The answer failed before its first content. Other servers may be asked where `retryable` says so."""

    @property
    def retryable(self) -> bool:
        """Whether it may be different elsewhere."""
        return self.status_code == 429 or self.status_code >= 500


@dataclass
class Opened:
    """An answer that has begun to come, and what was read of it already. Whoever has it must close it."""

    upstream: Upstream
    rest: AsyncGenerator[bytes]
    # Of an event stream; None for other bodies.
    framer: Framer | None = None
    events: list[Event] = field(default_factory=list[Event])
    # Of other bodies.
    first: bytes = b""

    async def close(self, outcome: Outcome) -> None:
        """Ends it."""
        try:
            await self.rest.aclose()
        finally:
            await self.upstream.close(outcome)


async def open_answer(upstream: Upstream, outgoing: Outgoing) -> Opened:
    """Reads until the answer's first content.

    Raises NotOpened, and DependencyFailed and DeadlineExceeded as `upstream` does; it is closed then.
    """
    opened = Opened(upstream, upstream.pieces())
    try:
        if upstream.status >= 400:
            return opened
        kind = upstream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" and not _encoded(upstream):
            return await _open_stream(opened)
        return await _open_body(opened, kind, outgoing)
    except asyncio.CancelledError:
        await opened.close("abandoned")
        raise
    except BaseException:
        await opened.close("broken")
        raise


async def _open_stream(opened: Opened) -> Opened:
    opened.framer = framer = Framer()
    held = 0
    try:
        async for piece in opened.rest:
            held += len(piece)
            events = framer.feed(piece)
            opened.events += events
            for event in events:
                said = read(event.data)
                if said.error is not None:
                    raise _refused(said.error, opened.upstream)
                if said.content or said.done:
                    return opened
            if held > _MOST_HELD_BYTES:
                return opened
    except EventTooLarge:
        raise NotOpened(502, "The model's stream is no event stream.", code="bad_model_answer") from None
    last = framer.end()
    if last is not None:
        opened.events.append(last)
        said = read(last.data)
        if said.error is not None:
            raise _refused(said.error, opened.upstream)
        if said.done:
            return opened
    raise NotOpened(502, "The model ended its answer before it had begun.", code="bad_model_answer")


async def _open_body(opened: Opened, kind: str, outgoing: Outgoing) -> Opened:
    upstream = opened.upstream
    if kind == "text/html" or (outgoing.streamed and _encoded(upstream)):
        raise NotOpened(502, "The model's server sent something that is no answer.", code="bad_model_answer")
    while len(opened.first) < _ENOUGH_TO_TELL_BYTES and (piece := await anext(opened.rest, b"")):
        opened.first += piece
    if outgoing.streamed or _ERROR.match(opened.first):
        error = error_of(await _parsed(opened))
        if error is not None:
            raise _refused(error, upstream)
    if outgoing.streamed:
        raise NotOpened(502, "The model did not stream its answer.", code="bad_model_answer")
    return opened


async def _parsed(opened: Opened) -> Any:
    """The body, if it is a short JSON text; else None, and the body stays whole."""
    while len(opened.first) <= _MOST_HELD_BYTES and (piece := await anext(opened.rest, b"")):
        opened.first += piece
    try:
        return orjson.loads(opened.first)
    except orjson.JSONDecodeError:
        return None


def _encoded(upstream: Upstream) -> bool:
    return upstream.headers.get("content-encoding", "identity") != "identity"


def _refused(error: Mapping[str, Any], upstream: Upstream) -> NotOpened:
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code <= 599 else 502
    message = str(error.get("message") or "The model's server failed.")[:2000]
    if status == 429:
        wait = upstream.headers.get("retry-after", "")
        headers = {"Retry-After": wait if wait.isdecimal() else "1"}
        return NotOpened(429, message, code="upstream_overloaded", headers=headers)
    if status >= 500:
        return NotOpened(status, "The model's server failed.", code="bad_model_answer")
    return NotOpened(status, message, code=str(error.get("type") or "bad_request"), param=_text(error.get("param")))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
