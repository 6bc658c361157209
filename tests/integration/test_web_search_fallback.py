"""Fallback, time limits and breakers over real sockets."""

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from prometheus_client import REGISTRY

from services.runtime import context, errors
from services.web_tool.search.breaker import Breaker, State
from services.web_tool.search.fallback import Fallback
from services.web_tool.search.provider import Query
from tests.integration.search_apis import SHAPES, Api, answer, provider

DOWN = answer(b"", 503)
NOTHING = answer(SHAPES["searxng"]([]))
SILENT = answer(SHAPES["searxng"]([], unresponsive_engines=[["bing", "timeout"]]))


def good(name):
    return answer(SHAPES[name]())


@asynccontextmanager
async def search(*plays, timeout_seconds=20.0, failures=3, rest_seconds=30.0):
    """`plays`: provider and what its API answers, in the order of preference."""
    async with AsyncExitStack() as stack:
        apis = [await stack.enter_async_context(Api(*answers).listening()) for _, *answers in plays]
        providers = [provider(name, api.url) for (name, *_), api in zip(plays, apis, strict=True)]
        breakers = {one.name: Breaker(failures=failures, rest_seconds=rest_seconds) for one in providers}
        fallback = Fallback(providers, breakers, timeout_seconds)
        stack.push_async_callback(fallback.close)
        yield fallback, apis, breakers


async def test_the_first_provider_that_answers_is_enough():
    async with search(("searxng", good("searxng")), ("brave", good("brave"))) as (fallback, apis, _):
        assert (await fallback.search(Query("q"))).provider == "searxng"
    assert [len(api.asked) for api in apis] == [1, 0]


@pytest.mark.parametrize("broken", [DOWN, answer(b"<html>", 403), answer(b"", 429), answer(b"", 422), 0.01, 30.0])
async def test_the_next_provider_answers_for_one_that_does_not(broken):
    async with search(("searxng", broken), ("brave", good("brave")), timeout_seconds=6) as (fallback, apis, _):
        assert (await fallback.search(Query("q"))).provider == "brave"
    assert [len(api.asked) for api in apis] == [1, 1]


async def test_no_results_are_an_answer_and_nobody_else_is_asked():
    async with search(("searxng", NOTHING), ("brave", good("brave"))) as (fallback, apis, _):
        assert not (await fallback.search(Query("q"))).results
    assert not apis[1].asked


async def test_no_results_because_engines_are_silent_are_not_an_answer():
    async with search(("searxng", SILENT), ("brave", good("brave"))) as (fallback, _, breakers):
        assert (await fallback.search(Query("q"))).provider == "brave"
        assert breakers["searxng"].state is State.CLOSED


async def test_silent_engines_are_named_where_nobody_else_is_left():
    async with search(("searxng", SILENT), ("brave", DOWN)) as (fallback, _, _breakers):
        found = await fallback.search(Query("q"))
    assert (found.provider, found.unresponsive_engines) == ("searxng", ["bing"])


async def test_all_providers_together_have_one_time_limit():
    plays = [(name, 60.0) for name in SHAPES]
    async with search(*plays, timeout_seconds=5) as (fallback, apis, _):
        began = time.monotonic()
        with pytest.raises(errors.DeadlineExceeded):
            await fallback.search(Query("q"))
        assert 4.5 < time.monotonic() - began < 50
    assert all(len(api.asked) == 1 for api in apis)


async def test_the_time_that_one_leaves_goes_to_the_others():
    async with search(("searxng", DOWN), ("brave", 0.01), ("tavily", 30.0), timeout_seconds=3) as (fallback, _, _b):
        began = time.monotonic()
        with pytest.raises(errors.DependencyFailed, match=r"searxng .*brave .*tavily did not answer"):
            await fallback.search(Query("q"))
        assert time.monotonic() - began > 2.5


async def test_a_caller_in_a_hurry_gets_no_more_time_and_closes_no_provider_to_others():
    identity = context.Identity("acme")
    async with search(("searxng", 30.0), failures=1, timeout_seconds=20) as (fallback, _, breakers):
        context.enter(context.CallContext(identity, "", time.monotonic() + 0.2))
        with pytest.raises(errors.DeadlineExceeded):
            await fallback.search(Query("q"))
        assert breakers["searxng"].state is State.CLOSED


