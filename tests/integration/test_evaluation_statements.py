"""Equivalent statements on a real PostgreSQL, as the demo company's reader, and calls judged by them."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from demo import database, tenants
from services.evaluation.answered import Answered, Call
from services.evaluation.golden import sets
from services.evaluation.golden.item import ExpectedCall, Item, Stratum
from services.evaluation.runs.command import Wanted, run
from services.evaluation.runs.gateway_asker import Stack
from services.evaluation.tools import expectation
from services.evaluation.tools.accuracy import Share, measure
from services.evaluation.tools.assignment import Assigner
from services.evaluation.tools.postgres import connected
from services.evaluation.tools.statements import StatementFailed, equivalent
from services.runtime.errors import DependencyFailed
from tests.unit.evaluation.runs.gateway_server import KEY, GatewayServer, listening
from tests.unit.evaluation.runs.test_whole_run import answer
from tests.unit.evaluation.runs.world import ITEMS, golden

COUNT_2024 = "SELECT count(*) FROM contracts WHERE signed_on >= '2024-01-01' AND signed_on < '2025-01-01'"


@pytest.fixture
async def dsn(postgres_server):
    return (await database.load_database(postgres_server.dsn(), tenants.describe("demo"), "p w")).dsn


@pytest.fixture
async def executes(dsn):
    async with connected(dsn) as connection:
        yield connection


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("SELECT count(id) AS n FROM contracts WHERE signed_on BETWEEN $1 AND $2", ["2024-01-01", "2024-12-31"]),
        ("SELECT sum(1) FROM contracts WHERE extract(year FROM signed_on) = $1", [2024]),
        ("SELECT count(*) FROM contracts WHERE date_trunc('year', signed_on) = $1", ["2024-01-01 00:00:00+00"]),
        ("WITH y AS (SELECT id FROM contracts WHERE id LIKE $1) SELECT count(*) FROM y", ["CT-2024-%"]),
        (
            "SELECT count(*) FROM contracts WHERE signed_on >= $1::date AND signed_on < $2::date",
            ["2024-01-01", "2025-01-01"],
        ),
    ],
)
async def test_other_words_for_the_same_are_equivalent(executes, statement, values):
    assert await equivalent(executes, COUNT_2024, [], statement, values)


async def test_a_day_begins_when_it_does_for_the_sql_service_wherever_the_database_is(dsn):
    statement = "SELECT count(*) FROM contracts WHERE date_trunc('year', signed_on) = $1"
    async with connected(f"{dsn}?TimeZone=Pacific/Auckland") as executes:
        assert await equivalent(executes, COUNT_2024, [], statement, ["2024-01-01 00:00:00+00"])


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("SELECT count(*) FROM contracts WHERE signed_on > $1 AND signed_on < $2", ["2024-01-03", "2025-01-01"]),
        ("SELECT count(*) FROM contracts WHERE signed_on >= $1", []),
        ("SELECT count(*) FROM contracts WHERE signed_on >= $1", ["soon"]),
        ("SELECT count(*) FROM contracts WHERE signed_on >= $1", [["2024-01-01"]]),
        ("SELECT iban FROM bank_accounts", []),
        ("SELECT", []),
        ("", []),
        ("SELECT 1; SELECT 60", []),
        ("DELETE FROM contracts", []),
        ("SELECT repeat('x', 10) FROM generate_series(1, 20000)", []),
    ],
)
async def test_what_gives_other_rows_or_none_is_not_equivalent(executes, statement, values):
    assert not await equivalent(executes, COUNT_2024, [], statement, values)
    # The connection still works after a statement that failed.
    assert (await executes.rows(COUNT_2024, [])).rows == [(60,)]


async def test_amounts_arrays_and_averages_compare_by_value(executes):
    expected = (
        "SELECT region_code, round(avg(amount), 2) FROM contracts c JOIN providers p ON p.id = c.provider_id GROUP BY 1"
    )
    actual = (
        "SELECT avg(c.amount)::float8 AS mean, p.region_code FROM contracts c JOIN providers p ON p.id = c.provider_id "
        "WHERE p.region_code = ANY($1) AND c.amount > $2 GROUP BY p.region_code ORDER BY 1"
    )
    assert await equivalent(executes, expected, [], actual, [["EU", "UK", "NA", "LATAM", "APAC"], 0])
    assert not await equivalent(executes, expected, [], actual, [["EU", "UK"], 0])


async def test_the_order_counts_where_it_was_asked_for(executes):
    ordered = "SELECT id FROM contracts ORDER BY amount DESC LIMIT 5"
    same = "SELECT id FROM (SELECT id, amount FROM contracts ORDER BY amount DESC LIMIT 5) AS t ORDER BY amount"
    assert not await equivalent(executes, ordered, [], same, [])
    assert await equivalent(executes, f"SELECT * FROM ({ordered}) AS t", [], same, [])


async def test_nothing_can_be_written_even_by_an_owner(postgres_server, dsn):
    del dsn  # the database is loaded
    admin = postgres_server.dsn().rpartition("/")[0] + "/demo"
    async with connected(admin) as owner:
        for statement in ("UPDATE contracts SET amount = 1 RETURNING id", "CREATE TABLE mine (a int)"):
            with pytest.raises(StatementFailed):
                await owner.rows(statement, [])


async def test_a_statement_does_not_change_how_the_next_one_runs(executes):
    await executes.rows(
        "SELECT set_config('search_path', 'nowhere', false), set_config('statement_timeout', '0', false)", []
    )
    assert (await executes.rows(COUNT_2024, [])).rows == [(60,)]
    assert (await executes.rows("SELECT current_setting('statement_timeout')", [])).rows == [("10s",)]


async def test_a_statement_that_takes_too_long_fails_and_the_next_one_runs(dsn):
    async with connected(dsn, timeout_seconds=2) as executes:
        with pytest.raises(StatementFailed):
            await executes.rows("SELECT pg_sleep(90)", [])
        assert (await executes.rows("SELECT 1", [])).rows == [(1,)]


async def test_a_database_that_is_not_there_is_said():
    with pytest.raises((OSError, asyncpg.PostgresError)):
        async with connected("postgresql://nobody@127.0.0.1:1/none"):
            pass


def said(expected):
    """A value that is expected."""
    match expected:
        case {"optional": value}:
            return said(value)
        case {"unordered": values}:
            return list(reversed(values))
        case {"contains": words}:
            return " ".join(one if isinstance(one, str) else one[0] for one in words)
        case {"sql": statement}:
            return f"SELECT * FROM ({statement}) AS found"
        case _:
            return expected


async def test_whoever_does_what_the_demo_set_expects_is_right_in_everything(executes):
    items = sets.read(Path("demo/evals/tools")).items
    answers = {
        item.id: Answered(
            item.question,
            "",
            item.language,
            calls=tuple(
                Call(call.tool, {name: said(value) for name, value in call.arguments.items()}, call.group)
                for call in reversed(item.calls)
            ),
        )
        for item in items
    }
    found = await measure(items, answers, Assigner(executes=executes))
    assert (found.accuracy.value, found.no_tool.value, found.parallel.value, found.valid.value) == (1, 1, 1, 1)
    assert (found.calls.value, found.arguments.value, found.unjudged_count) == (1, 1, 0)


async def test_the_values_of_a_call_go_into_its_statement(executes):
    item = Item("a", "?", "en", Stratum.SINGLE_HOP, calls=(ExpectedCall("sql_query", {"query": {"sql": COUNT_2024}}),))
    assert expectation.sql_of(item.calls[0].arguments["query"]) == (COUNT_2024, [])
    statement = "SELECT count(*) FROM contracts WHERE signed_on >= $1 AND signed_on < $2"
    for params, right in ((["2024-01-01", "2025-01-01"], 1), (["2023-01-01", "2025-01-01"], 0), ("2024", 0), (None, 0)):
        call = Call("sql_query", {"query": statement, "params": params})
        found = await measure([item], {"a": Answered("?", "", "en", calls=(call,))}, Assigner(executes=executes))
        assert found.calls == Share(right, 1)


async def killed(server, name):
    """Ends the connections of that role, as a server does that is stopped."""
    connection = await asyncpg.connect(server.dsn())
    try:
        await connection.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", name)
    finally:
        await connection.close()


async def test_a_connection_that_is_lost_between_statements_is_made_again(executes, postgres_server):
    name = (await executes.rows("SELECT current_user::text", [])).rows[0][0]
    await killed(postgres_server, name)
    assert (await executes.rows("SELECT current_user::text", [])).rows == [(name,)]


async def test_a_statement_whose_connection_is_lost_meanwhile_is_put_again_and_not_judged(executes, postgres_server):
    name = (await executes.rows("SELECT current_user::text", [])).rows[0][0]
    asking = asyncio.create_task(equivalent(executes, "SELECT 1", [], "SELECT 1 FROM pg_sleep(2)", []))
    async with asyncio.timeout(60):
        connection = await asyncpg.connect(postgres_server.dsn())
        asleep = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'PgSleep'"
        while not await connection.fetchval(asleep, name):
            await asyncio.sleep(0.05)
        await connection.close()
        await killed(postgres_server, name)
        assert await asking


async def test_a_statement_that_ends_its_own_connection_each_time_has_failed(executes):
    with pytest.raises(StatementFailed, match="ends its connection"):
        await executes.rows("SELECT pg_terminate_backend(pg_backend_pid())", [])
    assert (await executes.rows("SELECT 1", [])).rows == [(1,)]


async def test_a_database_that_does_not_come_back_is_a_lost_dependency_and_no_wrong_statement(dsn, postgres_server):
    async with connected(dsn, patience_seconds=0.2) as executes:
        name = (await executes.rows("SELECT current_user::text", [])).rows[0][0]
        owner = await asyncpg.connect(postgres_server.dsn())
        try:
            await owner.execute(f'ALTER ROLE "{name}" NOLOGIN')
            await killed(postgres_server, name)
            with pytest.raises(DependencyFailed, match="lost"):
                await equivalent(executes, "SELECT 1", [], "SELECT 1", [])
        finally:
            await owner.execute(f'ALTER ROLE "{name}" LOGIN')
            await owner.close()


async def test_a_failure_of_the_run_itself_is_not_told_as_one_of_its_database(dsn, tmp_path):
    folder = tmp_path / "small"
    sets.write_about(folder, golden().about)
    sets.write_half(folder, "dev", ITEMS)

    def no_room(_what, _done, _of):
        raise OSError("no space left on device")

    async with listening(GatewayServer(answer)) as url:
        wanted = Wanted(folder, tmp_path / "run", Stack(url, KEY), with_baselines=False, database=dsn)
        with pytest.raises(OSError, match="no space left on device"):
            await run(wanted, no_room)
