import asyncio

from services.orchestrator.result_cache import CacheEntry, CacheKey, MemoryStore, ResultCache
from services.orchestrator.results import Page, Pages, Passage, Passages, Rows

KEY = CacheKey("sql_query", '{"query": "SELECT 1"}', "v")
ROWS = Rows("SELECT 1", "[]", ("a", "b"), ((1, None), ("8300000.00", {"x": [True]})), truncated=True)
PASSAGES = Passages((Passage("d", "c", "T", "s", 1, "", "es", "Cláusula."),))
PAGES = Pages((Page("https://e.eu", "E", "x", ""),))


async def test_every_kind_of_result_comes_back_as_it_was():
    cache = ResultCache(MemoryStore())
    keys = [CacheKey("t", str(i), "v") for i in range(3)]
    results = [ROWS, PASSAGES, PAGES]
    cache.put_later([(key, result, 60) for key, result in zip(keys, results, strict=True)])
    await cache.close()
    wanted = list(zip(keys, map(type, results), strict=True))
    assert await cache.get(wanted) == results


async def test_an_unreadable_value_is_a_miss():
    store = MemoryStore()
    store.entries[KEY] = CacheEntry(KEY, b"\x80\x04pickle", 60)
    assert await ResultCache(store).get([(KEY, Rows)]) == [None]


async def test_a_lost_store_is_left_alone_for_a_while_and_then_used_again():
    store = MemoryStore()
    cache = ResultCache(store, pause_seconds=0.1)
    store.lost = True
    assert await cache.get([(KEY, Rows)]) is None
    store.lost = False
    assert await cache.get([(KEY, Rows)]) is None
    assert store.lookups == 0
    await asyncio.sleep(0.11)
    assert await cache.get([(KEY, Rows)]) == [None]


class SlowStore(MemoryStore):
    """Takes its time."""

    async def get(self, keys, timeout_seconds):
        await asyncio.sleep(60)

    async def put(self, entries, timeout_seconds):
        await asyncio.sleep(60)


async def test_a_slow_store_costs_an_answer_little():
    cache = ResultCache(SlowStore(), get_timeout_seconds=0.05)
    async with asyncio.timeout(1):
        assert await cache.get([(KEY, Rows)]) is None


async def test_closing_waits_for_puts_but_not_for_ever():
    cache = ResultCache(SlowStore(), put_timeout_seconds=0.05)
    cache.put_later([(KEY, ROWS, 60)])
    async with asyncio.timeout(1):
        await cache.close()


async def test_too_large_results_are_not_stored():
    store = MemoryStore()
    cache = ResultCache(store)
    cache.put_later([(KEY, Rows("s", "[]", ("x",), (("y" * 1_100_000,),)), 60)])
    await cache.close()
    assert store.entries == {}
