"""What holds of every run, whatever the model writes and whatever the tools do."""

import asyncio
import json
import re
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.events import (
    CallFinished,
    CallStarted,
    Chosen,
    Cited,
    Finish,
    Finished,
    Text,
)
from services.orchestrator.model import Delta, Message, ToolCall, Turn, Usage
from services.orchestrator.reflecting.reflection import Unreflecting
from services.orchestrator.results import Degraded, Pages, Rows
from services.orchestrator.routing.router import Route
from services.orchestrator.run import Limits, Task, begin
from services.orchestrator.shield.shield import Unshielded
from services.orchestrator.strategies.auto import AUTO
from services.orchestrator.strategies.react import React
from services.runtime.errors import DependencyFailed, InvalidField, LimitExceeded, ServiceError
from tests.unit.orchestrator import virtual_time
from tests.unit.orchestrator.agent_world import agent_of, collect, dispatcher_of, of, passages, text_of

REASONS = {"", "iterations", "tokens", "calls", "deadline", "tool_failed", "no_evidence", "repeated_calls"}
QUERIES = st.sampled_from(["a", "b", "c", " a ", "ñ"])
ARGUMENTS = st.one_of(
    QUERIES.map(lambda query: json.dumps({"query": query})),
    st.sampled_from(['{"query": "a", "top_k": 5}', '{"query": ', "", "null", "[]", '{"qery": "a"}', '{"query": ""}']),
)
CALLS = st.builds(
    ToolCall,
    st.sampled_from(["", "call_0", "call_1"]),
    st.sampled_from(["vector_search", "sql_query", "web_search", "drop_table", ""]),
    ARGUMENTS,
)
TEXTS = st.sampled_from(
    ["", " ", "A penalty [1].", "47 [2][9], see [1, 3].", "I found nothing.", "\n\n[", "Hi [1", "[9]"]
)
TURNS = st.builds(
    Turn,
    TEXTS,
    st.lists(CALLS, max_size=9).map(tuple),
    cut=st.booleans(),
    malformed=st.sampled_from(["", "", "", "Your call could not be read."]),
)
MODEL_ERRORS = st.sampled_from([lambda: DependencyFailed("The model does not answer."), lambda: LimitExceeded("No.")])
# What a tool does with a query, and the seconds that it takes.
RESULTS = st.sampled_from(
    [
        passages("Penalty of 2 % [7] a month."),
        passages(),
        Rows("SELECT 1", "[]", ("n",), ((1,),)),
        Rows("SELECT 1", "[]", ("n",), ()),
        Pages(()),
        passages("Text.", degraded=(Degraded("reranking", "reranking does not answer"),)),
        lambda: DependencyFailed("It does not answer."),
        lambda: InvalidField("Too long.", field="query"),
    ]
)
TOOLS = st.fixed_dictionaries(
    {
        name: st.lists(st.tuples(RESULTS, st.sampled_from([0, 0, 1, 30])), min_size=1, max_size=4)
        for name in ("vector_search", "sql_query", "web_search")
    }
)
ROUTES = st.builds(Route, st.lists(CALLS, max_size=3).map(tuple), st.booleans())


