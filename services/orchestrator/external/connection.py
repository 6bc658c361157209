"""A session with one MCP server, over streamable HTTP or a program's stdio, by the official SDK."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import IncomingMessage
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    Tool,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter, ValidationError

from services.orchestrator.external import metrics
from services.orchestrator.external.bounded_http import bounded_client
from services.orchestrator.external.remote import RemoteResult, RemoteTool, SessionLost
from services.orchestrator.external.rendering import rendered
from services.runtime import tasks
from services.runtime.errors import DependencyFailed, InvalidField
from services.runtime.release import VERSION

_MAX_PAGES, _MAX_TOOLS = 20, 1_000
_MAX_COMPLAINT_CHARS = 500
_LISTEN_AGAIN_SECONDS = 30.0
_CLOSE_SECONDS, _DYING_SECONDS = 5.0, 0.1
# Not `call_tool` of the SDK: it checks results by the server's own output schema, whose patterns may take for ever.
_RESULT: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)

# Streams of messages to a server. What it takes is called when the server knows the session no more.
Connecting = Callable[[Callable[[], None]], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True)
class Reading:
    """How much of a server's answers is read: bytes of a message, characters of a tool's result."""

    max_bytes: int = 4 * 1024 * 1024
    max_result_chars: int = 24_000


@asynccontextmanager
async def over_http(
    url: str, token: str, reading: Reading, on_unknown_session: Callable[[], None]
) -> AsyncGenerator[Any]:
    """Streams of messages to a server. The SDK follows redirects within the origin only."""
    async with bounded_client(reading.max_bytes, token, on_unknown_session) as client:
        async with streamable_http_client(url, http_client=client, max_sse_event_size=reading.max_bytes) as streams:
            yield streams


@asynccontextmanager
async def over_stdio(
    command: Sequence[str], variables: Mapping[str, str], on_unknown_session: Callable[[], None]
) -> AsyncGenerator[Any]:
    """Streams of messages to a program that is started for it, with few of our environment variables."""
    program = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(variables))
    with open(os.devnull, "w") as nowhere:  # noqa: ASYNC230 - what it complains of may hold anything
        async with stdio_client(program, errlog=nowhere) as streams:
            yield streams


class McpSession:
    """A RemoteSession. The SDK's task groups live in a task of their own, so that any task may use and close it."""

    def __init__(self, server: str, connecting: Connecting, reading: Reading, on_change: Callable[[], None]) -> None:
        """`server`: for errors; `on_change` is called when the server says that its tools have changed."""
        self._server = server
        self._connecting = connecting
        self._unknown = False
        self._reading = reading
        self._on_change = on_change
        self._ended = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._living: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self.lost = False

    @classmethod
    async def open(
        cls, server: str, connecting: Connecting, reading: Reading, on_change: Callable[[], None]
    ) -> "McpSession":
        """A session that has been agreed on. Raises DependencyFailed. Cancelled, it leaves nothing behind.

        Call it from a task without a caller's context: the session outlives whoever needed it first.
        """
        # The SDK logs what it cannot read, and what it cannot read may hold anything.
        for name in ("mcp", "client", "httpx2"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        session = cls(server, connecting, reading, on_change)
        session._living = asyncio.create_task(session._live())
        try:
            session._client = await asyncio.shield(session._opened)
        except BaseException:
            await _end(session._living)
            raise
        return session

    async def tools(self) -> Sequence[RemoteTool]:
        """See RemoteSession. The pages of a list that does not end are refused."""
        found: dict[str, RemoteTool] = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._asked(self._connected().list_tools(cursor=cursor))
            found.update((one.name, _remote(one)) for one in page.tools)
            cursor = page.next_cursor
            if cursor is None and len(found) <= _MAX_TOOLS:
                return list(found.values())
            if len(found) > _MAX_TOOLS:
                break
        raise self._failure("lists too many tools")

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> RemoteResult:
        """See RemoteSession."""
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        try:
            result = await self._asked(self._connected().session.send_request(request, _RESULT))
        except InvalidField as error:  # arguments that it finds wrong are told as any failure of a tool
            return RemoteResult(error.message, failed=True)
        if isinstance(result, InputRequiredResult):
            raise self._failure("asks for what only a person can give")
        most = _MAX_COMPLAINT_CHARS if result.is_error else self._reading.max_result_chars
        return RemoteResult(rendered(result, most), bool(result.is_error))

    async def close(self) -> None:
        """See RemoteSession."""
        self._ended.set()
        if self._living is not None:
            await asyncio.wait({self._living}, timeout=_CLOSE_SECONDS)
            await _end(self._living)

    def _connected(self) -> Client:
        if self._client is None or self.lost:
            raise SessionLost(unheard=True)
        return self._client

    async def _asked(self, asking: Any) -> Any:
        try:
            return await asking
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                if self._living is not None:  # of this request alone, or of all: then the session is just ending
                    await asyncio.wait({self._living}, timeout=_DYING_SECONDS)
                raise SessionLost(unheard=False) from None
            if self._unknown and error.code == INVALID_REQUEST:
                self.lost = True
                raise SessionLost(unheard=True) from None
            if error.code == INVALID_PARAMS:
                raise InvalidField(error.message[:_MAX_COMPLAINT_CHARS]) from None
            raise self._failure(f"answered with error {error.code}") from None
        except (ValidationError, ValueError, TypeError, RecursionError):
            raise self._failure("does not speak the protocol") from None

    def _forgotten(self) -> None:
        self._unknown = True

    def _failure(self, what: str) -> DependencyFailed:
        return DependencyFailed(f"{self._server} {what}.", dependency=self._server)

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                info = Implementation(name="sabueso", version=VERSION)
                client = Client(
                    self._connecting(self._forgotten), cache=None, client_info=info, message_handler=self._hear
                )
                await stack.enter_async_context(client)
                metrics.SESSIONS.inc()
                stack.callback(metrics.SESSIONS.dec)
                self._opened.set_result(client)
                listening = asyncio.create_task(self._listen(client))
                stack.push_async_callback(tasks.end, listening)
                await self._ended.wait()
        except Exception as error:  # groups of errors of the SDK's tasks: what they are is the server's doing
            if not self._opened.done():
                self._opened.set_exception(self._refusal(error))
        finally:
            self.lost = True
            if not self._opened.done():
                self._opened.set_exception(self._failure("does not answer"))
            self._opened.exception()  # somebody may have stopped waiting for it

    def _refusal(self, error: Exception) -> DependencyFailed:
        said = _answer_in(error)
        if said is None or said.code == CONNECTION_CLOSED:
            return self._failure("does not answer")
        return self._failure("does not speak the protocol" if said.code == PARSE_ERROR else "refuses the connection")

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._on_change()

    async def _listen(self, client: Client) -> None:
        """Hears of changes, where the server speaks a version in which that has to be asked for."""
        while True:
            with suppress(SubscriptionLost, MCPError, TimeoutError):
                try:
                    async with client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self._on_change()
                except ListenNotSupportedError:
                    return
            await asyncio.sleep(_LISTEN_AGAIN_SECONDS)


def _answer_in(error: BaseException) -> MCPError | None:
    """The server's own word among the errors of the SDK's tasks."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return next(filter(None, map(_answer_in, group.exceptions)), None)
    return error if isinstance(error, MCPError) else None


async def _end(task: "asyncio.Task[None]") -> None:
    """Cancels it; again where it waits in its own clearing up, for a server that does not answer."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CLOSE_SECONDS)


def _remote(tool: Tool) -> RemoteTool:
    hints = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    return RemoteTool(tool.name, tool.description or "", tool.input_schema, hints)
