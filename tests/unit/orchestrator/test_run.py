import asyncio
from contextlib import aclosing, suppress

import pytest

from services.orchestrator.events import CallStarted, Cited, Text, Thought
from services.orchestrator.model import Message, Sampling, ScriptedModel, Spent, Turn, Usage
from services.orchestrator.reflecting.reflection import Unreflecting
from services.orchestrator.results import Degraded
from services.orchestrator.run import begin
from services.orchestrator.shield.shield import Unshielded
from services.orchestrator.stopwatch import Part, Stopwatch
from services.orchestrator.strategies.react import React, synthesise
from services.orchestrator.task import Limits, Task
from services.orchestrator.timed import TimedEncoder, TimedModel
from services.orchestrator.turns import ask
from services.runtime.errors import DependencyFailed, LimitExceeded
from tests.unit.orchestrator import virtual_time
from tests.unit.orchestrator.agent_world import (
    COUNT,
    QUESTION,
    SEARCH,
    call,
    dispatcher,
    fails,
    finds_nothing,
    hangs,
    of,
    search,
)

OPENING = [Message("system", "You look things up."), Message("user", "What is the penalty?")]


def begun(tools=None, *, limits=None, **task):
    tools = tools or dispatcher()
    messages = [Message("system", "You answer."), Message("user", QUESTION)]
    return begin(Task(QUESTION, **task), limits or Limits(), tools, messages, Unshielded(), Unreflecting())


def child_of(run, step_id="s1", tools=("vector_search",), seconds=20, iterations=3, **more):
    return run.child(
        step_id, "What is the penalty?", OPENING, tools=tools, seconds=seconds, iterations=iterations, **more
    )


async def answered(model, run):
    async with aclosing(React(model).answer(run)) as events:
        return [event async for event in events]


# ---- parts of a run


async def test_a_part_answers_with_its_own_tools_and_shows_nothing():
    run = begun()
    child = child_of(run)
    model = ScriptedModel([Turn("Let me see.", [SEARCH]), Turn("2 % a month [1].", usage=Usage(50, 5))])
    events = await answered(model, child)
    assert model.requests[0][1] == ["vector_search"]
    assert [message.text for message in model.requests[0][0]] == [message.text for message in OPENING]
    assert of(events, Text) == of(events, Cited) == []
    assert (child.text, child.answered, child.found) == ("2 % a month [1].", True, True)
    assert '"n":1' in child.observations[0]
    assert run.text == ""
    assert run.found
    assert run.called_tools


async def test_events_of_a_part_name_its_step_and_number_the_turns_of_the_whole_run():
    run = begun()
    events = []
    for step_id in ("s1", "s2"):
        model = ScriptedModel([Turn("Hm.", [call("c", "vector_search", query=step_id)]), Turn("2 % [1].")])
        events += await answered(model, child_of(run, step_id))
    assert [(one.step_id, one.iteration) for one in of(events, Thought)] == [("s1", 1), ("s2", 3)]
    ids = [one.call_id for one in of(events, CallStarted)]
    assert len(set(ids)) == 2


async def test_parts_number_their_evidence_together():
    run = begun()
    for tools, made in ((("vector_search",), SEARCH), (("sql_query",), COUNT)):
        await answered(ScriptedModel([Turn(calls=[made]), Turn("Done.")]), child_of(run, tools=tools))
    assert list(run.evidence.sources) == [1, 2]


async def test_what_a_part_spends_the_run_has_spent():
    run = begun()
    model = ScriptedModel([Turn(calls=[SEARCH], usage=Usage(100, 10)), Turn("2 % [1].", usage=Usage(200, 20))])
    before = run.budget.left
    await answered(model, child_of(run, tokens=5_000))
    assert run.budget.usage == Usage(300, 30)
    assert run.budget.left == before - 330
    assert run.budget.turns == 2


async def test_a_part_has_no_more_tokens_than_it_was_given():
    run = begun()
    child = child_of(run, tokens=1_800)
    model = ScriptedModel([Turn(calls=[SEARCH], usage=Usage(700, 100)), Turn("2 % [1].", usage=Usage(700, 50))])
    await answered(model, child)
    assert model.requests[-1][1] == []
    assert child.reason == "tokens"
    assert run.reason == ""
    assert run.budget.left > 50_000


async def test_a_part_has_no_more_tokens_than_the_run_has_left():
    run = begun(limits=Limits(run_tokens=3_000))
    run.budget.spend(Usage(2_990, 0))
    with pytest.raises(LimitExceeded):
        await answered(ScriptedModel([]), child_of(run, tokens=50_000))


