import asyncio

from pydantic import TypeAdapter

from services.orchestrator.result_cache import CacheEntry, CacheKey, Fresh, Hit, MemoryStore, Miss, ResultCache, Stored
from services.orchestrator.results import Page, Pages, Passage, Passages, Rows
from services.runtime import context
from services.runtime.errors import InvalidField

KEY = CacheKey("sql_query", '{"query": "SELECT 1"}', "v")
ROWS = Rows("SELECT 1", "[]", ("a", "b"), ((1, None), ("8300000.00", {"x": [True]})), truncated=True)
ROWS_JSON = TypeAdapter(Rows).dump_json(ROWS)
PASSAGES = Passages((Passage("d", "c", "T", "s", 1, "", "es", "Cláusula."),))
PAGES = Pages((Page("https://e.eu", "E", "x", ""),))


async def test_every_kind_of_result_comes_back_as_it_was():
    cache = ResultCache(MemoryStore())
    keys = [CacheKey("t", str(i), "v") for i in range(3)]
    results = [ROWS, PASSAGES, PAGES]
    cache.put_later([Fresh(key, result, 60) for key, result in zip(keys, results, strict=True)])
    await cache.close()
    wanted = list(zip(keys, map(type, results), strict=True))
    assert [one.found for one in await cache.get(wanted)] == results


async def test_an_unreadable_value_is_a_miss():
    store = MemoryStore()
    store.entries[KEY] = CacheEntry(KEY, b"\x80\x04pickle", 60)
    assert await ResultCache(store).get([(KEY, Rows)]) == [Miss(1)]


async def test_a_lost_store_is_left_alone_for_a_while_and_then_used_again():
    store = MemoryStore()
    cache = ResultCache(store, pause_seconds=0.1)
    store.lost = True
    assert await cache.get([(KEY, Rows)]) is None
    store.lost = False
    assert await cache.get([(KEY, Rows)]) is None
    assert store.lookups == 0
    await asyncio.sleep(0.11)
    assert isinstance((await cache.get([(KEY, Rows)]))[0], Miss)


class SlowStore(MemoryStore):
    """Takes its time."""

    async def get(self, keys, timeout_seconds, *, lease):
        await asyncio.sleep(60)

    async def put(self, entries, timeout_seconds):
        await asyncio.sleep(60)


async def test_a_slow_store_costs_an_answer_little():
    cache = ResultCache(SlowStore(), get_timeout_seconds=0.05)
    async with asyncio.timeout(10):
        assert await cache.get([(KEY, Rows)]) is None


async def test_closing_waits_for_puts_but_not_for_ever():
    cache = ResultCache(SlowStore(), put_timeout_seconds=0.05)
    cache.put_later([Fresh(KEY, ROWS, 60)])
    async with asyncio.timeout(10):
        await cache.close()


async def test_too_large_results_are_not_stored():
    store = MemoryStore()
    cache = ResultCache(store)
    cache.put_later([Fresh(KEY, Rows("s", "[]", ("x",), (("y" * 1_100_000,),)), 60)])
    await cache.close()
    assert store.entries == {}


async def test_a_result_that_is_not_stored_keeps_nobody_waiting():
    store = MemoryStore()
    cache = ResultCache(store)
    (miss,) = await cache.get([(KEY, Rows)])
    cache.put_later([Fresh(KEY, Rows("s", "[]", ("x",), (("y" * 1_100_000,),)), 60, (), miss)])
    await cache.close()
    assert store.leases == {}


async def test_a_wait_ends_with_the_result_and_says_its_age_and_kind():
    class Answering(MemoryStore):
        async def wait(self, key, seconds):
            return Stored(ROWS_JSON, 2.5, "other words", 0.97)

    assert await ResultCache(Answering()).wait(KEY, Rows, 1) == Hit(ROWS, 2.5, "other words", 0.97)


async def test_a_wait_on_a_lost_store_is_a_miss():
    store = MemoryStore()
    store.lost = True
    assert await ResultCache(store).wait(KEY, Rows, 1) == Miss()


async def test_leases_end_although_the_callers_time_is_up():
    left = []

    class Noting(MemoryStore):
        async def release(self, leases, timeout_seconds):
            left.append(context.current().seconds_left())

    cache = ResultCache(Noting())
    context.enter(context.CallContext(context.Identity("acme"), "token", deadline=0.0))
    cache.release_later([(KEY, "lease")])
    await cache.close()
    assert left == [None]


class PickyStore(MemoryStore):
    """Refuses what is asked."""

    async def get(self, keys, timeout_seconds, *, lease):
        raise InvalidField("Wrong.", field="call.arguments_json")


async def test_a_store_that_refuses_a_call_is_not_a_lost_one():
    """One caller's odd call must not take the cache from all."""
    cache = ResultCache(PickyStore())
    assert await cache.get([(KEY, Rows)] * 2) == [Miss(), Miss()]
    assert await cache.get([(KEY, Rows)]) is not None


async def test_a_result_that_json_does_not_hold_is_not_stored_and_its_call_let_go():
    store = MemoryStore()
    cache = ResultCache(store)
    [miss] = await cache.get([(KEY, Rows)])
    deep = []
    for _ in range(2000):
        deep = [deep]
    for odd in (deep, "\ud800"):
        cache.put_later([Fresh(KEY, Rows("SELECT 1", "[]", ("a",), ((odd,),)), 60, miss=miss)])
    await cache.close()
    assert store.entries == store.leases == {}
