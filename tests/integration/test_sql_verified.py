"""Verified queries and several sources, on real PostgreSQL: checked at start, listed, run, refused with the reason."""

import json
import logging
from contextlib import asynccontextmanager
from datetime import date, timedelta

import asyncpg
import pytest
import yaml

from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from sabueso.sql_tool.v1 import sql_tool_pb2_grpc as rpc
from services.runtime import errors
from services.runtime.tenants import SqlSource
from services.runtime.testing import SECRET, act_as, running
from services.sql_tool import server
from services.sql_tool.config import Settings
from services.sql_tool.verified_metrics import DEFECTIVE, OVERDUE
from tests.integration.sql_stack import make_database, refused, values

TABLES = {
    "contracts": {
        "columns": {"id": {}, "amount": {}, "signed_on": {}, "status": {}, "region": {}, "tags": {}, "kind": {}}
    }
}
SCHEMA = """
    CREATE TYPE kind AS ENUM ('buy', 'rent');
    CREATE TABLE contracts (
        id int PRIMARY KEY, amount numeric, signed_on date, status text, region text, tags text[], kind kind,
        secret_margin numeric);
    INSERT INTO contracts
        SELECT g, g * 1000.50, date '2025-01-01' + g, (ARRAY['active', 'ended'])[1 + g % 2],
               (ARRAY['EU', 'US'])[1 + g % 2], ARRAY['t' || g % 3], 'buy', 5
        FROM generate_series(1, 100) g;
    ANALYZE contracts;
"""
STATUS = {"type": "text", "values": {"active": ["vigente", "en vigor"], "ended": ["terminado"]}}


def verified(sql, parameters=None, **fields):
    made = {"description": "d", "owner": "finance@example.com", "reviewed_on": date(2025, 11, 1)}
    return made | {"sql": sql, "parameters": parameters or {}} | fields


TOTAL = verified(
    "SELECT count(*) AS n, sum(amount) AS total FROM contracts\n"
    "WHERE status = $1 AND signed_on >= $2 AND amount >= $3 AND region = ANY($4)",
    {
        "status": STATUS,
        "since": {"type": "date", "description": "First day"},
        "least": {"type": "numeric", "default": 0, "minimum": 0},
        "regions": {"type": "text[]", "values": {"EU": ["Europa", "UE"], "US": []}, "default": ["EU", "US"]},
    },
    description="Contracts by state since a day. NOT for clauses.",
    examples=[{"question": "How many are in force?", "arguments": {"status": "vigente", "since": "2025-03-01"}}],
)
RIGHT = {
    "contract_totals": TOTAL,
    "count_all": verified("SELECT count(*) FROM contracts"),
    "of_kind": verified(
        "SELECT count(*) FROM contracts WHERE kind = $1", {"kind": {"type": "text", "values": {"buy": ["compra"]}}}
    ),
    "in_period": verified(
        "SELECT count(*) FROM contracts WHERE signed_on BETWEEN $1 AND $1::date + $2::interval",
        {"day": {"type": "date"}, "length": {"type": "text"}},
        examples=[{"question": "?", "arguments": {"day": "2025-01-05", "length": "P1M"}}],
    ),
    "quotient": verified("SELECT 10 / ($1::int - 1)", {"x": {"type": "integer"}}),
}
WRONG = {
    "hidden_column": (verified("SELECT secret_margin FROM contracts"), "`secret_margin` is not a column"),
    "hidden_table": (verified("SELECT 1 FROM secret_deals"), "secret_deals"),
    "a_write": (verified("DELETE FROM contracts"), "permitted"),
    "no_sql": (verified("SELEC 1"), "Only SELECT"),
    "too_few_parameters": (
        verified("SELECT $1::int + $2::int", {"x": {"type": "integer"}}),
        "the statement has 2 placeholders, and 1 parameters are declared",
    ),
    "text_for_a_date": (
        verified("SELECT 1 FROM contracts WHERE signed_on = $1", {"day": {"type": "text"}}),
        "parameter `day` is declared text, but the statement needs date",
    ),
    "numeric_for_an_int": (
        verified("SELECT 1 FROM contracts WHERE id = $1", {"id": {"type": "numeric"}}),
        "parameter `id` is declared numeric, but the statement needs int4",
    ),
    "integer_for_a_text": (
        verified("SELECT 1 FROM contracts WHERE region = $1", {"region": {"type": "integer"}}),
        "parameter `region` is declared integer, but the statement needs text",
    ),
    "one_for_an_array": (
        verified("SELECT 1 FROM contracts WHERE id = ANY($1)", {"ids": {"type": "integer"}}),
        "parameter `ids` is declared integer, but the statement needs int4[]",
    ),
    "wrong_example": (
        verified(
            "SELECT 1 FROM contracts WHERE status = $1",
            {"status": STATUS},
            examples=[{"question": "Which?", "arguments": {"status": "lost"}}],
        ),
        "example `Which?`: `status` must be one of active, ended.",
    ),
    "too_dear": (
        verified("SELECT count(*) FROM contracts a, contracts b, contracts c, contracts d"),
        "too dear",
    ),
    "types_do_not_fit": (verified("SELECT 1 FROM contracts WHERE amount = 'x'"), "no value of the type"),
}


