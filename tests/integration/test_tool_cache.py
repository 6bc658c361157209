"""A real tool cache server on a real Valkey."""

import asyncio
import json
import pickle
import statistics
import subprocess
import time
import uuid
from contextlib import asynccontextmanager

import pytest
import redis
from google.protobuf.duration_pb2 import Duration
from grpc import aio
from prometheus_client import REGISTRY

from local import ports, valkey
from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc as rpc
from services.runtime import errors
from services.runtime.testing import SECRET, act_as, running
from services.tool_cache.config import Settings
from services.tool_cache.keys import call_key
from services.tool_cache.server import build
from services.tool_cache.store import Result
from services.tool_cache.valkey_store import ValkeyStore


@asynccontextmanager
async def serving(url, **settings):
    async with running(build(Settings(identity_secret=SECRET, valkey_url=url, **settings))) as channel:
        yield rpc.ToolCacheServiceStub(channel)


@pytest.fixture
def tenant():
    name = f"t{uuid.uuid4().hex[:8]}"
    act_as(name)
    return name


@pytest.fixture
async def cache(valkey_url, tenant):
    async with serving(valkey_url) as stub:
        yield stub


@pytest.fixture
def server(valkey_url):
    """A client of the test's own, to look behind the service."""
    with redis.Redis.from_url(valkey_url) as client:
        yield client


def call(arguments="{}", tool="sql_query", version="1"):
    return pb.Call(tool=tool, arguments_json=arguments, version=version)


MINUTE = Duration(seconds=60)


def entry(value=b"v", arguments="{}", ttl=MINUTE, **fields):
    return pb.Entry(call=call(arguments, **fields), value=value, ttl=ttl)


async def put(cache, *entries):
    return (await cache.BatchPut(pb.BatchPutRequest(entries=entries))).stored_count


async def get(cache, *calls):
    return list((await cache.BatchGet(pb.BatchGetRequest(calls=calls))).lookups)


def entry_names(server, tenant):
    return server.keys(f"sabueso:cache:{{{tenant}}}:e:*")


async def refused(awaitable, kind):
    with pytest.raises(aio.AioRpcError) as caught:
        await awaitable
    error = errors.from_rpc(caught.value, "tool_cache")
    assert isinstance(error, kind), caught.value
    return error


async def test_a_result_is_remembered_whatever_the_order_of_the_arguments(cache):
    value = json.dumps({"rows": [[47]]}).encode()
    assert await put(cache, entry(value, '{"a":1,"b":{"x":1,"y":2}}')) == 1
    hit, miss = await get(cache, call('{"b":{"y":2,"x":1},"a":1}'), call('{"a":1.0,"b":{"x":1,"y":2}}'))
    assert (hit.hit, hit.value) == (True, value)
    assert 0 <= hit.age.ToNanoseconds() < 5e9
    assert (miss.hit, miss.value) == (False, b"")


async def test_an_empty_value_is_a_hit(cache):
    await put(cache, entry(b""))
    [found] = await get(cache, call())
    assert found.hit
    assert found.value == b""


async def test_whoever_may_read_other_documents_misses(cache, tenant):
    act_as(tenant, labels=["hr", "board"])
    await put(cache, entry(b"closed passages"))
    for labels, found in ((["board", "hr"], True), (["hr"], False), ([], False), (["*"], False)):
        act_as(tenant, labels=labels)
        assert (await get(cache, call()))[0].hit == found


async def test_another_tenant_misses(cache, tenant):
    await put(cache, entry())
    act_as(f"{tenant}x")
    assert not (await get(cache, call()))[0].hit


async def test_a_batch_answers_in_order_in_one_round_trip(cache, server):
    await put(cache, *(entry(str(n).encode(), f'{{"n":{n}}}') for n in range(0, 8, 2)))
    before = server.info("commandstats")["cmdstat_evalsha"]["calls"]
    found = await get(cache, *(call(f'{{"n":{n}}}') for n in range(8)))
    assert [one.value for one in found] == [b"0", b"", b"2", b"", b"4", b"", b"6", b""]
    assert server.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 1


