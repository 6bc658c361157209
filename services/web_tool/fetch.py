"""Reads one page: checked at every hop, dialled at the address that was checked, bounded in time and size."""

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urljoin

import httpcore2

from services.runtime.errors import DeadlineExceeded, DependencyFailed, NotFound, NotPermitted
from services.web_tool.policy import Policy

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_MAX_REDIRECTS = 5
_HEADERS: dict[str | bytes, str | bytes] = {
    "user-agent": "sabueso/0.1",
    "accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5",
    "accept-encoding": "gzip, deflate",
}


@dataclass(frozen=True)
class Page:
    """A body as it was read. `truncated`: it was longer than the limit."""

    final_url: str
    status_code: int
    content_type: str
    body: bytes
    truncated: bool


async def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a name, as the system's resolver gives them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Fetcher:
    """Reads pages under a policy. One connection a page: nothing is shared between tenants or names."""

    def __init__(self, *, timeout_seconds: float, max_body_bytes: int, resolve: Resolve = resolve) -> None:
        """`resolve` gives all addresses of a name."""
        self._timeout_seconds = timeout_seconds
        self._max_body_bytes = max_body_bytes
        self._resolve = resolve
        self._tls = ssl.create_default_context()

    async def fetch(self, url: str, policy: Policy) -> Page:
        """The page after redirects.

        Raises InvalidField (not a URL), NotPermitted (`rule`), NotFound (4xx), DependencyFailed (no answer, 5xx) and
        DeadlineExceeded.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._follow(url, policy)
        except TimeoutError:
            raise DeadlineExceeded(
                f"The page was not read within {self._timeout_seconds:g} s.", stage="fetch"
            ) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError, OSError, zlib.error) as error:
            kind = type(error).__name__
            raise DependencyFailed(f"The page cannot be read ({kind}).", dependency="web") from None

    async def _follow(self, url: str, policy: Policy) -> Page:
        for _ in range(_MAX_REDIRECTS + 1):
            target = policy.check_url(url)
            async with self._get(target.url, policy) as response:
                headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in response.headers}
                if response.status in (301, 302, 303, 307, 308) and "location" in headers:
                    url = urljoin(target.url, headers["location"])
                    if target.scheme == "https" and url.lower().startswith("http:"):
                        raise NotPermitted("The page redirects from https to http.", rule="downgrade")
                    continue
                _raise_for(response.status)
                body, truncated = await self._read(response, headers)
                return Page(target.url, response.status, headers.get("content-type", ""), body, truncated)
        raise NotPermitted(f"The page redirects more than {_MAX_REDIRECTS} times.", rule="redirects")

    @asynccontextmanager
    async def _get(self, url: str, policy: Policy) -> AsyncGenerator[httpcore2.Response]:
        backend = _CheckedBackend(policy, self._resolve)
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls, network_backend=backend, max_keepalive_connections=0
        )
        async with pool, pool.stream("GET", url, headers=_HEADERS) as response:
            yield response

    async def _read(self, response: httpcore2.Response, headers: Mapping[str, str]) -> tuple[bytes, bool]:
        encoding = headers.get("content-encoding", "identity").strip().lower()
        # The decoder is ours because it must be bounded: 300 kB of gzip can hold 60 MB.
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ("gzip", "x-gzip", "deflate") else None
        if inflate is None and encoding not in ("identity", ""):
            raise NotPermitted(f"Content encoding `{encoding}` is not read.", rule="encoding")
        body = bytearray()
        async for piece in response.aiter_stream():
            room = self._max_body_bytes + 1 - len(body)
            body += inflate.decompress(piece, room) if inflate else piece[:room]
            if len(body) > self._max_body_bytes:
                return bytes(body[: self._max_body_bytes]), True
        return bytes(body), False


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Dials the very addresses that the policy has seen; TLS still verifies the name, the only thing the pool knows."""

    def __init__(self, policy: Policy, resolve: Resolve) -> None:
        self._policy = policy
        self._resolve = resolve
        self._dial = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is the library's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolve(host, port)
        self._policy.check_addresses(host, port, addresses)
        error: Exception = OSError("no address")
        for address in addresses[:3]:
            try:
                return await self._dial.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.NetworkError as failed:
                error = failed
        raise error


def _raise_for(status: int) -> None:
    if status in (404, 410):
        raise NotFound(f"There is no such page ({status}).")
    if status >= 400:
        raise DependencyFailed(f"The page's server answered {status}.", dependency="web")
