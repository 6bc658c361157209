"""HTTP connections under gevent, for streams that are read as they come.

Locust's own client reads a stream in blocks of 1 kB, so that no first event can be timed, and sends a request again
when its connection breaks, which hides what a load test is to show. Here are its parser and sockets without that.
"""

import json
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, cast
from urllib.parse import urlsplit

import gevent.socket
import gevent.ssl
from geventhttpclient.response import HTTPSocketResponse

# A server may close a connection that idled for 5 s at the very moment of its use.
_IDLE_SECONDS = 3.0
_CONNECT_SECONDS = 5.0
_BLOCK_BYTES = 64 * 1024


class Broken(Exception):
    """The connection could not be made, or ended before the answer did."""


class Reply:
    """An answer that is still coming in."""

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed

    @property
    def status(self) -> int:
        """Of HTTP."""
        return int(self._parsed.status_code)

    def header(self, name: str) -> str:
        """Its value, empty without it."""
        return str(self._parsed.get(name) or "")

    def lines(self) -> Iterator[str]:
        """Lines without their ends, each as soon as it is there."""
        while line := self._parsed.readline(b"\n"):
            yield bytes(line).decode("utf-8", errors="replace").rstrip("\r\n")

    def body(self) -> bytes:
        """All that is left of it."""
        return bytes(self._parsed.read())

    @property
    def whole(self) -> bool:
        """Whether the end has come in."""
        return bool(self._parsed.message_complete)

    @property
    def last(self) -> bool:
        """Whether the connection cannot serve another request."""
        return not self.whole or bool(self._parsed.should_close())


@dataclass(frozen=True)
class _Idle:
    connection: Any
    since: float


class Connections:
    """Keeps connections to one server alive, and opens another whenever all are busy: arrivals never queue here."""

    def __init__(self, url: str, ca_file: str = "") -> None:
        parts = urlsplit(url)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        self._name = parts.netloc
        self._ca_file = ca_file
        self._idle: deque[_Idle] = deque()

    @contextmanager
    def ask(
        self, method: str, path: str, key: str, body: Mapping[str, Any] | bytes | None = None, kind: str = ""
    ) -> Generator[Reply]:
        """Sends a request, once. Raises Broken, also in the block that reads the reply."""
        connection = self._taken()
        reply: Reply | None = None
        try:
            content = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
            head = (
                f"{method} {self._path}{path} HTTP/1.1\r\nhost: {self._name}\r\nauthorization: Bearer {key}\r\n"
                f"content-type: {kind or 'application/json'}\r\ncontent-length: {len(content)}\r\n\r\n"
            )
            connection.sendall(head.encode() + content)
            reply = Reply(cast(Any, HTTPSocketResponse)(connection, block_size=_BLOCK_BYTES, method=method))
            yield reply
        except (OSError, HTTPException) as error:
            reply = None
            raise Broken(f"the connection broke: {str(error) or type(error).__name__}") from error
        finally:
            if reply is None or reply.last:
                connection.close()
            else:
                self._idle.append(_Idle(connection, time.monotonic()))

    def close(self) -> None:
        """Closes those that are idle."""
        while self._idle:
            self._idle.pop().connection.close()

    def _taken(self) -> Any:
        while self._idle:
            latest = self._idle.pop()
            if time.monotonic() - latest.since < _IDLE_SECONDS:
                return latest.connection
            latest.connection.close()
        try:
            made: Any = gevent.socket.create_connection((self._host, self._port), timeout=_CONNECT_SECONDS)
            made.settimeout(None)
            made.setsockopt(gevent.socket.IPPROTO_TCP, gevent.socket.TCP_NODELAY, 1)
            if self._tls:
                context = gevent.ssl.create_default_context(cafile=self._ca_file or None)
                made = context.wrap_socket(made, server_hostname=self._host)
        except OSError as error:
            raise Broken(f"{self._host}:{self._port} cannot be reached: {error}") from error
        return made
