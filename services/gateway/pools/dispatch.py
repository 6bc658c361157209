"""Brings a request to a replica: waits for a place, picks, tries again elsewhere, and falls back to another model."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.gateway.metering import Meter
from services.gateway.pools import metrics
from services.gateway.pools.affinity import PrefixTable, prefix_hashes, session_owner
from services.gateway.pools.attempt import Attempt, Failure
from services.gateway.pools.choosing import choose
from services.gateway.pools.pool import Pool
from services.gateway.pools.replica import Replica
from services.gateway.queueing import Band, QueueClosed
from services.gateway.streams.asking import Outgoing
from services.gateway.streams.members import replaced
from services.gateway.streams.opening import Opened
from services.runtime.errors import DependencyFailed, Overloaded


@dataclass
class Routing:
    """Where a request went; for traces and logs."""

    pool: str = ""
    replica: str = ""
    model: str = ""
    attempts: int = 0
    queue_seconds: float = 0.0


@dataclass(frozen=True)
class Call:
    """One request for a model, as far as the way to it goes."""

    model: str
    outgoing: Outgoing
    headers: list[tuple[bytes, bytes]]
    asked: Mapping[str, Any]
    tenant: str
    meter: Meter
    # Whether a model that the operator named as a fallback may be used for this caller.
    may_call: Callable[[str], bool]
    band: Band = "normal"
    internal: bool = False
    session: str = ""
    routing: Routing = field(default_factory=Routing)


@dataclass
class _Place:
    """A place in a pool; given back once."""

    pool: Pool | None = None

    async def take(self, pool: Pool, call: Call) -> float:
        """Waits for it. Raises ApiError, Overloaded and QueueClosed."""
        if pool is self.pool:
            return 0.0
        self.leave()
        seconds = await pool.queue.enter(call.tenant, call.band, cost=_cost(call), internal=call.internal)
        self.pool = pool
        return seconds

    def leave(self) -> None:
        pool, self.pool = self.pool, None
        if pool is not None:
            pool.queue.leave()


class Dispatcher:
    """Knows the pools and who has read which prompts."""

    def __init__(self, pools: Callable[[], Sequence[Pool]], prefixes: PrefixTable | None = None) -> None:
        self._pools = pools
        self._prefixes = PrefixTable() if prefixes is None else prefixes

    async def open(self, call: Call) -> Opened:
        """An answer that has begun. Whoever gets it closes it.

        Raises ApiError, Overloaded, DependencyFailed and DeadlineExceeded: what the last or the best attempt said.
        """
        seen: list[str] = []
        while True:
            seen.append(call.model)
            found = await self._open(call)
            if isinstance(found, Opened):
                return found
            fallback = self._fallback(call, seen) if found.retryable else None
            if fallback is None:
                raise found.error
            body = renamed(call.outgoing.body, fallback)
            call = replace(call, model=fallback, outgoing=replace(call.outgoing, body=body))

    def _fallback(self, call: Call, seen: Sequence[str]) -> str | None:
        for pool in self._pools():
            fallback = pool.configuration.fallback
            if fallback and fallback not in seen and pool.serving(call.model) and call.may_call(fallback):
                metrics.FALLBACKS.labels(pool.configuration.name).inc()
                return fallback
        return None

    async def _open(self, call: Call) -> Opened | Failure:
        hashes = self._hashes(call)
        tried: set[str] = set()
        failures: list[Failure] = []
        place = _Place()
        try:
            while (picked := self._pick(call, tried, hashes)) is not None:
                pool, replica = picked
                try:
                    waited = await place.take(pool, call)
                except QueueClosed:  # the pool was taken out of the file; another may have the model
                    continue
                if waited:  # much may have changed
                    call.routing.queue_seconds += waited
                    replica = choose(pool.serving(call.model), time.monotonic(), tried=tried) or replica
                if not failures:
                    pool.budget.deposit()
                found = await self._ask(call, pool, replica, tried)
                if not isinstance(found, Failure):
                    opened, attempt = found
                    self._prefixes.note(hashes, attempt.replica.url)
                    call.routing.pool, call.routing.replica = pool.configuration.name, attempt.replica.name
                    call.routing.model = call.model
                    attempt.on_end, place = place.leave, _Place()
                    return opened
                failures.append(found)
                if not self._may_retry(pool, found, len(tried)):
                    break
        except Overloaded as full:
            failures.append(Failure("overloaded", full, retryable=True))
        finally:
            place.leave()
        return _best(failures)

    def _may_retry(self, pool: Pool, failure: Failure, attempts: int) -> bool:
        if not failure.retryable or attempts > pool.configuration.retries.most or not pool.budget.withdraw():
            return False
        metrics.RETRIES.labels(pool.configuration.name, failure.reason).inc()
        return True

    async def _ask(self, call: Call, pool: Pool, replica: Replica, tried: set[str]) -> tuple[Opened, Attempt] | Failure:
        hedge_seconds = pool.configuration.hedge_after_ms / 1000
        first = self._attempt(call, replica, tried)
        if not hedge_seconds:
            found = await first.open()
            return found if isinstance(found, Failure) else (found, first)
        return await self._hedged(call, pool, first, tried, hedge_seconds)

    async def _hedged(
        self, call: Call, pool: Pool, first: Attempt, tried: set[str], seconds: float
    ) -> tuple[Opened, Attempt] | Failure:
        """Asks a second replica if the first is silent for so long; the loser is cancelled."""
        running = {asyncio.create_task(first.open()): first}
        won: asyncio.Task[Opened | Failure] | None = None
        failure: Failure | None = None
        try:
            done, _ = await asyncio.wait(running, timeout=seconds)
            second = None if done else choose(pool.serving(call.model), time.monotonic(), tried=tried)
            if second is not None and second.has_room:
                metrics.HEDGES.labels(pool.configuration.name).inc()
                attempt = self._attempt(call, second, tried)
                running[asyncio.create_task(attempt.open())] = attempt
            waiting = set(running)
            while waiting and won is None:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    result = task.result()
                    if isinstance(result, Failure):
                        failure = result
                    elif won is None:
                        won = task
                        return result, running[task]
            return failure or _best([])
        finally:
            discarding = asyncio.create_task(_discard([task for task in running if task is not won]))
            try:
                await asyncio.shield(discarding)
            except asyncio.CancelledError:
                if won is not None:  # nobody gets it any more
                    await _discard([won])
                raise

    def _attempt(self, call: Call, replica: Replica, tried: set[str]) -> Attempt:
        tried.add(replica.url)
        call.routing.attempts += 1
        call.meter.dispatched = True
        return Attempt(replica, call.headers, call.outgoing)

    def _pick(self, call: Call, tried: set[str], hashes: Sequence[int]) -> tuple[Pool, Replica] | None:
        serving = [(pool, replicas) for pool in self._pools() if (replicas := pool.serving(call.model))]
        if len(serving) > 1:
            serving = [one for one in serving if not one[0].queue.waiting] or serving
        replicas = [replica for _, some in serving for replica in some]
        preferred = None
        if len(replicas) > 1 and serving[0][0].configuration.affinity != "none":
            if call.session:
                names = [(replica.url, replica.weight) for replica in replicas]
                preferred = session_owner(call.tenant, call.session, names)
            else:
                preferred = self._prefixes.preferred(hashes)
        replica = choose(replicas, time.monotonic(), preferred=preferred, tried=tried)
        if replica is None:
            return None
        return next(pool for pool, some in serving if replica in some), replica

    def _hashes(self, call: Call) -> Sequence[int]:
        if call.session:
            return ()
        serving = [pool for pool in self._pools() if pool.serving(call.model)]
        count = sum(len(pool.replicas) for pool in serving)
        if count < 2 or serving[0].configuration.affinity != "prefix":
            return ()
        return prefix_hashes(call.tenant, call.model, call.asked)


def renamed(body: bytes, model: str) -> bytes:
    """The request with another model, and every other byte as it was."""
    return replaced(body, "model", json.dumps(model).encode())


def _cost(call: Call) -> int:
    """Tokens that the request is thought to need."""
    return call.meter.reserved_tokens or len(call.outgoing.body) // 4 + 256


def _best(failures: Sequence[Failure]) -> Failure:
    """The one to tell the client: where somebody was busy, when to come back; else the last one."""
    busy = [failure for failure in failures if failure.reason == "busy"]
    if busy:
        return min(busy, key=lambda failure: failure.retry_after_seconds)
    if failures:
        return failures[-1]
    none = DependencyFailed("The model pool does not answer.", dependency="model pool")
    return Failure("connect", none, retryable=True)


async def _discard(tasks: "Sequence[asyncio.Task[Opened | Failure]]") -> None:
    for task in tasks:
        task.cancel()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(found, Opened):
            await found.close("abandoned")
