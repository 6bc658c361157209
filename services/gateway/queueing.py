"""A bounded queue that is fair: bands by priority, tenants in turn within a band, first come first served for each."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram

from services.gateway.access.callers import Caller
from services.gateway.errors import ApiError, retry_after
from services.runtime.errors import Overloaded

Band = Literal["high", "normal", "low"]
BANDS: tuple[Band, ...] = ("high", "normal", "low")
# What a tenant may take in one turn, in tokens, and the most that one request can count: a turn must come round.
QUANTUM_TOKENS, MOST_TOKENS = 512, 64 * 512
_RETRY_MOST_SECONDS = 60.0
_DEPARTURES = 64

DEPTH = Gauge("sabueso_gateway_queue_depth", "Requests that wait for a place.", ["queue", "band"])
WAIT_SECONDS = Histogram(
    "sabueso_gateway_queue_wait_seconds",
    "Time that admitted requests waited for a place.",
    ["queue", "band"],
    buckets=(0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
REFUSED = Counter("sabueso_gateway_queue_refused_total", "Requests that got no place.", ["queue", "reason"])


@dataclass(frozen=True)
class QueueLimits:
    """How many may wait, and how long."""

    most_waiting: int = 1000
    most_waiting_per_tenant: int = 100
    ttl_seconds: float = 30
    # A waiting request gains one of six ranks each time: nobody starves, and the order is strict at short waits.
    ageing_seconds: float = 2


class QueueClosed(Exception):
    """What was waited for is there no more."""


@dataclass(eq=False)
class _Waiter:
    tenant: str
    cost: int
    since: float
    lane: "_Lane"
    place: "asyncio.Future[None]"
    granted: bool = False


@dataclass
class _Lane:
    """Requests of one band; deficit round robin between its tenants (Shreedhar and Varghese, 1995)."""

    rank: int
    band: Band
    arrivals: "OrderedDict[_Waiter, None]" = field(default_factory=OrderedDict["_Waiter", None])
    queues: "dict[str, deque[_Waiter]]" = field(default_factory=dict[str, "deque[_Waiter]"])
    turns: "deque[str]" = field(default_factory=deque[str])
    deficits: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, waiter: _Waiter) -> None:
        self.arrivals[waiter] = None
        queue = self.queues.get(waiter.tenant)
        if queue is None:
            self.queues[waiter.tenant] = deque((waiter,))
            self.turns.append(waiter.tenant)
            self.deficits[waiter.tenant] = 0
        else:
            queue.append(waiter)

    def remove(self, waiter: _Waiter) -> None:
        del self.arrivals[waiter]
        queue = self.queues[waiter.tenant]
        queue.remove(waiter)
        if not queue:
            # Who has nothing to send saves nothing up.
            del self.queues[waiter.tenant], self.deficits[waiter.tenant]
            self.turns.remove(waiter.tenant)

    def take(self) -> _Waiter:
        """Removes and returns whose turn it is."""
        for _ in range(len(self.turns) + 1):
            tenant = self.turns[0]
            waiter = self.queues[tenant][0]
            if self.deficits[tenant] >= waiter.cost:
                self.deficits[tenant] -= waiter.cost
                self.remove(waiter)
                return waiter
            self.deficits[tenant] += QUANTUM_TOKENS
            self.turns.rotate(-1)
        # Nobody can pay after a whole round: as many more rounds at once as bring the first one there.
        missing = min(self.queues[tenant][0].cost - self.deficits[tenant] for tenant in self.turns)
        rounds = max(0, -(-missing // QUANTUM_TOKENS) - 1)
        for tenant in self.turns:
            self.deficits[tenant] += rounds * QUANTUM_TOKENS
        return self.take()


class FairQueue:
    """Hands out a number of places, and makes others wait for them."""

    def __init__(
        self,
        name: str,
        capacity: Callable[[], int],
        limits: QueueLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`capacity`: how many places there are now; call `wake` when it grew. `name` is the metrics' label."""
        self.limits = limits or QueueLimits()
        self.running = 0
        self._name = name
        self._capacity = capacity
        self._clock = clock
        self._lanes = [_Lane(2 * index + new, band) for index, band in enumerate(BANDS) for new in (0, 1)]
        self._departures: deque[float] = deque(maxlen=_DEPARTURES)
        self._depth = {band: DEPTH.labels(name, band) for band in BANDS}
        self._waited = {band: WAIT_SECONDS.labels(name, band) for band in BANDS}

    @property
    def waiting(self) -> int:
        """Requests that wait now."""
        return sum(len(lane.arrivals) for lane in self._lanes)

    async def enter(self, tenant: str, band: Band = "normal", *, cost: int = 1, internal: bool = False) -> float:
        """Waits for a place and returns the seconds that it took; `leave` gives the place back.

        `cost`: estimated tokens. `internal`: a turn of an answer that runs already, which goes before new ones.
        Raises ApiError 429 `queue_full` (the tenant's own share is full), Overloaded (no room, or no place in time) and
        QueueClosed.
        """
        if self.running < self._capacity() and not self.waiting:
            self.running += 1
            self._waited[band].observe(0)
            return 0.0
        self._make_room(tenant, band, internal)
        loop = asyncio.get_running_loop()
        lane = self._lanes[2 * BANDS.index(band) + (not internal)]
        waiter = _Waiter(tenant, min(max(1, cost), MOST_TOKENS), self._clock(), lane, loop.create_future())
        lane.add(waiter)
        self._depth[band].inc()
        timer = loop.call_later(self.limits.ttl_seconds, self._shed, waiter, "expired")
        self.wake()
        try:
            await waiter.place
        except asyncio.CancelledError:
            if waiter.granted:  # and cancelled before it could know
                self.leave()
            elif waiter in lane.arrivals:
                self._forget(waiter)
            raise
        finally:
            timer.cancel()
        seconds = self._clock() - waiter.since
        self._waited[band].observe(seconds)
        return seconds

    def close(self) -> None:
        """There will be no more places: who waits hears of it now, by QueueClosed."""
        for lane in self._lanes:
            for waiter in list(lane.arrivals):
                self._forget(waiter)
                if not waiter.place.done():
                    waiter.place.set_exception(QueueClosed())

    def leave(self) -> None:
        """Gives a place back."""
        self.running -= 1
        self._departures.append(self._clock())
        self.wake()

    def wake(self) -> None:
        """Hands out the places that are free."""
        while self.running < self._capacity():
            now = self._clock()
            lanes = [lane for lane in self._lanes if lane.arrivals]
            if not lanes:
                return
            waiter = min(lanes, key=lambda lane: self._urgency(lane, now)).take()
            self._depth[waiter.lane.band].dec()
            if waiter.place.done():  # cancelled just now
                continue
            self.running += 1
            waiter.granted = True
            waiter.place.set_result(None)

    def drain_seconds(self) -> float:
        """When a request that came now would have a place, by how quickly places became free lately."""
        if len(self._departures) < 2:
            return 1.0
        each = (self._clock() - self._departures[0]) / len(self._departures)
        return min(_RETRY_MOST_SECONDS, max(1.0, each * (self.waiting + 1)))

    def _urgency(self, lane: _Lane, now: float) -> tuple[float, float]:
        since = next(iter(lane.arrivals)).since
        # At the top nothing is gained any more, and who waits longest is next: where all wait long, a gain without an
        # end would keep the ranks apart for ever, and the lower ones would expire.
        return max(0.0, lane.rank - (now - since) / self.limits.ageing_seconds), since

    def _make_room(self, tenant: str, band: Band, internal: bool) -> None:
        # A turn of a running answer is not new work: refusing it would waste what was done.
        own = 0 if internal else sum(len(lane.queues.get(tenant, ())) for lane in self._lanes)
        if own and own >= self.limits.most_waiting_per_tenant:
            REFUSED.labels(self._name, "tenant_full").inc()
            message = f"This tenant already has {own} requests waiting for a model, which is its share of the queue."
            raise ApiError(429, message, code="queue_full", headers=retry_after(self.drain_seconds()))
        if self.waiting < self.limits.most_waiting:
            return
        for lane in reversed(self._lanes):
            if BANDS.index(lane.band) <= BANDS.index(band):
                break
            if lane.arrivals:
                return self._shed(next(reversed(lane.arrivals)), "shed")
        REFUSED.labels(self._name, "full").inc()
        raise self._overloaded()

    def _shed(self, waiter: _Waiter, reason: str) -> None:
        if waiter in waiter.lane.arrivals:
            self._forget(waiter)
            REFUSED.labels(self._name, reason).inc()
            if not waiter.place.done():
                waiter.place.set_exception(self._overloaded())

    def _forget(self, waiter: _Waiter) -> None:
        waiter.lane.remove(waiter)
        self._depth[waiter.lane.band].dec()

    def _overloaded(self) -> Overloaded:
        wait = timedelta(seconds=self.drain_seconds())
        return Overloaded("All servers are busy and the queue is full; try again later.", retry_after=wait)


class Runs:
    """Bounds how many answers of the agent are worked on at the same time."""

    def __init__(self, most: int, limits: QueueLimits | None = None) -> None:
        self._queue = FairQueue("agent", lambda: most, limits)

    @asynccontextmanager
    async def __call__(self, caller: Caller) -> AsyncGenerator[None]:
        """A place for one answer of the caller's. Raises as `FairQueue.enter`."""
        await self._queue.enter(caller.tenant.id, caller.tenant.priority)
        try:
            yield
        finally:
            self._queue.leave()
