"""One class, run on the cache's store in memory and on Valkey."""

import asyncio
import uuid

import pytest

from services.tool_cache.keys import call_key
from services.tool_cache.memory_store import MemoryStore
from services.tool_cache.store import Lease, Outcome, Result
from services.tool_cache.valkey_store import ValkeyStore

MINUTE = 60_000
TABLES = ("table:main/public.contracts", "table:main/public.suppliers")


@pytest.fixture(params=["memory", "valkey"])
async def store(request):
    if request.param == "memory":
        store = MemoryStore()
    else:
        store = ValkeyStore(request.getfixturevalue("valkey_url"), timeout_seconds=5)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def tenant():
    return f"t{uuid.uuid4().hex[:8]}"


def key(tenant, arguments="{}", tool="sql_query", version="1"):
    return call_key(tenant, tool, version, arguments)


async def values(store, *keys):
    return [found.value for found in await store.get(keys)]


async def put(store, key, value=b"1", **fields):
    [outcome] = await store.put([Result(key, value, fields.pop("ttl_ms", MINUTE), **fields)])
    return outcome


class TestResults:
    async def test_a_result_is_there_as_it_was_put(self, store, tenant):
        value = bytes(range(256)) * 100
        assert await put(store, key(tenant), value) is Outcome.STORED
        [found] = await store.get([key(tenant)])
        assert found.value == value
        assert 0 <= found.age_seconds < 5
        assert found.snapshot > 0

    async def test_a_batch_answers_in_order(self, store, tenant):
        keys = [key(tenant, f'{{"n":{n}}}') for n in range(64)]
        outcomes = await store.put([Result(k, str(n).encode(), MINUTE) for n, k in enumerate(keys) if n % 2])
        assert outcomes == [Outcome.STORED] * 32
        assert await values(store, *keys) == [str(n).encode() if n % 2 else None for n in range(64)]

    async def test_an_empty_result_is_not_a_missing_one(self, store, tenant):
        await put(store, key(tenant), b"")
        assert await values(store, key(tenant), key(tenant, '{"a":1}')) == [b"", None]

    async def test_tenants_tools_and_versions_do_not_mix(self, store, tenant):
        await put(store, key(tenant))
        assert await values(store, key(tenant, tool="web_search"), key(tenant, version="2")) == [None] * 2
        assert await values(store, key(f"{tenant}x")) == [None]

    async def test_the_later_result_counts(self, store, tenant):
        for value in (b"one", b"two"):
            await put(store, key(tenant), value)
        assert await values(store, key(tenant)) == [b"two"]

    async def test_a_result_ends_with_its_time_however_often_it_is_read(self, store, tenant):
        long = key(tenant, '{"a":1}')
        await put(store, long)
        await put(store, key(tenant), b"short", ttl_ms=300)
        ended = asyncio.get_running_loop().time() + 0.3
        while asyncio.get_running_loop().time() < ended - 0.1:
            assert await values(store, key(tenant)) == [b"short"]
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.15)
        assert await values(store, key(tenant), long) == [None, b"1"]

    async def test_without_a_time_to_live_nothing_is_stored(self, store, tenant):
        assert await put(store, key(tenant), ttl_ms=0) is Outcome.NO_TTL
        assert await values(store, key(tenant)) == [None]


class TestInvalidation:
    async def test_forgets_one_tool_of_one_tenant(self, store, tenant):
        other_tool, other_tenant = key(tenant, tool="web_search"), key(f"{tenant}x")
        for one in (key(tenant), other_tool, other_tenant):
            await put(store, one)
        await store.invalidate(tenant, "sql_query", ())
        [forgotten, kept] = await store.get([key(tenant), other_tool])
        assert (forgotten.value, forgotten.stale) == (None, True)
        assert (kept.value, kept.stale) == (b"1", False)
        assert await values(store, other_tenant) == [b"1"]

    @pytest.mark.parametrize(
        ("sources", "changed"),
        [
            (TABLES, "table:main/public.contracts"),
            (TABLES, "table:main/public.suppliers"),
            (TABLES, "source:main"),
            (TABLES, "*"),
            ((), "*"),
            (("collection:policies",), "collection:policies"),
            (("collection:*",), "collection:policies"),
            (("collection:*",), "collection:*"),
            (("table:main/*",), "table:main/public.contracts"),
            (("table:*",), "source:main"),
            (("*",), "collection:policies"),
        ],
    )
    async def test_forgets_what_was_made_from_a_source(self, store, tenant, sources, changed):
        await put(store, key(tenant), sources=sources)
        await store.invalidate(tenant, "", [changed])
        [found] = await store.get([key(tenant)])
        assert (found.value, found.stale) == (None, True)

    @pytest.mark.parametrize(
        ("sources", "changed"),
        [
            (TABLES, "table:main/public.invoices"),
            (TABLES, "table:other/public.contracts"),
            (TABLES, "source:other"),
            (TABLES, "source:mai"),
            (TABLES, "collection:*"),
            (("collection:policies",), "collection:handbook"),
            (("collection:policies",), "collection:*"),
            ((), "collection:policies"),
        ],
    )
    async def test_leaves_what_was_made_from_others(self, store, tenant, sources, changed):
        await put(store, key(tenant), sources=sources)
        await store.invalidate(tenant, "", [changed])
        assert await values(store, key(tenant)) == [b"1"]

    async def test_what_is_made_afterwards_is_stored(self, store, tenant):
        await put(store, key(tenant), sources=TABLES)
        await store.invalidate(tenant, "sql_query", TABLES)
        [found] = await store.get([key(tenant)])
        assert await put(store, key(tenant), b"2", sources=TABLES, snapshot=found.snapshot) is Outcome.STORED
        assert await values(store, key(tenant)) == [b"2"]

    @pytest.mark.parametrize(("tool", "changed"), [("sql_query", ()), ("", TABLES[:1]), ("", ("source:main",))])
    async def test_what_was_being_made_is_not_stored(self, store, tenant, tool, changed):
        [found] = await store.get([key(tenant)])
        await store.invalidate(tenant, tool, changed)
        outcome = await put(store, key(tenant), sources=TABLES, snapshot=found.snapshot)
        assert outcome is Outcome.OUTDATED
        assert await values(store, key(tenant)) == [None]

    async def test_a_stale_entry_that_is_made_again_is_guarded_too(self, store, tenant):
        await put(store, key(tenant), sources=TABLES)
        await store.invalidate(tenant, "", TABLES)
        [found] = await store.get([key(tenant)])
        await store.invalidate(tenant, "", TABLES)
        outcome = await put(store, key(tenant), sources=TABLES, snapshot=found.snapshot)
        assert outcome is Outcome.OUTDATED

    async def test_what_is_being_made_from_another_source_is_stored(self, store, tenant):
        [found] = await store.get([key(tenant)])
        await store.invalidate(tenant, "web_search", ["collection:policies"])
        assert await put(store, key(tenant), sources=TABLES, snapshot=found.snapshot) is Outcome.STORED

    async def test_a_snapshot_from_nowhere_is_not_believed(self, store, tenant):
        [found] = await store.get([key(tenant)])
        assert await put(store, key(tenant), snapshot=found.snapshot + 10) is Outcome.OUTDATED
        assert await put(store, key(tenant), snapshot=0) is Outcome.STORED


