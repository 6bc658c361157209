"""Tells listening MCP clients that their tenant's tools have changed, and lets go of them when the process ends."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from services.gateway.errors import ApiError, retry_after
from services.runtime.tenants import Tenant, TenantDirectory

# Clients come again by themselves; a key that no longer opens anything is noticed then.
_LONGEST_SECONDS = 3_600.0
_BUSY_SECONDS = 10


class Changes:
    """All that listen, in both forms: GET streams until 2025-11-25, `subscriptions/listen` since 2026-07-28."""

    def __init__(
        self,
        tenants: TenantDirectory,
        draining: Callable[[], bool],
        *,
        look_seconds: float = 1,
        settle_seconds: float = 3,
        keep_alive_seconds: float = 15,
        max_streams: int = 100,
    ) -> None:
        """`settle_seconds`: the orchestrator reads the files by itself, a little earlier or later than we do.

        `max_streams`: of one tenant, in this process.
        """
        self._tenants = tenants
        self._draining = draining
        self._look_seconds = look_seconds
        self._settle_seconds = settle_seconds
        self._keep_alive_seconds = keep_alive_seconds
        self._max_streams = max_streams
        # Of each stream: tenant and session. What is put into it: True for a change, False for the end.
        self._streams: dict[asyncio.Queue[bool], tuple[str, str]] = {}
        self._subscriptions: dict[str, tuple[InMemorySubscriptionBus, ListenHandler]] = {}
        self._seen: dict[str, tuple[Any, ...] | None] = {}

    async def watch(self) -> None:
        """Looks for changes until it is cancelled; lets all go once the process drains."""
        while True:
            await asyncio.sleep(self._look_seconds)
            if self._draining():
                self.close()
            listening = {*self.streams(), *self._subscriptions}
            changed = [one for one in listening if self._state(one) != self._seen[one]]
            if changed:
                await asyncio.sleep(self._settle_seconds)
            for tenant in changed:
                self._seen[tenant] = self._state(tenant)
                await self._tell(tenant)

    def close(self) -> None:
        """Ends all streams in good order."""
        self._put(False, lambda _: True)
        for _, handler in self._subscriptions.values():
            handler.close()

    def end(self, session: str) -> None:
        """Ends the streams of a session."""
        self._put(False, lambda owner: owner[1] == session)

    def streams(self) -> Sequence[str]:
        """Tenants that listen by GET, each as often as it does."""
        return [tenant for tenant, _ in self._streams.values()]

    def subscribe(self, tenant: str) -> ListenHandler:
        """Serves `subscriptions/listen` for a tenant."""
        self._look_at(tenant)
        if tenant not in self._subscriptions:
            bus = InMemorySubscriptionBus()
            self._subscriptions[tenant] = bus, ListenHandler(bus, max_subscriptions=self._max_streams)
        return self._subscriptions[tenant][1]

    def open(self, tenant: str, session: str) -> AsyncGenerator[bool | None]:
        """True for each change, None where nothing has happened for a while; ends with the process or the session.

        Raises ApiError (429) when the tenant listens too often. Must be closed.
        """
        if self.streams().count(tenant) >= self._max_streams:
            message = f"This tenant already has {self._max_streams} streams open that listen for changes."
            raise ApiError(429, message, code="too_many_streams", headers=retry_after(_BUSY_SECONDS))
        self._look_at(tenant)
        stream = asyncio.Queue[bool](maxsize=8)
        self._streams[stream] = tenant, session
        if self._draining():
            stream.put_nowait(False)
        return self._listen(stream)

    async def _listen(self, stream: asyncio.Queue[bool]) -> AsyncGenerator[bool | None]:
        ends = asyncio.get_running_loop().time() + _LONGEST_SECONDS
        try:
            while (left := ends - asyncio.get_running_loop().time()) > 0:
                try:
                    async with asyncio.timeout(min(left, self._keep_alive_seconds)):
                        goes_on = await stream.get()
                except TimeoutError:
                    yield None
                    continue
                if not goes_on:
                    return
                yield True
        finally:
            self._streams.pop(stream, None)

    async def _tell(self, tenant: str) -> None:
        still_there = self._seen[tenant] is not None
        self._put(still_there, lambda owner: owner[0] == tenant)
        if tenant in self._subscriptions:
            bus, handler = self._subscriptions[tenant]
            await bus.publish(ToolsListChanged())
            if not still_there:
                handler.close()

    def _look_at(self, tenant: str) -> None:
        """From now on changes are noticed; what was seen before somebody listened is old."""
        if tenant not in (*self.streams(), *self._subscriptions):
            self._seen[tenant] = self._state(tenant)

    def _put(self, goes_on: bool, concerns: Callable[[tuple[str, str]], bool]) -> None:
        for stream, owner in self._streams.items():
            if concerns(owner):
                if stream.full():  # nobody reads: one change says as much as many, and the end matters most
                    stream.get_nowait()
                stream.put_nowait(goes_on)

    def _state(self, tenant: str) -> tuple[Any, ...] | None:
        """What of the tenant's file makes its tools; None where it is gone."""
        known = self._tenants.get(tenant)
        return None if known is None else _making_tools(known)


def _making_tools(tenant: Tenant) -> tuple[Any, ...]:
    return tenant.tools, tenant.sql, tenant.web, tenant.collections, tenant.mcp


async def as_events(changes: AsyncGenerator[bool | None]) -> AsyncGenerator[bytes]:
    """The notifications of a GET stream, as server-sent events."""
    async with aclosing(changes):
        yield b": listening\n\n"
        async for one in changes:
            yield _CHANGED if one else b": keep-alive\n\n"


_CHANGED = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
