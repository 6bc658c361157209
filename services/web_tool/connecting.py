"""Makes connections: all addresses of a name are checked, and one of those that were checked is dialled."""

import asyncio
import base64
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, cast
from urllib.parse import unquote, urlsplit

import httpcore2

from services.runtime.errors import DependencyFailed, NotFound
from services.web_tool.fairness import Places
from services.web_tool.policy import Policy

log = logging.getLogger(__name__)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
# A name server that never answers holds a thread for ten seconds and more; a waiting one costs next to nothing.
_LOOKUPS = 64
_MAX_DIALS = 3
# Of the time for a page: an address that swallows packets leaves some for the next.
_DIAL_SECONDS = 3
# Status line and headers, all of 1xx responses included.
_HEAD_BYTES = 64 * 1024
_MAX_TUNNEL_HEAD_BYTES = 8 * 1024


class SystemResolver:
    """All addresses of a name, as the system's resolver gives them.

    It has threads of its own: a name server that never answers must not take those that others need.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS, "resolve")
        self._places = Places(_LOOKUPS)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Addresses in the order of preference. Raises NotFound, DependencyFailed and Overloaded."""
        tenant = self._places.take("Too many names are being looked up.")
        loop = asyncio.get_running_loop()
        lookup = loop.run_in_executor(self._threads, partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
        # A lookup that nobody waits for any more still has its thread, and so its tenant's place.
        lookup.add_done_callback(lambda _: self._places.give_back(tenant))
        try:
            found = await asyncio.shield(lookup)
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME:
                raise NotFound(f"There is no host `{host}`.") from None
            raise DependencyFailed(f"`{host}` cannot be looked up.", dependency="dns") from None
        except UnicodeError:
            raise NotFound(f"There is no host `{host}`.") from None
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy. `authorization` is the value of its header, empty for none."""

    host: str
    port: int
    tls: bool = False
    authorization: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From `http://[user:password@]host:port`; None for an empty text. Raises ValueError, without the password."""
        if not text:
            return None
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            port, parts = None, urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname or not port or parts.path.strip("/"):
            raise ValueError("it is not http://[user:password@]host:port")
        credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
        authorization = f"Basic {base64.b64encode(credentials).decode()}" if parts.username else ""
        return cls(parts.hostname, port, parts.scheme == "https", authorization)


class Connector:
    """Makes connections for requests, directly or through a proxy."""

    def __init__(
        self,
        *,
        resolve: Resolve | None = None,
        proxy: Proxy | None = None,
        dial: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        """`resolve` gives all addresses of a name; `dial` opens a connection to an address."""
        self._resolve = resolve or SystemResolver()
        self._proxy = proxy
        self._dial = dial or cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())
        self._proxy_tls = ssl.create_default_context() if proxy is not None and proxy.tls else None

    async def connect(self, host: str, port: int, policy: Policy) -> httpcore2.AsyncNetworkStream:
        """A connection to an address of `host`. Raises NotPermitted if any of its addresses is not public."""
        addresses = await self._resolve(host, port)
        policy.check_addresses(host, port, addresses)
        error: Exception = OSError("no address")
        for address in addresses[:_MAX_DIALS]:
            try:
                return await self._connect(address, port)
            except (httpcore2.NetworkError, httpcore2.TimeoutException) as failed:
                error = failed
        raise error

    async def _connect(self, address: str, port: int) -> httpcore2.AsyncNetworkStream:
        if self._proxy is None:
            return await self._dial.connect_tcp(address, port, _DIAL_SECONDS)
        stream = await self._dial.connect_tcp(self._proxy.host, self._proxy.port, _DIAL_SECONDS)
        try:
            if self._proxy_tls is not None:
                stream = await stream.start_tls(self._proxy_tls, self._proxy.host, _DIAL_SECONDS)
            await self._open_tunnel(stream, f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
        except BaseException:
            await stream.aclose()
            raise
        return stream

    async def _open_tunnel(self, stream: httpcore2.AsyncNetworkStream, target: str) -> None:
        """Asks the proxy for the very address that was checked: the name it never learns, so it cannot look it up."""
        assert self._proxy is not None
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self._proxy.authorization:
            lines.append(f"Proxy-Authorization: {self._proxy.authorization}")
        await stream.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            part = await stream.read(4096)
            head += part
            if not part or len(head) > _MAX_TUNNEL_HEAD_BYTES:
                raise DependencyFailed("The egress proxy does not answer.", dependency="egress_proxy")
        status = head.split(b"\r\n", 1)[0].split(b" ")
        # The other side speaks second, in HTTP as in TLS: what comes at once is not from it.
        if len(status) < 2 or not status[1].startswith(b"2") or not head.endswith(b"\r\n\r\n"):
            answer = status[1][:3].decode("ascii", "replace") if len(status) > 1 else ""
            log.warning("the egress proxy refuses a connection", extra={"status": answer})
            raise DependencyFailed(f"The egress proxy refuses the connection ({answer}).", dependency="egress_proxy")


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """What httpcore dials with, for one request. TLS still verifies the name: the pool knows nothing else."""

    def __init__(self, connector: Connector, policy: Policy) -> None:
        self._connector = connector
        self._policy = policy
        self._budget = _Budget(_HEAD_BYTES)

    def allow_body(self, size_bytes: int) -> None:
        """Lets so many more bytes be received, once the head is there."""
        self._budget.left_bytes = size_bytes

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is the library's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _BoundedStream(await self._connector.connect(host, port, self._policy), self._budget)


@dataclass
class _Budget:
    left_bytes: int


class _BoundedStream(httpcore2.AsyncNetworkStream):
    """Ends with an error when more is received than the budget allows."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, budget: _Budget) -> None:
        self._stream = stream
        self._budget = budget

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._budget.left_bytes <= 0:
            raise httpcore2.ReadError("the response is too large")
        received = await self._stream.read(max_bytes, timeout)
        self._budget.left_bytes -= len(received)
        return received

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        try:
            secure = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            # A handshake that is cancelled would leave its connection open.
            await self._stream.aclose()
            raise
        return _BoundedStream(secure, self._budget)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
