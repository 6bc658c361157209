"""Loads of data that are heard: NOTIFY and triggers on a real PostgreSQL, to a real tool cache."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from sabueso.tool_cache.v1 import tool_cache_pb2 as cache_pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc as cache_rpc
from services.runtime.channels import connect
from services.runtime.errors import DependencyFailed
from services.runtime.tenants import TenantDirectory
from services.runtime.testing import SECRET, SIGNER, act_as, listening
from services.sql_tool.changes import ChangeListener, triggers
from services.sql_tool.clients import TOOL_CACHE, ToolCacheClient
from services.tool_cache import server as tool_cache
from services.tool_cache.config import Settings as CacheSettings
from tests.integration.sql_stack import connected, make_database, source_of, write_tenant

SOURCE = source_of({"orders": ["id"], "totals": ["n"], "events": ["id"], "sales.deals": ["id"]}, name="shop")
SCHEMA = """
    CREATE SCHEMA sales;
    CREATE TABLE orders (id int); CREATE TABLE secrets (id int); CREATE TABLE sales.deals (id int);
    CREATE VIEW totals AS SELECT count(*) AS n FROM orders;
    CREATE TABLE events (id int, day date) PARTITION BY RANGE (day);
    CREATE TABLE events_2025 PARTITION OF events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
