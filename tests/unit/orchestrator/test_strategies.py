import asyncio
import json

import pytest

from services.orchestrator.events import CallStarted, Chosen, Cited, Finish, Finished, Text
from services.orchestrator.model import Message, ScriptedModel, ToolCall, Turn, Usage
from services.orchestrator.results import Degraded, Passage, Rows
from services.orchestrator.routing.router import Route
from services.orchestrator.strategies.auto import AUTO, Auto
from services.orchestrator.strategies.dependence import depends
from services.runtime.errors import DependencyFailed
from tests.unit.orchestrator import virtual_time
from tests.unit.orchestrator.agent_world import (
    COUNT,
    SEARCH,
    agent_of,
    collect,
    count,
    dispatcher,
    dispatcher_of,
    fails,
    finds_nothing,
    observations,
    of,
    search,
    text_of,
    together,
)


class FixedRouter:
    """Always says the same, and keeps what it was asked."""

    def __init__(self, *calls, **more):
        self.route_ = Route(calls=calls, **more)
        self.asked = []

    async def route(self, asked, seconds):
        self.asked.append(asked)
        await asyncio.sleep(0)
        return self.route_


UNSURE = FixedRouter(abstained=True, reason="two tools are equally likely", confidence=0.4)


def roles(messages):
    return [message.role for message in messages if message.role != "system"]


# ---- rag


async def test_rag_searches_with_the_question_and_answers_in_one_turn():
    model = ScriptedModel([Turn("A penalty of 2 % [1].", usage=Usage(300, 20))])
    events = await collect(model, strategy="rag", question="What is the penalty?")
    assert events[0] == Chosen("rag", "as asked")
    [called] = of(events, CallStarted)
    assert (called.tool, json.loads(called.arguments_json)) == ("vector_search", {"query": "What is the penalty?"})
    assert text_of(events) == "A penalty of 2 % [1]."
    assert [type(one.source) for one in of(events, Cited)] == [Passage]
    [(messages, tools)] = model.requests
    assert roles(messages) == ["user", "assistant", "tool", "user"]
    assert messages[-3].calls[0].id == messages[-2].call_id == called.call_id
    assert tools == []
    end = events[-1]
    assert (end.strategy, end.finish, end.iterations, end.usage.total) == ("rag", Finish.ANSWERED, 1, 320)


async def test_rag_streams_its_answer():
    model = ScriptedModel([Turn("A penalty of two per cent a month [1].")])
    assert len(of(await collect(model, strategy="rag"), Text)) > 3


async def test_rag_that_finds_nothing_refuses():
    model = ScriptedModel([Turn("It is 5 %.")])
    events = await collect(model, dispatcher(finds_nothing), strategy="rag")
    assert text_of(events).startswith("I do not have enough information")
    assert events[-1].finish is Finish.REFUSED


async def test_rag_without_document_search_goes_over_to_react():
    model = ScriptedModel([Turn(calls=[COUNT]), Turn("47 [1].")])
    events = await collect(model, dispatcher_of({"sql_query": count}), strategy="rag")
    assert of(events, Chosen) == [Chosen("rag", "as asked"), Chosen("react", "there is no document search")]
    assert (events[-1].strategy, events[-1].finish) == ("react", Finish.ANSWERED)


async def test_a_very_long_question_is_searched_by_its_beginning():
    model = ScriptedModel([Turn("A penalty [1].")])
    events = await collect(model, strategy="rag", question="penalty " * 1000)
    assert events[-1].finish is Finish.ANSWERED


async def test_rag_whose_model_fails_answers_from_what_was_found():
    model = ScriptedModel([DependencyFailed("The model does not answer.", dependency="model")])
    events = await collect(model, strategy="rag")
    assert "«Penalty of 2 % a month.» [1]" in text_of(events)
    assert events[-1].finish is Finish.PARTIAL


# ---- router


async def test_a_route_runs_its_calls_together_and_the_model_has_one_turn():
    model = ScriptedModel([Turn("47 [2], with a penalty [1].")])
    tools = dispatcher(*together(), timeout=30)
    events = await collect(model, tools, router=FixedRouter(SEARCH, COUNT, confidence=0.9), strategy="router")
    assert [one.tool for one in of(events, CallStarted)] == ["vector_search", "sql_query"]
    assert [type(one.source) for one in of(events, Cited)] == [Rows, Passage]
    [(messages, tools)] = model.requests
    assert roles(messages) == ["user", "assistant", "tool", "tool", "user"]
    assert tools == []
    assert (events[-1].strategy, events[-1].iterations) == ("router", 1)


