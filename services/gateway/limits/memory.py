"""Limits counted within this process."""

import time
from collections import defaultdict
from collections.abc import Callable

from services.gateway.limits.buckets import DAY_US, Bucket
from services.gateway.limits.decision import Decision, Receipt, Spent, Standing, differences
from services.gateway.limits.plan import Limit

# A second: nobody knows when a running request ends.
BUSY_US = 1_000_000
_DAYS_AGO: tuple[int, int] = (-1, 0)


class MemoryLimiter:
    """Counts for this process alone."""

    degraded = False

    def __init__(self, clock: Callable[[], float] = time.time, sweep_after: int = 10_000) -> None:
        """`clock`: Unix seconds. Empty buckets are cleared away whenever there are `sweep_after` more."""
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self._days: dict[str, tuple[int, int]] = {}
        self._leases: defaultdict[str, set[str]] = defaultdict(set)
        self._sweep_after = self._sweep_at = sweep_after

    def __len__(self) -> int:
        """Buckets that are kept."""
        return len(self._buckets)

    async def admit(
        self, tenant: str, plan: tuple[Limit, ...], lease: str, tokens: int = 0, least: int | None = None
    ) -> Decision:
        now = int(self._clock() * 1e6)
        least = tokens if least is None else least
        before = tuple(self._standing(tenant, limit, limit.cost(least), now) for limit in plan)
        if any(one.wait_seconds for one in before):
            return Decision(before, None)
        # What is left, between the least that is needed and what is wanted.
        taken = tuple(max(one.limit.cost(least), min(one.limit.cost(tokens), one.remaining)) for one in before)
        for limit, cost in zip(plan, taken, strict=True):
            key = limit.store_key(tenant)
            if limit.kind == "concurrency":
                self._leases[key].add(lease)
            elif cost:
                self._add(key, limit, cost, now, now // DAY_US, limit.most)
        after = tuple(self._standing(tenant, limit, 0, now) for limit in plan)
        return Decision(after, Receipt(tenant, lease, plan, taken, now // DAY_US))

    async def settle(self, receipt: Receipt, spent: Spent) -> None:
        now = int(self._clock() * 1e6)
        for limit, units in differences(receipt, spent):
            key = limit.store_key(receipt.tenant)
            if limit.kind == "concurrency":
                self._leases[key].discard(receipt.lease)
                if not self._leases[key]:
                    del self._leases[key]
            elif units:
                # The bucket keeps its size: the limit may have changed since the reservation.
                size = self._buckets[key].most if key in self._buckets else limit.most
                self._add(key, limit, units, now, now // DAY_US if receipt.day is None else receipt.day, size)

    async def look(self, tenant: str, plan: tuple[Limit, ...]) -> tuple[Standing, ...]:
        now = int(self._clock() * 1e6)
        return tuple(self._standing(tenant, limit, 0, now) for limit in plan)

    def _standing(self, tenant: str, limit: Limit, cost: int, now: int) -> Standing:
        key = limit.store_key(tenant)
        if limit.kind == "concurrency":
            active = len(self._leases.get(key, ()))
            return _standing(limit, active, 0, BUSY_US if cost and active >= limit.most else 0)
        if limit.kind == "daily_tokens":
            day, used = self._days.get(key, _DAYS_AGO)
            used = used if day == now // DAY_US else 0
            left_us = DAY_US - now % DAY_US
            return _standing(limit, used, left_us, left_us if cost and used + cost > limit.most else 0)
        bucket = self._buckets.get(key, Bucket()).leaked(now, limit.most)
        return _standing(limit, bucket.used, bucket.empty_in_us, bucket.wait_us(cost))

    def _add(self, key: str, limit: Limit, units: int, now: int, day: int, size: int) -> None:
        if limit.kind == "daily_tokens":
            of, used = self._days.get(key, _DAYS_AGO)
            if day == now // DAY_US:  # nobody asks any more for what was used yesterday
                self._days[key] = day, max(0, (used if of == day else 0) + units)
            return
        self._buckets[key] = self._buckets.get(key, Bucket()).leaked(now, size).filled(units)
        if len(self._buckets) > self._sweep_at:
            self._sweep(now)

    def _sweep(self, now: int) -> None:
        self._buckets = {key: one for key, one in self._buckets.items() if one.leaked(now, one.most).level}
        self._days = {key: one for key, one in self._days.items() if one[0] == now // DAY_US}
        self._sweep_at = len(self._buckets) + self._sweep_after


def _standing(limit: Limit, used: int, reset_us: int, wait_us: int) -> Standing:
    return Standing(limit, used, reset_us / 1e6, wait_us / 1e6)
