"""Single flight: a result is made once, whoever else wants it waits. Leases in the store make it hold for all replicas.

Those who wait in this process for one call share one watch of the store. It looks at once when the result is put or
given up here, and else again and again, at most 50 ms apart. Asking costs one small script; being told by the server
would need a connection of its own and would still have to ask, because a lease ends silently when its holder dies.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from services.runtime.errors import ServiceError
from services.tool_cache.keys import CallKey
from services.tool_cache.store import Lease, Lookup, Store

_SHORTEST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.005, 0.05
# Of the time waited so far: what was made slowly need not be found in an instant.
_LOOK_SHARE = 0.2
# So many watches look as often as that; more of them take turns.
_FULL_SPEED_WATCHES = 32


class _Flight:
    """Those who wait for one call in this process, in order of arrival."""

    def __init__(self, key: CallKey) -> None:
        self.key = key
        self.waiting: dict[asyncio.Future[Lookup | ServiceError], None] = {}
        self.woken = asyncio.Event()
        self.snapshot = 0

    def give(self, found: Lookup | ServiceError) -> bool:
        """To one who waits; False when nobody does any more."""
        while self.waiting:
            future = next(iter(self.waiting))
            del self.waiting[future]
            if not future.done():
                future.set_result(found)
                return True
        return False


class Flights:
    """Looks up with leases, and waits for those of others. Whatever is not used of a lease is given back."""

    def __init__(self, store: Store, *, lease_seconds: float, max_waiting: int = 1024) -> None:
        """`lease_seconds`: longer than a tool may take; it is how long waiters are held up by one that died."""
        self._store = store
        self._lease_ms = int(lease_seconds * 1000)
        self._max_waiting = max_waiting
        self._flights: dict[str, _Flight] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.waiting = 0

    async def get(self, keys: Sequence[CallKey], *, lease: bool) -> list[Lookup]:
        """As the store's `get`. When the caller goes in the middle of it, no lease stays behind.

        Equal calls of one batch share a lease: none must wait for another one's end.
        """
        if not lease:
            return await self._store.get(keys)
        different = {key.digest: key for key in keys}
        asked = list(different.values())
        looking = self._start(self._store.get(asked, lease_ms=self._lease_ms))
        try:
            found = dict(zip(different, await asyncio.shield(looking), strict=True))
        except asyncio.CancelledError:
            self._start(self._give_back(asked, looking))
            raise
        return [found[key.digest] for key in keys]

    async def wait(self, key: CallKey, seconds: float) -> Lookup:
        """A hit; or a miss with a lease, because its holder gave up or died; or a miss without after `seconds`.

        At once a miss when too many wait already. Raises what the store raises.
        """
        if self.waiting >= self._max_waiting:
            return Lookup(0)
        flight = self._flights.get(key.digest)
        if flight is None:
            flight = self._flights[key.digest] = _Flight(key)
            self._start(self._watch(flight))
        future: asyncio.Future[Lookup | ServiceError] = asyncio.get_running_loop().create_future()
        flight.waiting[future] = None
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                found = await future
        except (TimeoutError, asyncio.CancelledError) as gone:
            self._pass_on(flight, future)
            if isinstance(gone, TimeoutError):
                return Lookup(flight.snapshot)
            raise
        finally:
            self.waiting -= 1
            flight.waiting.pop(future, None)
        if isinstance(found, ServiceError):
            raise found
        return found

    def wake(self, keys: Sequence[CallKey]) -> None:
        """Makes those who wait for these calls look now."""
        for key in keys:
            if flight := self._flights.get(key.digest):
                flight.woken.set()

    async def release(self, leases: Sequence[Lease]) -> None:
        """Ends leases; one of those who wait for each makes the result."""
        await self._store.release(leases)
        self.wake([lease.key for lease in leases])

    def release_later(self, leases: Sequence[Lease]) -> None:
        """The same in the background, for a caller who has no time; a failure leaves it to the lease's end."""
        if leases:
            self._start(self._released(leases))

    async def close(self) -> None:
        """Ends the background work."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, flight: _Flight) -> None:
        """Looks until nobody waits. A lease that falls to us goes to one of them, the others wait on."""
        started = time.monotonic()
        try:
            while flight.waiting:
                flight.woken.clear()
                if await self._look(flight):
                    break
                await self._pause(flight, time.monotonic() - started)
        finally:
            del self._flights[flight.key.digest]

    async def _look(self, flight: _Flight) -> bool:
        """Whether the flight has ended: with a result, or with a store that does not answer."""
        try:
            [found] = await self._store.get([flight.key], lease_ms=self._lease_ms)
        except ServiceError as error:
            found = error
        if isinstance(found, Lookup) and found.value is None:
            flight.snapshot = found.snapshot
            if found.token and not flight.give(found):
                self.release_later([Lease(flight.key, found.token)])
            return False
        while flight.give(found):
            pass
        return True

    async def _pause(self, flight: _Flight, waited_seconds: float) -> None:
        """Until somebody knows more, or it is time to look again; never in step with other replicas."""
        seconds = min(max(_LOOK_SHARE * waited_seconds, _SHORTEST_LOOK_SECONDS), _LONGEST_LOOK_SECONDS)
        crowd = max(1, len(self._flights) / _FULL_SPEED_WATCHES)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds * crowd * random.uniform(0.7, 1)):
                await flight.woken.wait()

    def _pass_on(self, flight: _Flight, future: asyncio.Future[Lookup | ServiceError]) -> None:
        """What was given to someone who is gone goes to another, or back."""
        if not future.done() or future.cancelled():
            return
        found = future.result()
        if isinstance(found, Lookup) and found.token and not flight.give(found):
            self.release_later([Lease(flight.key, found.token)])

    async def _give_back(self, keys: Sequence[CallKey], looking: "asyncio.Task[list[Lookup]]") -> None:
        with contextlib.suppress(ServiceError):
            found = await looking
            leases = [Lease(key, one.token) for key, one in zip(keys, found, strict=True) if one.token]
            if leases:
                await self.release(leases)

    async def _released(self, leases: Sequence[Lease]) -> None:
        with contextlib.suppress(ServiceError):
            await self.release(leases)

    def _start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
