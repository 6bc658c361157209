import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.orchestrator.events import CallFinished, CallStarted, Finish, Planned, StepFinished
from services.orchestrator.model import Message, Turn, Usage
from services.orchestrator.planning.planner import Planner
from services.orchestrator.results import Passages
from services.orchestrator.shield.shield import Unshielded
from services.orchestrator.strategies.plan import Plan
from services.orchestrator.task import Limits, Task
from services.runtime.errors import DependencyFailed
from tests.unit.orchestrator import virtual_time
from tests.unit.orchestrator.agent_world import (
    agent_of,
    call,
    count,
    dispatcher,
    fails,
    finds_nothing,
    hangs,
    of,
    search,
    text_of,
)
from tests.unit.orchestrator.planning.plan_world import (
    ENOUGH,
    QUESTION,
    Cast,
    chain,
    counting,
    follow,
    planned,
    searching,
    two,
)


async def test_a_step_that_fails_does_not_end_the_run_and_the_last_turn_is_told():
    cast = two(**{"How many?": [DependencyFailed("The model does not answer.", dependency="model")]})
    events = await follow(cast)
    assert text_of(events) == "All of it [1]."
    assert '"found": false, "problem": "The model does not answer"' in cast.last("answer")[-1].text
    assert '"found": false' in cast.last("check")[-1].text


async def test_a_step_whose_tool_fails_leaves_a_partial_answer():
    broken = DependencyFailed("sql_tool does not answer.", dependency="sql_tool")
    steps = {"How many?": [*counting("I could not count.")]}
    events = await follow(two(**steps), dispatcher(sql_query=fails(broken)))
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "tool_failed")


async def test_a_step_is_left_out_when_nothing_that_it_depends_on_was_found():
    cast = Cast(
        plan=[
            planned(("a", "Who?", "documents"), ("b", "Which penalty?", "documents", "a"), ("c", "How many?", "sql"))
        ],
        check=[ENOUGH],
        **{"Who?": searching("Not found."), "How many?": counting("47 [1].")},
    )
    events = await follow(cast, dispatcher(finds_nothing))
    assert "Which penalty?" not in cast.asked
    assert '"problem": "what it depends on was not found"' in cast.last("answer")[-1].text
    assert events[-1].finish is Finish.ANSWERED


async def test_the_end_of_each_step_is_told_once_with_what_it_came_to():
    steps = [
        ("a", "Who?", "documents"),
        ("b", "Which penalty?", "documents", "a"),
        ("c", "How many?", "sql"),
        ("d", "How much?", "sql"),
    ]
    gone = DependencyFailed("The model does not answer.", dependency="model")
    cast = Cast(
        plan=[planned(*steps)],
        check=[ENOUGH],
        **{"Who?": searching("Not found."), "How many?": counting("47 [1]."), "How much?": [gone]},
    )
    events = await follow(cast, dispatcher(finds_nothing))
    ends = {one.step_id: (one.found, one.reason) for one in of(events, StepFinished)}
    (planned_,) = of(events, Planned)
    by_question = {step.question: ends[step.id] for step in planned_.steps}
    assert by_question == {
        "Who?": (False, "nothing was found"),
        "Which penalty?": (False, "what it depends on was not found"),
        "How many?": (True, ""),
        "How much?": (False, "The model does not answer"),
    }
    assert len(of(events, StepFinished)) == 4
    ended = [one.step_id for one in of(events, StepFinished)]
    who, penalty = (
        next(step.id for step in planned_.steps if step.question == asked) for asked in ("Who?", "Which penalty?")
    )
    assert ended.index(who) < ended.index(penalty)


async def test_a_step_ends_after_its_last_call_and_before_what_waited_for_it():
    events = await follow(chain())
    order = [type(one).__name__ for one in events if isinstance(one, CallStarted | CallFinished | StepFinished)]
    assert order == ["CallStarted", "CallFinished", "StepFinished"] * 2


async def test_a_step_that_a_limit_ended_names_it():
    repeats = [Turn(calls=[call(f"q{n}", "sql_query", query="SELECT 1")]) for n in range(4)]
    events = await follow(two(**{"How many?": [*repeats, Turn("47 [1].")]}))
    (count_,) = [one for one in of(events, StepFinished) if one.step_id == "s2"]
    assert (count_.found, count_.reason) == (True, "repeated_calls")


async def test_when_no_step_finds_anything_the_answer_is_refused():
    async def no_rows(arguments, seconds):
        return Passages(())

    cast = two(answer=[Turn("Surely 12.")])
    events = await follow(cast, dispatcher(finds_nothing, no_rows))
    assert events[-1].finish is Finish.REFUSED
    assert "12" not in text_of(events)


async def test_a_model_that_fails_throughout_is_an_error():
    gone = DependencyFailed("The model does not answer.", dependency="model")
    cast = two(answer=[gone], **{"Which penalty?": [gone], "How many?": [gone]})
    with pytest.raises(DependencyFailed):
        await follow(cast)


