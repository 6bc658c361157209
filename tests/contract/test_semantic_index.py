"""Where earlier questions are kept: in memory and in a real Valkey alike."""

import asyncio
import uuid

import pytest
import redis

from services.tool_cache.semantic.index import MOST_CANDIDATES, Bucket, MemoryIndex
from services.tool_cache.semantic.valkey_index import ValkeyIndex


@pytest.fixture(params=["memory", "valkey"])
async def index(request):
    if request.param == "memory":
        made = MemoryIndex()
    else:
        made = ValkeyIndex(request.getfixturevalue("valkey_url"), timeout_seconds=5)
    yield made
    await made.close()


@pytest.fixture
def tenant():
    return f"t{uuid.uuid4().hex[:8]}"


def bucket(tenant, signature="a", scope="s"):
    return Bucket.of(tenant, scope, signature)


async def test_texts_come_back_by_bucket_in_order(index, tenant):
    await index.add([(bucket(tenant, "a"), "one", 60_000), (bucket(tenant, "b"), "¿dos?", 60_000)])
    asked = [bucket(tenant, name) for name in "bca"]
    assert await index.texts(asked) == [["¿dos?"], [], ["one"]]
    assert await index.texts([bucket(tenant, "a", scope="t"), bucket(f"{tenant}x", "a")][:1]) == [[]]
    assert await index.texts([bucket(f"{tenant}x", "a")]) == [[]]


async def test_those_that_last_longest_come_first_and_few_are_seen(index, tenant):
    for n in range(40):
        await index.add([(bucket(tenant), f"text {n}", 60_000 + n * 1000)])
    [found] = await index.texts([bucket(tenant)])
    assert found == [f"text {n}" for n in range(39, 39 - MOST_CANDIDATES, -1)]


async def test_a_text_ends_in_time_and_alone(index, tenant):
    await index.add([(bucket(tenant), "short", 60), (bucket(tenant), "long", 60_000)])
    assert await index.texts([bucket(tenant)]) == [["long", "short"]]
    await asyncio.sleep(0.15)
    assert await index.texts([bucket(tenant)]) == [["long"]]


async def test_a_text_that_is_added_again_lasts_as_long_as_the_last_time(index, tenant):
    await index.add([(bucket(tenant), "text", 60_000)])
    await index.add([(bucket(tenant), "text", 60)])
    await asyncio.sleep(0.15)
    assert await index.texts([bucket(tenant)]) == [[]]


async def test_buckets_in_valkey_end_with_their_last_text(valkey_url, tenant):
    index = ValkeyIndex(valkey_url)
    await index.add([(bucket(tenant), "one", 5_000), (bucket(tenant), "two", 90_000)])
    with redis.Redis.from_url(valkey_url) as client:
        [name] = client.keys(f"sabueso:cache:{{{tenant}}}:s:*")
        assert 80_000 < client.pttl(name) <= 90_000
        client.delete(name)
        client.set(name, b"\x80pickle")
    assert await index.texts([bucket(tenant)]) == [[]]
    await index.add([(bucket(tenant), "again", 5_000)])
    assert await index.texts([bucket(tenant)]) == [["again"]]
    await index.close()


async def test_the_index_in_memory_forgets_the_least_recently_used_buckets(tenant):
    index = MemoryIndex(most_buckets=2)
    for name in "ab":
        await index.add([(bucket(tenant, name), name, 60_000)])
    await index.texts([bucket(tenant, "a")])
    await index.add([(bucket(tenant, "c"), "c", 60_000)])
    assert await index.texts([bucket(tenant, name) for name in "abc"]) == [["a"], [], ["c"]]
