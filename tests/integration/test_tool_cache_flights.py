"""One run of a tool for all who ask at the same time, over several processes, with some of them killed."""

import asyncio
import subprocess
import sys
import time
from contextlib import AsyncExitStack

import pytest
import redis
from grpc import aio

from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from tests.integration.tool_cache_client import (
    call,
    counted,
    entry,
    entry_names,
    get,
    put,
    release,
    result_of,
    service_processes,
    serving,
    stub_of,
    wait,
)

LEASE_SECONDS = 2


@pytest.fixture(scope="module")
def addresses(valkey_url):
    settings = {"valkey_timeout_seconds": 5, "lease_seconds": LEASE_SECONDS}
    with service_processes(valkey_url, 3, **settings) as (addresses, _):
        yield addresses


@pytest.fixture
async def caches(addresses, tenant):
    """A stub of each of three processes."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(stub_of(address)) for address in addresses]


class Tool:
    """Counts its runs, and fails as often as it is told."""

    def __init__(self, seconds=0.3, failures=0):
        self.runs = 0
        self._seconds = seconds
        self._failures = failures

    async def __call__(self):
        self.runs += 1
        await asyncio.sleep(self._seconds)
        if self.runs <= self._failures:
            raise RuntimeError("the tool failed")
        return b'"run %d"' % self.runs


def leases(valkey_url, tenant):
    with redis.Redis.from_url(valkey_url) as server:
        return entry_names(server, tenant, "l")


async def test_two_hundred_equal_calls_to_three_processes_run_the_tool_once(caches, valkey_url, tenant):
    tool = Tool()
    found = await asyncio.gather(*(result_of(caches[n % 3], tool) for n in range(200)))
    assert set(found) == {b'"run 1"'}
    assert tool.runs == 1
    assert leases(valkey_url, tenant) == []


async def test_different_calls_do_not_wait_for_each_other(caches):
    tool = Tool(2)
    started = time.perf_counter()
    await asyncio.gather(*(result_of(caches[n % 3], tool, f'{{"n":{n}}}') for n in range(30)))
    assert tool.runs == 30
    assert time.perf_counter() - started < 40


async def test_a_result_reaches_those_who_wait_at_other_processes_soon(caches):
    [leader] = await get(caches[0], lease=True)
    waiters = [asyncio.create_task(wait(cache)) for cache in caches]
    await asyncio.sleep(0.5)
    await put(caches[0], entry(token=leader.lease_token))
    started = time.perf_counter()
    assert all(found.hit for found in await asyncio.gather(*waiters))
    assert time.perf_counter() - started < 15


@pytest.mark.slow
async def test_when_a_leader_is_killed_one_of_those_who_wait_runs_the_tool(caches, addresses, tenant):
    leading = f"""
import asyncio, sys
from services.runtime.testing import act_as
from tests.integration.tool_cache_client import get, stub_of

