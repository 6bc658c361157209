"""Limits counted in Valkey or Redis: one atomic script, the server's clock, one hash tag a tenant."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from services.gateway.limits import Decision, StoreLost, decide, interval_us
from services.runtime.tenants import Limits
from services.runtime.valkey import connection_pool

log = logging.getLogger(__name__)

# Numbers go back as %.0f: Lua's own conversion keeps 14 digits, and microseconds since 1970 have 16.
_ADMIT = """
local every, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local most, lease, ttl = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
local active = redis.call('ZCARD', KEYS[2])
local stored = tonumber(redis.call('GET', KEYS[1]) or 0)
local full_at = math.min(math.max(stored, now), now + every * limit)
local early = full_at + every - every * limit - now
if limit > 0 and early > 0 then return {'requests', early, full_at - now, active} end
if most > 0 and active >= most then return {'concurrency', 0, full_at - now, active} end
if limit > 0 then
  full_at = full_at + every
  redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now) / 1000))
end
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ttl), lease)
redis.call('PEXPIRE', KEYS[2], math.ceil(ttl / 1000))
return {'', 0, full_at - now, active + 1}
"""

# XX: a lease that was given back meanwhile stays away.
_RENEW = """
local ttl = tonumber(ARGV[1])
local time = redis.call('TIME')
local until_ = string.format('%.0f', time[1] * 1000000 + time[2] + ttl)
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', until_, ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], math.ceil(ttl / 1000))
return #ARGV - 1
"""


class ValkeyLimiter:
    """Counts for all gateways together. Leases of a process that dies expire."""

    def __init__(self, client: Redis, *, timeout_seconds: float, lease_seconds: float = 30) -> None:
        """`timeout_seconds` for one answer of the store; leases are renewed every third of `lease_seconds`."""
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._lease_seconds = lease_seconds
        self._open: dict[str, str] = {}

    async def admit(self, tenant: str, limits: Limits, lease: str) -> Decision:
        limit = limits.requests_per_minute
        keys = _bucket(tenant), _leases(tenant)
        arguments = interval_us(limit), limit, limits.concurrent_requests, lease, int(self._lease_seconds * 1e6)
        self._open[lease] = (
            tenant  # before the call: cancelled in the middle of it, the lease is given back all the same
        )
        try:
            by, early, full_in, active = await self._run(_ADMIT, keys, arguments)
        except StoreLost:
            del self._open[lease]
            raise
        refused_by = by.decode() if isinstance(by, bytes) else str(by)
        if refused_by:
            del self._open[lease]
        return decide(limit, refused_by, int(early), int(full_in), int(active))

    async def release(self, tenant: str, lease: str) -> None:
        if lease not in self._open:
            return
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._client.zrem(_leases(tenant), lease)
        except (RedisError, OSError, TimeoutError):
            log.info("a lease was not given back; it expires")
        self._open.pop(lease, None)  # not when cancelled: the caller tries again

    async def renew(self) -> None:
        """Extends the leases of all running requests. Raises StoreLost."""
        for tenant in set(self._open.values()):
            leases = [lease for lease, owner in self._open.items() if owner == tenant]
            await self._run(_RENEW, (_leases(tenant),), (int(self._lease_seconds * 1e6), *leases))

    async def keep_renewing(self) -> None:
        """Renews for ever; a lost store is tried again."""
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            with contextlib.suppress(StoreLost):
                await self.renew()

    async def _run(self, script: str, keys: tuple[str, ...], arguments: tuple[Any, ...]) -> list[Any]:
        sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                try:
                    answer = await self._client.evalsha(sha, len(keys), *keys, *arguments)
                except NoScriptError:
                    answer = await self._client.eval(script, len(keys), *keys, *arguments)
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreLost(type(error).__name__) from error
        return cast(list[Any], answer)


def _bucket(tenant: str) -> str:
    return f"sabueso:limits:{{{tenant}}}:requests"


def _leases(tenant: str) -> str:
    return f"sabueso:limits:{{{tenant}}}:leases"


@asynccontextmanager
async def valkey_limiter(
    url: str, *, timeout_seconds: float, lease_seconds: float = 30
) -> AsyncGenerator[ValkeyLimiter]:
    """A limiter on its own connections, renewing its leases until the end of the block."""
    # No retries: an answer that got lost may have been counted.
    pool = connection_pool(url, max_connections=64, wait_seconds=timeout_seconds)
    async with Redis.from_pool(pool) as client:
        limiter = ValkeyLimiter(client, timeout_seconds=timeout_seconds, lease_seconds=lease_seconds)
        renewing = asyncio.create_task(limiter.keep_renewing())
        try:
            yield limiter
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing
