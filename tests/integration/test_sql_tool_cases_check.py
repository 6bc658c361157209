"""`sabueso sql check` on a real database: every stage, as roles that it makes and drops again."""

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from typer.testing import CliRunner

from services.cli.main import app

DATA = Path(__file__).parents[1] / "data" / "sql"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(postgres_server):
    """A scratch database with the corpus' schema, and a role that may read it and make no roles."""
    admin = await asyncpg.connect(postgres_server.dsn())
    await admin.execute("CREATE DATABASE sql_check")
    await admin.close()
    admin = await asyncpg.connect(postgres_server.dsn("sql_check"))
    await admin.execute((DATA / "schema.sql").read_text(encoding="utf-8"))
    await admin.execute("CREATE ROLE plain_reader LOGIN PASSWORD 'x'; GRANT SELECT ON contracts TO plain_reader")
    yield admin
    await admin.close()


def check(*arguments, stdin=None):
    result = CliRunner().invoke(app, ["sql", "check", *arguments], input=stdin)
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def line(sql, **more):
    return json.dumps({"id": "a", "sql": sql, "allow": {"tables": ["contracts"]}} | more) + "\n"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_corpus_is_judged_at_all_stages_and_no_role_is_left(database, postgres_server):
    dsn = postgres_server.dsn("sql_check")
    status, verdicts, said = await asyncio.to_thread(check, "--file", str(DATA / "cases.jsonl"), "--dsn", dsn)
    assert "194 expectations, 0 not met." in said
    assert status == 0
    assert {verdict["stage"] for verdict in verdicts} >= {"", "parse", "policy", "bind", "database", "cost", "runtime"}
    assert not await database.fetch("SELECT FROM pg_roles WHERE rolname LIKE 'sabueso_check_%'")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_role_that_may_make_none_plans_only(database, postgres_server):
    dsn = postgres_server.dsn("sql_check", "plain_reader", "x")
    sql = ("SELECT id FROM contracts", "SELECT 1 / (id - id) FROM contracts", "SELECT id + status FROM contracts")
    given = "".join(map(line, sql))
    status, verdicts, said = await asyncio.to_thread(check, "--file", "-", "--dsn", dsn, stdin=given)
    assert status == 0
    assert [verdict["verdict"] for verdict in verdicts] == ["allow", "allow", "reject"]
    assert "not run" in said


def test_an_unmet_expectation_is_exit_status_1_and_a_wrong_line_2():
    status, verdicts, said = check("--file", "-", stdin=line("SELECT ctid FROM contracts", expect="allow"))
    assert (status, verdicts[0]["code"]) == (1, "unknown_column")
    assert "expected allow, not reject" in said
    status, verdicts, said = check("--file", "-", stdin=line("SELECT 1") + "nonsense\n")
    assert (status, verdicts) == (2, [])
    assert "Line 2" in said


def test_a_database_that_does_not_answer_is_exit_status_2():
    status, _, said = check("--file", "-", "--dsn", "postgresql://a:b@127.0.0.1:9/c", stdin=line("SELECT 1"))
    assert status == 2
    assert "does not answer" in said


def test_urls_are_judged_too():
    result = CliRunner().invoke(app, ["web", "check", "--file", "-"], input='{"id": "a", "url": "http://127.0.0.1/"}\n')
    assert json.loads(result.stdout)["verdict"] == "reject"
