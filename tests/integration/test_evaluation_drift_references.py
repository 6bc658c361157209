"""References of drift: kept alike in memory and in PostgreSQL, through restarts, for all replicas."""

import asyncio
import json

import asyncpg
import numpy as np
import pytest
from typer.testing import CliRunner

from services.cli.evals import app
from services.evaluation.online import drift
from services.evaluation.online.drift import Windows
from services.evaluation.online.drift_watch import DriftWatch
from services.evaluation.online.postgres_references import PostgresReferences
from services.evaluation.online.references import MemoryReferences
from services.runtime.errors import DependencyFailed
from tests.unit.evaluation.online.test_drift import vectors
from tests.unit.evaluation.online.world import answered, traffic

WINDOWS = Windows(reference=40, window=20, alpha=0.001)


async def empty_database(cluster, name):
    connection = await asyncpg.connect(cluster.dsn())
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return cluster.dsn(name)


@pytest.fixture(params=["memory", "postgres"])
def cluster(request):
    return request.getfixturevalue("postgres_server") if request.param == "postgres" else None


@pytest.fixture
async def store(cluster):
    made = PostgresReferences(await empty_database(cluster, "drift_references")) if cluster else MemoryReferences()
    await made.open()
    yield made
    await made.close()


class Lost(MemoryReferences):
    """A store that is lost, as often as it is told to be."""

    is_lost = True

    async def put(self, tenant, kind, values):
        if self.is_lost:
            raise DependencyFailed("PostgreSQL failed.", dependency="postgresql")
        await super().put(tenant, kind, values)

    async def get(self, tenant):
        if self.is_lost:
            raise DependencyFailed("PostgreSQL failed.", dependency="postgresql")
        return await super().get(tenant)


async def seen(watch, answers, points=None, tenant="acme"):
    """The verdicts on these answers."""
    found = []
    for answer in answers:
        found += await watch.add(tenant, answer, None if points is None else next(points))
    return found


def drifted(verdicts):
    return {one.kind for one in verdicts if one.is_drift}


async def test_what_was_put_comes_back_and_the_longer_one_stays(store):
    values = {"numbers": [0.25, 0.5], "truths": [True, False], "words": ["none", "sql_query+vector_search"]}
    for kind, some in values.items():
        await store.put("acme", kind, some)
    await store.put("acme", "numbers", [9.0])
    await store.put("acme", "truths", [False, False])
    await store.put("acme", "questions", list(np.eye(3)))
    await store.put("other", "numbers", [1.0])
    found = await store.get("acme")
    assert np.array_equal(found.pop("questions"), np.eye(3))
    assert found == values
    assert [(one.tenant, one.kind, one.count) for one in await store.kept()] == [
        *(("acme", "numbers", 2), ("acme", "questions", 3), ("acme", "truths", 2), ("acme", "words", 2)),
        ("other", "numbers", 1),
    ]
    assert await store.delete("acme", "truths") == 1
    assert await store.delete("acme") == 3
    assert await store.get("acme") == {}


async def test_a_change_is_seen_by_a_process_that_started_after_it(store):
    assert await seen(DriftWatch(WINDOWS, store), traffic(1, 40), vectors(1)) == []
    found = await seen(DriftWatch(WINDOWS, store), traffic(2, 20, score=0.2, refused=0.9), vectors(2, shift=2.0))
    assert drifted(found) == {drift.RETRIEVAL_SCORE, drift.REFUSALS, drift.QUESTIONS}


async def test_a_reference_that_is_not_whole_goes_on_where_it_was(store):
    for seed in range(4):
        assert await seen(DriftWatch(WINDOWS, store), traffic(seed, 12)) == []
    assert {one.count for one in await store.kept()} == {40}
    found = await seen(DriftWatch(WINDOWS, store), traffic(9, 20))
    assert len(found) == 3


async def test_a_change_that_is_accepted_is_the_new_reference(store):
    watch = DriftWatch(WINDOWS, store)
    await seen(watch, traffic(1, 40))
    assert drifted(await seen(watch, traffic(2, 20, refused=0.9))) == {drift.REFUSALS}
    await store.delete("acme")
    # The window in which it is noticed is the beginning of the new reference; until it is whole nothing differs.
    found = await seen(watch, traffic(3, 40, refused=0.9))
    assert {one.kind for one in found} == {drift.RETRIEVAL_SCORE, drift.REFUSALS, drift.TOOL_MIX}
    assert {(one.distance, one.p_value, one.is_drift) for one in found} == {(0.0, 1.0, False)}
    assert drifted(await seen(watch, traffic(4, 20, refused=0.9))) == set()
    assert drifted(await seen(watch, traffic(5, 20, refused=0.1))) == {drift.REFUSALS}


async def test_two_processes_compare_with_the_same_reference(store):
    one, other = DriftWatch(WINDOWS, store), DriftWatch(WINDOWS, store)
    await seen(other, traffic(2, 3, refused=0.9))
    await seen(one, traffic(1, 36))
    await seen(other, traffic(2, 40, refused=0.9))
    # The other was first: what this one has gathered is not what it compares with.
    assert drifted(await seen(one, traffic(3, 24, refused=0.1))) == {drift.REFUSALS}


async def test_questions_begin_anew_when_another_model_embeds_them(store):
    watch = DriftWatch(WINDOWS, store)
    await seen(watch, traffic(1, 40), vectors(1, dimensions=16))
    found = await seen(watch, traffic(2, 40), vectors(2, dimensions=8))
    assert drift.QUESTIONS not in {one.kind for one in found}
    assert len((await store.get("acme"))[drift.QUESTIONS][0]) == 8


async def test_while_the_store_is_lost_nothing_is_compared_and_nothing_raises():
    store = Lost()
    watch = DriftWatch(WINDOWS, store)
    assert await seen(watch, traffic(1, 60)) == []
    store.is_lost = False
    assert len(await seen(watch, traffic(1, 60))) == 3


async def test_a_reference_that_could_not_be_kept_is_kept_later_and_not_taken_for_accepted():
    store = Lost()
    store.is_lost = False
    watch = DriftWatch(WINDOWS, store)
    await watch.add("acme", answered(), None)
    store.is_lost = True
    await seen(watch, traffic(1, 50))
    store.is_lost = False
    assert len(await seen(watch, traffic(2, 9))) == 3
    assert {one.count for one in await store.kept()} == {40}


async def test_the_command_shows_references_and_accepts_a_change(postgres_server):
    dsn = await empty_database(postgres_server, "drift_command")

    async def drift_command(*words):
        env = {"SABUESO_EVALS_STORE": dsn, "COLUMNS": "120"}
        return await asyncio.to_thread(CliRunner().invoke, app, ["drift", *words], env=env)

    store = PostgresReferences(dsn)
    await store.open()
    for kind in (drift.REFUSALS, drift.TOOL_MIX):
        await store.put("acme", kind, [True, False])
    shown = json.loads((await drift_command("--json")).stdout)["references"]
    assert [(one["tenant"], one["kind"], one["count"]) for one in shown] == [
        *(("acme", "refusals", 2), ("acme", "tool_mix", 2)),
    ]
    assert "refusals" in (await drift_command()).output
    assert (await drift_command("--accept", "acme", "--kind", "refusals")).exit_code == 0
    assert list(await store.get("acme")) == [drift.TOOL_MIX]
    missing = await drift_command("--accept", "nobody")
    assert (missing.exit_code, "no reference of nobody" in missing.output) == (1, True)
    await store.close()
