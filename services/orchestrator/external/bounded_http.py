"""An HTTP client for servers that are not ours: no proxies of the environment, no redirects, no endless answers."""

from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx2

_CONNECT_SECONDS = 5.0
# A stream that only listens may be silent for long; every call has its own limit of time.
_SILENCE_SECONDS = 300.0
# Events of a stream are bounded one by one, by whoever reads them.
_EVENTS = "text/event-stream"
_SESSION, _NOT_FOUND = "mcp-session-id", 404


class TooLarge(httpx2.StreamError):
    """The body has more bytes than are read."""


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise TooLarge(f"more than {self._most} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(
        self, inner: httpx2.AsyncBaseTransport, max_bytes: int, on_unknown_session: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._most = max_bytes
        self._on_unknown_session = on_unknown_session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # A small body may unpack to a large one.
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if response.status_code == _NOT_FOUND and _SESSION in request.headers:
            self._on_unknown_session()
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        events = response.headers.get("content-type", "").lower().startswith(_EVENTS)
        if packed or not events:
            stream = cast(httpx2.AsyncByteStream, response.stream)
            response.stream = _Counted(stream, 0 if packed else self._most)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def bounded_client(
    max_bytes: int, token: str = "", on_unknown_session: Callable[[], None] = lambda: None
) -> httpx2.AsyncClient:
    """The client. `max_bytes`: largest answer; `token`: sent as `Authorization: Bearer`.

    `on_unknown_session` is called when a server knows an MCP session no more (it says 404, in words of its own).
    """
    inner = httpx2.AsyncHTTPTransport(retries=0, trust_env=False)
    return httpx2.AsyncClient(
        transport=_Bounded(inner, max_bytes, on_unknown_session),
        headers={"authorization": f"Bearer {token}"} if token else {},
        timeout=httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
        follow_redirects=False,
        trust_env=False,
    )