@pytest.mark.parametrize("ttl", [Duration(), None])
async def test_without_a_time_to_live_nothing_is_stored(cache, server, tenant, ttl):
    assert await put(cache, entry(ttl=ttl)) == 0
    assert not (await get(cache, call()))[0].hit
    assert entry_names(server, tenant) == []


@pytest.mark.parametrize(
    "ttl", [Duration(seconds=-1), Duration(nanos=-1), Duration(seconds=10**11), Duration(seconds=30 * 86400, nanos=1)]
)
async def test_a_time_to_live_out_of_bounds_is_refused(cache, ttl):
    error = await refused(put(cache, entry(ttl=ttl)), errors.InvalidField)
    assert error.metadata == {"field": "entry.ttl"}


async def test_fractions_of_a_second_count(cache, server, tenant):
    await put(cache, entry(ttl=Duration(nanos=500_000_000)), entry(ttl=Duration(nanos=1), arguments='{"a":1}'))
    left = [server.pttl(name) for name in entry_names(server, tenant)]
    assert left
    assert max(left) <= 500
    await asyncio.sleep(0.6)
    assert not (await get(cache, call()))[0].hit


async def test_a_value_beyond_the_limit_is_counted_and_not_stored(cache):
    before = REGISTRY.get_sample_value("sabueso_tool_cache_results_total", {"outcome": "too_large"}) or 0
    largest = b"x" * 1024 * 1024
    assert await put(cache, entry(largest), entry(largest + b"x", '{"a":1}'), entry(largest * 5, '{"a":2}')) == 1
    found = await get(cache, call(), call('{"a":1}'), call('{"a":2}'))
    assert [one.hit for one in found] == [True, False, False]
    assert REGISTRY.get_sample_value("sabueso_tool_cache_results_total", {"outcome": "too_large"}) == before + 2


@pytest.mark.parametrize("payload", [pickle.dumps({"a": 1}), b"", b"SBC1", b"SBC1" + b"0" * 32 + b"\xff" * 9, b"{}"])
async def test_a_foreign_payload_is_a_miss_and_can_be_overwritten(cache, server, tenant, payload):
    await put(cache, entry())
    [name] = entry_names(server, tenant)
    server.set(name, payload)
    assert not (await get(cache, call()))[0].hit
    await put(cache, entry(b"again"))
    assert (await get(cache, call()))[0].value == b"again"


async def test_a_key_of_another_kind_is_a_miss(cache, server, tenant):
    await put(cache, entry())
    [name] = entry_names(server, tenant)
    server.delete(name)
    server.lpush(name, "a", "list")
    assert not (await get(cache, call()))[0].hit


async def test_an_entry_of_another_call_under_this_key_is_a_miss(cache, server, tenant):
    await put(cache, entry(b"theirs"))
    [theirs] = entry_names(server, tenant)
    await put(cache, entry(b"mine", '{"a":1}'))
    [mine] = set(entry_names(server, tenant)) - {theirs}
    server.copy(theirs, mine, replace=True)
    assert not (await get(cache, call('{"a":1}')))[0].hit


async def test_invalidation_forgets_a_tool_without_touching_another(cache):
    await put(cache, entry(), entry(tool="web_search"))
    await cache.Invalidate(pb.InvalidateRequest(tool="sql_query"))
    assert [one.hit for one in await get(cache, call(), call(tool="web_search"))] == [False, True]
    assert await put(cache, entry(b"new")) == 1
    assert (await get(cache, call()))[0].value == b"new"


