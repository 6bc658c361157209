"""Runs are kept alike in memory and in PostgreSQL."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from services.evaluation.runs.postgres_store import PostgresRunStore
from services.evaluation.runs.record import Scored
from services.evaluation.runs.store import ABANDONED, Measurement, MemoryRunStore, Run, RunStatus
from services.evaluation.score import Score, Status
from services.runtime.errors import DependencyFailed

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MEASURED = [
    Measurement("agent", "faithfulness", "all", "all", 0.8, 0.7, 0.9, 10, 2),
    Measurement("agent", "faithfulness", "multi_hop", "es", None, None, None, 0, 3),
]
SCORED = [
    Scored("b", "agent", Score("faithfulness", 0.5)),
    Scored("a", "agent", Score("faithfulness", None, Status.NO_CLAIMS, "a refusal")),
]


def run(run_id, tenant="acme", minutes=0, **other):
    return replace(Run(run_id, tenant, "demo", NOON + timedelta(minutes=minutes)), **other)


async def fresh_database(cluster):
    connection = await asyncpg.connect(cluster.dsn())
    await connection.execute("DROP DATABASE IF EXISTS evaluation_runs WITH (FORCE)")
    await connection.execute("CREATE DATABASE evaluation_runs")
    await connection.close()
    return cluster.dsn("evaluation_runs")


@pytest.fixture
async def dsn(postgres_server):
    return await fresh_database(postgres_server)


@pytest.fixture(params=["memory", "postgres"])
def cluster(request):
    return request.getfixturevalue("postgres_server") if request.param == "postgres" else None


@pytest.fixture
async def store(cluster):
    made = MemoryRunStore() if cluster is None else PostgresRunStore(await fresh_database(cluster))
    await made.open()
    yield made
    await made.close()


async def test_a_run_is_found_by_its_tenant_and_by_nobody_else(store):
    await store.create(run("r1", manifest={"plan": {"seed": 7}}))
    assert await store.get("acme", "r1") == run("r1", manifest={"plan": {"seed": 7}})
    assert await store.get("other", "r1") is None
    assert await store.get("acme", "r2") is None


async def test_a_state_changes_until_the_run_is_over(store):
    await store.create(run("r1"))
    assert await store.set_status("r1", RunStatus.RUNNING)
    await store.set_progress("r1", 3, 8)
    assert await store.set_status("r1", RunStatus.FAILED, "the gateway is away")
    assert not await store.set_status("r1", RunStatus.DONE)
    assert not await store.set_status("nothing", RunStatus.DONE)
    wanted = run("r1", status=RunStatus.FAILED, reason="the gateway is away", done_count=3, wanted_count=8)
    assert await store.get("acme", "r1") == wanted


async def test_results_replace_those_before(store):
    await store.create(run("r1"))
    await store.put_results("r1", {}, MEASURED[:1], SCORED[:1])
    await store.put_results("r1", {"facts": "new"}, MEASURED, SCORED)
    assert await store.measurements("r1") == MEASURED
    assert await store.scores("r1") == [
        ("agent", "faithfulness", "a", None, "no_claims"),
        ("agent", "faithfulness", "b", 0.5, "ok"),
    ]
    assert (await store.get("acme", "r1")).manifest == {"facts": "new"}


async def test_runs_are_listed_newest_first_page_by_page(store):
    for number in range(5):
        await store.create(run(f"r{number}", minutes=number))
    await store.create(run("foreign", tenant="other", minutes=9))
    assert [one.run_id for one in await store.list_runs("acme", 2)] == ["r4", "r3"]
    assert [one.run_id for one in await store.list_runs("acme", 2, "r3")] == ["r2", "r1"]
    assert await store.list_runs("acme", 2, "r0") == []


async def test_the_latest_of_each_set_is_one_that_is_over_and_was_not_cancelled(store):
    for number, status in enumerate([RunStatus.DONE, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.RUNNING]):
        await store.create(run(f"r{number}", minutes=number, status=status))
    await store.create(run("x", tenant="other", minutes=-5, status=RunStatus.DONE))
    assert [one.run_id for one in await store.latest()] == ["r1", "x"]


async def test_a_run_without_a_sign_of_life_is_failed_with_its_reason(store):
    await store.create(run("r1", status=RunStatus.RUNNING))
    await store.create(run("r2", status=RunStatus.DONE))
    assert await store.fail_abandoned(3600) == 0
    await store.beat("r1")
    assert await store.fail_abandoned(0) == 1
    found = await store.get("acme", "r1")
    assert (found.status, found.reason) == (RunStatus.FAILED, ABANDONED)
    assert (await store.get("acme", "r2")).status is RunStatus.DONE


async def test_the_schema_is_made_once_by_however_many_start_together_and_what_was_kept_stays(dsn):
    stores = [PostgresRunStore(dsn) for _ in range(3)]
    await asyncio.gather(*(one.open() for one in stores))
    await stores[0].create(run("r1"))
    later = PostgresRunStore(dsn)
    await later.open()
    assert await later.get("acme", "r1") == run("r1")
    for one in (*stores, later):
        await one.close()


async def test_a_database_that_is_away_is_named_and_quotes_no_address():
    store = PostgresRunStore("postgresql://somebody:secret@127.0.0.1:1/x", timeout_seconds=2)
    with pytest.raises(DependencyFailed) as failed:
        await store.open()
    assert failed.value.metadata == {"dependency": "postgresql"}
    assert "secret" not in failed.value.message
