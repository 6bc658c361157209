"""Reads go to a real standby that streams from the primary, unless it is too far behind."""

import asyncio
import contextlib

import pytest

from services.runtime.errors import DependencyFailed
from services.runtime.tenants import TenantDirectory
from services.sql_tool.changes import ChangeListener
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.database import PostgresDatabase
from tests.integration.sql_stack import connected, make_database, query, serving, source_of, values, write_tenant
from tests.integration.sql_standby import standby_of, until_ready

TABLES = {"places": ["name"]}
ANY_LAG = source_of(TABLES, "primary-dsn", replica_dsn_secrets=["standby-dsn"])
LIMITED = ANY_LAG.model_copy(update={"replica_max_lag_seconds": 2})
AWAY = "postgresql://nobody:x@127.0.0.1:1/none"
SCHEMA = "CREATE TABLE places (name text); INSERT INTO places VALUES ('first')"


@pytest.fixture(scope="module")
def primary(postgres_server):
    make_database(postgres_server, "sql_followed", SCHEMA, ("follower", ANY_LAG))
    return postgres_server


@pytest.fixture(scope="module")
def standby(primary, tmp_path_factory):
    with standby_of(primary, tmp_path_factory.mktemp("standby")) as one:
        asyncio.run(until_ready(one))
        yield one


@pytest.fixture
def folder(primary, standby, tmp_path):
    for name, cluster in {"primary": primary, "standby": standby.cluster}.items():
        (tmp_path / f"{name}-dsn").write_text(cluster.dsn("sql_followed", "follower", "pass"))
    write_tenant(tmp_path, "acme", LIMITED)
    return tmp_path


@pytest.fixture
async def connections(folder):
    made = Connections(folder, Pooling())
    assert await PostgresDatabase(made).audit("acme", ANY_LAG) == []
    yield made
    await made.close()


async def reader(connections, source):
    """`standby` or `primary`."""
    async with connections.session(source) as connection:
        return "standby" if await connection.fetchval("SELECT pg_is_in_recovery()") else "primary"


async def becomes(connections, source, wanted):
    async with asyncio.timeout(60):
        while await reader(connections, source) != wanted:
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def written(primary, *statements):
    async with connected(primary.dsn("sql_followed")) as owner:
        for statement in statements:
            await owner.execute(statement)
        yield


async def test_a_standby_answers_statements_with_the_limits_of_every_other(folder):
    async with serving(folder) as stub:
        assert values(await query(stub, "SELECT name FROM places LIMIT 1")) == [["first"]]


async def test_an_idle_primary_makes_no_standby_late(connections):
    """Its last commit gets older and older; what is compared is the place in the log."""
    await asyncio.sleep(2.5)
    await becomes(connections, LIMITED, "standby")


async def test_a_standby_that_is_too_far_behind_is_passed_over_until_it_has_caught_up(connections, primary, standby):
    await becomes(connections, LIMITED, "standby")
    async with standby.held_back(), written(primary, "INSERT INTO places VALUES ('later')"):
        await becomes(connections, LIMITED, "primary")
        for _ in range(3):
            assert await reader(connections, LIMITED) == "primary"
        assert await reader(connections, ANY_LAG) == "standby"
    await becomes(connections, LIMITED, "standby")


async def test_a_standby_that_was_cut_off_is_passed_over_though_it_has_replayed_all_that_it_got(
    connections, primary, standby
):
    known = await standby.admin("SHOW primary_conninfo")
    quoted = known.replace("'", "''")
    await standby.admin("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
    try:
        async with asyncio.timeout(60):
            while await standby.admin("SELECT count(*) FROM pg_stat_wal_receiver"):
                await asyncio.sleep(0.05)
        async with written(primary, "INSERT INTO places VALUES ('unheard')"):
            await becomes(connections, LIMITED, "primary")
    finally:
        await standby.admin(f"ALTER SYSTEM SET primary_conninfo = '{quoted}'", "SELECT pg_reload_conf()")
    await becomes(connections, LIMITED, "standby")


async def test_with_the_primary_away_a_late_standby_serves_only_where_any_lag_will_do(folder, connections, standby):
    (folder / "primary-dsn").write_text(AWAY)
    alone = Connections(folder, Pooling())
    try:
        alone.trust(ANY_LAG, "standby-dsn", True)
        alone.note_change(ANY_LAG, 2**62)
        assert await reader(alone, ANY_LAG) == "standby"
        with pytest.raises(DependencyFailed, match="too far behind"):
            await reader(alone, LIMITED)
    finally:
        await alone.close()


async def test_a_change_that_was_told_of_is_read_at_the_primary_until_the_standby_has_it(
    folder, connections, primary, standby
):
    """So a result that is made after the old ones were forgotten never holds what was before the change."""
    write_tenant(folder, "acme", ANY_LAG)
    seen = []

    async def forget(tenant_id, sources):
        async with connections.session(ANY_LAG) as connection:
            seen.append((tuple(sources), await connection.fetchval("SELECT count(*) FROM places WHERE name = 'told'")))

    listener = ChangeListener(
        TenantDirectory(folder), connections.dsn, forget, note_change=connections.note_change, first_wait_seconds=0.05
    )
    listener.start()
    try:
        async with asyncio.timeout(60):
            while not seen:
                await asyncio.sleep(0.05)
            told = "SELECT pg_notify('sabueso_changes', 'public.places')"
            async with standby.held_back(), written(primary, "INSERT INTO places VALUES ('told')", told):
                while len(seen) < 2:
                    await asyncio.sleep(0.05)
                assert seen[-1] == (("table:main/public.places",), 1)
                assert await reader(connections, ANY_LAG) == "primary"
        await becomes(connections, ANY_LAG, "standby")
    finally:
        await listener.close()


async def test_of_several_hosts_the_one_that_is_no_standby_is_the_primary(folder, primary, standby):
    """The driver's own; `read-write` finds none, as our sessions are read-only."""
    ports = f"127.0.0.1:{standby.cluster.port},127.0.0.1:{primary.port}"
    dsn = f"postgresql://follower:pass@{ports}/sql_followed?target_session_attrs=primary"
    (folder / "primary-dsn").write_text(dsn)
    source = source_of(TABLES, "primary-dsn")
    made = Connections(folder, Pooling())
    try:
        assert await PostgresDatabase(made).audit("acme", source) == []
        assert await reader(made, source) == "primary"
    finally:
        await made.close()
