"""The cache's store in memory: time and room."""

from services.tool_cache.keys import call_key
from services.tool_cache.memory_store import MemoryStore
from services.tool_cache.store import Outcome, Result


def key(n):
    return call_key("acme", "sql_query", "1", f'{{"n":{n}}}')


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


async def test_age_and_end_follow_the_clock():
    clock = Clock()
    store = MemoryStore(clock=clock)
    await store.put([Result(key(1), b"v", 10_000)])
    clock.seconds = 9.5
    assert (await store.get([key(1)]))[0].age_seconds == 9.5
    clock.seconds = 10
    assert (await store.get([key(1)]))[0].value is None


async def test_the_least_recently_used_goes_first():
    store = MemoryStore(most_entries=2)
    for n in (1, 2):
        await store.put([Result(key(n), b"v", 10_000)])
    await store.get([key(1)])
    await store.put([Result(key(3), b"v", 10_000)])
    assert [found.value for found in await store.get([key(1), key(2), key(3)])] == [b"v", None, b"v"]


async def test_a_tool_may_take_as_long_as_it_wants_and_its_snapshot_still_counts():
    clock = Clock()
    store = MemoryStore(clock=clock)
    [found] = await store.get([key(1)])
    await store.invalidate("acme", "sql_query", ())
    clock.seconds = 100_000
    assert await store.put([Result(key(1), b"v", 10_000, snapshot=found.snapshot)]) == [Outcome.OUTDATED]


async def test_leases_that_ended_make_room_for_others():
    clock = Clock()
    store = MemoryStore(most_entries=3, clock=clock)
    for n in range(10):
        clock.seconds = n
        [found] = await store.get([key(n)], lease_ms=500)
        assert found.token
