"""Politeness: so many requests a second to one host, and so many at a time."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from services.runtime.errors import Overloaded
from services.web_tool.fairness import Turns, current_tenant

_BURST = 4
_AT_A_TIME = 2
_MAX_WAITING = 16
_MAX_HOSTS = 4096


@dataclass
class _Host:
    # Generic cell rate algorithm: when the next request is due if requests come no faster than the rate.
    due: float = 0.0
    turns: Turns = field(default_factory=lambda: Turns(_AT_A_TIME))
    present: Counter[str] = field(default_factory=Counter[str])


class Pace:
    """Turns of the hosts, in this process. A few requests may come at once; then the rate holds."""

    def __init__(
        self,
        requests_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval_seconds = 1 / requests_per_second
        self._clock = clock
        self._sleep = sleep
        # The least recently used first.
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncGenerator[None]:
        """Waits for the host's turn and holds it; tenants take turns.

        Raises Overloaded when too many of the tenant wait for the same host already.
        """
        host = self._host(name)
        tenant = current_tenant()
        if host.present[tenant] >= _MAX_WAITING:
            raise Overloaded(
                f"Many requests wait for `{name}` already.",
                retry_after=timedelta(seconds=max(1.0, host.due - self._clock())),
            )
        host.present[tenant] += 1
        try:
            async with host.turns.turn():
                await self._wait(host)
                yield
        finally:
            host.present[tenant] -= 1
            if not host.present[tenant]:
                del host.present[tenant]

    async def _wait(self, host: _Host) -> None:
        now = self._clock()
        seconds = host.due - (_BURST - 1) * self._interval_seconds - now
        host.due = max(now, host.due) + self._interval_seconds
        if seconds > 0:
            await self._sleep(seconds)

    def _host(self, name: str) -> _Host:
        host = self._hosts.setdefault(name, _Host())
        self._hosts.move_to_end(name)
        if len(self._hosts) > _MAX_HOSTS:
            self._forget()
        return host

    def _forget(self) -> None:
        """Drops hosts that nobody would miss, the oldest first; one that is in use stays."""
        now = self._clock()
        for name, host in list(self._hosts.items())[: _MAX_HOSTS // 8]:
            if not host.present and host.due <= now:
                del self._hosts[name]