async def test_calls_of_a_route_need_no_ids():
    routed = FixedRouter(*(ToolCall("", one.name, one.arguments_json) for one in (SEARCH, COUNT)))
    events = await collect(ScriptedModel([Turn("Done [1].")]), router=routed, strategy="router")
    ids = [one.call_id for one in of(events, CallStarted)]
    assert len(set(ids)) == 2
    assert all(ids)


async def test_a_question_that_needs_no_tool_is_answered_at_once():
    model = ScriptedModel([Turn("Hello! How can I help?")])
    events = await collect(model, router=FixedRouter(confidence=0.97), strategy="router", question="Hi!")
    assert text_of(events) == "Hello! How can I help?"
    [(messages, tools)] = model.requests
    assert (roles(messages), messages[-1].text) == (["user"], "Hi!")  # nothing but the question
    assert tools == []
    assert (events[-1].finish, events[-1].strategy) == (Finish.ANSWERED, "router")


async def test_a_router_that_is_not_sure_leaves_it_to_the_model_and_says_so():
    model = ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty [1].")])
    events = await collect(model, router=UNSURE, strategy="router")
    assert of(events, Chosen) == [
        Chosen("router", "as asked"),
        Chosen("react", "two tools are equally likely", 0.4),
    ]
    assert events[-1].strategy == "react"


async def test_a_route_that_leads_to_nothing_is_left():
    model = ScriptedModel([Turn(calls=[COUNT]), Turn("47 [1].")])
    events = await collect(model, dispatcher(finds_nothing), router=FixedRouter(SEARCH), strategy="router")
    assert of(events, Chosen)[1] == Chosen("react", "the route led to nothing")
    assert roles(model.requests[0][0]) == ["user", "assistant", "tool"]
    assert text_of(events) == "47 [1]."


async def test_the_router_gets_the_question_its_tenant_the_tools_and_what_was_said():
    router, history = FixedRouter(), [Message("user", "Hello"), Message("assistant", "Hello!")]
    await collect(ScriptedModel([Turn("Yes.")]), router=router, strategy="router", tenant_id="acme", history=history)
    [asked] = router.asked
    assert (asked.tenant_id, asked.question, list(asked.history)) == (
        "acme",
        "How many contracts did we sign?",
        history,
    )
    assert list(asked.tools) == ["vector_search", "sql_query"]


async def test_a_step_that_no_model_asked_for_has_a_number_of_its_own():
    model = ScriptedModel([Turn("", [COUNT]), Turn("47 [1].")])
    events = await collect(model, dispatcher(finds_nothing), router=FixedRouter(SEARCH), strategy="router")
    assert [one.iteration for one in of(events, CallStarted)] == [1, 2]
    assert events[-1].iterations == 2  # turns of the model


@pytest.mark.parametrize("strategy", ["router", AUTO])
async def test_a_router_that_cannot_work_is_named_once(strategy):
    down = Degraded("embedding", "embedding does not answer")
    router = FixedRouter(abstained=True, reason="the router cannot work", degraded=(down,))
    model = ScriptedModel([Turn(calls=[SEARCH]), Turn("A penalty [1].")])
    events = await collect(model, router=router, strategy=strategy)
    assert isinstance(events[0], Chosen)
    assert of(events, Degraded) == [down]
    assert (events[-1].strategy, events[-1].finish) == ("react", Finish.ANSWERED)


def test_waiting_for_the_router_is_waiting_for_tools():
    class Slow(FixedRouter):
        async def route(self, asked, seconds):
            await asyncio.sleep(0.5)
            return await super().route(asked, seconds)

    async def run():
        tools = dispatcher(clock=asyncio.get_running_loop().time)
        return await collect(ScriptedModel([Turn("Hello.")]), tools, router=Slow(), strategy="router")

    timings = virtual_time.run(run())[-1].timings
    assert timings.tools == pytest.approx(0.5, abs=0.001)
    assert timings.overhead == pytest.approx(0, abs=0.001)


# ---- auto


class Planning:
    """Stands in for `plan`."""

    async def answer(self, run):
        run.answered = True
        for event in run.answer.say("Planned.", last=True):
            yield event


async def chosen(question, *, router=UNSURE, tools=None, plan=True, steps=None, auto=None, **task):
    steps = steps or [Turn("Well."), Turn("Well.")]
    agent = agent_of(ScriptedModel(steps), router, plan=Planning() if plan else None, auto=auto)
    events = await collect(None, tools, agent=agent, question=question, strategy=AUTO, **task)
    assert isinstance(events[0], Chosen)
    assert len(of(events, Finished)) == 1
    assert events[-1].strategy == events[0].strategy
    return events[0]