"""
ALL = ("acme", ["source:shop"])


class Heard:
    """Notes what is to be forgotten; `failing` times it is not to be had."""

    def __init__(self):
        self.calls = []
        self.failing = 0

    async def __call__(self, tenant_id, sources):
        if self.failing:
            self.failing -= 1
            raise DependencyFailed("tool_cache does not answer.", dependency="tool_cache")
        self.calls.append((tenant_id, list(sources)))

    async def until(self, count):
        async with asyncio.timeout(10):
            while len(self.calls) < count:
                await asyncio.sleep(0.01)
        return self.calls


@pytest.fixture(scope="module")
def dsn(postgres_server):
    name = make_database(postgres_server, "sql_changes", SCHEMA, ("changes_reader", SOURCE))
    return postgres_server.dsn(name, "changes_reader", "pass")


@pytest.fixture
async def admin(postgres_server, dsn):
    async with connected(postgres_server.dsn("sql_changes")) as connection:
        yield connection


@asynccontextmanager
async def listener(folder, dsn, invalidate):
    write_tenant(folder, "acme", SOURCE)
    tenants = TenantDirectory(folder)
    listening = ChangeListener(tenants, lambda source: dsn, invalidate, first_wait_seconds=0.05)
    listening.start()
    try:
        yield
    finally:
        await listening.close()


@pytest.fixture
async def heard(tmp_path, dsn):
    calls = Heard()
    async with listener(tmp_path, dsn, calls):
        await calls.until(1)
        assert calls.calls == [ALL]  # whatever was said before anybody listened
        calls.calls.clear()
        yield calls


async def notify(admin, payload):
    await admin.execute("SELECT pg_notify('sabueso_changes', $1)", payload)


async def test_a_changed_table_is_forgotten_with_the_views_on_it(heard, admin):
    await notify(admin, "public.orders")
    assert await heard.until(1) == [("acme", ["table:shop/public.orders", "table:shop/public.totals"])]


async def test_several_tables_and_a_partition_are_one_call(heard, admin):
    await notify(admin, " sales.deals , public.events_2025")
    assert await heard.until(1) == [("acme", ["table:shop/public.events", "table:shop/sales.deals"])]


async def test_a_star_forgets_the_source(heard, admin):
    await notify(admin, "*")
    assert await heard.until(1) == [ALL]


async def test_tables_of_no_file_are_ignored(heard, admin):
    await notify(admin, "public.secrets,nonsense,,public.orders; DROP TABLE orders")
    await asyncio.sleep(0.2)
    await notify(admin, "sales.deals")
    assert await heard.until(1) == [("acme", ["table:shop/sales.deals"])]


async def test_a_burst_is_told_at_once(heard, admin):
    for at in range(200):
        await notify(admin, f"public.{'orders' if at % 2 else 'events'}")
    await heard.until(1)
    await asyncio.sleep(0.3)
    assert len(heard.calls) < 100  # how many fit into one telling depends on how busy the machine is
    assert {source for _, sources in heard.calls for source in sources} == {
        "table:shop/public.orders", "table:shop/public.totals", "table:shop/public.events",
    }  # fmt: skip


async def test_a_connection_that_was_lost_is_made_again_and_everything_forgotten(heard, admin):
    await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'changes_reader'")
    assert await heard.until(1) == [ALL]
    await notify(admin, "sales.deals")
    assert (await heard.until(2))[1] == ("acme", ["table:shop/sales.deals"])


async def test_a_cache_that_is_away_is_told_later(heard, admin):
    heard.failing = 2
    await notify(admin, "sales.deals")
    assert await heard.until(1) == [ALL]


async def test_triggers_tell_of_loads_once_a_transaction(heard, admin):
    for _ in range(2):  # safe to run again
        for statement in triggers(SOURCE):
            await admin.execute(statement)
    await admin.execute("INSERT INTO orders SELECT g FROM generate_series(1, 1000) g; UPDATE orders SET id = id + 1")
    assert await heard.until(1) == [("acme", ["table:shop/public.orders", "table:shop/public.totals"])]
    await admin.execute("INSERT INTO events_2025 VALUES (1, '2025-05-05')")
    assert (await heard.until(2))[1] == ("acme", ["table:shop/public.events"])
    async with admin.transaction():
        await admin.execute("TRUNCATE sales.deals")
        await asyncio.sleep(0.2)
        assert len(heard.calls) == 2
    assert (await heard.until(3))[2] == ("acme", ["table:shop/sales.deals"])


async def test_a_tenant_that_leaves_is_not_listened_to(dsn, admin, tmp_path):
    heard = Heard()
    write_tenant(tmp_path, "acme", SOURCE)
    tenants = TenantDirectory(tmp_path, look_seconds=0.05)
    tenants.watch()
    listening = ChangeListener(tenants, lambda source: dsn, heard, first_wait_seconds=0.05)
    listening.start()
    await heard.until(1)
    (tmp_path / "acme.yaml").rename(tmp_path / "acme.off")
    write_tenant(tmp_path, "other", source_of({"orders": ["id"]}, name="mine"))
    assert (await heard.until(2))[1] == ("other", ["source:mine"])
    await notify(admin, "public.orders")
    assert (await heard.until(3))[2] == ("other", ["table:mine/public.orders"])
    await listening.close()
    await tenants.close()


async def test_the_tool_cache_forgets_what_was_read_from_a_changed_table(dsn, admin, tmp_path):
    settings = CacheSettings(identity_secret=SECRET, valkey_url="memory:", port=0)
    made = tool_cache.build(settings)
    served = await made if asyncio.iscoroutine(made) else made
    (one,) = served if isinstance(served, list | tuple) else [served]
    async with listening(one) as address, connect(address, TOOL_CACHE) as channel:
        act_as("acme")
        stub = cache_rpc.ToolCacheServiceStub(channel)
        call = cache_pb.Call(tool="sql_query", arguments_json='{"sql":"SELECT 1"}', version="1")
        entry = cache_pb.Entry(call=call, value=b"{}", sources=["table:shop/public.orders"])
        entry.ttl.FromSeconds(60)

        async def hit():
            return (await stub.BatchGet(cache_pb.BatchGetRequest(calls=[call]))).lookups[0].hit

        async with listener(tmp_path, dsn, ToolCacheClient(channel, SIGNER).invalidate):
            await asyncio.sleep(0.5)
            assert (await stub.BatchPut(cache_pb.BatchPutRequest(entries=[entry]))).stored_count == 1
            await notify(admin, "sales.deals")
            await asyncio.sleep(0.3)
            assert await hit()
            await notify(admin, "public.orders")
            async with asyncio.timeout(5):
                while await hit():
                    await asyncio.sleep(0.02)