@pytest.fixture(scope="module")
def database(postgres_server):
    """A database with the table, and one with another table; a reader role for each."""

    for name, schema, tables, role in (
        ("sql_verified", SCHEMA, TABLES, "verified_reader"),
        ("sql_weather", WEATHER_SCHEMA, WEATHER, "weather_reader"),
    ):
        source = SqlSource.model_validate({"dsn_secret": "x", "tables": tables})
        make_database(postgres_server, name, schema, (role, source))
    return "sql_verified"


WEATHER = {"readings": {"description": "Weather (tiempo)", "columns": {"city": {}, "celsius": {"unit": "°C"}}}}
WEATHER_SCHEMA = """
    CREATE TABLE readings (city text PRIMARY KEY, celsius numeric);
    INSERT INTO readings VALUES ('Madrid', 31.5), ('Oslo', -2);
"""


@pytest.fixture
def folder(postgres_server, database, tmp_path):
    (tmp_path / "main-dsn").write_text(postgres_server.dsn(database, "verified_reader", "pass"))
    (tmp_path / "weather-dsn").write_text(postgres_server.dsn("sql_weather", "weather_reader", "pass"))
    (tmp_path / "away-dsn").write_text("postgresql://nobody:x@127.0.0.1:1/none")
    (tmp_path / "bare.yaml").write_text("id: bare\n")
    return tmp_path


def write(folder, queries, *more):
    source = {"dsn_secret": "main-dsn", "description": "Contracts.", "tables": TABLES, "verified_queries": queries}
    sources = [source, *more] if more else source
    (folder / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", "sql": sources}, sort_keys=False))


def other(name, dsn="weather-dsn", **fields):
    return {"name": name, "dsn_secret": dsn, "description": "Weather of cities", "tables": WEATHER} | fields


@asynccontextmanager
async def serving(folder, **settings):
    act_as("acme")
    made = Settings(identity_secret=SECRET, tenants_dir=folder, secrets_dir=folder, **settings)
    (served,) = await server.build(made)
    async with running(served) as channel:
        if served.warm_up is not None:
            await served.warm_up()
        yield rpc.SqlToolServiceStub(channel)


async def listed(stub):
    return {query.name: query for query in (await stub.ListVerifiedQueries(pb.ListVerifiedQueriesRequest())).queries}


async def run(stub, name, /, **arguments):
    return await stub.RunVerifiedQuery(pb.RunVerifiedQueryRequest(name=name, arguments_json=json.dumps(arguments)))


async def test_right_queries_are_listed_without_a_defect(folder):
    write(folder, RIGHT)
    async with serving(folder) as stub:
        queries = await listed(stub)
    assert {name: query.defect for name, query in queries.items()} == dict.fromkeys(sorted(RIGHT), "")
    one = queries["contract_totals"]
    assert (one.owner, one.review_date, one.source) == ("finance@example.com", "2025-11-01", "main")
    assert list(one.tables) == ["public.contracts"]
    assert one.description == "Contracts by state since a day. NOT for clauses."
    assert json.loads(one.parameters_schema_json)["required"] == ["status", "since"]
    assert [(example.question, json.loads(example.arguments_json)) for example in one.examples] == [
        ("How many are in force?", {"status": "vigente", "since": "2025-03-01"})
    ]


async def test_a_query_runs_with_its_arguments_resolved(folder):
    write(folder, RIGHT)
    async with serving(folder) as stub:
        ran = await run(stub, "contract_totals", status="En Vigor", since="2025-03-01", regions=["europa"])
        again = await stub.Query(pb.QueryRequest(sql=ran.sql, params_json=ran.params_json))
        compra = await run(stub, "of_kind", kind="Compra")
        period = await run(stub, "in_period", day="2025-01-05", length="P10D")
    # Even days are active and European: 2025-01-01 + g is in March from g = 59 on, so g = 60, 62, … 100.
    assert values(ran.result) == [[21, f"{sum(g * 100050 for g in range(60, 101, 2)) / 100:.2f}"]]
    assert json.loads(ran.params_json) == ["active", "2025-03-01", "0", ["EU"]]
    assert ran.sql == TOTAL["sql"]
    assert values(again.result) == values(ran.result)
    assert ran.result.source == "main"
    assert list(ran.result.tables) == ["public.contracts"]
    assert values(compra.result) == [[100]]
    assert values(period.result) == [[11]]


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("contract_totals", {"status": "activo", "since": "2025-01-01"}, "arguments.status"),
        ("contract_totals", {"status": "active"}, "arguments.since"),
        ("contract_totals", {"status": "active", "since": "1/3/2025"}, "arguments.since"),
        ("contract_totals", {"status": "active", "since": "2025-01-01", "least": -1}, "arguments.least"),
        ("contract_totals", {"status": "active", "since": "2025-01-01", "region": ["EU"]}, "arguments.region"),
        ("quotient", {"x": True}, "arguments.x"),
        ("quotient", {"x": 2**40}, "params[0]"),
    ],
)
async def test_wrong_arguments_are_named(folder, name, arguments, field):
    write(folder, RIGHT)
    async with serving(folder) as stub:
        error = await refused(run(stub, name, **arguments), errors.InvalidField)
    assert (error.metadata["field"], error.metadata["code"]) == (field, "wrong_parameters")


