"""Limits counted in Valkey or Redis for all gateways: one script admits, one settles, by the server's clock."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from services.gateway.limits.channel import Channel, Cluster, Store
from services.gateway.limits.decision import Decision, Receipt, Spent, Standing, StoreLost, differences
from services.gateway.limits.plan import Limit
from services.gateway.limits.scripts import Script, Scripts
from services.runtime import tasks
from services.runtime.valkey import connection_pool

# How long a request that was settled is remembered, lest it be settled again by a second try.
_MARKER_MS = 600_000
# Of nobody's: no tenant's id looks like it.
_PROBE_KEY = "sabueso:limits:{~probe}:settled:probe"

_ADMIT, _SETTLE, _RENEW = Script("admit"), Script("settle"), Script("renew")


class ValkeyLimiter:
    """Counts for all gateways together. Leases of a process that dies expire."""

    degraded = False

    def __init__(self, store: Store, *, lease_seconds: float = 30) -> None:
        """Leases are renewed every third of `lease_seconds`."""
        self._scripts = Scripts(store)
        self._lease_seconds = lease_seconds
        self._lease_us = int(lease_seconds * 1e6)
        self._open: dict[str, Receipt] = {}

    async def admit(
        self, tenant: str, plan: tuple[Limit, ...], lease: str, tokens: int = 0, least: int | None = None
    ) -> Decision:
        day, rows = await self._ask(tenant, plan, lease, tokens, tokens if least is None else least)
        standings = tuple(map(_standing, plan, rows))
        if any(one.wait_seconds for one in standings):
            return Decision(standings, None)
        receipt = Receipt(tenant, lease, plan, tuple(taken for *_, taken in rows), day)
        if any(True for _ in _lease_keys(receipt)):
            self._open[lease] = receipt
        return Decision(standings, receipt)

    async def look(self, tenant: str, plan: tuple[Limit, ...]) -> tuple[Standing, ...]:
        _, rows = await self._ask(tenant, plan, "", 0, 0)
        return tuple(map(_standing, plan, rows))

    async def settle(self, receipt: Receipt, spent: Spent) -> None:
        self.forget(receipt.lease)
        keys = [f"sabueso:limits:{{{receipt.tenant}}}:settled:{receipt.lease}"]
        arguments: list[str | int] = [receipt.lease, "" if receipt.day is None else receipt.day, _MARKER_MS]
        for limit, units in differences(receipt, spent):
            if units or limit.kind == "concurrency":
                keys.append(limit.store_key(receipt.tenant))
                arguments += limit.kind, limit.most, units
        if len(keys) > 1:
            # Whoever is told that the request has ended, and asks another gateway, finds it settled.
            await self._scripts.run(_SETTLE, keys, arguments, at_once=True)

    def forget(self, lease: str) -> None:
        """Renews a lease no more: unless it is settled, it expires."""
        self._open.pop(lease, None)

    async def probe(self) -> None:
        """Tries whether the store runs scripts that write. Raises StoreLost."""
        try:
            await self._scripts.run(_SETTLE, [_PROBE_KEY], ["", "", 1])
        except StoreLost:
            # After a failover the server at the other end is a replica for ever; its name leads to another one.
            self._scripts.drop()
            raise

    async def renew(self) -> None:
        """Extends the leases of all running requests. Raises StoreLost."""
        by_tenant: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for lease, receipt in self._open.items():
            for key in _lease_keys(receipt):
                by_tenant[receipt.tenant][key].append(lease)
        for sets in by_tenant.values():
            leases = [" ".join(of_key) for of_key in sets.values()]
            await self._scripts.run(_RENEW, list(sets), [self._lease_us, *leases])

    async def keep_renewing(self) -> None:
        """Renews for ever; a lost store is tried again."""
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            with contextlib.suppress(StoreLost):
                await self.renew()

    async def give_back(self) -> None:
        """Ends every lease that is still open, when the process goes; what they reserved stays charged."""
        with contextlib.suppress(StoreLost):
            for receipt in list(self._open.values()):
                leases = tuple(limit for limit in receipt.limits if limit.kind == "concurrency")
                await self.settle(Receipt(receipt.tenant, receipt.lease, leases), Spent())

    async def _ask(
        self, tenant: str, plan: tuple[Limit, ...], lease: str, tokens: int, least: int
    ) -> tuple[int | None, list[list[int]]]:
        """The day, and of each limit what is used, when that is over, how long to wait, and what was taken."""
        if not plan:
            return None, []
        keys = [limit.store_key(tenant) for limit in plan]
        arguments: list[str | int] = [lease, self._lease_us]
        for limit in plan:
            costs = (limit.cost(tokens), limit.cost(least)) if lease else (0, 0)
            arguments += limit.kind, limit.most, *costs
        day, *rows = await self._scripts.run(_ADMIT, keys, arguments)
        # By name: whoever sits between us and the store may bring the rows in another order.
        states = {bytes(row[0]).decode(): row[1:] for row in rows}
        try:
            return int(day), [states[key] for key in keys]
        except KeyError:
            raise StoreLost("incomplete answer") from None


def _lease_keys(receipt: Receipt) -> Iterator[str]:
    return (limit.store_key(receipt.tenant) for limit in receipt.limits if limit.kind == "concurrency")


def _standing(limit: Limit, row: list[int]) -> Standing:
    used, reset_us, wait_us, _ = row
    return Standing(limit, used, reset_us / 1e6, wait_us / 1e6)


@asynccontextmanager
async def valkey_limiter(
    url: str, *, timeout_seconds: float, lease_seconds: float = 30, cluster: bool = False
) -> AsyncGenerator[ValkeyLimiter]:
    """A limiter on its own connections, renewing its leases until the end of the block.

    `timeout_seconds`: for one answer of the store.
    """
    async with _connected(url, timeout_seconds, cluster) as store:
        limiter = ValkeyLimiter(store, lease_seconds=lease_seconds)
        renewing = asyncio.create_task(limiter.keep_renewing())
        try:
            yield limiter
        finally:
            await tasks.end(renewing)
            await limiter.give_back()


@asynccontextmanager
async def _connected(url: str, timeout_seconds: float, cluster: bool) -> AsyncGenerator[Store]:
    # No retries: an answer that got lost may have been counted.
    if cluster:
        client = RedisCluster.from_url(url, socket_timeout=None, retry=Retry(NoBackoff(), 0))
        try:
            yield Cluster(client, timeout_seconds)
        finally:
            await client.aclose()
    else:
        channel = Channel(connection_pool(url, protocol=2), timeout_seconds)
        try:
            yield channel
        finally:
            await channel.close()