class TestLeases:
    async def test_the_first_who_misses_gets_the_lease(self, store, tenant):
        [first] = await store.get([key(tenant)], lease_ms=MINUTE)
        [second] = await store.get([key(tenant)], lease_ms=MINUTE)
        [looking] = await store.get([key(tenant, '{"a":1}')])
        assert first.token
        assert second.token == looking.token == ""

    async def test_each_call_of_a_batch_has_a_lease_of_its_own(self, store, tenant):
        keys = [key(tenant, f'{{"n":{n}}}') for n in range(4)]
        await put(store, keys[0])
        found = await store.get(keys, lease_ms=MINUTE)
        assert found[0].token == ""
        assert len({one.token for one in found[1:]} - {""}) == 3

    async def test_a_result_ends_the_lease(self, store, tenant):
        [leader] = await store.get([key(tenant)], lease_ms=MINUTE)
        await put(store, key(tenant), ttl_ms=1, token=leader.token)
        await asyncio.sleep(0.05)
        assert (await store.get([key(tenant)], lease_ms=MINUTE))[0].token

    @pytest.mark.parametrize("fields", [{"ttl_ms": 0}, {"sources": TABLES}])
    async def test_a_result_that_is_not_stored_ends_the_lease_too(self, store, tenant, fields):
        [leader] = await store.get([key(tenant)], lease_ms=MINUTE)
        await store.invalidate(tenant, "", TABLES)
        await put(store, key(tenant), snapshot=leader.snapshot, token=leader.token, **fields)
        assert (await store.get([key(tenant)], lease_ms=MINUTE))[0].token

    async def test_a_release_ends_the_lease(self, store, tenant):
        [leader] = await store.get([key(tenant)], lease_ms=MINUTE)
        await store.release([Lease(key(tenant), leader.token)])
        assert (await store.get([key(tenant)], lease_ms=MINUTE))[0].token

    async def test_nobody_ends_the_lease_of_another(self, store, tenant):
        await store.get([key(tenant)], lease_ms=MINUTE)
        for token in ("", "another"):
            await store.release([Lease(key(tenant), token)])
            await put(store, key(tenant), ttl_ms=0, token=token)
        assert (await store.get([key(tenant)], lease_ms=MINUTE))[0].token == ""

    async def test_a_lease_ends_with_its_time(self, store, tenant):
        [leader] = await store.get([key(tenant)], lease_ms=50)
        await asyncio.sleep(0.1)
        [next_one] = await store.get([key(tenant)], lease_ms=MINUTE)
        assert next_one.token
        await store.release([Lease(key(tenant), leader.token)])
        assert (await store.get([key(tenant)], lease_ms=MINUTE))[0].token == ""

    async def test_a_result_without_a_lease_is_stored_and_leaves_the_lease(self, store, tenant):
        await store.get([key(tenant)], lease_ms=MINUTE)
        assert await put(store, key(tenant), ttl_ms=50) is Outcome.STORED
        assert await values(store, key(tenant)) == [b"1"]
        await asyncio.sleep(0.1)
        assert (await store.get([key(tenant)], lease_ms=MINUTE))[0].token == ""

    async def test_a_stale_entry_is_leased_as_a_missing_one(self, store, tenant):
        await put(store, key(tenant))
        await store.invalidate(tenant, "sql_query", ())
        [found] = await store.get([key(tenant)], lease_ms=MINUTE)
        assert found.stale
        assert found.token

    async def test_what_counts_only_while_it_is_leased_is_not_stored_otherwise(self, store, tenant):
        assert await put(store, key(tenant), only_leased=True) is Outcome.OUTDATED
        [leader] = await store.get([key(tenant)], lease_ms=MINUTE)
        assert await put(store, key(tenant), only_leased=True, token="another") is Outcome.OUTDATED
        assert await put(store, key(tenant), only_leased=True, token=leader.token) is Outcome.STORED
        assert await values(store, key(tenant)) == [b"1"]