async def test_an_error_of_the_database_is_explained(folder):
    write(folder, RIGHT)
    async with serving(folder) as stub:
        error = await refused(run(stub, "quotient", x=1), errors.SqlError)
    assert error.metadata["code"] == "division_by_zero"


async def test_a_name_that_is_not_there_is_told_with_the_nearest(folder):
    write(folder, RIGHT)
    async with serving(folder) as stub:
        error = await refused(run(stub, "contracts_total"), errors.NotFound)
        act_as("bare")
        none = await listed(stub)
    assert error.metadata["hint"] == "Did you mean `contract_totals`?"
    assert none == {}


async def test_each_defect_is_found_at_start_and_the_others_go_on(folder, caplog):
    write(folder, RIGHT | {name: query for name, (query, _) in WRONG.items()})
    with caplog.at_level(logging.ERROR, "services.sql_tool.knowledge"):
        async with serving(folder) as stub:
            told = {record.query: record.defect for record in caplog.records if hasattr(record, "defect")}
            queries = await listed(stub)
            assert DEFECTIVE._value.get() == len(WRONG)
            ran = await run(stub, "count_all")
            for name in WRONG:
                error = await refused(run(stub, name), errors.NotPermitted)
                assert error.metadata["rule"] == "verified_query"
                assert "secret" not in error.message.replace(name, "")
    for name, (_, said) in WRONG.items():
        assert said in queries[name].defect, name
    assert {name: query.defect for name, query in queries.items() if query.defect} == told
    assert {name for name, query in queries.items() if not query.defect} == set(RIGHT)
    assert values(ran.result) == [[100]]


async def test_rights_that_change_make_a_defect_and_mending_them_ends_it(folder, postgres_server, database):
    write(folder, {"count_all": verified("SELECT count(region) FROM contracts")})
    admin = await asyncpg.connect(postgres_server.dsn(database))
    try:
        async with serving(folder, catalog_seconds=0) as stub:
            before = (await listed(stub))["count_all"]
            await admin.execute("REVOKE SELECT (region) ON contracts FROM verified_reader")
            try:
                broken = (await listed(stub))["count_all"]
                await refused(run(stub, "count_all"), errors.NotPermitted)
            finally:
                await admin.execute("GRANT SELECT (region) ON contracts TO verified_reader")
            after = (await listed(stub))["count_all"]
            ran = await run(stub, "count_all")
    finally:
        await admin.close()
    assert (before.defect, after.defect) == ("", "")
    assert "`region` is not a column" in broken.defect
    assert before.version == after.version != broken.version
    assert values(ran.result) == [[100]]


async def test_an_old_review_is_told_and_the_query_still_runs(folder, caplog):
    old = date.today() - timedelta(days=400)
    write(folder, {"count_all": verified("SELECT count(*) FROM contracts", reviewed_on=old)})
    with caplog.at_level(logging.WARNING, "services.sql_tool.knowledge"):
        async with serving(folder) as stub:
            (query,) = (await listed(stub)).values()
            ran = await run(stub, "count_all")
    assert query.defect == ""
    assert values(ran.result) == [[100]]
    assert OVERDUE._value.get() == 1
    assert [record.reviewed_on for record in caplog.records if hasattr(record, "reviewed_on")] == [old.isoformat()]