async def test_parts_at_the_same_time_cannot_spend_the_same_tokens():
    run = begun(limits=Limits(run_tokens=4_000))
    first, second = child_of(run, "s1"), child_of(run, "s2")
    assert first.sampling(with_tools=True).max_tokens == 1024
    with first.budget.holding(3_500):
        assert run.budget.left == second.budget.left == 500
        assert second.sampling(with_tools=True).max_tokens < 500
    assert second.sampling(with_tools=True).max_tokens == 1024


def test_a_part_leaves_the_run_the_time_of_its_last_turn():
    async def run():
        clock = asyncio.get_running_loop().time
        whole = begun(dispatcher(vector_search=hangs, clock=clock, timeout=600), seconds=30)
        child = child_of(whole, seconds=600)
        await answered(ScriptedModel([Turn(calls=[SEARCH]), Turn("Nothing was found in time.")]), child)
        return whole, child, clock()

    whole, child, now = virtual_time.run(run())
    assert child.ends == whole.tools_end
    assert child.reason == "deadline"
    assert now <= whole.tools_end < whole.ends


async def test_calls_of_all_parts_have_one_ceiling():
    run = begun(dispatcher(max_calls=2))
    several = [call("", "vector_search", query=query) for query in "abc"]
    first, second = child_of(run, "s1"), child_of(run, "s2")
    await answered(ScriptedModel([Turn(calls=several), Turn("Done [1].")]), first)
    await answered(ScriptedModel([Turn("Nothing could be looked up.")]), second)
    assert (first.reason, second.reason, run.reason) == ("calls", "calls", "")


async def test_a_tool_that_failed_twice_is_left_by_all_parts():
    asked = []

    async def down(arguments, seconds):
        asked.append(arguments.query)
        raise DependencyFailed("retrieval does not answer.")

    run = begun(dispatcher(down))
    for query in "abc":
        made = call("", "vector_search", query=query)
        await answered(ScriptedModel([Turn(calls=[made]), Turn("It could not be reached.")]), child_of(run, query))
    assert asked == ["a", "b"]


async def test_what_one_part_has_seen_another_may_ask_for():
    asked = []

    async def noting(arguments, seconds):
        asked.append(arguments.query)
        return await search(arguments, seconds)

    run = begun(dispatcher(noting))
    for step_id in ("s1", "s2"):
        child = child_of(run, step_id)
        await answered(ScriptedModel([Turn(calls=[SEARCH]), Turn("2 % [1].")]), child)
        assert child.found
    assert asked == ["penalty"] * 2


async def test_a_part_whose_tools_found_nothing_claims_nothing():
    run = begun(dispatcher(finds_nothing))
    run.found = True  # another part has found something
    child = child_of(run)
    await answered(ScriptedModel([Turn(calls=[SEARCH]), Turn("The penalty is 5 %.")]), child)
    assert not child.found
    assert "5 %" not in child.text


async def test_a_part_never_has_more_turns_than_the_question_may():
    run = begun(max_iterations=2)
    assert child_of(run, iterations=9).task.max_iterations == 2


async def test_what_is_skipped_is_told_once_for_all_parts():
    run = begun()
    down = Degraded("retrieval", "retrieval does not answer")
    assert list(child_of(run, "s1").degrade(down)) == [down]
    assert list(child_of(run, "s2").degrade(down)) == []
    assert list(run.degrade(down)) == []


async def test_who_stops_listening_to_a_part_cancels_its_tools():
    begun_, cancelled = asyncio.Event(), asyncio.Event()

    async def waits(arguments, seconds):
        begun_.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    run = begun(dispatcher(waits, timeout=600))
    listening = asyncio.create_task(answered(ScriptedModel([Turn(calls=[SEARCH])]), child_of(run, seconds=600)))
    await begun_.wait()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    assert cancelled.is_set()


async def test_the_last_turn_reads_what_leads_up_to_it():
    run = begun()
    run.called_tools = run.found = True
    model = ScriptedModel([Turn("Done.")])
    async with aclosing(synthesise(model, run, "The steps found: nothing.")) as events:
        [event async for event in events]
    last = model.requests[0][0][-1]
    assert last.role == "user"
    assert last.text.startswith("The steps found: nothing.\n\n[No more tools can be called")


# ---- questions of our own


async def test_a_question_of_our_own_counts_and_is_not_shown():
    run = begun()
    model = ScriptedModel([Turn(' {"steps": []} ', usage=Usage(80, 8))])
    assert await ask(model, run, OPENING, Sampling(), 10) == '{"steps": []}'
    assert (run.budget.usage, run.budget.turns, run.iterations) == (Usage(80, 8), 1, 0)
    assert run.text == ""


@pytest.mark.parametrize("step", [DependencyFailed("Down."), LimitExceeded("Used up.")])
async def test_a_question_of_our_own_that_fails_is_empty(step):
    assert await ask(ScriptedModel([step]), begun(), OPENING, Sampling(), 10) == ""


