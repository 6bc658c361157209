import asyncio
import json

import pytest

from services.orchestrator.dispatch import CacheMode, Dispatcher, Failure, ToolSet
from services.orchestrator.model import ToolCall
from services.orchestrator.result_cache import MemoryStore, ResultCache
from services.orchestrator.results import Degraded, Passage, Passages
from services.orchestrator.tools import Tool, VectorSearch
from services.runtime.errors import DependencyFailed, InvalidField, LimitExceeded, NotFound, NotPermitted, SqlError

FOUND = Passages((Passage("d", "c", "T", "s", 1, "", "en", "Text."),))


class Search:
    """Gives the same result or error, and counts."""

    def __init__(self, result=FOUND):
        self.result = result
        self.queries = []

    async def __call__(self, arguments, seconds):
        self.queries.append(arguments.query)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def dispatcher(search, store=None, *, mode=CacheMode.USE, ttl=60, max_calls=6, version="1", context=lambda _: ""):
    tool = Tool("vector_search", "retrieval", "Searches.", VectorSearch, Passages, search, 5, ttl, version, context)
    return Dispatcher(ToolSet({"vector_search": tool}), ResultCache(store or MemoryStore()), mode, max_calls)


def calls(*queries):
    return [ToolCall(f"c{i}", "vector_search", json.dumps({"query": query})) for i, query in enumerate(queries)]


async def run(runner, *queries):
    outcomes = [outcome async for outcome in runner.run(calls(*queries), 5)]
    await runner.cache.close()
    return outcomes


async def test_a_result_is_remembered_for_the_next_run():
    search, store = Search(), MemoryStore()
    await run(dispatcher(search, store), "a", "b")
    again = dispatcher(search, store)
    outcomes = await run(again, "a", "b")
    assert search.queries == ["a", "b"]
    assert [(one.result, one.from_cache) for one in outcomes] == [(FOUND, True)] * 2
    assert again.cache_hits == 2


async def test_all_calls_of_a_turn_are_looked_up_at_once():
    store = MemoryStore()
    await run(dispatcher(Search(), store), "a", "b", "c")
    assert store.lookups == 1


async def test_defaults_spelled_out_are_the_same_call():
    search, store = Search(), MemoryStore()
    await run(dispatcher(search, store), "a")
    spelled = ToolCall("x", "vector_search", '{"top_k": 5, "query": "a"}')
    outcomes = [outcome async for outcome in dispatcher(search, store).run([spelled], 5)]
    assert outcomes[0].from_cache


async def test_another_version_is_another_call():
    search, store = Search(), MemoryStore()
    await run(dispatcher(search, store), "a")
    await run(dispatcher(search, store, version="2"), "a")
    assert search.queries == ["a", "a"]


async def test_a_call_that_leans_on_the_conversation_is_another_call_in_another_one():
    search, store = Search(), MemoryStore()
    for said in ("2023", "2024", "2023"):
        await run(
            dispatcher(search, store, context=lambda one, said=said: said * one.query.startswith("and")), "and", "b"
        )
    assert search.queries == ["and", "b", "and"]


@pytest.mark.parametrize(
    ("mode", "ttl", "lookups", "stored"),
    [(CacheMode.USE, 60, 1, 1), (CacheMode.REFRESH, 60, 0, 1), (CacheMode.OFF, 60, 0, 0), (CacheMode.USE, 0, 0, 0)],
)
async def test_the_mode_and_the_time_to_live_are_respected(mode, ttl, lookups, stored):
    store = MemoryStore()
    await run(dispatcher(Search(), store, mode=mode, ttl=ttl), "a")
    assert (store.lookups, len(store.entries)) == (lookups, stored)
    assert [entry.ttl_seconds for entry in store.entries.values()] == [ttl] * stored


@pytest.mark.parametrize(
    "result",
    [Passages(FOUND.passages, (Degraded("reranking", "down"),)), DependencyFailed("Down."), InvalidField("Wrong.")],
)
async def test_failures_and_degraded_results_are_not_remembered(result):
    store = MemoryStore()
    await run(dispatcher(Search(result), store), "a")
    assert store.entries == {}


async def test_a_lost_cache_is_a_miss_and_said():
    store = MemoryStore()
    store.lost = True
    runner = dispatcher(Search(), store)
    assert [one.result for one in await run(runner, "a")] == [FOUND]
    assert runner.cache_lost


async def test_equal_calls_of_a_turn_run_once():
    search = Search()
    outcomes = await run(dispatcher(search), "a", "a")
    assert search.queries == ["a"]
    assert {outcome.call.id for outcome in outcomes} == {"c0", "c1"}


async def test_a_failed_call_is_not_run_again():
    search = Search(DependencyFailed("retrieval does not answer."))
    runner = dispatcher(search)
    first, second = (await run(runner, "a"))[0], (await run(runner, "a"))[0]
    assert search.queries == ["a"]
    assert (
        second.result
        == first.result
        == Failure("retrieval does not answer", degraded=Degraded("retrieval", "retrieval does not answer"))
    )


@pytest.mark.parametrize(
    "error",
    [
        InvalidField("Too long.", field="query"),
        SqlError("No column `x`.", hint="use y"),
        NotPermitted("Not allowed.", rule="table"),
        NotFound("No such collection."),
        LimitExceeded("Too many rows.", setting="rows"),
    ],
)
async def test_what_the_model_can_mend_does_not_blame_the_service(error):
    result = (await run(dispatcher(Search(error)), "a"))[0].result
    assert result == Failure(error.message, error.metadata.get("hint", ""))


async def test_a_bug_in_a_tool_does_not_end_the_run():
    result = (await run(dispatcher(Search(RuntimeError("password=1"))), "a"))[0].result
    assert result.message == "retrieval failed"


async def test_calls_above_the_ceiling_are_refused():
    search = Search()
    outcomes = await run(dispatcher(search, max_calls=2), "a", "b", "c")
    assert sorted(search.queries) == ["a", "b"]
    assert [outcome.call.id for outcome in outcomes if isinstance(outcome.result, Failure)] == ["c2"]


async def test_no_call_outlives_the_time_of_the_run():
    async def hangs(arguments, seconds):
        given.append(seconds)
        await asyncio.sleep(60)

    given = []
    outcomes = [one async for one in dispatcher(hangs).run(calls("a"), 0.05)]
    assert given == [0.05]
    assert outcomes[0].result.message == "timeout after 0.05s"
