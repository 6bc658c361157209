"""Guided turns, families and long conversations on real loopback servers, with the stand-in model."""

import json

import pytest

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from tests.integration.test_orchestrator import (
    SEARCH,
    calling,
    degraded,
    of,
    saying,
    searched,
    stand_in,
    text_of,
    world,
)

SHELF = {
    "acme": "The warranty of Acme covers all pumps for three years from delivery.",
    "plazos": "La política de plazos exige un preaviso de treinta días para resolver el contrato.",
}


@pytest.mark.parametrize(
    "settings",
    [{"tool_calls": "guided"}, {"model_profile": "llama3_json"}, {"model_profile": "mistral"}],
    ids=lambda one: "-".join(one.values()),
)
@pytest.mark.parametrize(
    ("question", "source", "says"),
    [
        ("What does the warranty of Acme cover?", "acme", "three years"),
        ("¿Qué preaviso exige la política de plazos?", "plazos", "treinta días"),
    ],
)
async def test_a_question_is_answered_with_its_source_however_the_model_is_spoken_to(
    tmp_path, settings, question, source, says
):
    async with stand_in() as url, world(tmp_path, model_url=url, **settings) as it:
        it.tools.shelf = SHELF
        responses = await it.ask(question, strategy="react")
    assert [one.tool for one in of(responses, "tool_call_started")][:1] == ["vector_search"]
    assert source in {one.document.document_id for one in of(responses, "citation")}
    assert says in text_of(responses)
    assert "{" not in text_of(responses)
    assert responses[-1].finished.finish == pb.FINISH_ANSWERED


async def test_a_conversation_that_is_too_long_is_summed_up_and_that_costs_one_turn_once(tmp_path):
    history = [
        pb.Message(role=("user", "assistant")[turn % 2], text=f"Turn {turn}: " + "we spoke of the weather. " * 20)
        for turn in range(20)
    ]
    async with world(tmp_path, history_tokens=800) as it:
        it.model.replies = [saying('{"summary": "They spoke of the weather."}')]
        for _ in range(2):
            it.model.replies += [calling(SEARCH), saying("Sí [1].")]
            responses = await it.ask(history=history, strategy="react", tools=["vector_search"])
            assert text_of(responses) == "Sí [1]."
            assert "conversation" not in degraded(responses)
    summing, *turns = it.model.requests
    assert summing["response_format"]["json_schema"]["name"] == "conversation_summary"
    assert "Turn 0:" in summing["messages"][-1]["content"]
    for turn in turns:
        read = [one["content"] for one in turn["messages"]]
        assert "They spoke of the weather." in read[1]
        assert "Turn 19:" in "".join(read)
        assert "Turn 0:" not in "".join(read)
    # Both questions begin with the very same messages, and so do all turns of each.
    beginnings = [json.dumps([turn["tools"], turn["messages"][: len(turns[0]["messages"])]]) for turn in turns]
    assert set(beginnings) == {beginnings[0]}


async def test_where_the_model_sums_nothing_up_the_answer_comes_all_the_same_and_says_what_was_left_out(tmp_path):
    history = [pb.Message(role=("user", "assistant")[turn % 2], text="x" * 400) for turn in range(20)]
    async with world(tmp_path, history_tokens=800) as it:
        it.model.replies = [saying("No."), calling(SEARCH), saying("Sí [1].")]
        responses = await it.ask(history=history, strategy="react", tools=["vector_search"])
    assert text_of(responses) == "Sí [1]."
    assert "conversation" in degraded(responses)


async def test_arguments_that_cannot_be_read_get_one_more_chance(tmp_path):
    async with world(tmp_path, model_profile="llama3_json") as it:
        it.model.replies = [
            saying('<|python_tag|>vector_search.call(query="x")'),
            saying('{"name": "vector_search", "parameters": {"query": "condiciones especiales"}}'),
            saying("Sí [1]."),
        ]
        responses = await it.ask(strategy="react", tools=["vector_search"])
    assert text_of(responses) == "Sí [1]."
    assert "could not be read" in it.model.requests[1]["messages"][-1]["content"]
    assert [request.query for request in searched(it)] == ["condiciones especiales"]


async def test_a_request_may_name_the_model_and_the_next_one_has_the_usual_one_again(tmp_path):
    async with world(tmp_path, model_profile="auto", planner_model_name="planner") as it:
        for name in ("Mistral-7B", ""):
            it.model.replies = [calling(SEARCH), saying("Sí [1].")]
            responses = await it.ask(strategy="react", tools=["vector_search"], model=name)
            assert text_of(responses) == "Sí [1]."
    assert [one["model"] for one in it.model.requests] == ["Mistral-7B", "Mistral-7B", "llama", "llama"]
    # Each is spoken to as its family wants it.
    called = [one for asked in it.model.requests for one in asked["messages"] if one.get("tool_calls")]
    assert [one["content"] for one in called] == [None, ""]


async def test_a_planner_with_a_model_of_its_own_keeps_it_whatever_model_answers(tmp_path):
    async with world(tmp_path, planner_model_name="planner") as it:
        it.model.replies = [500, 500, calling(SEARCH), saying("Sí [1].")]
        await it.ask(strategy="plan", tools=["vector_search"], model="other")
    assert [one["model"] for one in it.model.requests] == ["planner", "planner", "other", "other"]
