import asyncio
import json
from dataclasses import replace

import pytest

from services.orchestrator.arguments import TypedForm
from services.orchestrator.dispatch import Dispatcher, Failure, ToolSet
from services.orchestrator.model import ToolCall
from services.orchestrator.result_cache import MemoryStore, Miss, ResultCache
from services.orchestrator.results import Degraded, Pages, Passage, Passages, Rows, may_be_kept
from services.orchestrator.tools import SqlQuery, Tool, VectorSearch
from services.orchestrator.turn_cache import CacheMode
from services.runtime.errors import DependencyFailed, InvalidField, LimitExceeded, NotFound, NotPermitted, SqlError

RETRIEVAL_DOWN = Degraded("retrieval", "retrieval does not answer")
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


def dispatcher(
    search, store=None, *, mode=CacheMode.USE, ttl=60, max_calls=6, version="1", context=lambda _: "", **more
):
    form = TypedForm(VectorSearch)
    tool = Tool("vector_search", "retrieval", "Searches.", form, Passages, search, 5, ttl, version, context, **more)
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
    assert [(one.result, one.hit.found) for one in outcomes] == [(FOUND, FOUND)] * 2
    assert again.memory.cache_hits == 2


async def test_all_calls_of_a_turn_are_looked_up_at_once():
    store = MemoryStore()
    await run(dispatcher(Search(), store), "a", "b", "c")
    assert store.lookups == 1


async def test_defaults_spelled_out_are_the_same_call():
    search, store = Search(), MemoryStore()
    await run(dispatcher(search, store), "a")
    spelled = ToolCall("x", "vector_search", '{"top_k": 5, "query": "a"}')
    outcomes = [outcome async for outcome in dispatcher(search, store).run([spelled], 5)]
    assert outcomes[0].hit


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
    [(CacheMode.USE, 60, 1, 1), (CacheMode.REFRESH, 60, 1, 1), (CacheMode.OFF, 60, 0, 0), (CacheMode.USE, 0, 0, 0)],
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
    assert runner.memory.cache_lost


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
    assert first.result == Failure("retrieval does not answer", degraded=RETRIEVAL_DOWN)
    again = "retrieval does not answer; this very call was tried before, and is not made again"
    assert second.result == Failure(again, degraded=RETRIEVAL_DOWN, not_made=True)


async def test_a_call_that_succeeded_is_not_run_again_however_it_is_spelled():
    search = Search()
    runner = dispatcher(search)
    await run(runner, "a")
    spelled = ToolCall("x", "vector_search", '{"top_k": 5, "query": " a "}')
    [second] = [outcome async for outcome in runner.run([spelled], 5)]
    assert search.queries == ["a"]
    assert "this very call was made before; use its result above" in second.result.message
    assert second.result.degraded is None


async def test_turns_in_which_nothing_is_new_are_counted():
    runner = dispatcher(Search())
    await run(runner, "a", "a")
    assert runner.repeating_turns == 0
    await run(runner, "a", "b")
    assert runner.repeating_turns == 0
    await run(runner, "b", "a")
    assert runner.repeating_turns == 1


@pytest.mark.parametrize("written", ['{"query": ', '{"qery": "a"}'])
async def test_a_call_that_was_wrong_and_comes_again_is_a_repetition_too(written):
    runner = dispatcher(Search())
    wrong = ToolCall("x", "vector_search", written)
    first, second = [await anext(runner.run([wrong], 5)) for _ in range(2)]
    assert second.result.message == f"{first.result.message}; this very call was tried before, and is not made again"
    assert runner.repeating_turns == 1


async def test_a_tool_whose_service_failed_is_tried_once_more_and_then_left():
    search = Search(DependencyFailed("retrieval does not answer."))
    runner = dispatcher(search)
    results = [(await run(runner, query))[0].result for query in ("a", "b", "c", "d")]
    assert search.queries == ["a", "b"]
    assert results[2].message == results[3].message == "retrieval failed twice and is not asked again"
    assert results[3].degraded == Degraded("retrieval", "retrieval failed twice")


async def test_two_calls_of_one_turn_are_one_attempt():
    search = Search(DependencyFailed("retrieval does not answer."))
    runner = dispatcher(search)
    await run(runner, "a", "b")
    await run(runner, "c")
    await run(runner, "d")
    assert search.queries == ["a", "b", "c"]


async def test_a_tool_that_works_again_may_fail_again():
    search = Search(DependencyFailed("retrieval does not answer."))
    runner = dispatcher(search)
    for query, result in [("a", search.result), ("b", FOUND), ("c", search.result), ("d", FOUND)]:
        search.result = result
        await run(runner, query)
    assert search.queries == ["a", "b", "c", "d"]


async def test_what_the_model_got_wrong_does_not_use_up_the_tool():
    search = Search(InvalidField("Too long.", field="query"))
    runner = dispatcher(search)
    for query in "abcd":
        await run(runner, query)
    assert search.queries == ["a", "b", "c", "d"]


