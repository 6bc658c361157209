"""The SQL tool on a real loopback server and real PostgreSQL: values, limits, cancellation, rights, schema text."""

import asyncio
import time
from contextlib import asynccontextmanager

import asyncpg
import pytest
import yaml
from grpc import aio

from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from services.runtime import errors
from services.runtime.tenants import SqlSource
from services.runtime.testing import act_as
from services.sql_tool import grants
from tests.integration.sql_stack import query, refused, serving, values

TABLES = {
    "regions": {"description": "Regions (regiones)", "columns": {"code": {}, "name": {}}},
    "contracts": {
        "description": "Contracts signed with providers (contratos firmados)",
        "columns": {
            "id": {"description": "Contract code, such as CT-2025-0001 (código)"},
            "amount": {"description": "Total value (importe, valor)", "unit": "EUR"},
            "signed_on": {"description": "Day of signature (fecha de firma)"},
            "region_code": {"description": "Region (región)"},
            "status": {"description": "State (estado)", "values": {"active": "in force, vigente", "ended": ""}},
            "category": {},
        },
    },
}
SCHEMA = """
    CREATE TABLE regions (code text PRIMARY KEY, name text NOT NULL);
    CREATE TABLE contracts (
        id text PRIMARY KEY, amount numeric, signed_on date, region_code text REFERENCES regions (code),
        status text NOT NULL, category text, internal_note text);
    CREATE TABLE secrets (token text);
    INSERT INTO regions VALUES ('EU', 'European Union'), ('US', 'United States');
    INSERT INTO contracts
        SELECT 'CT-' || g, g * 1000.50, date '2025-01-01' + g, CASE g % 2 WHEN 0 THEN 'EU' ELSE 'US' END, 'active',
               (ARRAY['cloud', 'rail'])[1 + g % 2], 'hidden'
        FROM generate_series(1, 1000) g;
    ANALYZE;
"""


@pytest.fixture(scope="module")
def database(postgres_server):
    """Name of a database with the tables, and a role for the tenant `acme`."""

    async def make():
        admin = await asyncpg.connect(postgres_server.dsn())
        await admin.execute("CREATE DATABASE sql_tool")
        await admin.close()
        admin = await asyncpg.connect(postgres_server.dsn("sql_tool"))
        await admin.execute(SCHEMA)
        source = SqlSource.model_validate({"dsn_secret": "acme-dsn", "tables": TABLES})
        for statement in grants.statements(source, "acme_reader"):
            await admin.execute(statement)
        await admin.execute("ALTER ROLE acme_reader PASSWORD 'first'")
        await admin.close()

    asyncio.run(make())
    return "sql_tool"


@asynccontextmanager
async def connected(postgres_server, database):
    admin = await asyncpg.connect(postgres_server.dsn(database))
    try:
        yield admin
    finally:
        await admin.close()


@pytest.fixture
def folder(postgres_server, database, tmp_path):
    """Tenant files and secrets: `acme` has a SQL source, `bare` has none."""
    write_tenant(tmp_path, "acme", TABLES)
    (tmp_path / "bare.yaml").write_text("id: bare\n")
    (tmp_path / "acme-dsn").write_text(postgres_server.dsn(database, "acme_reader", "first"))
    return tmp_path


def write_tenant(folder, tenant, tables):
    source = {"dsn_secret": f"{tenant}-dsn", "tables": tables}
    (folder / f"{tenant}.yaml").write_text(yaml.safe_dump({"id": tenant, "sql": source}, sort_keys=False))


async def test_a_query_answers_typed_rows_with_the_tables_it_read(folder):
    async with serving(folder) as stub:
        result = await query(
            stub,
            "SELECT count(*) AS n, sum(amount) AS total FROM contracts WHERE region_code = $1 AND signed_on >= $2",
            "EU",
            "2025-06-01",
        )
    assert [(column.name, column.type) for column in result.columns] == [("n", "bigint"), ("total", "numeric")]
    assert [cell.WhichOneof("kind") for cell in result.rows[0].cells] == ["integer_value", "decimal_value"]
    assert values(result) == [[425, june_total()]]
    assert list(result.tables) == ["public.contracts"]
    assert not result.truncated
    assert result.duration.ToMicroseconds() > 0


def june_total():
    # 2025-01-01 + g is in June or later from g = 151 on; even g only.
    total = sum(g * 100050 for g in range(1, 1001) if g >= 151 and g % 2 == 0)
    return f"{total // 100}.{total % 100:02d}"


