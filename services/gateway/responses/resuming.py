"""ASGI middleware that leaves out what the reader of a response's stream knows already.

It stands outside of the guard, which has to see each text from its beginning, and numbers the events as they are told.
"""

from collections.abc import MutableMapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.streams.framing import Event, Framer

_AFTER = "events_known"


def leave_out_known(request: Request, after: int) -> None:
    """Has the events up to number `after` left out of the answer to `request`, which streams all of them."""
    request.scope["state"][_AFTER] = after


class Resuming:
    """The middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            return await self._app(scope, receive, send)
        state: MutableMapping[str, Any] = scope["state"]
        framer = Framer()

        async def send_rest(message: Message) -> None:
            if _AFTER in state and message["type"] == "http.response.body":
                body = b"".join(one.raw for one in framer.feed(message["body"]) if not _known(one, state[_AFTER]))
                message = {**message, "body": body}
            await send(message)

        await self._app(scope, receive, send_rest)


def _known(event: Event, after: int) -> bool:
    return event.data is not None and orjson.loads(event.data).get("sequence_number", after + 1) <= after
