"""The project's corpus of statements, every one against real PostgreSQL under a role made from the case's allow-list.

A rejected case must be refused at its stage or an earlier one. NOT_YET lists the cases that fail, with the reason:
none.
"""

import json
import re
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
import yaml

from services.runtime.errors import DeadlineExceeded, InvalidField, NotPermitted, ServiceError, SqlError
from services.runtime.tenants import SqlSource, TenantDirectory
from services.sql_tool import grants
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.database import PostgresDatabase
from services.sql_tool.tool import Bounds, SqlTool

DATA = Path(__file__).parents[1] / "data" / "sql"
CASES = [json.loads(line) for line in (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
NOT_YET: frozenset[str] = frozenset()
STAGES = ("parse", "policy", "bind", "database", "cost", "runtime")
BOUNDS = Bounds(statement_seconds=0.8)

pytestmark = pytest.mark.asyncio(loop_scope="module")


def marked(case):
    marks = [pytest.mark.xfail(strict=True)] if case["id"] in NOT_YET else []
    return pytest.param(case, id=case["id"], marks=marks)


def key_of(case):
    return json.dumps(case["allow"], sort_keys=True)


@pytest.fixture(scope="module")
def tenants_by_allow():
    return {key: f"case-{i}" for i, key in enumerate(sorted({key_of(case) for case in CASES}))}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool(postgres_server, tmp_path_factory, tenants_by_allow):
    folder = tmp_path_factory.mktemp("sql_cases")
    await made_database(postgres_server.dsn(), "sql_cases")
    admin = await asyncpg.connect(postgres_server.dsn("sql_cases"))
    # The schema's own reader may read more than most cases allow; each case gets a role of its own.
    await admin.execute((DATA / "schema.sql").read_text(encoding="utf-8"))
    columns = await admin.fetch(
        "SELECT n.nspname AS schema, c.relname AS table, a.attname AS column FROM pg_attribute a"
        " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE a.attnum > 0 ORDER BY a.attnum"
    )
    for key, tenant in tenants_by_allow.items():
        allow = json.loads(key)
        tables = {}
        for name in allow["tables"]:
            schema, _, table = name.rpartition(".")
            every = [r["column"] for r in columns if (r["schema"], r["table"]) == (schema or "public", table)]
            listed = allow.get("columns", {}).get(name, every)
            tables[name] = {"columns": {column: {} for column in every if column in listed}}
        sql = {"dsn_secret": tenant, "tables": tables}
        (folder / f"{tenant}.yaml").write_text(yaml.safe_dump({"id": tenant, "sql": sql}), encoding="utf-8")
        for statement in grants.statements(SqlSource.model_validate(sql), tenant):
            await admin.execute(statement)
        await admin.execute(f"ALTER ROLE \"{tenant}\" PASSWORD 'x'")
        (folder / tenant).write_text(postgres_server.dsn("sql_cases", tenant, "x"), encoding="utf-8")
    await admin.close()
    connections = Connections(folder, Pooling(size=1, statement_timeout=5))
    yield SqlTool(TenantDirectory(folder), PostgresDatabase(connections), BOUNDS)
    await connections.close()


async def made_database(dsn, name):
    admin = await asyncpg.connect(dsn)
    await admin.execute(f"DROP DATABASE IF EXISTS {name}")
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()


def stage_of(error):
    match error:
        case InvalidField():
            field = error.metadata["field"]
            return "parse" if field == "sql" else "policy" if field == "params" else "bind"
        case NotPermitted():
            by_rule = {"statement": "parse", "characters": "parse", "nesting": "parse", "cost": "cost"}
            return by_rule.get(error.metadata["rule"], "policy")
        case SqlError():
            return "database" if error.metadata.get("sqlstate") != "53400" else "runtime"
        case DeadlineExceeded():
            return "runtime"
    raise AssertionError(f"a refusal of no stage: {error!r}")


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
async def test_a_statement_of_the_corpus_is_judged_as_it_should_be(case, tool, tenants_by_allow):
    call = tool.query(tenants_by_allow[key_of(case)], case["sql"], json.dumps(case["params"]), max_rows=1000)
    if case["expect"] == "allow":
        answer = await call
        assert answer.result.columns
        assert set(answer.tables) <= {name if "." in name else f"public.{name}" for name in case["allow"]["tables"]}
        return
    with pytest.raises(ServiceError) as caught:
        await call
    assert STAGES.index(stage_of(caught.value)) <= STAGES.index(case["stage"]), caught.value.message
    said = caught.value.message + json.dumps(dict(caught.value.metadata))
    assert not re.search("tok-(alpha|beta)", said)