async def test_values_come_out_exactly(folder):
    wanted = {
        "9007199254740993::int8": 9007199254740993,
        "12345678901234567890.123456789012345678::numeric": "12345678901234567890.123456789012345678",
        "'NaN'::numeric": "NaN",
        "'-Infinity'::numeric": "-Infinity",
        "1.50::numeric": "1.50",
        "0.1::float8": 0.1,
        "'Infinity'::float8": float("inf"),
        "true": True,
        "null::text": None,
        "date '0044-03-15 BC'": "0044-03-15 BC",
        "'infinity'::date": "infinity",
        "'-infinity'::timestamptz": "-infinity",
        "timestamptz '2025-01-02 03:04:05.600001+02'": "2025-01-02T01:04:05.600001Z",
        "timestamp '2025-01-02 03:04:05'": "2025-01-02T03:04:05",
        "time '24:00'": "24:00:00",
        "interval '1 mon 2 days'": "P1M2D",
        "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "decode('00ff', 'hex')": b"\x00\xff",
        """'{"a": 1.10}'::jsonb""": '{"a": 1.10}',
        "ARRAY[1.50, null]::numeric[]": '["1.50",null]',
        "ARRAY[date '2025-01-01', 'infinity']": '["2025-01-01","infinity"]',
        "ARRAY[[1,2],[3,4]]": "[[1,2],[3,4]]",
        """ARRAY['{"a": 1.10}'::jsonb]""": '[{"a": 1.10}]',
        "'ñandú 日本'": "ñandú 日本",
        "B'101'": "101",
    }
    async with serving(folder) as stub:
        result = await query(stub, "SELECT " + ", ".join(f"{sql} AS x" for sql in wanted))
    assert {column.name for column in result.columns} == {"x"}
    assert dict(zip(wanted, values(result)[0], strict=True)) == wanted


async def test_parameters_keep_their_types(folder):
    sent = {
        "int": 7, "numeric": "12.50", "date": "2025-02-28", "timestamptz": "2025-01-01T00:00:00Z", "boolean": False,
        "text": "O'Brien; DROP TABLE contracts", "text[]": ["a", None, "c"], "jsonb": {"a": [1, None]}, "uuid": None,
        "int[]": [[1, 2], [3, 4]],
    }  # fmt: skip
    sql = "SELECT " + ", ".join(f"${i + 1}::{kind}" for i, kind in enumerate(sent))
    async with serving(folder) as stub:
        result = await query(stub, sql, *sent.values())
    assert values(result) == [
        [7, "12.50", "2025-02-28", "2025-01-01T00:00:00Z", False, "O'Brien; DROP TABLE contracts", '["a",null,"c"]',
         '{"a": [1, null]}', None, "[[1,2],[3,4]]"]
    ]  # fmt: skip


async def test_a_wrong_parameter_is_named_with_its_type(folder):
    async with serving(folder) as stub:
        error = await refused(
            query(stub, "SELECT 1 FROM contracts WHERE id = $1 AND signed_on = $2", "x", "2025-02-30"),
            errors.InvalidField,
        )
    assert error.metadata == {"field": "params[1]", "expected": "date", "code": "wrong_parameters"}


async def test_rows_over_the_limit_are_cut_and_said(folder):
    async with serving(folder) as stub:
        by_default = await query(stub, "SELECT id FROM contracts ORDER BY amount")
        asked = await query(stub, "SELECT id FROM contracts ORDER BY amount", max_rows=1000)
        less = await query(stub, "SELECT id FROM contracts ORDER BY amount", max_rows=3)
    assert (len(by_default.rows), by_default.truncated_by) == (200, "rows")
    assert (len(asked.rows), asked.truncated, asked.truncated_by) == (1000, False, "")
    assert values(less) == [["CT-1"], ["CT-2"], ["CT-3"]]


async def test_bytes_over_the_limit_are_cut_and_said(folder):
    async with serving(folder, max_result_bytes=50_000) as stub:
        result = await query(stub, "SELECT repeat('x', 10000) FROM contracts")
    assert (len(result.rows), result.truncated_by) == (5, "bytes")


async def test_a_dear_statement_is_refused_before_it_runs(folder):
    sql = "SELECT count(*) FROM contracts a, contracts b, contracts c, contracts d"
    async with serving(folder) as stub:
        error = await refused(query(stub, sql), errors.NotPermitted)
        plan = await stub.Explain(pb.ExplainRequest(sql="SELECT id FROM contracts"))
    assert error.metadata["rule"] == "cost"
    assert plan.total_cost > 0
    assert plan.row_estimate == 1000
    assert list(plan.tables) == ["public.contracts"]


SLOW = "SELECT count(*) FROM contracts a, contracts b, contracts c WHERE a.amount + b.amount + c.amount < 0"


async def test_a_slow_statement_ends_at_the_timeout(folder):
    async with serving(folder, max_cost=1e12, statement_timeout_seconds=0.3) as stub:
        error = await refused(query(stub, SLOW), errors.DeadlineExceeded)
        assert values(await query(stub, "SELECT 1")) == [[1]]
    assert error.metadata == {"stage": "sql", "code": "too_long"}


