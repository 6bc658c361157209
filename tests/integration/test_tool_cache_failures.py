"""Valkey down, slow, full, read-only, wrong: whoever asks hears so soon, and runs the tool."""

import asyncio
import contextlib
import random
import time
import uuid

import pytest
import redis

from services.runtime import errors
from services.tool_cache.flights import Flights
from services.tool_cache.keys import call_key
from services.tool_cache.store import Result
from services.tool_cache.valkey_store import ValkeyStore
from tests.integration.tool_cache_client import (
    OwnValkey,
    call,
    counted,
    entry,
    entry_names,
    get,
    invalidate,
    put,
    refused,
    release,
    serving,
    wait,
)

TIMEOUT, PAUSE = 0.25, 0.5


@pytest.fixture(scope="module")
def shared_valkey(tmp_path_factory):
    own = OwnValkey(tmp_path_factory.mktemp("valkey"))
    yield own
    own.close()


@pytest.fixture
def own_valkey(shared_valkey):
    """Whatever a test did to it is undone."""
    shared_valkey.thaw()
    yield shared_valkey
    shared_valkey.thaw()
    shared_valkey.client.replicaof("NO", "ONE")
    shared_valkey.client.config_set("maxmemory", "256mb")


@pytest.fixture
async def cache(own_valkey, tenant):
    async with serving(own_valkey.url, valkey_timeout_seconds=TIMEOUT, valkey_pause_seconds=PAUSE) as stub:
        await put(stub, entry(b'"known"', '{"n":0}'))
        yield stub


async def fails_soon(awaitable, seconds=TIMEOUT):
    """Three tries by the channel for a read: the later ones fail at once."""
    started = time.perf_counter()
    error = await refused(awaitable, errors.DependencyFailed)
    took = time.perf_counter() - started
    assert took < seconds + 15, took
    assert error.metadata["dependency"] == "valkey"


async def works_again(cache):
    await asyncio.sleep(PAUSE)
    for _ in range(100):
        try:
            await put(cache, entry(b'"back"', '{"n":99}'))
            break
        except Exception:
            await asyncio.sleep(0.05)
    assert (await get(cache, call('{"n":99}')))[0].value == b'"back"'


async def test_without_valkey_every_method_fails_soon_and_names_it(tenant):
    async with serving("redis://127.0.0.1:1") as cache:
        bypassed = counted("lookups", result="bypass")
        for lease in (False, True):
            await fails_soon(get(cache, call(), call('{"a":1}'), lease=lease))
        assert counted("lookups", result="bypass") >= bypassed + 4
        await fails_soon(put(cache, entry()))
        await fails_soon(wait(cache))
        await fails_soon(release(cache, "token"))
        await fails_soon(invalidate(cache, "collection:a"))
        assert counted("results", outcome="bypass") >= 1
        assert counted("waits", outcome="bypass") >= 1


async def test_a_frozen_valkey_is_waited_for_once(cache, own_valkey):
    own_valkey.freeze()
    await fails_soon(put(cache, entry()))
    started = time.perf_counter()
    await refused(put(cache, entry()), errors.DependencyFailed)
    assert time.perf_counter() - started < 15
    own_valkey.thaw()
    await works_again(cache)


async def test_a_valkey_that_was_killed_is_used_again_when_it_is_back(tmp_path, tenant):
    own = OwnValkey(tmp_path)
    try:
        async with serving(own.url, valkey_timeout_seconds=TIMEOUT, valkey_pause_seconds=PAUSE) as cache:
            await put(cache, entry())
            own.kill()
            await fails_soon(get(cache))
            own.start()
            await works_again(cache)
    finally:
        own.close()


async def test_a_restart_between_two_calls_is_not_noticed(tmp_path, tenant):
    own = OwnValkey(tmp_path)
    try:
        async with serving(own.url, valkey_timeout_seconds=5) as cache:
            await put(cache, entry())
            own.kill()
            own.start()
            assert await put(cache, entry(b"2")) == 1
    finally:
        own.close()


async def test_after_a_restart_nothing_of_before_is_believed(tmp_path, tenant):
    """Its log may lack the last second, and with it an invalidation."""
    own = OwnValkey(tmp_path)
    try:
        async with serving(own.url, valkey_timeout_seconds=5) as cache:
            await put(cache, entry())
            [slow] = await get(cache, call('{"n":1}'), lease=True)
            own.kill()
            own.start()
            assert entry_names(own.client, tenant)
            assert not (await get(cache))[0].hit
            late = entry(arguments='{"n":1}', snapshot=slow.snapshot, token=slow.lease_token)
            assert await put(cache, late) == 0
            assert await put(cache, entry()) == 1
            assert (await get(cache))[0].hit
    finally:
        own.close()