async def test_a_run_makes_no_more_calls_than_it_may():
    search = Search()
    runner = replace(dispatcher(search), max_calls=3)
    await run(runner, "a", "b")
    assert not runner.is_used_up
    outcomes = await run(runner, "c", "d")
    assert search.queries == ["a", "b", "c"]
    assert outcomes[0].result.message == "no more calls can be made; at most 3 are"
    assert runner.is_used_up


async def test_a_forbidden_call_is_not_made_and_blames_nobody():
    search = Search()
    runner = dispatcher(search)
    asked = calls("good", "bad")
    outcomes = [
        one async for one in runner.run(asked, 5, lambda call: "Not this one." if "bad" in call.arguments_json else "")
    ]
    assert search.queries == ["good"]
    refused = next(one.result for one in outcomes if one.call.id == "c1")
    assert refused == Failure("Not this one.", not_made=True, refused=True)
    assert runner.memory.failed_tools == set()


async def test_a_part_of_a_run_knows_what_failed_but_has_seen_nothing():
    search = Search()
    whole = dispatcher(search)
    await run(whole, "a")
    search.result = DependencyFailed("retrieval does not answer.")
    await run(whole, "b")
    part = whole.part(["vector_search"])
    search.result = FOUND
    outcomes = await run(part, "a", "b")
    assert search.queries == ["a", "b"]  # the first `a` is in the cache, and `b` has failed
    assert outcomes[0].result == Failure("retrieval does not answer", degraded=RETRIEVAL_DOWN, not_made=True)
    assert outcomes[1].hit
    assert part.repeating_turns == 0
    assert whole.memory.calls == 3
    assert list(whole.part([]).toolset.tools) == []


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
    known = {name: error.metadata.get(name, "") for name in ("hint", "field")}
    assert result == Failure(error.message, **known)


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
    assert len(given) == 1
    assert 0 < given[0] <= 0.05
    assert outcomes[0].result.message.startswith("timeout after 0.0")


class GatedSearch(Search):
    """Answers when it is told to."""

    def __init__(self, result=FOUND):
        super().__init__(result)
        self.begun = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, arguments, seconds):
        self.begun.set()
        await self.open.wait()
        return await super().__call__(arguments, seconds)


async def while_another_makes_it(search, store, *, wanted, seconds=5, end=None):
    """Runs `wanted` while another run makes the same call, and ends that one's call by `end`."""
    first = asyncio.create_task(run(dispatcher(search, store), "a"))
    await search.begun.wait()
    second = asyncio.create_task(run(wanted, "a"))
    await asyncio.sleep(0.02)
    if end is None:
        search.open.set()
    else:
        end(first)
    outcomes = await second
    search.open.set()
    await asyncio.gather(first, return_exceptions=True)
    return outcomes[0]


async def test_equal_calls_of_two_runs_are_made_once():
    search, own, store = GatedSearch(), Search(), MemoryStore()
    outcome = await while_another_makes_it(search, store, wanted=dispatcher(own, store))
    assert (search.queries, own.queries) == (["a"], [])
    assert outcome.hit.found == outcome.result == FOUND
    assert store.leases == {}


@pytest.mark.parametrize(
    "result", [DependencyFailed("Down."), InvalidField("Wrong."), Passages((), (Degraded("reranking", "down"),))]
)
async def test_a_call_that_brings_nothing_to_share_is_made_by_who_waits_for_it(result):
    search, own, store = GatedSearch(result), Search(), MemoryStore()
    outcome = await while_another_makes_it(search, store, wanted=dispatcher(own, store))
    assert own.queries == ["a"]
    assert (outcome.result, outcome.hit) == (FOUND, None)
    assert len(store.entries) == 1
    assert store.leases == {}


async def test_a_run_that_is_cancelled_hands_its_call_to_who_waits_for_it():
    search, own, store = GatedSearch(), Search(), MemoryStore()
    runner = dispatcher(own, store)
    outcome = await while_another_makes_it(search, store, wanted=runner, end=lambda task: task.cancel())
    assert outcome.result == FOUND
    assert own.queries == ["a"]
    assert store.leases == {}


async def test_nobody_waits_longer_for_another_than_half_of_the_time():
    search, own, store = GatedSearch(), Search(), MemoryStore()
    first = asyncio.create_task(run(dispatcher(search, store), "a"))
    await search.begun.wait()
    outcomes = [one async for one in dispatcher(own, store).run(calls("a"), 2)]
    assert outcomes[0].result == FOUND
    assert outcomes[0].duration_seconds >= 1
    search.open.set()
    await first


async def test_a_run_that_refreshes_waits_for_nobody():
    search, own, store = GatedSearch(), Search(), MemoryStore()
    wanted = dispatcher(own, store, mode=CacheMode.REFRESH)
    outcome = await while_another_makes_it(search, store, wanted=wanted, end=lambda _: None)
    assert (own.queries, outcome.hit) == (["a"], None)


