"""The connections to one model server, kept for the next request."""

import asyncio
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from services.gateway.pools.connection import Connection, ConnectionLost, Reply

# Shorter than the 5 s after which uvicorn, and so vLLM, closes an idle connection: else both may use it at once.
KEEP_ALIVE_SECONDS = 4.0
_SMALL_ANSWER_BYTES = 8 * 1024 * 1024

Headers = Sequence[tuple[bytes, bytes]]


class CannotConnect(Exception):
    """No connection came about; the request was never sent."""


class TooLarge(Exception):
    """An answer of the server's own pages is larger than such an answer can be."""


class Origin:
    """One server. Knows its address, and nothing of models."""

    def __init__(
        self,
        url: str,
        *,
        connect_seconds: float,
        key: str = "",
        server_name: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`url`: with the `/v1` under which its API is. `server_name`: whom the certificate names, if not the host.

        `tls`: whom to trust with https; by default those whom the machine trusts, and SSL_CERT_FILE.
        """
        parts = urlsplit(url)
        self.connect_seconds = connect_seconds
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path.rstrip("/").removesuffix("/v1")
        self._ssl = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._server_name = (server_name or self._host) if self._ssl else None
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._retired = False
        self._loop = asyncio.get_running_loop()
        self._fixed = b"host: " + parts.netloc.encode() + b"\r\n"
        if key:
            self._fixed += b"authorization: Bearer " + key.encode() + b"\r\n"

    async def post(self, path: str, headers: Headers, body: bytes) -> Reply:
        """Sends, and waits for the answer to begin. No time limit of its own, but for connecting.

        A connection that the server closed at the moment of its use is replaced once, as nothing of an answer came.
        Raises CannotConnect and ConnectionLost.
        """
        return await self._ask("POST", f"{self._prefix}{path}", headers, body)

    async def get(self, path: str, timeout_seconds: float, *, below_prefix: bool = False) -> tuple[int, bytes]:
        """Status and body of a small page. Raises CannotConnect, ConnectionLost, TooLarge and TimeoutError."""
        async with asyncio.timeout(timeout_seconds):
            reply = await self._ask("GET", f"{self._prefix if below_prefix else ''}{path}", (), b"")
            try:
                pieces: list[bytes] = []
                size = 0
                while piece := await reply.read():
                    pieces.append(piece)
                    size += len(piece)
                    if size > _SMALL_ANSWER_BYTES:
                        raise TooLarge
                return reply.status, b"".join(pieces)
            finally:
                reply.abandon()

    def close(self) -> None:
        """Closes what is idle; the others end with their answers."""
        self._retired = True
        for connection in list(self._idle):
            connection.drop()
        self._idle.clear()

    def drop(self) -> None:
        """Closes everything."""
        for connection in list(self._open):
            connection.drop()

    async def _ask(self, method: str, target: str, headers: Headers, body: bytes) -> Reply:
        head = self._head(method, target, headers, body)
        connection = self._reusable()
        if connection is not None:
            try:
                return await _begun(connection.send(head, body))
            except ConnectionLost as lost:
                if lost.any_byte:
                    raise
        return await _begun((await self._connect()).send(head, body))

    def _head(self, method: str, target: str, headers: Headers, body: bytes) -> bytes:
        lines = [f"{method} {target} HTTP/1.1\r\n".encode("ascii"), self._fixed]
        for name, value in headers:
            if b"\n" not in value and b"\r" not in value:
                lines += (name, b": ", value, b"\r\n")
        if body or method == "POST":
            lines.append(b"content-length: %d\r\n" % len(body))
        lines.append(b"\r\n")
        return b"".join(lines)

    def _reusable(self) -> Connection | None:
        oldest = self._loop.time() - KEEP_ALIVE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and connection.idle_since > oldest:
                return connection
            connection.drop()
        return None

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self.connect_seconds):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self), self._host, self._port, ssl=self._ssl, server_hostname=self._server_name
                )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            raise CannotConnect(type(error).__name__) from None
        self._open.add(connection)
        return connection

    # ConnectionOwner

    def on_idle(self, connection: Connection) -> None:
        """Keeps it for the next request, if there may be one."""
        if self._retired:
            return connection.drop()
        connection.idle_since = self._loop.time()
        self._idle.append(connection)

    def on_closed(self, connection: Connection) -> None:
        """Forgets it."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


async def _begun(reply: Reply) -> Reply:
    try:
        await reply.head
    except asyncio.CancelledError:
        reply.abandon()
        raise
    return reply
