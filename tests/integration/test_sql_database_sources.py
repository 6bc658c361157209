"""Several databases of a tenant, and replicas: two databases of one server stand for a primary and its replica."""

import asyncio

import pytest

from services.runtime import errors
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.database import PostgresDatabase
from tests.integration.sql_stack import (
    connected,
    make_database,
    make_reader,
    query,
    refused,
    serving,
    source_of,
    values,
    write_tenant,
)

TABLES = {"places": ["name"]}
SOURCE = source_of(TABLES, "primary-dsn", replica_dsn_secrets=["replica-dsn"])
AWAY = "postgresql://nobody:x@127.0.0.1:1/none"
NAMES = ("primary", "replica", "second")


def schema_of(name):
    return f"CREATE TABLE places (name text); INSERT INTO places VALUES ('{name}')"


@pytest.fixture(scope="module")
def dsns(postgres_server):
    made = {}
    for name in NAMES:
        database = make_database(postgres_server, f"sql_{name}", schema_of(name), ("places_reader", SOURCE))
        made[name] = postgres_server.dsn(database, "places_reader", "pass")
    return made


@pytest.fixture
def folder(dsns, tmp_path):
    for name, dsn in dsns.items():
        (tmp_path / f"{name}-dsn").write_text(dsn)
    write_tenant(tmp_path, "acme", SOURCE)
    return tmp_path


@pytest.fixture
async def connections(folder):
    made = Connections(folder, Pooling())
    yield made
    await made.close()


async def place(stub, **fields):
    ((name,),) = values(await query(stub, "SELECT name FROM places", **fields))
    return name


async def test_a_replica_is_asked_before_the_primary(folder):
    async with serving(folder) as stub:
        assert {await place(stub) for _ in range(4)} == {"replica"}


async def test_replicas_are_asked_in_turn(folder):
    write_tenant(folder, "acme", source_of(TABLES, "primary-dsn", replica_dsn_secrets=["replica-dsn", "second-dsn"]))
    async with serving(folder) as stub:
        seen = [await place(stub) for _ in range(6)]
    assert sorted(seen) == ["replica"] * 3 + ["second"] * 3


async def test_the_primary_serves_while_no_replica_answers(folder):
    (folder / "replica-dsn").write_text(AWAY)
    async with serving(folder) as stub:
        assert {await place(stub) for _ in range(3)} == {"primary"}


async def test_a_replica_serves_while_the_primary_is_away(folder):
    (folder / "primary-dsn").write_text(AWAY)
    async with serving(folder) as stub:
        assert await place(stub) == "replica"


async def test_a_replica_that_goes_is_left_alone_for_a_while(connections, postgres_server):
    database = PostgresDatabase(connections)
    assert await database.audit("acme", SOURCE) == []
    async with connections.session(SOURCE) as connection:
        assert await connection.fetchval("SELECT current_database()") == "sql_replica"
    async with connected(postgres_server.dsn()) as admin:
        await admin.execute("ALTER DATABASE sql_replica CONNECTION LIMIT 0")
        try:
            await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'sql_replica'")
            for _ in range(3):
                async with connections.session(SOURCE) as connection:
                    assert await connection.fetchval("SELECT current_database()") == "sql_primary"
        finally:
            await admin.execute("ALTER DATABASE sql_replica CONNECTION LIMIT -1")


async def test_a_replica_whose_role_may_do_more_shuts_the_source(folder, postgres_server):
    (folder / "replica-dsn").write_text(postgres_server.dsn("sql_replica"))
    async with serving(folder, refuse_start_on_excess=False) as stub:
        error = await refused(query(stub, "SELECT name FROM places"), errors.DependencyFailed)
    assert "may do more than read" in error.message


async def test_an_address_that_was_never_audited_is_not_read(connections):
    with pytest.raises(errors.DependencyFailed):
        async with connections.session(SOURCE):
            pass
    async with connections.session_at(SOURCE, "primary-dsn") as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_a_dsn_that_names_another_database_is_audited_first(folder, dsns, connections):
    source = SOURCE.model_copy(update={"replica_dsn_secrets": ()})
    (folder / "primary-dsn").write_text(AWAY)
    database = PostgresDatabase(connections)
    with pytest.raises(errors.DependencyFailed):
        await database.audit("acme", source)
    connections.trust(source, "primary-dsn", True)
    (folder / "primary-dsn").write_text(dsns["second"])
    async with connections.session_at(source, "primary-dsn"):
        pass
    with pytest.raises(errors.DependencyFailed):
        async with connections.session(source):
            pass
    await database.audit("acme", source)
    async with connections.session(source) as connection:
        assert await connection.fetchval("SELECT name FROM places") == "second"


async def test_sources_of_a_tenant_are_told_apart_by_name(folder):
    write_tenant(
        folder, "acme", source_of(TABLES, "primary-dsn", name="here"), source_of(TABLES, "second-dsn", name="there")
    )
    async with serving(folder) as stub:
        seen = await asyncio.gather(*(place(stub, source=name) for name in ("here", "there", "")))
    assert seen == ["primary", "second", "primary"]


async def test_one_source_that_is_refused_leaves_the_others_alone(folder, postgres_server):
    write_tenant(
        folder, "acme", source_of(TABLES, "primary-dsn", name="here"), source_of(TABLES, "root-dsn", name="there"),
        root_dsn=postgres_server.dsn("sql_second"),
    )  # fmt: skip
    async with serving(folder, refuse_start_on_excess=False) as stub:
        assert await place(stub, source="here") == "primary"
        await refused(query(stub, "SELECT name FROM places", source="there"), errors.DependencyFailed)


async def test_a_reader_of_two_schemas_sees_both(folder, postgres_server, dsns):
    async with connected(postgres_server.dsn("sql_second")) as admin:
        await admin.execute("CREATE SCHEMA IF NOT EXISTS far; CREATE TABLE IF NOT EXISTS far.places (name text)")
        source = source_of({"places": ["name"], "far.places": ["name"]}, "second-dsn")
        try:
            await make_reader(admin, "places_reader", source)
            write_tenant(folder, "acme", source)
            async with serving(folder) as stub:
                result = await query(stub, "SELECT count(f.name), count(p.name) FROM places p, far.places f")
                assert values(result) == [[0, 0]]
        finally:
            await admin.execute("DROP SCHEMA far CASCADE")
            await make_reader(admin, "places_reader", SOURCE)


async def test_connections_that_were_lost_while_idle_are_replaced(connections, postgres_server):
    assert await PostgresDatabase(connections).audit("acme", SOURCE) == []
    pids = set()
    async with connected(postgres_server.dsn()) as admin:
        for _ in range(20):
            async with connections.session(SOURCE) as one, connections.session(SOURCE) as other:
                pids |= {one.get_server_pid(), other.get_server_pid()}
                assert await one.fetchval("SELECT 1") + await other.fetchval("SELECT 1") == 2
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'places_reader'"
            )
    assert len(pids) > 20