async def test_a_provider_that_fails_again_and_again_rests():
    async with search(("searxng", DOWN), ("brave", good("brave"))) as (fallback, apis, breakers):
        for _ in range(6):
            assert (await fallback.search(Query("q"))).provider == "brave"
        assert breakers["searxng"].state is State.OPEN
    assert [len(api.asked) for api in apis] == [3, 6]


async def test_a_rested_provider_is_tried_and_comes_back():
    async with search(("searxng", DOWN, good("searxng")), failures=1, rest_seconds=0.2) as (fallback, apis, _):
        with pytest.raises(errors.DependencyFailed):
            await fallback.search(Query("q"))
        with pytest.raises(errors.DependencyFailed, match="rests") as refused:
            await fallback.search(Query("q"))
        assert refused.value.retry_after.total_seconds() >= 1
        await asyncio.sleep(0.25)
        assert (await fallback.search(Query("q"))).results
    assert len(apis[0].asked) == 2


@pytest.mark.parametrize("refusal", [answer(b"", 401), answer(b"", 429)], ids=["key", "quota"])
async def test_a_refused_key_or_a_used_up_quota_rests_at_once(refusal):
    async with search(("brave", refusal), ("tavily", good("tavily"))) as (fallback, apis, _):
        for _ in range(3):
            await fallback.search(Query("q"))
    assert len(apis[0].asked) == 1


async def test_a_provider_rests_as_long_as_it_asks():
    async with search(("brave", answer(b"", 429, retry_after="120"))) as (fallback, _, breakers):
        with pytest.raises(errors.DependencyFailed) as refused:
            await fallback.search(Query("q"))
        assert refused.value.retry_after.total_seconds() == 120
        assert 110 < breakers["brave"].rest_seconds <= 120


async def test_queries_that_a_provider_does_not_take_close_it_to_nobody():
    async with search(("brave", answer(b"", 422)), ("tavily", good("tavily")), failures=1) as (fallback, apis, _):
        for _ in range(3):
            await fallback.search(Query("q"))
    assert len(apis[0].asked) == 3


async def test_a_caller_who_hangs_up_leaves_the_trial_to_another():
    async with search(("searxng", DOWN, 30.0, good("searxng")), failures=1, rest_seconds=0.05) as (fallback, apis, _):
        with pytest.raises(errors.DependencyFailed):
            await fallback.search(Query("q"))
        await asyncio.sleep(0.1)
        trial = asyncio.create_task(fallback.search(Query("q")))
        while len(apis[0].asked) < 2:
            await asyncio.sleep(0.01)
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        assert (await fallback.search(Query("q"))).results


async def test_many_at_once_make_one_trial():
    async with search(("searxng", DOWN, good("searxng")), failures=1, rest_seconds=0.05) as (fallback, apis, _):
        await asyncio.gather(fallback.search(Query("q")), return_exceptions=True)
        await asyncio.sleep(0.1)
        ended = await asyncio.gather(*(fallback.search(Query("q")) for _ in range(20)), return_exceptions=True)
    assert len(apis[0].asked) == 2
    assert sum(isinstance(one, errors.DependencyFailed) for one in ended) == 19


async def test_without_providers_the_setting_is_named():
    with pytest.raises(errors.DependencyFailed, match="SABUESO_SEARCH_PROVIDERS"):
        await Fallback([], {}, 1).search(Query("q"))


async def test_calls_and_breakers_are_counted():
    def count(outcome):
        labels = {"provider": "serper", "outcome": outcome}
        return REGISTRY.get_sample_value("sabueso_web_tool_provider_calls_total", labels) or 0

    before = count("answer"), count("resting")
    async with search(("serper", DOWN), failures=1) as (fallback, _, _breakers):
        for _ in range(2):
            with pytest.raises(errors.DependencyFailed):
                await fallback.search(Query("q"))
    assert (count("answer"), count("resting")) == (before[0] + 1, before[1] + 1)
    assert REGISTRY.get_sample_value("sabueso_web_tool_provider_state", {"provider": "serper"}) == State.OPEN