async def test_a_cancelled_call_cancels_the_statement_within_a_second(folder, postgres_server, database):
    async with serving(folder, max_cost=1e12, statement_timeout_seconds=60) as stub:
        async with connected(postgres_server, database) as admin:
            call = asyncio.ensure_future(query(stub, SLOW))
            await until(admin, 1)
            call.cancel()
            cancelled = time.monotonic()
            await until(admin, 0)
            assert time.monotonic() - cancelled < 10  # a second, on an idle machine
        assert values(await query(stub, "SELECT 1")) == [[1]]


async def until(admin, running_statements):
    for _ in range(200):
        count = await admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'acme_reader' AND state = 'active'"
        )
        if count == running_statements:
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"{count} statements are running, not {running_statements}")


async def test_the_callers_deadline_shortens_the_timeout(folder):
    async with serving(folder, max_cost=1e12) as stub:
        await query(stub, "SELECT 1")
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Query(pb.QueryRequest(sql=SLOW), timeout=0.4)
    assert caught.value.code().name == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("SELECT 1 / 0 FROM contracts", "22012"),
        ("SELECT id, count(*) FROM contracts", "42803"),
        ("SELECT id FROM contracts WHERE status = 5", "42883"),
        ("SELECT id FROM contracts WHERE amount = 'x'", "22P02"),
        ("SELECT (SELECT id FROM contracts)", "21000"),
        ("SELEC id FROM contracts", "42601"),
        ("SELECT id FROM contracts WHERE (", "42601"),
    ],
)
async def test_a_wrong_statement_is_explained(folder, sql, sqlstate):
    async with serving(folder) as stub:
        error = await refused(query(stub, sql), errors.SqlError if sql[:6] == "SELECT" else errors.ServiceError)
    assert error.message
    assert "internal_note" not in str(error.metadata)
    if isinstance(error, errors.SqlError):
        assert error.metadata["sqlstate"] == sqlstate


async def test_a_hidden_column_looks_like_one_that_is_not_there(folder):
    async with serving(folder) as stub:
        hidden = await refused(query(stub, "SELECT internal_note FROM contracts"), errors.NotPermitted)
        absent = await refused(query(stub, "SELECT nothing_here FROM contracts"), errors.NotPermitted)
        near = await refused(query(stub, "SELECT amout FROM contracts"), errors.NotPermitted)
    assert hidden.message.replace("internal_note", "nothing_here") == absent.message
    assert hidden.metadata["hint"] == absent.metadata["hint"]
    assert near.metadata["hint"].startswith("Did you mean `amount`?")


async def test_a_tenant_without_a_source_is_told_so(folder):
    async with serving(folder) as stub:
        act_as("bare")
        bare = await refused(query(stub, "SELECT 1"), errors.NotFound)
        act_as("stranger")
        stranger = await refused(stub.DescribeSchema(pb.DescribeSchemaRequest()), errors.NotFound)
    assert bare.message == "Tenant `bare` has no SQL source."
    assert stranger.message == "There is no tenant `stranger`."


async def test_a_rotated_password_is_read_again(folder, postgres_server, database):
    async with serving(folder) as stub, connected(postgres_server, database) as admin:
        await query(stub, "SELECT 1")
        await admin.execute("ALTER ROLE acme_reader PASSWORD 'second'")
        try:
            await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'acme_reader'")
            await refused(query(stub, "SELECT 1"), errors.DependencyFailed)
            (folder / "acme-dsn").write_text(postgres_server.dsn(database, "acme_reader", "second"))
            assert values(await query(stub, "SELECT 1")) == [[1]]
        finally:
            await admin.execute("ALTER ROLE acme_reader PASSWORD 'first'")


async def test_a_database_that_is_away_is_a_failed_dependency(folder):
    (folder / "acme-dsn").write_text("postgresql://nobody:x@127.0.0.1:1/none")
    async with serving(folder) as stub:
        error = await refused(query(stub, "SELECT 1"), errors.DependencyFailed)
    assert error.metadata == {"dependency": "postgresql", "code": "unavailable"}
    assert "127.0.0.1" not in error.message


async def test_lost_connections_are_replaced(folder, postgres_server, database):
    async with serving(folder) as stub, connected(postgres_server, database) as admin:
        await query(stub, "SELECT 1")
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'acme_reader'")
        assert values(await query(stub, "SELECT 1")) == [[1]]


