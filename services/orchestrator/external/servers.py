"""The servers of all tenants: sessions that are opened when needed and kept, and what tools each has."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from services.orchestrator.external.connection import McpSession, Reading, over_http, over_stdio
from services.orchestrator.external.remote import RemoteResult, RemoteSession, RemoteTool, SessionLost
from services.runtime.errors import DeadlineExceeded, DependencyFailed, Overloaded, ServiceError
from services.runtime.tenants import McpServer

log = logging.getLogger(__name__)

# A server that does not answer is asked again after so long, each time twice as long as before.
_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 3.0, 60.0
_MAX_SERVERS = 500
# Calls to one server for one tenant, those that wait for their turn included.
_MAX_WAITING = 64


class Opening(Protocol):
    """Opens sessions."""

    async def __call__(self, server: McpServer, on_change: Callable[[], None]) -> RemoteSession:
        """A session. Raises ServiceError."""
        ...


@dataclass(frozen=True)
class McpOpening:
    """Opens sessions by the SDK. `stdio`: programs may be started. Tokens are files in `secrets_dir`."""

    secrets_dir: Path
    stdio: bool = False
    max_bytes: int = 4 * 1024 * 1024

    async def __call__(self, server: McpServer, on_change: Callable[[], None]) -> RemoteSession:
        """See Opening."""
        reading = Reading(self.max_bytes, server.max_result_chars)
        token = self._token(server)
        if server.url:
            connecting = partial(over_http, server.url, token, reading)
        elif self.stdio:
            connecting = partial(over_stdio, server.command, {server.token_variable: token} if token else {})
        else:
            raise DependencyFailed("Programs are not started here (SABUESO_MCP_STDIO).", dependency=server.name)
        return await McpSession.open(server.name, connecting, reading, on_change)

    def _token(self, server: McpServer) -> str:
        if not server.token_secret:
            return ""
        try:
            return (self.secrets_dir / server.token_secret).read_text(encoding="utf-8").strip()
        except OSError:
            log.error("a secret cannot be read", extra={"secret": server.token_secret})
            raise DependencyFailed(f"The token of {server.name} cannot be read.", dependency=server.name) from None


@dataclass
class _Known:
    """One server of one tenant. `tools` as of `until`, or the `failure` that is remembered until then."""

    server: McpServer
    places: asyncio.Semaphore
    waiting: int = 0
    dropped: bool = False
    changed: bool = False
    opening: "asyncio.Task[RemoteSession] | None" = None
    session: RemoteSession | None = None
    tools: Sequence[RemoteTool] = ()
    failure: ServiceError | None = None
    until: float = 0
    retry_seconds: float = _RETRY_SECONDS
    looking: "asyncio.Task[None] | None" = None
    used_at: float = 0

    def forget(self) -> None:
        """The list is asked for at the next occasion, even where it is just being asked for."""
        self.until, self.changed = 0, True


class Servers:
    """Tenants share nothing: each has sessions of its own, even with the same server."""

    def __init__(
        self,
        open_session: Opening,
        *,
        list_seconds: float = 60,
        idle_seconds: float = 600,
        calls_per_server: int = 8,
        patience_seconds: float = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`list_seconds`: how long a list of tools serves; `calls_per_server`: of one tenant, at the same time.

        `patience_seconds`: a run waits so long for a list, which goes on being made for the next one. `clock` gives
        seconds.
        """
        self._patience = patience_seconds
        self._open = open_session
        self._list_seconds = list_seconds
        self._idle_seconds = idle_seconds
        self._calls = calls_per_server
        self._clock = clock
        self._known: dict[tuple[str, str], _Known] = {}
        self._pending: set[asyncio.Task[Any]] = set()

    async def tools(self, tenant: str, server: McpServer) -> Mapping[str, RemoteTool]:
        """The server's tools by name, as it lists them now or a moment ago. Raises ServiceError."""
        known = self._of(tenant, server)
        if known.until <= self._clock():
            if known.looking is None or known.looking.done():
                known.looking = asyncio.create_task(self._look(known), context=Context())
                self._track(known.looking)
            await asyncio.wait({known.looking}, timeout=min(self._patience, server.timeout_seconds))
            if not known.looking.done():
                raise DeadlineExceeded(f"{server.name} did not answer in time.", stage=server.name)
            if known.looking.cancelled():
                raise _silent(server)
        if known.failure is not None:
            raise known.failure.with_traceback(None)
        return {one.name: one for one in known.tools}

    async def call(
        self, tenant: str, server: McpServer, tool: RemoteTool, arguments: Mapping[str, Any]
    ) -> RemoteResult:
        """Calls a tool. Raises ServiceError. A call that may have been heard is made again only if it reads."""
        known = self._of(tenant, server)
        if known.waiting >= _MAX_WAITING:
            raise Overloaded(f"Too many calls to {server.name} are under way.")
        known.waiting += 1
        try:
            async with known.places:
                return await self._called(known, tool, arguments)
        except SessionLost:
            raise _silent(server) from None
        finally:
            known.waiting -= 1

    async def close(self) -> None:
        """Ends all sessions."""
        for key in list(self._known):
            self._drop(key)
        while self._pending:
            await asyncio.wait(self._pending)

    async def _called(self, known: _Known, tool: RemoteTool, arguments: Mapping[str, Any]) -> RemoteResult:
        try:
            return await (await self._session(known)).call(tool.name, arguments)
        except SessionLost as lost:
            if tool.writes and not lost.unheard:
                raise
        return await (await self._session(known)).call(tool.name, arguments)

    async def _look(self, known: _Known) -> None:
        try:
            async with asyncio.timeout(known.server.timeout_seconds):
                known.changed = False
                try:
                    known.tools = await (await self._session(known)).tools()
                except SessionLost:
                    known.tools = await (await self._session(known)).tools()
            known.failure, known.retry_seconds = None, _RETRY_SECONDS
            known.until = 0 if known.changed else self._clock() + self._list_seconds
        except (ServiceError, SessionLost, TimeoutError) as error:
            known.failure = error if isinstance(error, ServiceError) else _silent(known.server)
            known.until = self._clock() + known.retry_seconds
            known.retry_seconds = min(2 * known.retry_seconds, _LONGEST_RETRY_SECONDS)
            log.warning("a server of tools does not answer", extra={"server": known.server.name})
        except Exception:
            log.exception("unexpected error of a server of tools", extra={"server": known.server.name})
            known.failure = DependencyFailed(f"{known.server.name} failed.", dependency=known.server.name)
            known.until = self._clock() + _LONGEST_RETRY_SECONDS

    async def _session(self, known: _Known) -> RemoteSession:
        """The session, opened by whoever needs it first, for all and however short of time that one is."""
        if known.session is not None and not known.session.lost:
            return known.session
        if known.opening is None or known.opening.done():
            known.opening = asyncio.create_task(self._opened(known), context=Context())
            self._track(known.opening)
        opening = known.opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled() and known.dropped:  # the server went, not whoever waits for it
                raise _silent(known.server) from None
            raise

    async def _opened(self, known: _Known) -> RemoteSession:
        if known.session is not None:
            self._close_later(known.session)
            known.session = None
        try:
            async with asyncio.timeout(known.server.timeout_seconds):
                session = await self._open(known.server, known.forget)
        except TimeoutError:
            raise _silent(known.server) from None
        if known.dropped:
            self._close_later(session)
            raise _silent(known.server)
        known.session = session
        return session

    def _of(self, tenant: str, server: McpServer) -> _Known:
        key, now = (tenant, server.name), self._clock()
        known = self._known.get(key)
        if known is not None and _reached_by(known.server) != _reached_by(server):
            self._drop(key)
            known = None
        for other in [one for one, it in self._known.items() if it.used_at + self._idle_seconds < now and one != key]:
            self._drop(other)
        if known is None:
            while len(self._known) >= _MAX_SERVERS:
                self._drop(min(self._known, key=lambda one: self._known[one].used_at))
            known = self._known[key] = _Known(server, asyncio.Semaphore(self._calls))
        known.server, known.used_at = server, now
        return known

    def _drop(self, key: tuple[str, str]) -> None:
        known = self._known.pop(key)
        known.dropped = True
        for task in (known.looking, known.opening):
            if task is not None:
                task.cancel()
        if known.session is not None:
            self._close_later(known.session)

    def _close_later(self, session: RemoteSession) -> None:
        self._track(asyncio.create_task(_closed(session)))

    def _track(self, task: "asyncio.Task[Any]") -> None:
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waited may have gone


def _reached_by(server: McpServer) -> tuple[object, ...]:
    """What a session depends on; pins and times may change without one."""
    return server.url, server.command, server.token_secret, server.token_variable, server.max_result_chars


def _silent(server: McpServer) -> DependencyFailed:
    return DependencyFailed(f"{server.name} does not answer.", dependency=server.name)


async def _closed(session: RemoteSession) -> None:
    with suppress(Exception):
        await session.close()
