"""Answers of judges in PostgreSQL: asked once for all runs, and never in the way of one."""

import asyncpg
import pytest

from services.evaluation.judge.cached import CachedJudge
from services.evaluation.judge.postgres_cache import PostgresCache
from services.evaluation.judge.scripted import ScriptedJudge
from services.runtime.errors import DependencyFailed
from tests.integration.test_evaluation_drift_references import empty_database
from tests.unit.evaluation.judge.test_cached import SCRIPT, ask


@pytest.fixture
async def dsn(postgres_server):
    return await empty_database(postgres_server, "judge_answers")


async def opened(dsn):
    cache = PostgresCache(dsn)
    await cache.open()
    return cache


async def test_what_one_run_asked_the_next_one_asks_no_more(dsn):
    for calls in (2, 0):
        cache = await opened(dsn)
        judge = CachedJudge(ScriptedJudge(SCRIPT), cache)
        assert [await ask(judge, "a"), await ask(judge, "b")] == [{"claims": ["A."]}, {"claims": ["B."]}]
        assert judge.usage.calls == calls
        await cache.close()


async def test_what_is_asked_for_stays_and_the_rest_goes_after_90_days(dsn):
    cache = await opened(dsn)
    for key in ("used", "unused"):
        await cache.put(key, "1")
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE evaluation.judge_answers SET used_at = now() - interval '91 days'")
    assert await cache.get("used") == "1"
    await cache.close()
    again = await opened(dsn)
    assert [await again.get("used"), await again.get("unused")] == ["1", None]
    await again.close()
    await connection.close()


async def test_a_database_that_is_lost_later_costs_calls_and_no_run(dsn):
    cache = await opened(dsn)
    connection = await asyncpg.connect(dsn)
    await connection.execute("DROP TABLE evaluation.judge_answers")
    await connection.close()
    judge = CachedJudge(ScriptedJudge(SCRIPT), cache)
    assert [await ask(judge, "a"), await ask(judge, "a")] == [{"claims": ["A."]}] * 2
    assert judge.usage.calls == 2
    await cache.close()


async def test_a_database_that_is_not_there_is_said_before_anything_is_asked():
    cache = PostgresCache("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(DependencyFailed, match="PostgreSQL cannot be reached"):
        await cache.open()
    await cache.close()