async def main():
    act_as({tenant!r})
    async with stub_of({addresses[0]!r}) as cache:
        [found] = await get(cache, lease=True)
        print("leading" if found.lease_token else "not leading", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", leading, stdout=subprocess.PIPE)
    try:
        assert await process.stdout.readline() == b"leading\n"
    finally:
        process.kill()
        await process.communicate()
    tool = Tool()
    started = time.perf_counter()
    found = await asyncio.gather(*(result_of(caches[n % 3], tool) for n in range(30)))
    assert set(found) == {b'"run 1"'}
    assert tool.runs == 1
    assert time.perf_counter() - started < LEASE_SECONDS + 20


async def test_who_waits_longer_than_it_wants_runs_the_tool_itself(caches):
    await get(caches[0], lease=True)
    started = time.perf_counter()
    found = await wait(caches[1], 0.3)
    assert 0.2 < time.perf_counter() - started < 20
    assert (found.hit, found.lease_token) == (False, "")
    assert found.snapshot > 0
    assert await put(caches[1], entry(snapshot=found.snapshot)) == 1


async def test_when_a_leader_is_cancelled_another_caller_leads_and_nobody_else_notices(caches):
    tool = Tool(0.5)
    leader = asyncio.create_task(result_of(caches[0], tool))
    await asyncio.sleep(0.2)
    others = [asyncio.create_task(result_of(caches[n % 3], tool)) for n in range(20)]
    await asyncio.sleep(0.1)
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    assert set(await asyncio.gather(*others)) == {b'"run 2"'}
    assert tool.runs == 2


async def test_when_the_tool_fails_nothing_is_stored_and_another_caller_tries(caches):
    tool = Tool(0.1, failures=1)
    found = await asyncio.gather(*(result_of(caches[n % 3], tool) for n in range(10)), return_exceptions=True)
    assert sum(isinstance(one, RuntimeError) for one in found) == 1
    assert {one for one in found if isinstance(one, bytes)} == {b'"run 2"'}
    assert tool.runs == 2


async def test_after_a_failure_the_next_call_runs_again(caches, valkey_url, tenant):
    tool = Tool(0, failures=1)
    with pytest.raises(RuntimeError):
        await result_of(caches[0], tool)
    assert leases(valkey_url, tenant) == []
    assert not (await get(caches[0]))[0].hit
    assert await result_of(caches[1], tool) == b'"run 2"'


async def test_a_process_of_the_cache_that_is_killed_costs_a_run_at_most(valkey_url, tenant):
    """Callers of the killed process go on without it; those of the other get the result."""
    settings = {"valkey_timeout_seconds": 5, "lease_seconds": LEASE_SECONDS}
    with service_processes(valkey_url, 2, **settings) as (addresses, processes):
        async with stub_of(addresses[0]) as one, stub_of(addresses[1]) as other:
            [leader] = await get(other, lease=True)
            lost = [asyncio.create_task(wait(one)) for _ in range(3)]
            kept = [asyncio.create_task(wait(other)) for _ in range(3)]
            await asyncio.sleep(0.3)
            processes[0].kill()
            for waiter in lost:
                with pytest.raises(aio.AioRpcError):
                    await waiter
            await put(other, entry(token=leader.lease_token))
            assert all(found.hit for found in await asyncio.gather(*kept))


async def test_a_lookup_that_is_cancelled_on_its_way_leaves_no_lease(valkey_url, tenant):
    async with serving(valkey_url, valkey_timeout_seconds=5) as cache:
        await get(cache, call('{"a":1}'))
        with redis.Redis.from_url(valkey_url) as server:
            for pause in (0.01, 0.05, 0.1):
                server.client_pause(150)
                looking = asyncio.ensure_future(get(cache, lease=True))
                await asyncio.sleep(pause)
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
                await asyncio.sleep(0.3)
                assert entry_names(server, tenant, "l") == []


async def test_a_waiter_that_goes_leaves_nothing_behind(valkey_url, tenant):
    async with serving(valkey_url, valkey_timeout_seconds=5) as cache:
        [leader] = await get(cache, lease=True)
        waiter = asyncio.ensure_future(wait(cache))
        await asyncio.sleep(0.1)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        await release(cache, leader.lease_token)
        await asyncio.sleep(0.2)
        assert leases(valkey_url, tenant) == []


async def test_a_wait_ends_before_its_caller_gives_up(valkey_url, tenant):
    async with serving(valkey_url, valkey_timeout_seconds=5) as cache:
        await get(cache, lease=True)
        answer = await cache.Wait(pb.WaitRequest(call=call()), timeout=0.5)
        assert not answer.lookup.hit


async def test_waits_are_counted_by_how_they_ended(valkey_url, tenant):
    async with serving(valkey_url, valkey_timeout_seconds=5) as cache:
        before = {kind: counted("waits", outcome=kind) for kind in ("result", "lease", "timeout")}
        waited = counted("lookups", result="wait")
        [leader] = await get(cache, lease=True)
        await wait(cache, 0.05)
        await release(cache, leader.lease_token)
        leader = await wait(cache)
        await put(cache, entry(token=leader.lease_token))
        assert (await wait(cache)).hit
        assert {kind: counted("waits", outcome=kind) - before[kind] for kind in before} == dict.fromkeys(before, 1)
        assert counted("lookups", result="wait") == waited + 1


@pytest.mark.parametrize("seconds", [-1, 61])
async def test_a_wait_out_of_bounds_is_refused(valkey_url, tenant, seconds):
    async with serving(valkey_url) as cache:
        with pytest.raises(aio.AioRpcError, match="timeout"):
            await wait(cache, seconds)
