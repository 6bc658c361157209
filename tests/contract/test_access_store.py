"""One behaviour of the store of issued keys, in memory and in Valkey."""

import asyncio
import uuid
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from services.gateway.access.store import MemoryAccessStore, StoreFull, StoreLost, Version
from services.gateway.access.valkey_store import ValkeyAccessStore

# Generous: what is tested here is what is kept, on a machine that may be busy.
PATIENCE_SECONDS = 10


@pytest.fixture(params=["memory", "valkey", "cluster"])
async def make(request):
    """Makes stores that share nothing, each with the given bounds."""
    clients = []

    def one(**bounds):
        if request.param == "memory":
            return MemoryAccessStore(**bounds)
        if request.param == "cluster":
            clients.append(RedisCluster.from_url(request.getfixturevalue("cluster_url")))
        else:
            clients.append(Redis.from_url(request.getfixturevalue("valkey_url")))
        prefix = f"test:{{{uuid.uuid4().hex}}}:"
        return ValkeyAccessStore(clients[-1], timeout_seconds=PATIENCE_SECONDS, prefix=prefix, **bounds)

    yield one
    for client in clients:
        await client.aclose()


class TestAccessStore:
    """What every store does."""

    async def test_a_new_store_is_empty_and_then_says_that_nothing_has_changed(self, make):
        store = make()
        first = await store.changes(None)
        assert first.complete
        assert not any(first.entries.values())
        assert await store.changes(first.version) is None

    async def test_changes_are_told_with_their_newest_value_and_what_is_gone_as_none(self, make):
        store = make()
        await store.write("keys", "acme/ci", b"one")
        await store.write("limits", "acme", b"old")
        seen = (await store.changes(None)).version
        await store.write("keys", "acme/ci", b"two")
        await store.write("keys", "acme/app", b"new")
        await store.write("limits", "acme", None)
        changes = await store.changes(seen)
        assert not changes.complete
        assert dict(changes.entries["keys"]) == {"acme/ci": b"two", "acme/app": b"new"}
        assert dict(changes.entries["limits"]) == {"acme": None}
        assert dict(changes.entries["revoked"]) == {}
        assert await store.changes(changes.version) is None

    async def test_everything_is_told_to_those_who_begin(self, make):
        store = make()
        for number in range(3):
            await store.write("revoked", f"{number:064x}", b"{}")
        await store.write("keys", "acme/ci", b"\x00\xff bytes")
        everything = await store.changes(None)
        assert everything.complete
        assert len(everything.entries["revoked"]) == 3
        assert everything.entries["keys"]["acme/ci"] == b"\x00\xff bytes"

    async def test_a_value_is_only_replaced_by_who_knows_it(self, make):
        store = make()
        assert await store.write("keys", "acme/ci", b"one", expected=None)
        assert not await store.write("keys", "acme/ci", b"two", expected=None)
        assert not await store.write("keys", "acme/ci", b"two", expected=b"other")
        assert await store.write("keys", "acme/ci", b"two", expected=b"one")
        assert not await store.write("keys", "acme/none", b"two", expected=b"one")
        assert (await store.changes(None)).entries["keys"] == {"acme/ci": b"two"}

    async def test_of_many_who_replace_the_same_value_one_succeeds(self, make):
        store = make()
        await store.write("keys", "acme/ci", b"one")
        done = await asyncio.gather(*(store.write("keys", "acme/ci", b"by %d" % n, expected=b"one") for n in range(20)))
        assert sum(done) == 1

    async def test_who_is_far_behind_reads_everything_again(self, make):
        store = make(history=3)
        await store.write("keys", "acme/a", b"a")
        seen = (await store.changes(None)).version
        for name in "bcd":
            await store.write("keys", f"acme/{name}", name.encode())
        assert not (await store.changes(seen)).complete
        await store.write("keys", "acme/a", None)
        changes = await store.changes(seen)
        assert changes.complete
        assert sorted(changes.entries["keys"]) == ["acme/b", "acme/c", "acme/d"]

    async def test_another_store_in_its_place_is_read_from_the_beginning(self, make):
        store = make()
        await store.write("keys", "acme/a", b"a")
        changes = await store.changes(Version("another", 1))
        assert changes.complete
        assert changes.entries["keys"] == {"acme/a": b"a"}

    async def test_a_full_store_takes_nothing_new_but_changes(self, make):
        store = make(most_entries=2)
        await store.write("keys", "acme/a", b"a")
        await store.write("keys", "acme/b", b"b")
        with pytest.raises(StoreFull):
            await store.write("keys", "acme/c", b"c")
        assert await store.write("keys", "acme/b", b"B")
        assert await store.write("limits", "acme", b"{}")
        await store.write("keys", "acme/a", None)
        assert await store.write("keys", "acme/c", b"c")


@asynccontextmanager
async def silent_server():
    """Accepts connections and never answers."""

    async def accept(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_valkey_that_is_away_or_silent_is_a_lost_store(unused_tcp_port_factory):
    async with silent_server() as silent:
        for port in (unused_tcp_port_factory(), silent):
            async with Redis(host="127.0.0.1", port=port, retry=None) as client:
                store = ValkeyAccessStore(client, timeout_seconds=0.2)
                with pytest.raises(StoreLost):
                    await store.changes(None)


async def test_what_valkey_has_lost_is_noticed_by_those_who_read_it_before(valkey_url):
    async with Redis.from_url(valkey_url) as client:
        prefix = f"test:{{{uuid.uuid4().hex}}}:"
        store = ValkeyAccessStore(client, timeout_seconds=PATIENCE_SECONDS, prefix=prefix)
        await store.write("keys", "acme/a", b"a")
        seen = (await store.changes(None)).version
        for name in ("meta", "changes", "keys"):
            await client.delete(prefix + name)
        changes = await store.changes(seen)
        assert changes.complete
        assert changes.entries["keys"] == {}
        assert changes.version != seen
