"""One class, run on the cache's store in memory and on Valkey."""

import asyncio
import uuid

import pytest

from services.tool_cache.keys import call_key
from services.tool_cache.store import MemoryStore, Result
from services.tool_cache.valkey_store import ValkeyStore


@pytest.fixture(params=["memory", "valkey"])
async def store(request):
    store = MemoryStore() if request.param == "memory" else ValkeyStore(request.getfixturevalue("valkey_url"))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def tenant():
    return f"t{uuid.uuid4().hex[:8]}"


def key(tenant, arguments="{}", tool="sql_query", version="1"):
    return call_key(tenant, tool, version, arguments)


async def values(store, *keys):
    return [found and found.value for found in await store.get(keys)]


class TestStore:
    async def test_a_result_is_there_as_it_was_put(self, store, tenant):
        value = bytes(range(256)) * 100
        assert await store.put([Result(key(tenant), value, 60_000)]) == [True]
        [found] = await store.get([key(tenant)])
        assert found.value == value
        assert 0 <= found.age_seconds < 5

    async def test_a_batch_answers_in_order(self, store, tenant):
        keys = [key(tenant, f'{{"n":{n}}}') for n in range(64)]
        stored = await store.put([Result(k, str(n).encode(), 60_000) for n, k in enumerate(keys) if n % 2])
        assert stored == [True] * 32
        assert await values(store, *keys) == [str(n).encode() if n % 2 else None for n in range(64)]

    async def test_an_empty_result_is_not_a_missing_one(self, store, tenant):
        await store.put([Result(key(tenant), b"", 60_000)])
        assert await values(store, key(tenant), key(tenant, '{"a":1}')) == [b"", None]

    async def test_tenants_tools_and_versions_do_not_mix(self, store, tenant):
        await store.put([Result(key(tenant), b"mine", 60_000)])
        others = [key(f"{tenant}x"), key(tenant, tool="web_search"), key(tenant, version="2")]
        assert await values(store, *others) == [None] * 3

    async def test_the_later_result_counts(self, store, tenant):
        for value in (b"one", b"two"):
            await store.put([Result(key(tenant), value, 60_000)])
        assert await values(store, key(tenant)) == [b"two"]

    async def test_a_result_ends_with_its_time(self, store, tenant):
        long = key(tenant, '{"a":1}')
        await store.put([Result(key(tenant), b"short", 80), Result(long, b"long", 60_000)])
        assert await values(store, key(tenant)) == [b"short"]
        await asyncio.sleep(0.12)
        assert await values(store, key(tenant), long) == [None, b"long"]

    async def test_invalidation_forgets_one_tool_of_one_tenant(self, store, tenant):
        kept = [key(tenant, tool="web_search"), key(f"{tenant}x")]
        await store.put([Result(k, b"v", 60_000) for k in [*kept[:1], key(tenant)]])
        await store.put([Result(kept[1], b"v", 60_000)])
        await store.invalidate(tenant, "sql_query")
        assert await values(store, key(tenant)) == [None]
        assert await values(store, kept[0]) == [b"v"]
        assert await values(store, kept[1]) == [b"v"]
        await store.get([key(tenant)])
        assert await store.put([Result(key(tenant), b"new", 60_000)]) == [True]
        assert await values(store, key(tenant)) == [b"new"]

    async def test_a_result_from_before_an_invalidation_is_not_stored_after_it(self, store, tenant):
        assert await values(store, key(tenant)) == [None]
        await store.invalidate(tenant, "sql_query")
        assert await store.put([Result(key(tenant), b"old", 60_000)]) == [False]
        assert await values(store, key(tenant)) == [None]

    async def test_a_stale_entry_that_is_made_again_is_guarded_too(self, store, tenant):
        await store.put([Result(key(tenant), b"first", 60_000)])
        await store.invalidate(tenant, "sql_query")
        assert await values(store, key(tenant)) == [None]
        await store.invalidate(tenant, "sql_query")
        assert await store.put([Result(key(tenant), b"second", 60_000)]) == [False]