async def test_a_full_valkey_still_answers_and_nobody_waits_for_it(cache, own_valkey):
    own_valkey.client.config_set("maxmemory-policy", "noeviction")
    own_valkey.client.config_set("maxmemory", "1")
    full = counted("results", outcome="full")
    hit, *misses = await get(cache, call('{"n":0}'), call(), call('{"a":1}'), lease=True)
    assert hit.value == b'"known"'
    assert all(miss.lease_token for miss in misses)
    assert await put(cache, entry(token=misses[0].lease_token), entry(arguments='{"a":1}')) == 0
    assert counted("results", outcome="full") == full + 2
    own_valkey.client.config_set("maxmemory", "256mb")
    assert await put(cache, entry()) == 1


async def test_a_full_valkey_still_forgets(cache, own_valkey):
    await put(
        cache, entry(sources=["table:main/public.a"]), entry(arguments='{"a":1}', sources=["table:main/public.b"])
    )
    own_valkey.client.config_set("maxmemory-policy", "noeviction")
    own_valkey.client.config_set("maxmemory", "1")
    await invalidate(cache, "table:main/public.a")
    assert [one.hit for one in await get(cache, call(), call('{"a":1}'))] == [False, True]


async def test_a_replica_is_left_for_its_primary(cache, own_valkey):
    own_valkey.client.replicaof("127.0.0.1", "1")
    await fails_soon(put(cache, entry()))
    await asyncio.sleep(PAUSE)
    await fails_soon(get(cache, lease=True))
    own_valkey.client.replicaof("NO", "ONE")
    await works_again(cache)


async def test_a_wrong_password_is_a_lost_valkey(own_valkey, tenant):
    own_valkey.client.config_set("requirepass", "right")
    try:
        for url in (own_valkey.url, own_valkey.url.replace("://", "://:wrong@")):
            async with serving(url) as cache:
                await fails_soon(get(cache))
        async with serving(own_valkey.url.replace("://", "://:right@"), valkey_timeout_seconds=5) as cache:
            assert await put(cache, entry()) == 1
    finally:
        own_valkey.client.config_set("requirepass", "")


@pytest.mark.parametrize(
    "says",
    [
        b"-LOADING Valkey is loading the dataset in memory\r\n",
        b"-MASTERDOWN Link with MASTER is down\r\n",
        b"-MISCONF errors writing to the AOF file\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
        b"-BUSY a script is running\r\n",
        b"+OK\r\n",
        b"*1\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
    ],
)
async def test_a_server_that_says_anything_else_is_a_lost_valkey(tenant, says):
    async def answer(reader, writer):
        while await reader.read(65536):
            writer.write(says)
            if not says:
                break
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        async with serving(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}") as cache:
            await fails_soon(get(cache, lease=True))
            await fails_soon(put(cache, entry()))


async def test_keys_of_another_kind_are_misses_and_are_replaced(cache, own_valkey, tenant):
    await put(cache, entry())
    await get(cache, call('{"a":1}'), lease=True)
    for name in (*entry_names(own_valkey.client, tenant), *entry_names(own_valkey.client, tenant, "l")):
        own_valkey.client.delete(name)
        own_valkey.client.lpush(name, "a", "list")
    found = await get(cache, call(), call('{"a":1}'), lease=True)
    assert [(one.hit, bool(one.lease_token)) for one in found] == [(False, True)] * 2
    assert await put(cache, entry(token=found[0].lease_token)) == 1
    for command in (own_valkey.client.set, own_valkey.client.lpush):
        own_valkey.client.delete(f"sabueso:cache:{{{tenant}}}:g")
        command(f"sabueso:cache:{{{tenant}}}:g", "nonsense")
        [found] = await get(cache)
        assert not found.hit
        assert await put(cache, entry(snapshot=found.snapshot)) == 1
        assert (await get(cache))[0].hit


async def test_what_is_invalidated_while_valkey_is_left_alone_is_forgotten(cache, own_valkey):
    own_valkey.freeze()
    await fails_soon(put(cache, entry()))
    own_valkey.thaw()
    await invalidate(cache, tool="sql_query")
    assert not (await get(cache, call('{"n":0}')))[0].hit


async def test_a_lost_state_forgets_all_that_was_made_before(cache, own_valkey, tenant):
    [before] = await get(cache, lease=True)
    own_valkey.client.delete(f"sabueso:cache:{{{tenant}}}:g")
    [known] = await get(cache, call('{"n":0}'))
    assert not known.hit
    assert known.snapshot > before.snapshot
    assert await put(cache, entry(snapshot=before.snapshot, token=before.lease_token)) == 0
    own_valkey.client.delete(f"sabueso:cache:{{{tenant}}}:g")
    await invalidate(cache, "collection:a")
    assert not (await get(cache, call('{"n":0}')))[0].hit


async def test_a_flush_forgets_all_and_nothing_else_goes_wrong(cache, own_valkey):
    own_valkey.client.flushall()
    own_valkey.client.script_flush()
    [found] = await get(cache, call('{"n":0}'), lease=True)
    assert not found.hit
    assert await put(cache, entry(arguments='{"n":0}', snapshot=found.snapshot, token=found.lease_token)) == 1


