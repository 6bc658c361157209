import asyncio

import pytest

from services.evaluation.judge.cached import CachedJudge, DiskCache, MemoryCache
from services.evaluation.judge.judge import JudgeFailed
from services.evaluation.judge.scripted import Script, ScriptedJudge
from services.evaluation.metrics.claims import SCHEMA

SCRIPT = Script(claims={"a": ["A."], "b": ["B."]})


@pytest.fixture(params=["memory", "disk"])
def cache(request, tmp_path):
    if request.param == "memory":
        yield MemoryCache()
        return
    disk = DiskCache(tmp_path)
    yield disk
    disk.close()


def ask(judge, text, language="en", schema=SCHEMA):
    return judge.ask("claims", language, {"question": "?", "text": text}, schema)


async def test_the_same_is_asked_once(cache):
    real = ScriptedJudge(SCRIPT)
    judge = CachedJudge(real, cache)
    assert [await ask(judge, "a"), await ask(judge, "a"), await ask(judge, "b")] == [
        {"claims": ["A."]},
        {"claims": ["A."]},
        {"claims": ["B."]},
    ]
    assert (real.usage.calls, judge.usage.calls, judge.found_count) == (2, 2, 1)


async def test_the_same_asked_at_the_same_time_is_asked_once(cache):
    judge = CachedJudge(ScriptedJudge(SCRIPT), cache)
    found = await asyncio.gather(*(ask(judge, "a") for _ in range(20)))
    assert all(one == {"claims": ["A."]} for one in found)
    assert judge.usage.calls == 1


async def test_another_language_or_schema_is_another_question(cache):
    judge = CachedJudge(ScriptedJudge(SCRIPT), cache)
    await ask(judge, "a", "en")
    await ask(judge, "a", "es")
    await ask(judge, "a", "en", {"type": "object"})
    assert judge.usage.calls == 3


async def test_another_server_or_another_wording_is_another_judge(cache):
    class Elsewhere(ScriptedJudge):
        url = "http://elsewhere/v1"

    class Reworded(ScriptedJudge):
        def prompt_version(self, task, language):
            return super().prompt_version(task, language) + "b" * (task == self.reworded)

    judges = [ScriptedJudge(SCRIPT), Elsewhere(SCRIPT), Reworded(SCRIPT), Reworded(SCRIPT)]
    judges[2].reworded, judges[3].reworded = "claims", "repeat"
    for _ in range(2):
        for judge in judges:
            await ask(CachedJudge(judge, cache), "a")
    assert [judge.usage.calls for judge in judges] == [1, 1, 1, 1]


async def test_a_failure_is_not_kept(cache):
    judge = CachedJudge(ScriptedJudge(SCRIPT, {"claims": [JudgeFailed("down")]}), cache)
    with pytest.raises(JudgeFailed):
        await ask(judge, "a")
    assert await ask(judge, "a") == {"claims": ["A."]}


async def test_tasks_that_are_not_named_are_always_asked(cache):
    judge = CachedJudge(ScriptedJudge(SCRIPT), cache, tasks={"support"})
    await ask(judge, "a")
    await ask(judge, "a")
    assert judge.usage.calls == 2


async def test_one_who_gives_up_leaves_the_question_to_the_next(cache):
    judge = CachedJudge(ScriptedJudge(SCRIPT), cache)
    first = asyncio.create_task(ask(judge, "a"))
    second = asyncio.create_task(ask(judge, "a"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == {"claims": ["A."]}


async def test_what_is_on_disk_is_there_for_the_next_run(tmp_path):
    for calls in (1, 0):
        disk = DiskCache(tmp_path)
        judge = CachedJudge(ScriptedJudge(SCRIPT), disk)
        assert await ask(judge, "a") == {"claims": ["A."]}
        assert judge.usage.calls == calls
        disk.close()


async def test_memory_forgets_what_was_not_asked_for_longest():
    cache = MemoryCache(2)
    await cache.put("a", "1")
    await cache.put("b", "2")
    await cache.get("a")
    await cache.put("c", "3")
    assert [await cache.get(key) for key in "abc"] == ["1", None, "3"]
