"""One connection as bytes: requests are parsed, answers are written with whatever faults they are to have."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

# Connections close abortively: RST in place of FIN.
_NO_LINGER = struct.pack("ii", 1, 0)
_READ_AHEAD_BYTES = 64 * 1024


@dataclass
class Request:
    """What came in."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


class ClientGone(Exception):
    """Nobody reads what is written."""


class Connection(asyncio.Protocol):
    """Reads requests one after the other and gives each to `answer`, which writes as it likes."""

    def __init__(
        self,
        answer: "Callable[[Request, Connection], Awaitable[None]]",
        idle_seconds: Callable[[], float],
        opened: "set[Connection]",
    ) -> None:
        self._answer = answer
        self._idle_seconds = idle_seconds
        self._opened = opened
        self._parser = httptools.HttpRequestParser(self)
        self._coming: Request | None = None
        self._parts: list[bytes] = []
        self._waiting: asyncio.Queue[Request] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None
        self.gone = asyncio.Event()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio's."""
        self._transport = cast(asyncio.Transport, transport)
        # What is written is on the wire, or in the kernel, before the next is written.
        self._transport.set_write_buffer_limits(high=_READ_AHEAD_BYTES)
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opened.add(self)
        self._writable.set()
        self._serving = asyncio.ensure_future(self._serve())

    def data_received(self, data: bytes) -> None:
        """As asyncio's."""
        self._stop_idling()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio's."""
        self._opened.discard(self)
        self._stop_idling()
        self.gone.set()
        self._writable.set()
        self._serving.cancel()

    def pause_writing(self) -> None:
        """As asyncio's."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """As asyncio's."""
        self._writable.set()

    # The parser's side

    def on_url(self, url: bytes) -> None:
        """As httptools'."""
        self._coming = Request("", url.decode("latin-1"))
        self._parts = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """As httptools'."""
        if self._coming is not None:
            self._coming.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """As httptools'."""
        if self._coming is not None:
            self._coming.method = self._parser.get_method().decode()
            if self._coming.headers.get("expect", "").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """As httptools'."""
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """As httptools'."""
        if self._coming is not None:
            self._coming.body = b"".join(self._parts)
            self._waiting.put_nowait(self._coming)

    # The script's side

    async def write(self, data: bytes) -> None:
        """Sends `data` as one write. Raises ClientGone."""
        if self.gone.is_set():
            raise ClientGone
        self._transport.write(data)
        await self._writable.wait()
        # Else the kernel would hand several writes over as one.
        await asyncio.sleep(0)
        if self.gone.is_set():
            raise ClientGone

    def close(self) -> None:
        """Ends the connection in good order as far as TCP knows: FIN."""
        self._transport.close()

    def reset(self) -> None:
        """Ends it with RST. What was written before may be lost to the other side."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    async def _serve(self) -> None:
        try:
            while True:
                request = await self._waiting.get()
                await self._answer(request, self)
                if self._waiting.empty():
                    idle = asyncio.get_running_loop().call_later(self._idle_seconds(), self._transport.close)
                    self._idle = idle
        except ClientGone:
            pass

    def _stop_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
