"""The end of the process: whoever is still served when the grace is over hears of it, in place of a cut."""

import contextlib
from collections.abc import Callable, Generator

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.errors import ApiError


class Shutdown:
    """Where this process is on its way out."""

    def __init__(self) -> None:
        # Nothing new should come: connections end with the answers that they wait for.
        self.draining = False
        # The grace is over.
        self.ended = False
        self._calls: set[Callable[[], None]] = set()

    @contextlib.contextmanager
    def at_end(self, call: Callable[[], None]) -> Generator[None]:
        """Calls `call` when the grace ends within the block; at once when it has ended already."""
        self._calls.add(call)
        try:
            if self.ended:
                call()
            yield
        finally:
            self._calls.discard(call)

    def end(self) -> None:
        """The grace is over."""
        self.ended = True
        for call in list(self._calls):
            call()


def shutdown_of(scope: Scope) -> Shutdown:
    """The one that Draining put there; one that never comes where there is none."""
    return scope.get("state", {}).get("shutdown") or Shutdown()


def shutting_down() -> ApiError:
    """What a request is told that the end of the process does not let finish."""
    message = "The server is shutting down; send the request again."
    return ApiError(503, message, code="server_shutting_down", headers={"Retry-After": "1"})


class Draining:
    """ASGI middleware around everything: makes `shutdown` known, and lets connections end while it drains."""

    def __init__(self, app: ASGIApp, shutdown: Shutdown) -> None:
        self._app = app
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope.setdefault("state", {})["shutdown"] = self._shutdown

        async def send_last(message: Message) -> None:
            # The listener is still open, so the client finds another server, or this one, without an error.
            if message["type"] == "http.response.start" and self._shutdown.draining:
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self._app(scope, receive, send_last)