async def test_a_run_that_refreshes_replaces_what_was_known():
    store = MemoryStore()
    await run(dispatcher(Search(Passages(())), store), "a")
    await run(dispatcher(Search(), store, mode=CacheMode.REFRESH), "a")
    assert (await run(dispatcher(Search(), store), "a"))[0].hit.found == FOUND


async def test_an_early_result_is_stored_while_a_late_one_is_awaited():
    late = GatedSearch()

    async def search(arguments, seconds):
        return FOUND if arguments.query == "early" else await late(arguments, seconds)

    store = MemoryStore()
    task = asyncio.create_task(run(dispatcher(search, store), "early", "late"))
    async with asyncio.timeout(10):
        while not store.entries:
            await asyncio.sleep(0.005)
    assert not task.done()
    late.open.set()
    await task
    assert len(store.entries) == 2


async def test_who_stops_listening_after_a_hit_leaves_no_call_reserved():
    store = MemoryStore()
    await run(dispatcher(Search(), store), "a")
    runner = dispatcher(Search(), store)
    outcomes = runner.run(calls("a", "b"), 5)
    assert (await anext(outcomes)).hit
    await outcomes.aclose()
    await runner.cache.close()
    assert store.leases == {}


async def test_a_result_is_stored_with_its_sources_and_the_state_before_it():
    store = MemoryStore()
    await run(
        dispatcher(Search(), store, cache_sources=lambda arguments, found: [f"collection:{arguments.query}"]), "a"
    )
    entry = next(iter(store.entries.values()))
    assert (entry.sources, entry.snapshot) == (("collection:a",), 1)
    assert entry.lease


async def test_nothing_is_stored_where_the_state_before_it_is_not_known():
    store = MemoryStore()
    store.lost = True

    async def search(arguments, seconds):
        store.lost = False
        return FOUND

    await run(dispatcher(search, store), "a")
    assert store.entries == {}


async def test_what_is_free_text_and_what_is_near_enough_is_told_to_the_cache():
    store = MemoryStore()
    await run(dispatcher(Search(), store, semantic_argument="query", min_similarity=0.95), "a")
    key = next(iter(store.entries))
    assert (key.semantic_argument, key.min_similarity) == ("query", 0.95)


async def test_what_was_found_inside_the_company_is_known_to_the_other_tools():
    runner = dispatcher(Search())
    await run(runner, "a")
    assert runner.toolset.internal == [FOUND]


class CrowdedStore(MemoryStore):
    """Nobody may wait; what there is to say of the state is not said."""

    async def wait(self, key, seconds):
        return Miss()


async def test_who_may_not_wait_stores_with_the_state_of_its_lookup():
    """Without any state a result could be stored that an invalidation meanwhile made old."""
    own, store = Search(), CrowdedStore()
    store.leases[dispatcher(own).toolset.tools["vector_search"].key(VectorSearch(query="a"))] = "another's"
    await run(dispatcher(own, store), "a")
    assert [entry.snapshot for entry in store.entries.values()] == [1]


async def test_a_call_that_is_too_long_for_the_cache_runs_all_the_same_and_costs_the_others_nothing():
    async def search(arguments, seconds):
        return FOUND

    async def long(arguments, seconds):
        return Rows("x", "[]", (), ())

    store = MemoryStore()
    runner = dispatcher(search, store)
    tools = {
        **runner.toolset.tools,
        "sql_query": Tool("sql_query", "sql_tool", "Asks.", TypedForm(SqlQuery), Rows, long, 5, 60, "1"),
    }
    runner.toolset = ToolSet(tools)
    asked = [*calls("a"), ToolCall("x", "sql_query", json.dumps({"query": "x", "params": ["y" * 70_000]}))]
    outcomes = [outcome async for outcome in runner.run(asked, 5)]
    await runner.cache.close()
    assert len(outcomes) == 2
    assert not any(isinstance(one.result, Failure) for one in outcomes)
    assert not runner.memory.cache_lost
    assert [key.tool for key in store.entries] == ["vector_search"]


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (Rows("x", "[]", ("a",), ()), True),
        (Rows("x", "[]", ("a",), ((1,),), truncated=True), True),
        (Rows("x", "[]", ("a",), ((1,),), volatile=True), False),
        (Passages(()), True),
        (Passages(FOUND.passages, (Degraded("reranking", "down"),)), False),
        (Pages(()), True),
        (Pages((), (Degraded("web_tool", "some search engines did not answer"),)), False),
        (Pages((), redacted_query="without a name"), False),
    ],
)
def test_only_what_is_complete_and_serves_others_too_is_kept(found, kept):
    assert may_be_kept(found) is kept


async def test_a_call_that_comes_too_late_has_no_time_and_no_less():
    async def hangs(arguments, seconds):
        assert seconds == 0
        await asyncio.sleep(3600)

    outcomes = [one async for one in dispatcher(hangs, ttl=0).run(calls("a"), -3)]
    assert [one.result.message for one in outcomes] == ["timeout after 0s"]
