"""Limits of a tenant: requests a minute by GCRA, and requests at the same time by leases.

GCRA, the generic cell rate algorithm of ITU-T I.371: one number a tenant, the time at which its bucket will be full
again. A full bucket lets a minute's worth of requests through at once; then one every `60 s / limit`.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import Counter

from services.runtime.tenants import Limits

log = logging.getLogger(__name__)

_MINUTE_US = 60_000_000
_RETRY_STORE_SECONDS = 1.0

FALLBACKS = Counter(
    "sabueso_gateway_limiter_fallbacks_total", "Requests whose limits were counted in this process for want of Valkey."
)


@dataclass(frozen=True)
class Decision:
    """Whether a request may go on, and what is left afterwards.

    `refused_by` is empty, "requests" or "concurrency". `limit` 0 means unlimited.
    """

    refused_by: str
    limit: int
    remaining: int
    reset_seconds: float
    retry_after_seconds: float
    active: int


class Limiter(Protocol):
    """Counts requests. `lease` names one request and is given back when it ends."""

    async def admit(self, tenant: str, limits: Limits, lease: str) -> Decision:
        """Takes one request of the tenant's, or refuses and takes nothing. Raises StoreLost."""
        ...

    async def release(self, tenant: str, lease: str) -> None:
        """Ends a request. An unknown lease is no mistake."""
        ...


class StoreLost(Exception):
    """The shared store does not answer."""


def interval_us(limit: int) -> int:
    """Microseconds between two requests at the limit, rounded up so that the limit is never passed."""
    return -(-_MINUTE_US // limit) if limit else 0


def decide(limit: int, refused_by: str, early_us: int, full_in_us: int, active: int) -> Decision:
    """The decision behind a bucket that is full in `full_in_us` and would have passed the request in `early_us`."""
    every = interval_us(limit)
    remaining = max(0, (every * limit - full_in_us) // every) if limit else 0
    wait = 1.0 if refused_by == "concurrency" else early_us / 1e6
    return Decision(refused_by, limit, remaining, full_in_us / 1e6, wait if refused_by else 0.0, active)


class MemoryLimiter:
    """Counts within this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._clock = clock
        self._full_at: dict[str, int] = {}
        self._leases: defaultdict[str, set[str]] = defaultdict(set)

    async def admit(self, tenant: str, limits: Limits, lease: str) -> Decision:
        now = int(self._clock() * 1e6)
        limit, most = limits.requests_per_minute, limits.concurrent_requests
        every, leases = interval_us(limit), self._leases[tenant]
        full_at = min(max(self._full_at.get(tenant, 0), now), now + every * limit)
        early = full_at + every - every * limit - now
        if limit and early > 0:
            return decide(limit, "requests", early, full_at - now, len(leases))
        if most and len(leases) >= most:
            return decide(limit, "concurrency", 0, full_at - now, len(leases))
        leases.add(lease)
        self._full_at[tenant] = full_at + every
        return decide(limit, "", 0, full_at + every - now, len(leases))

    async def release(self, tenant: str, lease: str) -> None:
        self._leases[tenant].discard(lease)


class FallbackLimiter:
    """Counts in the shared store, and in this process while the store is lost: never a 429 because of the loss."""

    def __init__(
        self, shared: Limiter, local: Limiter, replica_count: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`replica_count`: each process grants its share of a limit, rounded up."""
        self._shared = shared
        self._local = local
        self._replica_count = replica_count
        self._clock = clock
        self._try_again_at = 0.0
        self._local_leases: set[str] = set()

    async def admit(self, tenant: str, limits: Limits, lease: str) -> Decision:
        if self._clock() >= self._try_again_at:
            try:
                return await self._shared.admit(tenant, limits, lease)
            except StoreLost as error:
                self._try_again_at = self._clock() + _RETRY_STORE_SECONDS
                log.warning("limits are counted in this process", extra={"reason": str(error)})
        FALLBACKS.inc()
        self._local_leases.add(lease)
        return await self._local.admit(tenant, self._share(limits), lease)

    async def release(self, tenant: str, lease: str) -> None:
        if lease in self._local_leases:
            self._local_leases.discard(lease)
            await self._local.release(tenant, lease)
        else:
            await self._shared.release(tenant, lease)

    def _share(self, limits: Limits) -> Limits:
        shares = {
            name: -(-getattr(limits, name) // self._replica_count)
            for name in ("requests_per_minute", "concurrent_requests")
        }
        return limits.model_copy(update=shares)