async def test_a_slow_tool_does_not_store_what_an_invalidation_made_old(cache):
    assert not (await get(cache, call()))[0].hit
    await cache.Invalidate(pb.InvalidateRequest(tool="sql_query"))
    assert await put(cache, entry(b"old")) == 0
    assert not (await get(cache, call()))[0].hit


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.BatchGetRequest(), "calls"),
        (pb.BatchGetRequest(calls=[call()] * 65), "calls"),
        (pb.BatchGetRequest(calls=[call('{"a":1,"a":2}')]), "call.arguments_json"),
        (pb.BatchGetRequest(calls=[call('{"a":NaN}')]), "call.arguments_json"),
        (pb.BatchGetRequest(calls=[call('{"a":"\\ud800"}')]), "call.arguments_json"),
        (pb.BatchGetRequest(calls=[call("")]), "call.arguments_json"),
        (pb.BatchGetRequest(calls=[call(tool="")]), "call.tool"),
    ],
)
async def test_a_malformed_lookup_is_refused_by_field(cache, request_, field):
    error = await refused(cache.BatchGet(request_), errors.InvalidField)
    assert error.metadata == {"field": field}


async def test_a_malformed_batch_stores_nothing(cache, server, tenant):
    await refused(put(cache, entry(), entry(arguments="[]")), errors.InvalidField)
    await refused(cache.BatchPut(pb.BatchPutRequest()), errors.InvalidField)
    await refused(cache.Invalidate(pb.InvalidateRequest(tool="")), errors.InvalidField)
    assert entry_names(server, tenant) == []


async def test_a_cancelled_lookup_never_answers_another(valkey_url, server):
    """One connection for all; a pause of the server makes sure that the command was sent when the caller goes."""
    store = ValkeyStore(valkey_url, max_connections=1, timeout_seconds=5)
    one, other = (call_key(name, "t", "1", "{}") for name in (f"a{uuid.uuid4().hex}", f"b{uuid.uuid4().hex}"))
    await store.put([Result(one, b"secret of one", 60_000)])
    await store.put([Result(other, b"of other", 60_000)])
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


async def test_without_valkey_a_lookup_fails_at_once_and_names_it(tenant):
    async with serving("redis://127.0.0.1:1") as cache:
        started = time.perf_counter()
        error = await refused(get(cache, call()), errors.DependencyFailed)
        assert time.perf_counter() - started < 2
    assert error.metadata["dependency"] == "valkey"


async def test_a_hung_valkey_is_not_waited_for(tenant):
    async def hang(reader, writer):
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with serving(f"redis://127.0.0.1:{silent.sockets[0].getsockname()[1]}") as cache:
        started = time.perf_counter()
        error = await refused(put(cache, entry()), errors.DependencyFailed)
        assert time.perf_counter() - started < 1
    assert error.metadata["dependency"] == "valkey"
    silent.close()
    await silent.wait_closed()


async def test_valkey_is_used_again_after_it_was_lost(tmp_path, tenant):
    port = ports.pick(1, 29_000)[0]

    def start():
        process = subprocess.Popen(valkey.command(tmp_path, port), stdout=subprocess.DEVNULL)
        with redis.Redis(port=port, retry=None) as client:
            for _ in range(200):
                try:
                    client.ping()
                    return process
                except redis.ConnectionError:
                    time.sleep(0.02)
        raise TimeoutError("Valkey did not start")

    process = await asyncio.to_thread(start)
    try:
        async with serving(f"redis://127.0.0.1:{port}") as cache:
            await put(cache, entry())
            process.kill()
            process.wait()
            await refused(get(cache, call()), errors.DependencyFailed)
            process = await asyncio.to_thread(start)
            await put(cache, entry(b"back"))
            assert (await get(cache, call()))[0].value == b"back"
    finally:
        process.kill()
        process.wait()


async def test_a_batch_of_four_is_quick(cache):
    """The target is 1.5 ms at the median; the bound here only catches what is broken on a loaded machine."""
    calls = [call(json.dumps({"query": "select 1", "n": n})) for n in range(4)]
    await put(cache, *(entry(b"x" * 2000, one.arguments_json) for one in calls))
    took = []
    for _ in range(100):
        started = time.perf_counter()
        assert all(one.hit for one in await get(cache, *calls))
        took.append(time.perf_counter() - started)
    assert statistics.median(took) < 0.02
