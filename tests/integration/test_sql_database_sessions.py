"""What a session can hold is gone before the next call, and row-level security depends on the role alone."""

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import pytest

from services.runtime import errors
from services.sql_tool.connections import Connections, Pooling
from tests.integration.sql_stack import (
    connected,
    make_database,
    query,
    refused,
    serving,
    source_of,
    values,
    write_tenant,
)

SOURCE = source_of({"orders": ["id", "tenant", "amount"], "own_orders": ["id", "amount"]})
SCHEMA = """
    CREATE TABLE orders (id int PRIMARY KEY, tenant text, amount numeric);
    INSERT INTO orders SELECT g, CASE g % 2 WHEN 0 THEN 'a' ELSE 'b' END, g * 1.5 FROM generate_series(1, 10) g;
    CREATE TABLE readers (role name, tenant text);
    INSERT INTO readers VALUES ('a_reader', 'a'), ('b_reader', 'b');
    ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
    CREATE POLICY by_role ON orders FOR SELECT USING (tenant = CASE current_user WHEN 'a_reader' THEN 'a'
                                                                               WHEN 'b_reader' THEN 'b' END);
    CREATE VIEW own_orders WITH (security_barrier) AS
        SELECT o.id, o.amount FROM orders o JOIN readers r ON r.tenant = o.tenant WHERE r.role = current_user;
    CREATE SEQUENCE numbers;
"""


@pytest.fixture(scope="module")
def database(postgres_server):
    return make_database(postgres_server, "sql_sessions", SCHEMA, ("a_reader", SOURCE), ("b_reader", SOURCE))


@pytest.fixture
def folder(postgres_server, database, tmp_path):
    write_tenant(tmp_path, "acme", SOURCE, acme_dsn=postgres_server.dsn(database, "a_reader", "pass"))
    return tmp_path


@asynccontextmanager
async def one_connection(dsn, folder):
    """A pool of one, so that every session is the same connection to the server."""
    (folder / "one-dsn").write_text(dsn)
    source = SOURCE.model_copy(update={"dsn_secret": "one-dsn"})
    connections = Connections(folder, Pooling(size=1))
    async with connections.session_at(source, "one-dsn"):
        pass
    connections.trust(source, "one-dsn", True)
    try:
        yield lambda: connections.session(source)
    finally:
        await connections.close()


HELD = {
    "a temporary table": ("CREATE TEMP TABLE left_over (a int)",
                          "SELECT count(*) FROM pg_class WHERE relname = 'left_over' AND relpersistence = 't'"),
    "a prepared statement": ("PREPARE left_over AS SELECT 1",
                             "SELECT count(*) FROM pg_prepared_statements WHERE name = 'left_over'"),
    "an advisory lock": ("SELECT pg_advisory_lock(4711)",
                         "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"),
    "a channel": ("LISTEN left_over", "SELECT count(*) FROM pg_listening_channels()"),
    "a cursor": ("DECLARE left_over CURSOR WITH HOLD FOR SELECT 1",
                 "SELECT count(*) FROM pg_cursors WHERE is_holdable"),
    "a setting": ("SET work_mem = '1GB'", "SELECT (current_setting('work_mem') = '1GB')::int"),
    "a setting of its own": ("SET app.tenant = 'b'",
                             "SELECT (coalesce(current_setting('app.tenant', true), '') = 'b')::int"),
    "a search path": ("SET search_path = hidden", "SELECT (current_setting('search_path') = 'hidden')::int"),
    "the right to write": ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
                           "SELECT (current_setting('default_transaction_read_only') = 'off')::int"),
    "a role": ("SET ROLE b_reader", "SELECT (current_user = 'b_reader')::int"),
    "an authorization": ("SET SESSION AUTHORIZATION b_reader", "SELECT (session_user = 'b_reader')::int"),
    "a value of a sequence": ("SELECT nextval('numbers')", "SELECT 1 FROM (SELECT lastval()) AS one"),
    "a transaction": ("BEGIN; INSERT INTO readers VALUES ('x', 'x')", "SELECT count(*) FROM readers WHERE role = 'x'"),
    "a failed transaction": ("BEGIN; SELECT count(*) FROM readers; SAVEPOINT one",
                             "SELECT (now() <> statement_timestamp())::int FROM pg_sleep(0.001)"),
}  # fmt: skip