DEPENDENT = "Which supplier won the largest contract, and what is its penalty clause?"


async def test_a_sure_route_is_followed_and_asked_for_once():
    router = FixedRouter(SEARCH, confidence=0.93)
    choice = await chosen("What does the penalty clause say?", router=router, steps=[Turn("A penalty [1].")])
    assert choice == Chosen("router", "the question itself says what it needs: vector_search", 0.93)
    assert len(router.asked) == 1


async def test_a_question_without_need_of_tools_is_answered_by_the_router():
    choice = await chosen("Hi!", router=FixedRouter(confidence=0.99), steps=[Turn("Hello!")])
    assert choice == Chosen("router", "the question itself says what it needs: no tool", 0.99)


async def test_a_question_whose_parts_depend_on_each_other_is_planned():
    assert (await chosen(DEPENDENT)).strategy == "plan"


async def test_where_there_is_no_time_for_a_plan_the_model_decides():
    assert (await chosen(DEPENDENT, seconds=8)).strategy == "react"


async def test_where_there_is_no_plan_the_model_decides():
    assert (await chosen(DEPENDENT, plan=False)).strategy == "react"


async def test_little_time_and_documents_only_is_plain_rag():
    only = dispatcher_of({"vector_search": search})
    assert (await chosen("What is the penalty?", tools=only, seconds=2)).strategy == "rag"


async def test_little_time_and_a_question_that_is_most_likely_for_documents_is_plain_rag():
    router = FixedRouter(abstained=True, scores={"vector_search": 0.5, "sql_query": 0.3})
    assert (await chosen("What is the penalty?", router=router, seconds=2)).strategy == "rag"


async def test_little_time_but_several_things_to_ask_is_left_to_the_model():
    assert (await chosen("What is the penalty?", seconds=2)).strategy == "react"


async def test_enough_time_is_left_to_the_model():
    only = dispatcher_of({"vector_search": search})
    choice = await chosen("What is the penalty?", tools=only)
    assert choice == Chosen("react", "two tools are equally likely", 0.4)


async def test_without_tools_nobody_is_asked():
    router = FixedRouter(SEARCH)
    assert (await chosen("Hi!", router=router, tools=dispatcher_of({}))).reason == "there are no tools"
    assert router.asked == []


async def test_the_times_that_it_chooses_by_are_settings():
    auto = Auto(UNSURE, plan_seconds=1, rag_seconds=0.5)
    assert (await chosen(DEPENDENT, seconds=8, auto=auto)).strategy == "plan"


@pytest.mark.parametrize(
    "question",
    [
        DEPENDENT,
        "Find the supplier of contract CT-7, then its turnover in 2024.",
        "What is the turnover of the supplier that signed the most contracts?",
        "¿Qué proveedor ganó el mayor contrato y cuál es su penalización?",
        "Busca el contrato de mayor importe y dime qué dicen sus cláusulas sobre la rescisión.",
        "¿Cuánto facturamos al cliente cuyo contrato vence antes?",
        "¿Qué contratos vencen en 2025? Después, ¿cuáles de esos tienen penalización?",
    ],
)
def test_dependent_parts_are_seen(question):
    assert depends(question)


@pytest.mark.parametrize(
    "question",
    [
        "How many contracts did we sign in 2025?",
        "How many contracts above 100k€ did we sign in 2025, and which conditions repeat?",
        "¿Cuántos contratos de más de 100k€ firmamos en 2025, y qué condiciones se repiten?",
        "What does the penalty clause say?",
        "¿Qué dice la cláusula de penalización?",
        "Compare the penalties of Acme and Globex.",
        "¿Cuántos contratos tiene Acme y cuál es su dirección?",
        "What is the name of the provider that supplies the licences?",
        "What is the percentage of the invoices that were paid late?",
        "¿Cuál es el nombre del proveedor que suministra las licencias?",
        "¿Cuál es el número de los contratos que tiene Acme?",
        "Hola, ¿qué tal?",
        "",
    ],
)
def test_independent_parts_are_no_plan(question):
    assert not depends(question)


async def test_a_failing_service_is_the_same_in_every_strategy():
    down = DependencyFailed("retrieval does not answer.")
    for strategy in ("rag", "router"):
        tools = dispatcher(fails(down))
        model = ScriptedModel([Turn("It could not be reached.")] * 2)
        events = await collect(model, tools, strategy=strategy, router=FixedRouter(SEARCH))
        assert observations(model)[0]["error"] == "retrieval does not answer"
        assert (events[-1].finish, events[-1].reason) == (Finish.REFUSED, "tool_failed")