@dataclass
class GeneratedModel:
    """Plays its steps over and over. It reads as much as it is given, and writes no more than it may."""

    steps: list
    seconds: list
    turns: int = 0
    spent: int = 0
    offered: list = field(default_factory=list)

    async def stream(self, messages, tools, sampling):
        step = self.steps[self.turns % len(self.steps)]
        takes = self.seconds[self.turns % len(self.seconds)]
        self.turns += 1
        self.offered.append(bool(tools) and sampling.may_call)
        await asyncio.sleep(takes)
        if callable(step):
            raise step()
        room, text = sampling.max_tokens * 4, step.text
        assert room > 0
        for start in range(0, len(text[:room]), 5):
            yield Delta(text[start : start + 5])
        described = sum(len(one.name + one.description + json.dumps(one.parameters)) // 4 for one in tools)
        prompt = sum(message.tokens for message in messages) + described
        written = min(sampling.max_tokens, 1 + len(text) // 4 + 20 * len(step.calls))
        self.spent += prompt + written
        yield Turn(text, step.calls, Usage(prompt, written), step.cut, step.malformed)


class Generated:
    """A tool that does what it is told to, in turn."""

    def __init__(self, results):
        self.results, self.queries = results, []

    async def __call__(self, arguments, seconds):
        result, takes = self.results[len(self.queries) % len(self.results)]
        self.queries.append(arguments.query)
        await asyncio.sleep(takes)
        if callable(result):
            raise result()
        return result


class Routing:
    def __init__(self, route):
        self.fixed = route

    async def route(self, asked, seconds):
        return self.fixed


@dataclass
class World:
    """One run of the agent in virtual time, and what came of it."""

    model: GeneratedModel
    tools: dict
    events: list = field(default_factory=list)
    error: ServiceError | None = None
    took: float = 0


def play(steps, seconds, results, route, strategy, *, iterations, calls, tokens, time):
    world = World(GeneratedModel(steps, seconds), {name: Generated(one) for name, one in results.items()})

    async def run():
        clock = asyncio.get_running_loop().time
        tools = dispatcher_of(world.tools, clock=clock, max_calls=calls)
        agent = agent_of(world.model, Routing(route), limits=Limits(run_tokens=tokens))
        try:
            world.events = await collect(
                None, tools, agent=agent, strategy=strategy, max_iterations=iterations, seconds=time
            )
        except ServiceError as error:
            world.error = error
        world.took = clock()

    virtual_time.run(run())
    return world


worlds = given(
    steps=st.lists(TURNS | MODEL_ERRORS, min_size=1, max_size=6),
    seconds=st.lists(st.sampled_from([0, 0, 0.5, 2, 40]), min_size=1, max_size=4),
    results=TOOLS,
    route=ROUTES,
    strategy=st.sampled_from(["react", "react", "router", "rag", AUTO]),
    iterations=st.integers(1, 5),
    calls=st.integers(1, 8),
    tokens=st.sampled_from([700, 1_500, 4_000, 60_000]),
    time=st.sampled_from([1, 6, 60]),
)


@worlds
@settings(max_examples=200)
def test_whatever_happens_a_run_keeps_its_budgets_and_its_word(
    steps, seconds, results, route, strategy, iterations, calls, tokens, time
):
    world = play(steps, seconds, results, route, strategy, iterations=iterations, calls=calls, tokens=tokens, time=time)
    keeps_its_budgets(world, iterations=iterations, calls=calls, tokens=tokens, time=time)
    answers_every_call_once(world)
    if world.error is None:
        ends_once_and_says_something(world)
        cites_what_there_is(world)


def keeps_its_budgets(world, *, iterations, calls, tokens, time):
    assert world.took <= time
    assert world.model.offered.count(True) <= iterations
    assert world.model.turns <= iterations + 1
    assert world.model.spent <= tokens
    made = sum(len(one.queries) for one in world.tools.values())
    assert made <= calls
    for tool in world.tools.values():
        assert len(set(tool.queries)) == len(tool.queries)  # no call is made twice


def answers_every_call_once(world):
    started = [one.call_id for one in of(world.events, CallStarted)]
    finished = [one.call_id for one in of(world.events, CallFinished)]
    assert len(set(started)) == len(started)
    assert all(started)
    if world.error is None:
        assert Counter(started) == Counter(finished)


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
    seen = []

    class Reading(GeneratedModel):
        async def stream(self, messages, tools, sampling):
            seen.append(list(messages))
            async for part in super().stream(messages, tools, sampling):
                yield part

    async def run():
        clock = asyncio.get_running_loop().time
        tools = dispatcher_of({name: Generated(one) for name, one in results.items()}, clock=clock)
        model = Reading([Turn("", tuple(calls)), Turn("Done.")], [0])
        await collect(model, tools, max_iterations=1, seconds=600)

    virtual_time.run(run())
    asked = next(message for message in seen[-1] if message.role == "assistant")
    answers = [message.call_id for message in seen[-1] if message.role == "tool"]
    assert [call.id for call in asked.calls] == answers
    assert [(call.name, call.arguments_json) for call in asked.calls] == [(c.name, c.arguments_json) for c in calls]
