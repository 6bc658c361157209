"""Shares what is scarce among tenants, so that none takes it all: places without waiting, and turns."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from services.runtime import context
from services.runtime.errors import Overloaded

# A tenant may hold this many times what it leaves free: alone two thirds, and of two each two fifths.
_SHARE = 2


def current_tenant() -> str:
    """Of the current call; empty outside of one."""
    call = context.current()
    return call.identity.tenant if call else ""


class Places:
    """So many at a time. Nobody waits, and a tenant leaves some for those that have none.

    The limit of each is a multiple of what is free (Choudhury and Hahne, Dynamic queue length thresholds, 1998): it
    needs no list of tenants, and wastes little when there is one only.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: Counter[str] = Counter()

    def take(self, refusal: str) -> str:
        """Takes a place for the tenant of the call, whose name is to be given back. Raises Overloaded."""
        tenant = current_tenant()
        held = self._held[tenant]
        if self._free <= 0 or (held and held + 1 > _SHARE * (self._free - 1)):
            raise Overloaded(refusal)
        self._free -= 1
        self._held[tenant] += 1
        return tenant

    def give_back(self, tenant: str) -> None:
        """Frees a place of the tenant."""
        self._free += 1
        self._held[tenant] -= 1
        if self._held[tenant] <= 0:
            del self._held[tenant]

    @contextmanager
    def place(self, refusal: str) -> Generator[None]:
        """Holds a place. Raises Overloaded with the text."""
        tenant = self.take(refusal)
        try:
            yield
        finally:
            self.give_back(tenant)


class Turns:
    """So many at a time; the others wait, and the tenants take turns, each in the order in which its own came."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Waits for a turn of the call's tenant, and holds it."""
        if self._free > 0:
            self._free -= 1
        else:
            await self._wait(current_tenant())
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, tenant: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # It came in the very moment in which the caller left.
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """To the tenant that has waited longest for its turn, or to whoever comes."""
        while self._waiting:
            tenant, turns = self._waiting.popitem(last=False)
            while turns:
                turn = turns.popleft()
                if not turn.done():
                    turn.set_result(None)
                    if turns:
                        self._waiting[tenant] = turns
                    return
        self._free += 1
