"""One behaviour of limits, in memory and in Valkey; and what happens when Valkey is lost."""

import asyncio
import subprocess
import time
import uuid
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from local import ports, valkey
from services.gateway.limits import FALLBACKS, FallbackLimiter, MemoryLimiter, StoreLost
from services.gateway.valkey_limits import valkey_limiter
from services.runtime.tenants import Limits

# Generous: what is tested here is the counting, on a machine that may be busy.
PATIENCE_SECONDS = 5


def limits(requests=0, concurrent=0):
    return Limits(requests_per_minute=requests, concurrent_requests=concurrent)


def new_tenant():
    return f"t-{uuid.uuid4().hex[:12]}"


async def admit(limiter, tenant, wanted):
    return await limiter.admit(tenant, wanted, uuid.uuid4().hex)


@pytest.fixture(params=["memory", "valkey"])
async def limiter(request):
    if request.param == "memory":
        yield MemoryLimiter()
        return
    url = request.getfixturevalue("valkey_url")
    async with valkey_limiter(url, timeout_seconds=PATIENCE_SECONDS) as limiter:
        yield limiter


class TestLimiter:
    """What every limiter does."""

    async def test_of_fifty_parallel_requests_exactly_the_limit_is_admitted(self, limiter):
        tenant = new_tenant()
        decisions = await asyncio.gather(*(admit(limiter, tenant, limits(requests=10)) for _ in range(50)))
        admitted = [one for one in decisions if not one.refused_by]
        refused = [one for one in decisions if one.refused_by]
        assert len(admitted) == 10
        assert sorted(one.remaining for one in admitted) == list(range(10))
        assert {(one.refused_by, one.remaining, one.limit) for one in refused} == {("requests", 0, 10)}
        assert all(0 < one.retry_after_seconds <= 6 for one in refused)
        assert all(0 < one.reset_seconds <= 60 for one in decisions)

    async def test_waiting_as_long_as_told_is_enough_and_not_too_long(self, limiter):
        tenant, wanted = new_tenant(), limits(requests=120)
        decision = await admit(limiter, tenant, wanted)
        while not decision.refused_by:
            decision = await admit(limiter, tenant, wanted)
        until = time.monotonic() + decision.retry_after_seconds
        while time.monotonic() < until - 0.1:
            assert (await admit(limiter, tenant, wanted)).refused_by == "requests"
            await asyncio.sleep(0.05)
        await asyncio.sleep(max(0, until - time.monotonic()) + 0.001)
        assert not (await admit(limiter, tenant, wanted)).refused_by

    async def test_of_fifty_at_the_same_time_exactly_the_limit_runs(self, limiter):
        tenant, wanted = new_tenant(), limits(requests=1000, concurrent=5)
        leases = [uuid.uuid4().hex for _ in range(50)]
        decisions = await asyncio.gather(*(limiter.admit(tenant, wanted, lease) for lease in leases))
        running = [lease for lease, one in zip(leases, decisions, strict=True) if not one.refused_by]
        assert len(running) == 5
        assert {one.refused_by for one in decisions} == {"", "concurrency"}
        # A refusal costs nothing of the other limit.
        assert min(one.remaining for one in decisions) == 995
        await limiter.release(tenant, running[0])
        await limiter.release(tenant, running[0])
        await limiter.release(tenant, "never seen")
        decisions = [await admit(limiter, tenant, wanted) for _ in range(2)]
        assert [one.refused_by for one in decisions] == ["", "concurrency"]

    async def test_zero_means_unlimited(self, limiter):
        tenant = new_tenant()
        decisions = await asyncio.gather(*(admit(limiter, tenant, limits()) for _ in range(50)))
        assert {(one.refused_by, one.limit) for one in decisions} == {("", 0)}
        assert max(one.active for one in decisions) == 50

    async def test_tenants_do_not_share(self, limiter):
        one, other = new_tenant(), new_tenant()
        assert not (await admit(limiter, one, limits(requests=1))).refused_by
        assert (await admit(limiter, one, limits(requests=1))).refused_by
        assert not (await admit(limiter, other, limits(requests=1))).refused_by

    async def test_a_lower_limit_holds_at_once_and_locks_nobody_out(self, limiter):
        tenant = new_tenant()
        for _ in range(50):
            await admit(limiter, tenant, limits(requests=50))
        refused = await admit(limiter, tenant, limits(requests=2))
        assert refused.refused_by == "requests"
        assert 0 < refused.retry_after_seconds <= 30