@pytest.mark.parametrize("held", HELD)
async def test_nothing_that_a_session_can_hold_is_there_for_the_next(postgres_server, database, tmp_path, held):
    take, look = HELD[held]
    async with one_connection(postgres_server.dsn(database), tmp_path) as session:
        async with session() as first:
            pid = first.get_server_pid()
            await first.execute("SET default_transaction_read_only = off")
            await first.execute(take)
        async with session() as second:
            assert second.get_server_pid() == pid
            if held == "a value of a sequence":
                with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
                    await second.fetchval(look)
            elif held == "a failed transaction":
                assert not second.is_in_transaction()
            else:
                assert await second.fetchval(look) == 0


async def test_settings_of_the_service_are_there_again_after_each_call(postgres_server, database, tmp_path):
    wanted = {
        "DateStyle": "ISO, YMD", "IntervalStyle": "iso_8601", "TimeZone": "UTC", "standard_conforming_strings": "on",
        "default_transaction_read_only": "on", "lock_timeout": "500ms", "idle_in_transaction_session_timeout": "30s",
        "statement_timeout": "5s", "work_mem": "16MB", "temp_file_limit": "200MB",
        "search_path": 'pg_catalog, "public", pg_temp', "row_security": "on",
    }  # fmt: skip
    async with one_connection(postgres_server.dsn(database, "a_reader", "pass"), tmp_path) as session:
        for _ in range(2):
            async with session() as connection:
                shown = {name: await connection.fetchval(f"SHOW {name}") for name in wanted}
                await connection.execute("RESET ALL; SET TimeZone = 'Asia/Tokyo'; SET work_mem = '64kB'")
            assert shown == wanted


async def test_a_call_that_was_cancelled_leaves_a_clean_connection(folder, postgres_server, database):
    slow = "SELECT count(*) FROM " + ", ".join(f"orders t{at}" for at in range(14))
    async with serving(folder, pool_size=1, max_cost=1e30, statement_timeout_seconds=30) as stub:
        for _ in range(3):
            call = asyncio.ensure_future(query(stub, slow))
            await asyncio.sleep(0.3)
            assert not call.done()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert values(await query(stub, "SELECT count(*) FROM orders")) == [[5]]
        async with connected(postgres_server.dsn(database)) as admin, asyncio.timeout(10):
            # A backend that was told to stop does so at its next look, and a lookup may just be under way.
            while await admin.fetch("SELECT FROM pg_stat_activity WHERE usename = 'a_reader' AND state <> 'idle'"):
                await asyncio.sleep(0.05)


async def test_a_policy_on_the_role_shows_each_reader_its_own_rows(folder, postgres_server, database):
    async with serving(folder) as stub:
        by_policy = await query(stub, "SELECT DISTINCT tenant FROM orders")
        by_view = await query(stub, "SELECT count(*), min(id) FROM own_orders")
        assert values(by_policy) == [["a"]]
        assert values(by_view) == [[5, 2]]
        await refused(
            query(stub, "SELECT o.* FROM (SELECT set_config('role', 'b_reader', true)) s, orders o"),
            errors.NotPermitted,
        )
    write_tenant(folder, "acme", SOURCE, acme_dsn=postgres_server.dsn(database, "b_reader", "pass"))
    async with serving(folder) as stub:
        assert values(await query(stub, "SELECT DISTINCT tenant FROM orders")) == [["b"]]


async def test_no_setting_opens_the_rows_of_another_reader(postgres_server, database):
    """What the guard refuses would not help either."""
    async with connected(postgres_server.dsn(database, "a_reader", "pass")) as reader:
        for attempt in ("SET row_security = off", "SET app.tenant = 'b'", "SET search_path = pg_temp, public"):
            await reader.execute(attempt)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.fetch("SELECT id FROM orders")
        await reader.execute("SET row_security = on")
        assert {row[0] for row in await reader.fetch("SELECT tenant FROM public.orders")} == {"a"}
        for attempt in ("SET ROLE b_reader", "SET SESSION AUTHORIZATION b_reader"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await reader.execute(attempt)


async def test_a_view_with_a_barrier_shows_no_row_to_a_condition_first(postgres_server, database):
    async with connected(postgres_server.dsn(database, "a_reader", "pass")) as reader:
        # Without the barrier the division would be tried on another reader's rows and fail.
        rows = await reader.fetch("SELECT id FROM own_orders WHERE 1 / (id % 2 - 1) < 0 ORDER BY id")
    assert [row["id"] for row in rows] == [2, 4, 6, 8, 10]
