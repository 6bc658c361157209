"""The limits while the shared store is lost: each follows its setting, and nobody waits for the store."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

from services.gateway.limits.decision import (
    Decision,
    Limiter,
    LimiterUnavailable,
    Receipt,
    Spent,
    Standing,
    StoreLost,
)
from services.gateway.limits.metrics import FALLBACKS, LATE, STORE_LOST
from services.gateway.limits.plan import Limit
from services.runtime import tasks

log = logging.getLogger(__name__)

RETRY_STORE_SECONDS = 1.0
# Requests that ended while the store was away; it hears of them when it is back.
_MOST_LATE = 20_000


class SharedLimiter(Limiter, Protocol):
    """A limiter whose store can be lost."""

    def forget(self, lease: str) -> None:
        """Renews a lease no more: unless it is settled, it expires."""
        ...

    async def probe(self) -> None:
        """Tries whether the store works. Raises StoreLost."""
        ...


class FallbackLimiter:
    """Counts in the shared store; without it each limit follows its `on_store_loss`.

    The first call that fails opens the circuit. From then on no request asks the store; a probe does, every second,
    and closes the circuit again.
    """

    def __init__(
        self,
        shared: SharedLimiter,
        local: Limiter,
        replica_count: int,
        retry_seconds: float = RETRY_STORE_SECONDS,
        most_late: int = _MOST_LATE,
    ) -> None:
        """`replica_count`: each process grants its share of a limit, rounded up."""
        self._shared = shared
        self._local = local
        self._replica_count = replica_count
        self._retry_seconds = retry_seconds
        self._most_late = most_late
        self._late: deque[tuple[Receipt, Spent]] = deque()
        self._recovering: asyncio.Task[None] | None = None

    @property
    def degraded(self) -> bool:
        return self._recovering is not None

    async def admit(
        self, tenant: str, plan: tuple[Limit, ...], lease: str, tokens: int = 0, least: int | None = None
    ) -> Decision:
        if not self.degraded:
            try:
                return await self._shared.admit(tenant, plan, lease, tokens, least)
            except StoreLost as error:
                self._lose(error)
                # It may have been counted all the same: what it holds is given back, what it reserved stays charged.
                leases = tuple(limit for limit in plan if limit.kind == "concurrency")
                self._settle_later(Receipt(tenant, lease, leases), Spent())
        decision = await self._local.admit(tenant, self._shares(plan), lease, tokens, least)
        owed = tuple(limit for limit in plan if limit.kind == "daily_tokens")
        receipt = decision.receipt and replace(decision.receipt, local=True, owed=owed, reserved=tokens)
        return replace(decision, receipt=receipt)

    async def settle(self, receipt: Receipt, spent: Spent) -> None:
        """As a limiter's, but raises nothing: what the store does not hear now it hears later."""
        if receipt.local:
            await self._local.settle(receipt, spent)
            if spent.as_reserved:  # here, and not there
                spent = Spent(receipt.reserved, receipt.reserved)
            # Another name: by its own, its lease may have to be given back, and both must be done.
            receipt = Receipt(receipt.tenant, f"{receipt.lease}:owed", receipt.owed)
            if not receipt.limits:
                return
        elif receipt.day is None and self.degraded:  # nothing was reserved: nobody knows of these tokens yet
            await self._local.settle(replace(receipt, limits=self._shares(receipt.limits, count=False)), spent)
        if not self.degraded:
            try:
                return await self._shared.settle(receipt, spent)
            except StoreLost as error:
                self._lose(error)
        self._settle_later(receipt, spent)

    async def look(self, tenant: str, plan: tuple[Limit, ...]) -> tuple[Standing, ...]:
        """As a limiter's; without the store, of those limits alone that are counted here."""
        if not self.degraded:
            try:
                return await self._shared.look(tenant, plan)
            except StoreLost as error:
                self._lose(error)
        return await self._local.look(tenant, self._shares(plan, count=False))

    async def close(self) -> None:
        """Waits for the store no more."""
        await tasks.end(self._recovering)

    def _shares(self, plan: tuple[Limit, ...], *, count: bool = True) -> tuple[Limit, ...]:
        """The limits that are counted here, each by this process' share. Raises LimiterUnavailable when counting."""
        closed = next((limit for limit in plan if limit.on_loss == "closed"), None)
        local = tuple(limit.share(self._replica_count) for limit in plan if limit.on_loss == "local")
        if count:
            FALLBACKS.labels("closed" if closed else "local" if local or not plan else "open").inc()
            if closed:
                raise LimiterUnavailable(closed)
        return local

    def _settle_later(self, receipt: Receipt, spent: Spent) -> None:
        if receipt.day is None:
            # What is spent while the store is away belongs to the day; those minutes are over when it is back.
            receipt = replace(receipt, limits=tuple(limit for limit in receipt.limits if limit.kind != "tokens"))
        if len(self._late) >= self._most_late:
            self._drop(self._late.popleft())
        self._late.append((receipt, spent))

    def _drop(self, late: tuple[Receipt, Spent]) -> None:
        self._shared.forget(late[0].lease)
        LATE.labels("dropped").inc()

    def _lose(self, error: StoreLost) -> None:
        if self._recovering is None:
            log.warning("the store of the limits is lost", extra={"reason": str(error)})
            STORE_LOST.set(1)
            self._recovering = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        while True:
            await asyncio.sleep(self._retry_seconds)
            try:
                await self._shared.probe()
                await self._settle_the_late()
            except StoreLost:
                continue
            log.info("the store of the limits is back")
            STORE_LOST.set(0)
            self._recovering = None
            return

    async def _settle_the_late(self) -> None:
        while self._late:
            late = self._late.popleft()
            try:
                await self._shared.settle(*late)
            except StoreLost:
                self._late.appendleft(late)
                raise
            LATE.labels("settled").inc()


@asynccontextmanager
async def fallback_limiter(
    shared: SharedLimiter, local: Limiter, replica_count: int
) -> AsyncGenerator[FallbackLimiter]:
    """A limiter that looks for its lost store until the end of the block."""
    limiter = FallbackLimiter(shared, local, replica_count)
    try:
        yield limiter
    finally:
        await limiter.close()
