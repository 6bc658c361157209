"""The cache's store in memory: time and room."""

from services.tool_cache.keys import call_key
from services.tool_cache.store import LOOKED_UP_MS, MemoryStore, Result


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
    assert await store.get([key(1)]) == [None]


async def test_the_least_recently_used_goes_first():
    store = MemoryStore(most_entries=2)
    for n in (1, 2):
        await store.put([Result(key(n), b"v", 10_000)])
    await store.get([key(1)])
    await store.put([Result(key(3), b"v", 10_000)])
    assert [found is not None for found in await store.get([key(1), key(2), key(3)])] == [True, False, True]


async def test_a_lookup_is_remembered_for_a_bounded_time():
    clock = Clock()
    store = MemoryStore(clock=clock)
    await store.get([key(1)])
    await store.invalidate("acme", "sql_query")
    clock.seconds = LOOKED_UP_MS / 1000 + 1
    assert await store.put([Result(key(1), b"v", 10_000)]) == [True]
