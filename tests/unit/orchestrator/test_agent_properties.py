"""What holds of every run, whatever the model writes and whatever the tools do."""

import asyncio
import re
from collections import Counter
from contextlib import aclosing, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.events import (
    CallFinished,
    CallStarted,
    Chosen,
    Cited,
    Finish,
    Finished,
    Planned,
    StepFinished,
    Text,
)
from services.orchestrator.model import Message, Turn
from services.orchestrator.reflecting.reflection import Unreflecting
from services.orchestrator.run import begin
from services.orchestrator.shield.shield import Unshielded
from services.orchestrator.strategies.auto import AUTO
from services.orchestrator.strategies.react import React
from services.orchestrator.task import Limits, Task
from services.runtime.errors import ServiceError
from tests.unit.orchestrator import virtual_time
from tests.unit.orchestrator.agent_world import collect, dispatcher_of, of, text_of
from tests.unit.orchestrator.generated_world import (
    CALLS,
    CARE,
    CEILINGS,
    FORMS,
    MODEL_ERRORS,
    ROUTES,
    SECONDS,
    STEPS,
    TOOLS,
    TURNS,
    Generated,
    GeneratedModel,
    play,
)

REASONS = {
    "", "iterations", "tokens", "calls", "deadline", "tool_failed", "no_evidence", "repeated_calls", "unsupported",
    "empty_answer",
}  # fmt: skip
MODELS = st.builds(GeneratedModel, STEPS, SECONDS, st.lists(FORMS, min_size=1, max_size=4))


@given(MODELS, TOOLS, ROUTES, st.sampled_from(["react", "react", "router", "rag", AUTO]), CEILINGS, CARE)
@settings(max_examples=200)
def test_whatever_happens_a_run_keeps_its_budgets_and_its_word(model, results, route, strategy, ceilings, care):
    world = play(model, results, route, strategy, ceilings, care)
    keeps_its_budgets(world)
    answers_every_call_once(world)
    calls_are_followed_by_what_they_gave(world)
    assert model.offered.count(True) <= ceilings.iterations
    assert model.turns <= ceilings.iterations + 1
    for tool in world.tools.values():
        assert len(set(tool.queries)) == len(tool.queries)  # no call is made twice
    if world.error is None:
        ends_once_and_says_something(world)
        cites_what_there_is(world)


@given(MODELS, TOOLS, ROUTES, CEILINGS, CARE)
@settings(max_examples=150)
def test_whatever_happens_a_plan_and_its_steps_keep_the_budgets_of_the_run(model, results, route, ceilings, care):
    world = play(model, results, route, "plan", ceilings, care)
    keeps_its_budgets(world)
    answers_every_call_once(world)
    calls_are_followed_by_what_they_gave(world)
    plans = of(world.events, Planned)
    steps = [step.id for plan in plans for step in plan.steps]
    assert [plan.revision for plan in plans] == list(range(1, len(plans) + 1))
    assert len(plans) <= 2
    if world.error is None:
        assert Counter(one.step_id for one in of(world.events, StepFinished)) == Counter(steps)
        assert {one.step_id for one in of(world.events, CallStarted)} <= {*steps, *([] if steps else [""])}
        most = min(ceilings.iterations, world.plan_iterations) * len(steps) if steps else ceilings.iterations
        assert model.offered.count(True) <= most
        assert model.turns <= most + len(steps) + 1
        ends_once_and_says_something(world)
        cites_what_there_is(world)


def keeps_its_budgets(world):
    assert world.took <= world.ceilings.time
    assert world.model.spent <= world.ceilings.tokens
    assert sum(len(one.queries) for one in world.tools.values()) <= world.ceilings.calls


def answers_every_call_once(world):
    started = [one.call_id for one in of(world.events, CallStarted)]
    finished = [one.call_id for one in of(world.events, CallFinished)]
    assert len(set(started)) == len(started)
    assert all(started)
    if world.error is None:
        assert Counter(started) == Counter(finished)


def calls_are_followed_by_what_they_gave(world):
    """In everything that a model ever read: one observation a call, in the order of the calls, before anything else.

    Calls stand in the order in which they were made; those of a plan's steps in the order of the steps.
    """
    steps = [step.id for plan in of(world.events, Planned) for step in plan.steps]
    started = sorted(of(world.events, CallStarted), key=lambda one: steps.index(one.step_id) if one.step_id else 0)
    told = [one.call_id for one in started]
    for messages in world.model.transcripts:
        asked, answered = [], []
        for message in messages:
            if message.role == "tool":
                answered.append(message.call_id)
                assert answered == asked[: len(answered)]
            else:
                assert answered == asked
                asked += [call.id for call in message.calls]
        assert answered == asked
        if world.error is None:
            assert set(asked) <= set(told)
            assert asked == [one for one in told if one in asked]


