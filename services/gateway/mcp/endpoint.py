"""`/mcp`: who may come in, sessions, cancellation, and streams that listen. The SDK's transport does the rest."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from mcp.server.streamable_http import check_accept_headers
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import INVALID_REQUEST, ErrorData, JSONRPCError
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.access.callers import Caller
from services.gateway.admission import caller_of
from services.gateway.clients import Clients
from services.gateway.errors import ApiError
from services.gateway.limits.bodies import replayed
from services.gateway.mcp.changes import Changes, as_events
from services.gateway.mcp.notices import Notice, Notices
from services.gateway.mcp.protocol import SESSION_HEADER, Protocol, work_no_more
from services.gateway.mcp.running import Running
from services.gateway.mcp.sessions import Sessions
from services.runtime import tasks

PATH, METHODS = "/mcp", ("GET", "POST", "DELETE")
# Arguments are questions and statements; documents come in elsewhere.
_MAX_BODY_BYTES = 4 * 1024 * 1024
_VERSION_HEADER = "mcp-protocol-version"
_EVENT_HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


class McpEndpoint:
    """An ASGI application. Requests are independent of each other: any gateway serves any of them."""

    path = PATH  # as routes have it: requests are counted under their route

    def __init__(
        self,
        transport: ASGIApp,
        sessions: Sessions,
        running: Running,
        changes: Changes,
        notices: Notices,
        *,
        allowed_hosts: str = "",
        allowed_origins: str = "",
    ) -> None:
        """`transport` serves single messages.

        `allowed_hosts`: `name:port` or `name:*`, separated by commas; empty is any. `allowed_origins`: besides our own.
        """
        self._transport = transport
        self._sessions = sessions
        self.running = running
        self.changes = changes
        self._notices = notices
        self._hosts, self._origins = _listed(allowed_hosts), _listed(allowed_origins)
        notices.listen(self._hear)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        caller = caller_of(request)
        caller.require("tools")
        self._check_origin(request)
        session = request.headers.get(SESSION_HEADER)
        if session is not None and not self._sessions.holds(session, caller.tenant.id):
            response: Response | None = _refusal(404, "Session not found")
        elif request.headers.get(_VERSION_HEADER) not in (None, *HANDSHAKE_PROTOCOL_VERSIONS):
            response = None  # sessions have ended with 2025-11-25: the transport knows what came after
        elif request.method == "GET":
            response = await self._listen(request, caller, session)
        elif request.method == "DELETE":
            response = await self._end(session)
        else:
            response = None
        if response is not None:
            return await response(scope, receive, send)
        await self._serve(request, caller, session, send)

    async def _serve(self, request: Request, caller: Caller, session: str | None, send: Send) -> None:
        """One message: ours are cancellations, and the header that opens a session; the others are the transport's."""
        request.state.line.limit(min(_MAX_BODY_BYTES, caller.tenant.limits.body_bytes))
        body = await request.body()
        message = _told_to_us(body)
        if message.get("method") == "notifications/cancelled" and "id" not in message:
            await self._cancel(session, message.get("params"))
            return await Response(status_code=202)(request.scope, request.receive, send)
        opened = self._sessions.open(caller.tenant.id) if message.get("method") == "initialize" else None

        async def send_session(sent: Message) -> None:
            if opened and sent["type"] == "http.response.start" and sent["status"] == 200:
                MutableHeaders(scope=sent)[SESSION_HEADER] = opened
            await send(sent)

        await self._transport(request.scope, replayed(body, request.receive), send_session)

    async def _listen(self, request: Request, caller: Caller, session: str | None) -> Response:
        if not check_accept_headers(request)[1]:
            return _refusal(406, "Not Acceptable: Client must accept text/event-stream")
        await work_no_more(request)
        changes = self.changes.open(caller.tenant.id, session or "")
        return StreamingResponse(as_events(changes), media_type="text/event-stream", headers=_EVENT_HEADERS)

    async def _end(self, session: str | None) -> Response:
        if session is None:
            return _refusal(400, "Bad Request: Missing session ID")
        self._hear(Notice(session))
        await self._notices.tell(Notice(session))
        return Response(status_code=204)

    async def _cancel(self, session: str | None, params: Any) -> None:
        request_id = cast(dict[str, Any], params).get("requestId") if isinstance(params, dict) else None
        # Without a session an id names no request: every client begins to count at the same number.
        if session is None or not isinstance(request_id, str | int) or request_id == "":
            return
        if not self.running.cancel(session, request_id):
            await self._notices.tell(Notice(session, str(request_id)))

    def _hear(self, notice: Notice) -> None:
        if notice.request_id:
            self.running.cancel(notice.session, notice.request_id)
        else:
            self._sessions.end(notice.session)
            self.running.cancel_all(notice.session)
            self.changes.end(notice.session)

    def _check_origin(self, request: Request) -> None:
        """A page of another site must not speak through a browser in our network (DNS rebinding)."""
        host = request.headers.get("host", "").lower()
        if self._hosts and host not in self._hosts and f"{host.rsplit(':', 1)[0]}:*" not in self._hosts:
            raise ApiError(421, "This address is not served under that host name.", code="host_not_allowed")
        origin = request.headers.get("origin", "").lower()
        if origin and origin not in self._origins and urlsplit(origin).netloc != host:
            raise ApiError(403, "Pages of this origin may not call this address.", code="origin_not_allowed")


@asynccontextmanager
async def mcp_endpoint(
    clients: Clients,
    sessions: Sessions,
    changes: Changes,
    notices: Notices,
    *,
    call_seconds: float = 60,
    allowed_hosts: str = "",
    allowed_origins: str = "",
) -> AsyncGenerator[McpEndpoint]:
    """The endpoint, able to serve within the block. `call_seconds`: longest wait for one tool."""
    # It says of every single request at INFO that it has ended.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    running = Running()
    server = Protocol(clients, running, changes, call_seconds=call_seconds).server()
    transport = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=_MAX_BODY_BYTES)
    ready, done = asyncio.Event(), asyncio.Event()

    async def run() -> None:  # in a task of its own, because the task group in it must end where it began
        async with transport.run():
            ready.set()
            await done.wait()

    serving, watching = asyncio.create_task(run()), asyncio.create_task(changes.watch())
    try:
        await ready.wait()
        yield McpEndpoint(
            transport.handle_request,
            sessions,
            running,
            changes,
            notices,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
        )
    finally:
        changes.close()
        done.set()
        await tasks.end(watching)
        await serving


def _listed(text: str) -> frozenset[str]:
    return frozenset(one.strip().lower().rstrip("/") for one in text.split(",") if one.strip())


def _told_to_us(body: bytes) -> dict[str, Any]:
    """The message, where it may concern this endpoint; all others are read once, by the transport."""
    if b'"initialize"' not in body and b'"notifications/cancelled"' not in body:
        return {}
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], message) if isinstance(message, dict) else {}


def _refusal(status: int, message: str) -> Response:
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=message))
    return Response(error.model_dump_json(by_alias=True, exclude_unset=True), status, media_type="application/json")
