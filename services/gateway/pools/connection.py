"""HTTP/1.1 to one model server, on the parser of uvicorn, one request at a time.

aiohttp 3.14 was tried in its place, for 7 to 22 % more processor time of the whole gateway a request. What had come of
an answer before a cut is lost there to a client who reads slowly, an answer that the server sends unasked goes to the
next request, a wrong frame is noticed by the limit of silence alone, and after a reset nobody knows whether some of an
answer had come.
"""

import asyncio
from collections import deque
from typing import Any, Protocol, cast

import httptools

# Reading pauses when the client is slower than the model, and goes on when most of it is gone.
_PAUSE_BYTES, _RESUME_BYTES = 256 * 1024, 64 * 1024
_HEAD_BYTES = 64 * 1024


class ConnectionLost(Exception):
    """The connection ended too early. `any_byte`: some of an answer had come."""

    def __init__(self, reason: str, *, any_byte: bool) -> None:
        super().__init__(reason)
        self.any_byte = any_byte


class Silent(Exception):
    """Nothing came for too long."""


class Reply:
    """One answer, as it comes in."""

    def __init__(self, connection: "Connection") -> None:
        loop = asyncio.get_running_loop()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.any_byte = False
        self.complete = False
        self.head: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._connection = connection
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._failure: Exception | None = None
        self._coming: asyncio.Future[None] | None = None
        self._waiting_since = 0.0
        self._idle_seconds = 0.0
        self._deadline = float("inf")
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, *, idle_seconds: float, deadline: float = float("inf")) -> None:
        """From now on `read` waits no longer than that at once, nor beyond `deadline` (of the loop's clock)."""
        self._idle_seconds, self._deadline = idle_seconds, deadline
        if not self.complete:
            self._arm()

    async def read(self) -> bytes:
        """What has come since the last time; waits for it. `b""` at the end. Raises ConnectionLost and Silent."""
        while not self._pieces:
            if self._failure is not None:
                raise self._failure
            if self.complete:
                return b""
            self._coming = self._loop.create_future()
            self._waiting_since = self._loop.time()
            try:
                await self._coming
            finally:
                self._coming = None
        found = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._buffered = 0
        self._connection.resume(self)
        return found

    def abandon(self) -> None:
        """Nobody reads on. The connection is dropped, unless the answer has come whole."""
        self._disarm()
        self._pieces.clear()
        if not self.complete:
            self.fail(ConnectionLost("abandoned", any_byte=self.any_byte))
            self._connection.drop()

    def add(self, piece: bytes) -> None:
        """More of the body."""
        self._pieces.append(piece)
        self._buffered += len(piece)
        if self._buffered > _PAUSE_BYTES:
            self._connection.pause()
        self._wake()

    def finish(self) -> None:
        """The body has come whole."""
        if self._failure is not None:
            return
        self.complete = True
        self._disarm()
        self._wake()

    def fail(self, failure: Exception) -> None:
        """The rest will not come."""
        if self.complete or self._failure is not None:
            return
        self._failure = failure
        self._disarm()
        if not self.head.done():
            self.head.set_exception(failure)
            self.head.exception()  # it may be that nobody waits any more
        self._wake()

    def _wake(self) -> None:
        if self._coming is not None and not self._coming.done():
            self._coming.set_result(None)

    def _arm(self) -> None:
        self._disarm()
        now = self._loop.time()
        since = self._waiting_since if self._coming is not None else now
        self._timer = self._loop.call_at(min(since + self._idle_seconds, self._deadline), self._look)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now = self._loop.time()
        waiting = self._coming is not None and not self._coming.done()
        # A client who reads slowly is no silence of the server's.
        if now >= self._deadline or (waiting and now - self._waiting_since >= self._idle_seconds):
            self.fail(Silent())
            self._connection.drop()
        else:
            self._arm()


class ConnectionOwner(Protocol):
    """Who is told what becomes of a connection."""

    def on_idle(self, connection: "Connection") -> None:
        """It may be used again."""
        ...

    def on_closed(self, connection: "Connection") -> None:
        """It will not be used again."""
        ...


class Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, owner: ConnectionOwner) -> None:
        self.idle_since = 0.0
        self.used = False
        self.closed = False
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._reply: Reply | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._head_bytes = 0
        self._until_closed = False
        self._paused = False

    def send(self, head: bytes, body: bytes) -> Reply:
        """Sends a request; the reply's `head` is done when its answer begins."""
        transport = cast(asyncio.Transport, self._transport)
        reply = self._reply = Reply(self)
        self._head_bytes = 0
        if self.closed:
            reply.fail(ConnectionLost("closed", any_byte=False))
        elif len(body) > _PAUSE_BYTES:
            transport.writelines((head, body))
        else:
            transport.write(head + body)
        return reply

    def drop(self) -> None:
        """Closes it at once."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Reads no more for now."""
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self, reply: Reply) -> None:
        """Reads on, if it is for this reply."""
        if self._paused and reply is self._reply and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:  # nothing was asked
            return self.drop()
        reply.any_byte = True
        if not reply.head.done():
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            reply.fail(ConnectionLost("malformed answer", any_byte=True))
            return self.drop()
        if self._head_bytes > _HEAD_BYTES and not reply.head.done():
            reply.fail(ConnectionLost("endless head", any_byte=True))
            self.drop()

    def eof_received(self) -> bool:
        return False  # closes the transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        reply, self._reply = self._reply, None
        if reply is not None:
            if exc is None and self._until_closed and reply.head.done():
                reply.finish()
            else:
                reply.fail(ConnectionLost("connection lost", any_byte=reply.any_byte))
        self._owner.on_closed(self)

    # httptools

    def on_message_begin(self) -> None:
        if self._reply is None:  # more than was asked for
            self.drop()

    def on_header(self, name: bytes, value: bytes) -> None:
        reply = cast(Reply, self._reply)
        reply.headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        reply = cast(Reply, self._reply)
        status = self._parser.get_status_code()
        if status == 101:
            reply.fail(ConnectionLost("another protocol", any_byte=True))
            return self.drop()
        if status < 200:  # an interim answer
            return reply.headers.clear()
        reply.status = status
        names = {name for name, _ in reply.headers}
        self._until_closed = not names & {b"content-length", b"transfer-encoding"} and status not in (204, 304)
        if not reply.head.done():
            reply.head.set_result(None)

    def on_body(self, piece: bytes) -> None:
        cast(Reply, self._reply).add(piece)

    def on_message_complete(self) -> None:
        reply = cast(Reply, self._reply)
        if not reply.status:
            return
        transport = cast(asyncio.Transport, self._transport)
        reusable = self._parser.should_keep_alive() and not transport.get_write_buffer_size() and not self.closed
        self.resume(reply)
        self._reply = None
        reply.finish()
        if reusable:
            self.used = True
            self._owner.on_idle(self)
        else:
            self.drop()