async def test_a_question_of_our_own_needs_tokens():
    run = begun(limits=Limits(run_tokens=1_000))
    run.budget.spend(Usage(980, 0))
    assert await ask(ScriptedModel([]), run, OPENING, Sampling(), 10) == ""


def test_a_question_of_our_own_has_its_time():
    async def run():
        clock = asyncio.get_running_loop().time
        whole = begun(dispatcher(clock=clock))
        said = await ask(ScriptedModel([Turn("late")], delay_seconds=3600), whole, OPENING, Sampling(), 5)
        return said, clock(), whole.tools.stopwatch.read().model

    assert virtual_time.run(run()) == ("", 5, 5)


# ---- budgets and time


async def test_what_tools_and_checks_spend_is_spent():
    run = begun(limits=Limits(run_tokens=1_000))
    run.tools.toolset.spent.usage += Usage(100, 0)
    run.checking.usage += Usage(0, 50)
    assert run.budget.left == 850


async def test_the_prompt_is_as_large_as_the_model_says_and_grows_by_what_is_added():
    run = begun()
    estimate = run.prompt_tokens(with_tools=True)
    run.begin_turn()
    list(run.take(Turn("", [SEARCH], Usage(5_000, 10)), live=False, final=True))
    assert run.prompt_tokens(with_tools=True) == 5_000 > estimate
    run.messages.append(Message("user", "x" * 400))
    assert run.prompt_tokens(with_tools=True) == 5_104


async def test_an_only_turn_that_may_call_nothing_reads_of_no_tool_and_a_later_one_as_before():
    run = begun()
    assert not run.offered(with_tools=False)
    assert run.prompt_tokens(with_tools=False) < run.prompt_tokens(with_tools=True)
    assert run.offered(with_tools=True) == run.specs != ()
    run.begin_turn()
    assert run.offered(with_tools=False) == run.specs


class Clock:
    now = 0.0

    def __call__(self):
        return self.now

    def pass_(self, seconds):
        self.now += seconds


def test_time_counts_for_one_part_at_any_moment():
    clock = Clock()
    watch = Stopwatch(clock)
    clock.pass_(1)  # nothing is waited for
    with watch.during(Part.TOOLS):
        clock.pass_(2)
        with watch.during(Part.TOOLS), watch.during(Part.MODEL):
            clock.pass_(4)
        with watch.during(Part.CACHE):
            clock.pass_(8)
    with watch.during(Part.CHECKING):
        clock.pass_(16)
    timings = watch.read()
    assert (timings.model, timings.tools, timings.cache, timings.overhead) == (20, 10, 0, 1)
    assert timings.total == clock.now == 31
    assert watch.seconds(Part.CHECKING) == 16


async def test_waiting_within_other_parts_is_told_to_the_run_that_the_task_works_for():
    now = [0.0]

    class Encoder:
        async def encode(self, texts, seconds):
            now[0] += 3
            return "vectors"

    class Judge(ScriptedModel):
        async def stream(self, *asked):
            now[0] += 5
            async for part in super().stream(*asked):
                yield part

    async def check():
        now[0] += 1
        assert await TimedEncoder(Encoder()).encode(["a"], 1) == "vectors"
        model = TimedModel(Judge([Turn("Yes.")]))
        return [part async for part in model.stream((), (), Sampling())]

    async def run(watch):
        watch.follow()
        parts = await asyncio.create_task(check())
        assert parts[-1] == Turn("Yes.")
        return watch.read(), watch.seconds(Part.CHECKING)

    times, checking = await asyncio.create_task(run(Stopwatch(lambda: now[0])))
    assert (times.model, times.tools, times.overhead, checking) == (5, 3, 1, 5)
    before = now[0]
    await check()  # of nobody's run
    assert now[0] == before + 9


def test_waiting_that_fails_is_counted_too():
    clock = Clock()
    watch = Stopwatch(clock)
    with suppress(ValueError), watch.during(Part.MODEL):
        clock.pass_(3)
        raise ValueError
    clock.pass_(1)
    assert (watch.read().model, watch.read().overhead) == (3, 1)


def test_spent_tokens_below_zero_are_no_room():
    run_tokens = Limits(run_tokens=100)

    async def left():
        run = begun(limits=run_tokens)
        run.tools.toolset.spent.usage += Usage(500, 0)
        return run.budget.left, run.sampling(with_tools=False).max_tokens, isinstance(run.checking, Spent)

    assert asyncio.run(left()) == (-400, 0, True)


async def test_a_lost_service_is_said_once():
    run = begun(dispatcher(fails(DependencyFailed("retrieval does not answer."))))
    events = await answered(ScriptedModel([Turn(calls=[SEARCH]), Turn("It could not be reached.")]), run)
    assert of(events, Degraded) == [Degraded("retrieval", "retrieval does not answer")]
