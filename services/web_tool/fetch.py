"""Fetches one URL: checked at every hop, dialled at an address that was checked, bounded in size."""

import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, cast

import httpcore2

from services.runtime.errors import DependencyFailed, InvalidField, NotFound, NotPermitted
from services.web_tool import decoding
from services.web_tool.connecting import CheckedBackend, Connector
from services.web_tool.pace import Pace
from services.web_tool.policy import Policy, Target

# Who we are to robots.txt, and the first word of the user agent.
AGENT = "sabueso"

Permit = Callable[[Target], Awaitable[None]]
MAX_REDIRECTS = 5
_MAX_HEADERS = 200
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")
# What chunks and packing may add to a body on its way.
_OVERHEAD_BYTES = 1024 * 1024
# A million chunks of five bytes would keep the process busy for seconds.
_MAX_PIECES = 20_000
_ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/plain;q=0.9,*/*;q=0.5"
_CONTACT = re.compile(r"[!-'*-~]*")


@dataclass(frozen=True)
class Page:
    """A body as it was read. `truncated`: it was longer than the limit. `content_type` is what its server says."""

    final_url: str
    status_code: int
    content_type: str
    body: bytes
    truncated: bool


class Fetcher:
    """Fetches under a policy. One connection a request: nothing is shared between tenants or names, no cookie is kept.

    It has no deadline of its own: callers have a total one.
    """

    def __init__(
        self,
        connector: Connector,
        pace: Pace,
        *,
        contact: str = "",
        max_body_bytes: int = 5 * 1024 * 1024,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`contact` stands in the user agent, so that a site can complain. Raises ValueError when it cannot."""
        if not _CONTACT.fullmatch(contact):
            raise ValueError("it has blanks, parentheses or other characters that no user agent may have")
        self._connector = connector
        self._pace = pace
        self._max_body_bytes = max_body_bytes
        self._tls = tls or ssl.create_default_context()
        self._headers: dict[bytes | str, bytes | str] = {
            "user-agent": f"{AGENT}/{_version()}" + (f" (+{contact})" if contact else ""),
            "accept": _ACCEPT,
            "accept-encoding": decoding.ACCEPTED,
        }

    async def fetch(self, url: str, policy: Policy, *, permit: Permit | None = None, max_bytes: int = 0) -> Page:
        """The page after redirects. `permit` is asked before each hop; `max_bytes` replaces the limit of the body.

        Raises InvalidField (not a URL), NotPermitted (`rule`), NotFound (no such host or page) and DependencyFailed (no
        answer, one that is not HTTP, 5xx).
        """
        try:
            return await self._follow(url, policy, permit, max_bytes or self._max_body_bytes)
        except httpcore2.TimeoutException:
            raise DependencyFailed("The page's server does not answer.", dependency="web") from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError, OSError) as error:
            kind = type(error).__name__
            raise DependencyFailed(f"The page cannot be read ({kind}).", dependency="web") from None

    async def _follow(self, url: str, policy: Policy, permit: Permit | None, max_bytes: int) -> Page:
        seen: set[str] = set()
        scheme = ""
        while len(seen) <= MAX_REDIRECTS:
            target = _checked(url, policy, is_redirect=bool(seen))
            if scheme == "https" and target.scheme == "http":
                raise NotPermitted("The page redirects from https to http.", rule="downgrade")
            if target.url in seen:
                raise NotPermitted("The page redirects in a circle.", rule="redirects")
            seen.add(target.url)
            if permit is not None:
                await permit(target)
            async with self._get(target, policy) as (response, backend):
                location = _location(response)
                if location:
                    url, scheme = target.redirected(location), target.scheme
                    continue
                _raise_for(response.status)
                # What is received is bounded by itself: chunks of one byte, or members of nothing, have no body.
                backend.allow_body(2 * max_bytes + _OVERHEAD_BYTES)
                body, truncated = await _read(response, max_bytes)
                return Page(target.url, response.status, _last(response, b"content-type"), body, truncated)
        raise NotPermitted(f"The page redirects more than {MAX_REDIRECTS} times.", rule="redirects")

    @asynccontextmanager
    async def _get(self, target: Target, policy: Policy) -> AsyncGenerator[tuple[httpcore2.Response, CheckedBackend]]:
        backend = CheckedBackend(self._connector, policy)
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls, network_backend=backend, max_keepalive_connections=0
        )
        async with self._turn(target, policy), pool, pool.stream("GET", target.url, headers=self._headers) as response:
            if len(response.headers) > _MAX_HEADERS:
                raise DependencyFailed(f"The page has more than {_MAX_HEADERS} headers.", dependency="web")
            if cast(Any, response).extensions.get("http_version") not in _VERSIONS:
                raise DependencyFailed("The page's server does not speak HTTP/1.1.", dependency="web")
            yield response, backend

    @asynccontextmanager
    async def _turn(self, target: Target, policy: Policy) -> AsyncGenerator[None]:
        """The operator's own places need no politeness."""
        if policy.is_exception(target):
            yield
        else:
            async with self._pace.turn(target.host):
                yield


def _checked(url: str, policy: Policy, *, is_redirect: bool) -> Target:
    try:
        return policy.check_url(url)
    except InvalidField:
        if not is_redirect:
            raise
        # What the caller gave was fine.
        raise NotPermitted("The page redirects to what is no URL.", rule="redirects") from None


async def _read(response: httpcore2.Response, max_bytes: int) -> tuple[bytes, bool]:
    decoder = decoding.decoder(_joined(response, b"content-encoding"))
    body = bytearray()
    pieces = 0
    async for piece in response.aiter_stream():
        body += decoder.decode(piece, max_bytes + 1 - len(body))
        pieces += 1
        if len(body) > max_bytes or pieces > _MAX_PIECES:
            return bytes(body[:max_bytes]), True
    decoder.finish()
    return bytes(body), False


def _location(response: httpcore2.Response) -> str:
    """Where a redirect leads; empty for any other answer."""
    if response.status not in (301, 302, 303, 307, 308):
        return ""
    values = {value for name, value in response.headers if name.lower() == b"location"}
    if len(values) > 1:
        raise NotPermitted("The page redirects to several places.", rule="redirects")
    # Browsers read UTF-8 here, and write blanks as they must be.
    return next(iter(values), b"").decode("utf-8", "replace").strip().replace(" ", "%20")


def _last(response: httpcore2.Response, name: bytes) -> str:
    values = [value for key, value in response.headers if key.lower() == name]
    return values[-1].decode("latin-1").strip() if values else ""


def _joined(response: httpcore2.Response, name: bytes) -> str:
    return ", ".join(value.decode("latin-1").strip() for key, value in response.headers if key.lower() == name)


def _raise_for(status: int) -> None:
    if status in (404, 410):
        raise NotFound(f"There is no such page ({status}).", status_code=str(status))
    # Asking again would not help, as it may with an answer of 5xx.
    if 400 <= status < 500 and status not in (408, 425, 429):
        raise NotPermitted(f"The page's server refuses to show it ({status}).", rule="status", status_code=str(status))
    # 206 is a part, for which nobody has asked.
    if not 200 <= status < 300 or status == 206:
        raise DependencyFailed(f"The page's server answered {status}.", dependency="web", status_code=str(status))


def _version() -> str:
    try:
        return metadata.version("sabueso")
    except metadata.PackageNotFoundError:
        return "0"
