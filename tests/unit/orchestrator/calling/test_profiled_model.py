import json
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from services.orchestrator.calling.guided_model import GuidedModel
from services.orchestrator.calling.profiled_model import ProfiledModel
from services.orchestrator.calling.profiles import HERMES, LLAMA3_JSON, MISTRAL, OPENAI, QWEN3
from services.orchestrator.calling.ways import Way, calling_model
from services.orchestrator.model import Delta, Message, Sampling, ScriptedModel, ToolCall, ToolSpec, Turn, Usage

SEARCH = ToolSpec("vector_search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})
MESSAGES = [Message("system", "Rules."), Message("user", "Why?")]
WRITTEN = '<tool_call>{"name": "vector_search", "arguments": {"query": "penalty"}}</tool_call>'


async def turn_of(turn, profile, *, tools=(SEARCH,), sampling=None, name="m"):
    """(what was shown, the turn)"""
    model = ProfiledModel(ScriptedModel([turn]), profile, name)
    parts = [part async for part in model.stream(MESSAGES, tools, sampling or Sampling())]
    return "".join(part.text for part in parts if isinstance(part, Delta)), parts[-1]


def counted(model, valid):
    labels = {"model": model, "valid": valid}
    return REGISTRY.get_sample_value("sabueso_orchestrator_model_calls_total", labels) or 0


async def test_calls_left_in_the_text_become_calls_and_the_text_is_what_was_shown():
    shown, turn = await turn_of(Turn("I look. " + WRITTEN, usage=Usage(9, 3)), HERMES)
    assert shown == turn.text == "I look. "
    assert turn.calls == (ToolCall("", "vector_search", '{"query": "penalty"}'),)
    assert (turn.calls[0].model, turn.usage, turn.malformed) == ("m", Usage(9, 3), "")


async def test_calls_that_the_server_read_stay_and_say_whose_they_are():
    _, turn = await turn_of(Turn("", [ToolCall("c1", "vector_search", "{}")]), LLAMA3_JSON)
    assert [(call.id, call.arguments_json, call.model) for call in turn.calls] == [("c1", "{}", "m")]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{'query': 'penalty'}", {"query": "penalty"}),
        ('{"query": "penalty",}', {"query": "penalty"}),
        ('{"query": "penalty"', {"query": "penalty"}),
        ('```json\n{"query": "penalty"}\n```', {"query": "penalty"}),
    ],
)
async def test_arguments_that_can_only_mean_one_thing_are_mended(written, read):
    _, turn = await turn_of(Turn("", [ToolCall("c1", "vector_search", written)]), OPENAI)
    assert json.loads(turn.calls[0].arguments_json) == read


@pytest.mark.parametrize("written", ['{"query": "pen', "no json", "[1]", '{"query": "x"} and more', '"text"'])
async def test_other_arguments_are_left_for_the_model_to_hear_of(written):
    _, turn = await turn_of(Turn("", [ToolCall("c1", "vector_search", written)]), OPENAI)
    assert turn.calls[0].arguments_json == written


async def test_what_cannot_be_read_is_counted_and_complained_of():
    before = counted("counted-model", "false")
    _, turn = await turn_of(Turn('<tool_call>{"name": "vec</tool_call>'), HERMES, name="counted-model")
    assert turn.malformed
    assert counted("counted-model", "false") == before + 1


async def test_in_a_guided_turn_only_thoughts_are_taken_out():
    form = Sampling(json_schema={"title": "x"})
    shown, turn = await turn_of(Turn('<think>hm</think>{"name": "vector_search"}'), QWEN3, sampling=form)
    assert shown == turn.text == '{"name": "vector_search"}'


async def test_where_no_tool_may_be_called_json_without_marks_is_an_answer():
    text = '{"name": "vector_search", "parameters": {}}'
    for tools, sampling in (((), Sampling()), ((SEARCH,), Sampling(may_call=False))):
        shown, turn = await turn_of(Turn(text), LLAMA3_JSON, tools=tools, sampling=sampling)
        assert (shown, turn.calls) == (text, ())


async def test_the_transcript_is_brought_into_shape():
    scripted = ScriptedModel([Turn("Hi")])
    messages = [*MESSAGES, Message("user", "Really?")]
    async for _ in ProfiledModel(scripted, MISTRAL).stream(messages, (), Sampling()):
        pass
    assert [message.text for message in scripted.requests[0][0]] == ["Rules.", "Why?\n\nReally?"]


def test_a_model_that_makes_one_call_a_turn_is_guided_where_that_is_left_to_us():
    model = ScriptedModel([])
    assert isinstance(calling_model(model, "m", LLAMA3_JSON, Way.AUTO), GuidedModel)
    assert isinstance(calling_model(model, "m", HERMES, Way.AUTO), ProfiledModel)
    assert isinstance(calling_model(model, "m", LLAMA3_JSON, Way.NATIVE), ProfiledModel)
    assert isinstance(calling_model(model, "m", replace(OPENAI), Way.GUIDED), GuidedModel)