def ends_once_and_says_something(world):
    assert isinstance(world.events[0], Chosen)
    assert of(world.events, Finished) == world.events[-1:]
    end = world.events[-1]
    assert text_of(world.events).strip()
    assert all(one.text for one in of(world.events, Text))
    assert end.reason in REASONS
    assert (end.finish is Finish.ANSWERED) == (end.reason == "")
    assert end.strategy == of(world.events, Chosen)[-1].strategy
    timings = end.timings
    parts = timings.model + timings.tools + timings.cache + timings.overhead
    assert abs(parts - world.took) < 0.001
    assert timings.overhead < 0.001  # nothing else takes time in virtual time


def cites_what_there_is(world):
    cited = [one.mark for one in of(world.events, Cited)]
    assert len(set(cited)) == len(cited)
    marks = {int(mark) for mark in re.findall(r"\[(\d+)\]", text_of(world.events))}
    assert marks <= set(cited)
    if world.care.shielded:
        assert "evil.example" not in text_of(world.events)


@pytest.mark.slow
@given(
    parts=st.lists(
        st.tuples(st.lists(TURNS | MODEL_ERRORS, min_size=1, max_size=4), st.integers(1, 4)), min_size=1, max_size=5
    ),
    results=TOOLS,
    calls=st.integers(1, 8),
    tokens=st.sampled_from([400, 1_500, 4_000, 60_000]),
    seconds=st.lists(st.sampled_from([0, 0.5, 2]), min_size=1, max_size=3),
)
@settings(max_examples=100)
def test_parts_side_by_side_never_spend_more_than_the_whole_has(parts, results, calls, tokens, seconds):
    models = [GeneratedModel(steps, seconds) for steps, _ in parts]
    tools = {name: Generated(one) for name, one in results.items()}
    events, marks = [], []

    async def answer(run, number):
        model, (_, iterations) = models[number], parts[number]
        opening = [Message("system", "You look things up."), Message("user", "What is the penalty?")]
        child = run.child(f"s{number}", "What is the penalty?", opening, tools=tools, seconds=20, iterations=iterations)
        with suppress(ServiceError):
            async with aclosing(React(model).answer(child)) as happening:
                async for event in happening:
                    events.append(event)
                    marks.append(len(run.evidence.sources))

    async def run():
        clock = asyncio.get_running_loop().time
        task, limits = Task("Which penalties are there?", seconds=30), Limits(run_tokens=tokens)
        dispatcher = dispatcher_of(tools, clock=clock, max_calls=calls)
        whole = begin(task, limits, dispatcher, [Message("user", task.question)], Unshielded(), Unreflecting())
        await asyncio.gather(*(answer(whole, number) for number in range(len(parts))))
        assert clock() <= whole.tools_end
        return whole

    whole = virtual_time.run(run())
    spent = sum(model.spent for model in models)
    assert spent <= tokens
    assert whole.budget.left == tokens - whole.budget.usage.total >= 0
    assert sum(len(one.queries) for one in tools.values()) <= calls
    assert all(model.offered.count(True) <= iterations for model, (_, iterations) in zip(models, parts, strict=True))
    started = [one.call_id for one in of(events, CallStarted)]
    assert len(set(started)) == len(started)
    assert Counter(started) == Counter(one.call_id for one in of(events, CallFinished))
    assert of(events, Text) == []
    assert marks == sorted(marks)


@given(
    calls=st.lists(CALLS, min_size=1, max_size=9),
    results=TOOLS,
)
@settings(max_examples=60)
def test_observations_stand_in_the_order_of_the_calls(calls, results):
    model = GeneratedModel([Turn("", tuple(calls)), Turn("Done.")], [0])

    async def run():
        clock = asyncio.get_running_loop().time
        tools = dispatcher_of({name: Generated(one) for name, one in results.items()}, clock=clock)
        await collect(model, tools, max_iterations=1, seconds=600)

    virtual_time.run(run())
    read = model.transcripts[-1]
    asked = next(message for message in read if message.role == "assistant")
    answers = [message.call_id for message in read if message.role == "tool"]
    assert [call.id for call in asked.calls] == answers
    assert [(call.name, call.arguments_json) for call in asked.calls] == [(c.name, c.arguments_json) for c in calls]