async def test_the_schema_is_described_for_a_model(folder):
    async with serving(folder) as stub:
        response = await stub.DescribeSchema(pb.DescribeSchemaRequest())
        again = await stub.DescribeSchema(pb.DescribeSchemaRequest())
    assert response.text == (
        "CREATE TABLE regions ( -- Regions (regiones)\n"
        "  code text PRIMARY KEY,\n"
        "  name text -- Examples: 'European Union', 'United States'\n"
        ");\n"
        "CREATE TABLE contracts ( -- Contracts signed with providers (contratos firmados)\n"
        "  id text PRIMARY KEY, -- Contract code, such as CT-2025-0001 (código)\n"
        "  amount numeric, -- Total value (importe, valor). Unit: EUR\n"
        "  signed_on date, -- Day of signature (fecha de firma)\n"
        "  region_code text REFERENCES regions (code), -- Region (región)\n"
        "  status text, -- State (estado). Values: 'active' = in force, vigente; 'ended'\n"
        "  category text -- Examples: 'cloud', 'rail'\n"
        ");"
    )
    assert list(response.tables) == ["public.regions", "public.contracts"]
    assert response.version == again.version


async def test_a_changed_tenant_file_changes_what_may_be_read(folder, postgres_server, database):
    async with serving(folder) as stub, granted_back(postgres_server, database) as admin:
        before = await stub.DescribeSchema(pb.DescribeSchemaRequest())
        await query(stub, "SELECT category FROM contracts LIMIT 1")
        await admin.execute("REVOKE SELECT (category) ON contracts FROM acme_reader")
        write_tenant(folder, "acme", fewer_columns())
        for _ in range(40):
            await asyncio.sleep(0.1)
            after = await stub.DescribeSchema(pb.DescribeSchemaRequest())
            if after.version != before.version:
                break
        error = await refused(query(stub, "SELECT category FROM contracts LIMIT 1"), errors.NotPermitted)
    assert error.metadata["rule"] == "column"
    assert "category" not in after.text


async def test_a_file_that_allows_less_than_the_role_may_read_shuts_the_tenant_out(folder):
    write_tenant(folder, "acme", fewer_columns())
    async with serving(folder, refuse_start_on_excess=False) as stub:
        error = await refused(query(stub, "SELECT id FROM contracts"), errors.DependencyFailed)
    assert error.message == "The role of tenant acme may do more than read; see the log."


def fewer_columns():
    contracts = TABLES["contracts"]["columns"]
    fewer = {name: column for name, column in contracts.items() if name != "category"}
    return TABLES | {"contracts": {"columns": fewer}}


@asynccontextmanager
async def granted_back(postgres_server, database):
    async with connected(postgres_server, database) as admin:
        try:
            yield admin
        finally:
            await admin.execute("GRANT SELECT (category) ON contracts TO acme_reader")


async def test_nothing_stays_behind_on_the_connection(folder, postgres_server, database):
    async with serving(folder, pool_size=1) as stub, connected(postgres_server, database) as admin:
        for sql in ("SELECT id FROM contracts", "SELECT 1 / 0", "SELECT id FROM secrets"):
            try:
                await query(stub, sql, max_rows=1)
            except aio.AioRpcError:
                pass
        states = await admin.fetch("SELECT state FROM pg_stat_activity WHERE usename = 'acme_reader'")
    assert [row["state"] for row in states] == ["idle"]


async def test_many_callers_share_a_small_pool(folder):
    async with serving(folder, pool_size=2) as stub:
        results = await asyncio.gather(*(query(stub, "SELECT $1::int", i) for i in range(40)))
    assert [values(result) for result in results] == [[[i]] for i in range(40)]


async def test_views_and_partitions_of_the_list_may_be_read(postgres_server, database, tmp_path):
    tables = {"totals": {"columns": {"region_code": {}, "total": {}}}, "events": {"columns": {"id": {}, "day": {}}}}
    write_tenant(tmp_path, "acme", tables)
    (tmp_path / "acme-dsn").write_text(postgres_server.dsn(database, "views_reader", "x"))
    async with connected(postgres_server, database) as admin:
        await admin.execute("""
            CREATE VIEW totals AS SELECT region_code, sum(amount) AS total FROM contracts GROUP BY region_code;
            CREATE TABLE events (id int, day date) PARTITION BY RANGE (day);
            CREATE TABLE events_2025 PARTITION OF events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
            INSERT INTO events VALUES (1, '2025-05-05');
        """)
        try:
            source = SqlSource.model_validate({"dsn_secret": "acme-dsn", "tables": tables})
            for statement in grants.statements(source, "views_reader"):
                await admin.execute(statement)
            await admin.execute("ALTER ROLE views_reader PASSWORD 'x'")
            async with serving(tmp_path) as stub:
                totals = await query(stub, "SELECT region_code FROM totals ORDER BY 1")
                events = await query(stub, "SELECT id FROM events WHERE day = $1", "2025-05-05")
                await refused(query(stub, "SELECT id FROM events_2025"), errors.NotPermitted)
                await refused(query(stub, "SELECT id FROM contracts"), errors.NotPermitted)
        finally:
            await admin.execute("DROP VIEW totals; DROP TABLE events")
    assert values(totals) == [["EU"], ["US"]]
    assert values(events) == [[1]]