async def test_a_database_that_is_away_is_the_defect_of_its_queries_only(folder):
    readings = {"readings_of": verified("SELECT 1 FROM readings")}
    write(folder, RIGHT, other("away", "away-dsn", verified_queries=readings))
    async with serving(folder) as stub:
        queries = await listed(stub)
        error = await refused(run(stub, "readings_of"), errors.DependencyFailed)
        ran = await run(stub, "count_all")
        described = await stub.DescribeSchema(pb.DescribeSchemaRequest())
    assert queries["readings_of"].defect == "The tenant's database does not answer."
    assert queries["count_all"].defect == ""
    assert error.metadata["code"] == "unavailable"
    assert values(ran.result) == [[100]]
    assert "-- Source away: Weather of cities. It does not answer at the moment." in described.text
    assert "CREATE TABLE contracts" in described.text


async def test_a_statement_goes_to_the_source_that_it_names(folder):
    write(folder, {}, other("weather"))
    async with serving(folder) as stub:
        first = await stub.Query(pb.QueryRequest(sql="SELECT count(*) FROM contracts"))
        weather = await stub.Query(pb.QueryRequest(sql="SELECT celsius FROM readings ORDER BY 1", source="weather"))
        plan = await stub.Explain(pb.ExplainRequest(sql="SELECT city FROM readings", source="weather"))
        crossed = await refused(stub.Query(pb.QueryRequest(sql="SELECT 1 FROM readings")), errors.NotPermitted)
        unknown = await refused(stub.Query(pb.QueryRequest(sql="SELECT 1", source="wether")), errors.NotFound)
    assert (values(first.result), first.result.source) == ([[100]], "main")
    assert (values(weather.result), weather.result.source) == ([["-2"], ["31.5"]], "weather")
    assert list(plan.tables) == ["public.readings"]
    assert crossed.metadata["code"] == "unknown_table"
    assert unknown.message == "There is no source `wether`. Sources are main, weather."
    assert unknown.metadata["hint"] == "Did you mean `weather`?"


async def test_all_sources_are_described_each_under_its_name(folder):
    write(folder, {})
    async with serving(folder) as stub:
        alone = await stub.DescribeSchema(pb.DescribeSchemaRequest())
    write(folder, {}, other("weather"))
    async with serving(folder) as stub:
        both = await stub.DescribeSchema(pb.DescribeSchemaRequest())
        small = await stub.DescribeSchema(pb.DescribeSchemaRequest(max_tokens=70, question="tiempo en Oslo"))
    assert "Source" not in alone.text
    assert [source.name for source in alone.sources] == ["main"]
    assert both.text.index("-- Source main: Contracts.") < both.text.index("CREATE TABLE contracts")
    assert both.text.index("-- Source weather: Weather of cities.") < both.text.index("CREATE TABLE readings")
    assert [(source.name, source.description) for source in both.sources] == [
        ("main", "Contracts."),
        ("weather", "Weather of cities"),
    ]
    assert both.version != alone.version
    assert "public.readings" in small.tables


async def test_a_result_says_what_it_cost_and_whether_it_may_change_by_itself(folder):
    write(folder, RIGHT)
    async with serving(folder) as stub:
        still = (await stub.Query(pb.QueryRequest(sql="SELECT region FROM contracts ORDER BY id LIMIT 2"))).result
        clock = (await stub.Query(pb.QueryRequest(sql="SELECT count(*) FROM contracts WHERE signed_on < now()"))).result
    assert (still.volatile, clock.volatile) == (False, True)
    assert still.plan_cost > 0
    assert still.value_bytes == 4


async def test_who_ran_what_is_written_down_refused_or_not(folder, caplog):
    write(folder, RIGHT | {"broken": WRONG["hidden_column"][0]})
    with caplog.at_level(logging.INFO, "sabueso.audit"):
        async with serving(folder) as stub:
            await run(stub, "contract_totals", status="vigente", since="2025-03-01")
            await refused(run(stub, "contract_totals", status="lost", since="2025-03-01"), errors.InvalidField)
            await refused(run(stub, "broken"), errors.NotPermitted)
            await stub.Explain(pb.ExplainRequest(sql="SELECT id FROM contracts"))
    lines = [record for record in caplog.records if record.name == "sabueso.audit"]
    assert [(getattr(line, "verified_query", ""), line.outcome) for line in lines] == [
        ("contract_totals", "OK"),
        ("contract_totals", "INVALID_FIELD"),
        ("broken", "NOT_PERMITTED"),
        ("", "OK"),
    ]
    assert lines[0].tables == ["public.contracts"]
    assert len(lines[0].parameters) == 4
    assert "vigente" not in str(lines[0].parameters)