async def test_closing_the_run_cancels_every_step_and_what_it_calls():
    begun, cancelled = asyncio.Semaphore(0), []

    async def forever(arguments, seconds):
        begun.release()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(type(arguments).__name__)
            raise

    cast = two()
    agent = agent_of(cast, plan=Plan(Planner(cast), cast, cast))
    running = agent.run(Task(QUESTION, strategy="plan", seconds=600), dispatcher(forever, forever, timeout=600))

    async def read():
        async for _ in running:
            pass

    reader = asyncio.create_task(read())
    await begun.acquire()
    await begun.acquire()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    await running.aclose()
    assert sorted(cancelled) == ["SqlQuery", "VectorSearch"]


async def test_a_defect_in_one_step_ends_the_others_and_comes_up():
    class Defective(Unshielded):
        async def admit(self, call, found):
            raise RuntimeError("defect")

    cancelled = asyncio.Event()

    async def forever(arguments, seconds):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(RuntimeError, match="defect"):
        await follow(two(), dispatcher(search, forever, timeout=600), shield=Defective(), seconds=600)
    assert cancelled.is_set()


def in_virtual_time(cast, vector_search=search, sql_query=count, **more):
    """As `follow`, where an hour passes at once."""

    async def run():
        clock = asyncio.get_running_loop().time
        return await follow(cast, dispatcher(vector_search, sql_query, timeout=3600, clock=clock), **more)

    return virtual_time.run(run())


def test_a_step_gets_its_share_of_the_time_and_leaves_some_for_those_that_wait_for_it():
    granted = {}

    def watched(name, call):
        async def timed(arguments, seconds):
            granted[name] = seconds
            await asyncio.sleep(10)
            return await call(arguments, seconds)

        return timed

    in_virtual_time(
        chain(),
        watched("documents", search),
        watched("sql", count),
        seconds=300.25,
        limits=Limits(reserve_seconds=30),
    )
    # Of 270 s for tools the first plan gets 0.7, and the first of two in a row half of that; each keeps a reserve for
    # its own answer. The second gets what is left after 10 s.
    assert granted["sql"] == pytest.approx(270 * 0.7 / 2 - 30)
    assert granted["documents"] == pytest.approx(270 * 0.7 - 10 - 30)


def test_a_step_that_takes_too_long_leaves_time_for_the_answer():
    events = in_virtual_time(two(), sql_query=hangs, seconds=60)
    assert text_of(events) == "All of it [1]."
    assert events[-1].finish is Finish.PARTIAL
    assert [one.ok for one in of(events, CallFinished) if one.tool == "sql_query"] == [False]
    assert events[-1].timings.total < 60


async def test_steps_spend_from_the_tokens_of_the_run():
    greedy = [Turn(calls=[call(f"c{i}", "vector_search", query=f"q{i}")], usage=Usage(900, 100)) for i in range(4)]
    cast = two(**{"Which penalty?": [*greedy, Turn("Two percent [1].", usage=Usage(900, 100))]})
    events = await follow(cast, limits=Limits(run_tokens=9_000))
    assert events[-1].usage.total <= 9_000
    assert events[-1].finish is Finish.PARTIAL
    assert events[-1].reason in ("tokens", "iterations")


async def test_a_step_has_fewer_turns_than_the_run_may_have():
    again = [Turn(calls=[call(f"c{i}", "vector_search", query=f"q{i}")]) for i in range(9)]
    cast = two(**{"Which penalty?": [*again[:2], Turn("Two percent [1].")]})
    events = await follow(cast, max_iterations=2)
    assert (events[-1].finish, events[-1].reason) == (Finish.PARTIAL, "iterations")
    assert len([one for one in of(events, CallStarted) if one.step_id == "s1"]) == 2


async def test_ids_of_calls_are_unique_over_all_steps():
    same = {"Which penalty?": searching("[1].", call_id="x"), "How many?": counting("[2].", call_id="x")}
    events = await follow(two(**same))
    ids = [one.call_id for one in of(events, CallStarted)]
    assert len(set(ids)) == len(ids) == 2
    assert sorted(one.call_id for one in of(events, CallFinished)) == sorted(ids)


async def test_the_conversation_is_planned_with_the_question():
    cast = two()
    history = [Message("user", "Hello"), Message("assistant", "Hi"), Message("system", "Be brief.")]
    await follow(cast, history=history)
    prompt, *conversation = cast.last("plan")
    assert "You plan" in prompt.text
    assert "Be brief." not in prompt.text
    assert [(one.role, one.text) for one in conversation if one.role != "system"] == [
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", QUESTION),
    ]
    assert any("2025-11-29" in one.text for one in conversation if one.role == "system")


async def test_steps_are_spans_below_that_of_the_run_and_tools_below_their_step():
    kept, provider, inside = InMemorySpanExporter(), TracerProvider(), {}
    provider.add_span_processor(SimpleSpanProcessor(kept))

    def watched(call):
        async def watching(arguments, seconds):
            inside[type(arguments).__name__] = trace.get_current_span().get_span_context().span_id
            return await call(arguments, seconds)

        return watching

    with provider.get_tracer("test").start_as_current_span("run") as whole:
        await follow(two(), dispatcher(watched(search), watched(count)), tracer=provider.get_tracer("test"))
    steps = {one.name: one for one in kept.get_finished_spans()}
    for step, arguments in (("plan step s1", "VectorSearch"), ("plan step s2", "SqlQuery")):
        assert steps[step].parent.span_id == whole.get_span_context().span_id
        # Nobody records the tool's own span here: what is below it would be below the step.
        assert inside[arguments] == steps[step].context.span_id