async def test_the_state_of_a_tenant_stays_small_and_forgets_rather_than_remembers(cache, own_valkey, tenant):
    state = f"sabueso:cache:{{{tenant}}}:g"
    await put(cache, entry(arguments='{"n":1}', sources=["table:main/t0"]))
    for start in range(0, 6000, 60):
        await invalidate(cache, *(f"table:main/t{n}" for n in range(start, start + 60)))
        if start == 5880:
            await put(cache, entry(arguments='{"n":2}', sources=["table:main/t5939"]))
            await put(cache, entry(arguments='{"n":3}', sources=["table:main/t5999"]))
    assert own_valkey.client.hlen(state) <= 4096 + 2
    assert 30 * 86400 * 1000 < own_valkey.client.pttl(state) <= 31 * 86400 * 1000
    found = await get(cache, *(call(f'{{"n":{n}}}') for n in range(4)))
    assert [one.hit for one in found] == [False, False, True, False]


async def test_a_cancelled_lookup_never_answers_another(valkey_url):
    """One connection for all; a pause of the server makes sure that the command was sent when the caller goes."""
    store = ValkeyStore(valkey_url, max_connections=1, timeout_seconds=5)
    one, other = (call_key(name, "t", "1", "{}") for name in (f"a{uuid.uuid4().hex}", f"b{uuid.uuid4().hex}"))
    await store.put([Result(one, b"secret of one", 60_000)])
    await store.put([Result(other, b"of other", 60_000)])
    with redis.Redis.from_url(valkey_url) as server:
        for _ in range(5):
            server.client_pause(150)
            lookup = asyncio.ensure_future(store.get([one]))
            await asyncio.sleep(0.05)
            lookup.cancel()
            with pytest.raises(asyncio.CancelledError):
                await lookup
            [found] = await store.get([other])
            assert found.value == b"of other"
    await store.close()


async def test_a_lookup_that_took_too_long_never_answers_another(valkey_url):
    store = ValkeyStore(valkey_url, max_connections=1, timeout_seconds=0.1, pause_seconds=0.01)
    one, other = (call_key(name, "t", "1", "{}") for name in (f"a{uuid.uuid4().hex}", f"b{uuid.uuid4().hex}"))
    await store.put([Result(one, b"secret of one", 60_000)])
    await store.put([Result(other, b"of other", 60_000)])
    with redis.Redis.from_url(valkey_url) as server:
        for _ in range(5):
            server.client_pause(200)
            with pytest.raises(errors.DependencyFailed):
                await store.get([one])
            await asyncio.sleep(0.2)
            [found] = await store.get([other])
            assert found.value == b"of other"
    await store.close()


async def test_connections_of_callers_who_went_are_not_lost(valkey_url):
    """Two connections, forty callers who go in the middle of it: those who come after are served."""
    store = ValkeyStore(valkey_url, max_connections=2, timeout_seconds=5)
    key = call_key(f"a{uuid.uuid4().hex}", "t", "1", "{}")
    for step in range(40):
        lookups = [asyncio.ensure_future(store.get([key])) for _ in range(6)]
        await asyncio.sleep(step * 0.0001)
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)
    assert len(await asyncio.gather(*(store.get([key]) for _ in range(20)))) == 20
    await store.close()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_whoever_is_cancelled_and_whatever_is_cut_nobody_gets_anothers_result(own_valkey, seed):
    """Callers of many tenants with little patience and few connections, which are cut under them."""
    store = ValkeyStore(own_valkey.url, max_connections=3, timeout_seconds=0.05, pause_seconds=0.002)
    flights = Flights(store, lease_seconds=1)
    ends, hits = time.monotonic() + 3, 0

    def goes_on():
        """For a while, and on a busy machine until enough was found to tell something by."""
        return time.monotonic() < ends or (hits <= 20 and time.monotonic() < ends + 60)

    async def ask(dice):
        nonlocal hits
        while goes_on():
            key = call_key(f"t{dice.randrange(30)}", "t", "1", f'{{"n":{dice.randrange(3)},"seed":{seed}}}')
            with contextlib.suppress(errors.DependencyFailed, TimeoutError):
                async with asyncio.timeout(dice.choice((0.0005, 0.001, 0.002, 1))):
                    [found] = await flights.get([key], lease=dice.random() < 0.5)
                    hits += found.value is not None
                    assert found.value in (None, key.material)
                    if found.value is None:
                        await store.put([Result(key, key.material, 200, (), found.snapshot, found.token)])
            await asyncio.sleep(dice.random() * 0.002)

    async def cut(dice):
        while goes_on():
            await asyncio.sleep(dice.random() * 0.1)
            cut = dice.choice((own_valkey.client.script_flush, own_valkey.freeze, lambda: disconnect(own_valkey)))
            await asyncio.to_thread(cut)
            await asyncio.sleep(dice.random() * 0.06)
            own_valkey.thaw()

    def disconnect(valkey):
        valkey.client.client_kill_filter(_type="normal", skipme=True)

    await asyncio.gather(cut(random.Random(seed)), *(ask(random.Random(f"{seed} {n}")) for n in range(20)))
    assert hits > 20
    await flights.close()
    await store.close()