async def test_three_gateways_share_one_limit(valkey_url):
    tenant = new_tenant()
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as a,
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as b,
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as c,
    ):
        wanted = limits(requests=10)
        decisions = await asyncio.gather(*(admit([a, b, c][n % 3], tenant, wanted) for n in range(60)))
    assert sum(not one.refused_by for one in decisions) == 10


async def test_leases_are_renewed_while_their_process_lives_and_expire_with_it(valkey_url):
    tenant, wanted = new_tenant(), limits(concurrent=1)
    async with valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as watching:
        async with valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS, lease_seconds=0.9) as running:
            assert not (await admit(running, tenant, wanted)).refused_by
            await asyncio.sleep(1.5)
            assert (await admit(watching, tenant, wanted)).refused_by == "concurrency"
        await asyncio.sleep(1)
        assert not (await admit(watching, tenant, wanted)).refused_by


async def test_nothing_stays_in_the_store_for_ever(valkey_url):
    tenant = new_tenant()
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        await admit(limiter, tenant, limits(requests=10, concurrent=10))
        keys = [key async for key in client.scan_iter(f"*{tenant}*")]
        assert len(keys) == 2
        assert all(f"{{{tenant}}}".encode() in key for key in keys)  # one slot of a cluster
        assert all([await client.pttl(key) > 0 for key in keys])


async def test_a_store_that_forgot_the_script_learns_it_again(valkey_url):
    tenant = new_tenant()
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        await admit(limiter, tenant, limits(requests=2))
        await client.script_flush()
        assert (await admit(limiter, tenant, limits(requests=2))).remaining == 0


@asynccontextmanager
async def mute_server():
    """Takes connections and never answers."""

    async def listen(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_store_that_hangs_costs_its_timeout_once(valkey_url):
    async with mute_server() as url, valkey_limiter(url, timeout_seconds=0.2) as lost:
        with pytest.raises(StoreLost):
            await admit(lost, "t", limits(requests=10))
        limiter = FallbackLimiter(lost, MemoryLimiter(), replica_count=3)
        before, since = FALLBACKS._value.get(), time.monotonic()
        decisions = [await admit(limiter, "t", limits(requests=10)) for _ in range(5)]
        assert time.monotonic() - since < 0.6
    # 10 a minute over 3 replicas, rounded up
    assert [one.refused_by for one in decisions] == ["", "", "", "", "requests"]
    assert {one.limit for one in decisions} == {4}
    assert FALLBACKS._value.get() - before == 5


async def test_a_lost_store_refuses_nobody_and_is_used_again_when_it_is_back(tmp_path):
    port = ports.pick(1, 21_000)[0]
    tenant, wanted = new_tenant(), limits(requests=1000, concurrent=100)

    def start():
        return subprocess.Popen(valkey.command(tmp_path, port), stdout=subprocess.DEVNULL)

    async with valkey_limiter(f"redis://127.0.0.1:{port}", timeout_seconds=PATIENCE_SECONDS) as shared:
        limiter = FallbackLimiter(shared, MemoryLimiter(), replica_count=1)
        before = FALLBACKS._value.get()
        lease = uuid.uuid4().hex
        assert not (await limiter.admit(tenant, wanted, lease)).refused_by
        assert FALLBACKS._value.get() == before + 1
        process = start()
        try:
            async with asyncio.timeout(20):
                while True:
                    counted = FALLBACKS._value.get()
                    assert not (await admit(limiter, tenant, wanted)).refused_by
                    if FALLBACKS._value.get() == counted:
                        break
                    await asyncio.sleep(0.1)
            await limiter.release(tenant, lease)
        finally:
            process.terminate()
            process.wait(10)
        assert not (await admit(limiter, tenant, wanted)).refused_by
