"""Waiting for a result that somebody else makes."""

import asyncio
import time

import pytest

from services.runtime.errors import DependencyFailed
from services.tool_cache.flights import Flights
from services.tool_cache.keys import call_key
from services.tool_cache.memory_store import MemoryStore
from services.tool_cache.store import Lease, Result

KEY, OTHER = (call_key("acme", "sql_query", "1", arguments) for arguments in ("{}", '{"a":1}'))


class SlowStore(MemoryStore):
    """A store that answers after `seconds`, or not at all when `lost`; it counts how often it was asked.

    `when_leased`: what happens right after a lease was taken, before whoever asked can know.
    """

    def __init__(self):
        super().__init__()
        self.seconds = 0.0
        self.lost = False
        self.asked = 0
        self.when_leased = []

    async def get(self, keys, *, lease_ms=0):
        self.asked += 1
        await asyncio.sleep(self.seconds)
        if self.lost:
            raise DependencyFailed("Lost.", dependency="valkey")
        found = await super().get(keys, lease_ms=lease_ms)
        await asyncio.sleep(self.seconds)
        while self.when_leased and any(one.token for one in found):
            asyncio.get_running_loop().call_soon(self.when_leased.pop())
        return found

    async def release(self, leases):
        if self.lost:
            raise DependencyFailed("Lost.", dependency="valkey")
        await super().release(leases)


@pytest.fixture
def store():
    return SlowStore()


@pytest.fixture
async def flights(store):
    flights = Flights(store, lease_seconds=60)
    yield flights
    await flights.close()
    assert flights.waiting == 0


async def lead(flights):
    [found] = await flights.get([KEY], lease=True)
    assert found.token
    return found.token


async def waiting(flights, count, seconds=5):
    waiters = [asyncio.create_task(flights.wait(KEY, seconds)) for _ in range(count)]
    await asyncio.sleep(0.02)
    return waiters


async def put(store, flights, token=""):
    await store.put([Result(KEY, b"1", 60_000, token=token)])
    flights.wake([KEY])


async def free(store):
    """Whether nobody holds the lease."""
    [found] = await MemoryStore.get(store, [KEY], lease_ms=60_000)
    return bool(found.token)


async def test_all_who_wait_get_the_one_result(store, flights):
    token = await lead(flights)
    waiters = await waiting(flights, 50)
    await put(store, flights, token)
    assert {found.value for found in await asyncio.gather(*waiters)} == {b"1"}


async def test_who_waits_in_one_process_shares_one_watch(store, flights):
    token = await lead(flights)
    waiters = await waiting(flights, 50)
    await asyncio.sleep(0.5)
    await put(store, flights, token)
    await asyncio.gather(*waiters)
    assert 0 < store.asked < 40


async def test_a_result_from_elsewhere_is_found_soon(store, flights):
    token = await lead(flights)
    [waiter] = await waiting(flights, 1)
    await asyncio.sleep(0.3)
    await store.put([Result(KEY, b"1", 60_000, token=token)])
    started = time.perf_counter()
    assert (await waiter).value == b"1"
    assert time.perf_counter() - started < 20


async def test_a_result_that_is_there_already_is_not_waited_for(store, flights):
    await put(store, flights)
    assert (await flights.wait(KEY, 5)).value == b"1"


async def test_when_the_leader_gives_up_one_of_those_who_wait_leads(store, flights):
    token = await lead(flights)
    waiters = await waiting(flights, 5)
    await flights.release([Lease(KEY, token)])
    done, others = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    [found] = [task.result() for task in done]
    assert (found.value, len(others)) == (None, 4)
    assert found.token not in ("", token)
    await put(store, flights, found.token)
    assert {found.value for found in await asyncio.gather(*others)} == {b"1"}


async def test_when_the_leader_dies_its_lease_ends_and_another_leads(store):
    flights = Flights(store, lease_seconds=0.2)
    await lead(flights)
    started = time.perf_counter()
    assert (await flights.wait(KEY, 5)).token
    assert 0.1 < time.perf_counter() - started < 20
    await flights.close()


async def test_who_waits_too_long_gets_a_miss_and_the_snapshot(store, flights):
    await store.invalidate("acme", "x", ())
    await lead(flights)
    found = await flights.wait(KEY, 0.1)
    assert (found.value, found.token, found.snapshot) == (None, "", 2)


async def test_a_cancelled_waiter_leaves_nothing_behind(store, flights):
    token = await lead(flights)
    one, other = await waiting(flights, 2)
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    assert flights.waiting == 1
    await put(store, flights, token)
    assert (await other).value == b"1"
    await asyncio.sleep(0.02)
    asked = store.asked
    await asyncio.sleep(0.2)
    assert store.asked == asked


@pytest.mark.parametrize("others", [0, 1])
async def test_a_lease_for_someone_who_has_gone_passes_on_or_back(store, flights, others):
    """The waiter goes in the very moment in which the lease falls to it."""
    token = await lead(flights)
    first, *rest = await waiting(flights, 1 + others)
    store.when_leased = [first.cancel]
    await flights.release([Lease(KEY, token)])
    with pytest.raises(asyncio.CancelledError):
        await first
    assert store.when_leased == []
    if rest:
        assert (await rest[0]).token
        assert not await free(store)
    else:
        await asyncio.sleep(0.05)
        assert await free(store)


@pytest.mark.parametrize("seconds", [0.01, 0.05])
async def test_a_lookup_that_is_cancelled_on_its_way_holds_no_lease(store, flights, seconds):
    store.seconds = seconds
    looking = asyncio.create_task(flights.get([KEY], lease=True))
    await asyncio.sleep(seconds * 1.5)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    await asyncio.sleep(seconds * 3 + 0.05)
    assert await free(store)


async def test_a_lookup_without_a_lease_takes_none(store, flights):
    await flights.get([KEY], lease=False)
    assert await free(store)


async def test_equal_calls_of_one_batch_share_a_lease(flights):
    one, other, same = await flights.get([KEY, OTHER, KEY], lease=True)
    assert one == same
    assert one.token != other.token


async def test_a_lost_store_ends_the_wait_of_all(store, flights):
    await lead(flights)
    waiters = await waiting(flights, 3)
    store.lost = True
    for waiter in waiters:
        with pytest.raises(DependencyFailed):
            await waiter
    store.lost = False


async def test_more_than_may_wait_are_sent_on_at_once(store):
    flights = Flights(store, lease_seconds=60, max_waiting=2)
    await lead(flights)
    waiters = await waiting(flights, 2, seconds=0.2)
    started = time.perf_counter()
    found = await flights.wait(KEY, 5)
    assert time.perf_counter() - started < 20
    assert (found.value, found.token) == (None, "")
    await asyncio.gather(*waiters)
    await flights.close()


async def test_a_release_in_the_background_happens_soon_or_never(store, flights):
    token = await lead(flights)
    store.lost = True
    flights.release_later([Lease(KEY, token)])
    await asyncio.sleep(0.01)
    assert not await free(store)
    store.lost = False
    flights.release_later([Lease(KEY, token)])
    await asyncio.sleep(0.01)
    assert await free(store)
