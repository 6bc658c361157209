import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.model import Message, ScriptedModel, Spent, Turn, Usage
from services.orchestrator.query_writer import (
    BroaderQuestion,
    Form,
    HypotheticalPassage,
    NextSearch,
    NotWritten,
    Paraphrases,
    QueryWriter,
    SearchPlan,
    StandaloneQuery,
    SubQuestions,
    json_in,
)
from services.runtime.errors import DependencyFailed, LimitExceeded

FORMS = [HypotheticalPassage, Paraphrases, SubQuestions, BroaderQuestion, NextSearch, SearchPlan, StandaloneQuery]


async def filled(text, form=Paraphrases, seconds=2.0, **scripted):
    steps = [text if isinstance(text, Exception) else Turn(text)]
    return await QueryWriter(ScriptedModel(steps, **scripted), Spent()).fill(form, "the query", seconds)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_a_closed_object_in_plain_json_schema(form: type[Form]):
    schema = form.json_schema()
    assert schema["title"] == form.__name__
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
    assert "$ref" not in json.dumps(schema)
    assert all(name in form.task for name in schema["properties"])


@pytest.mark.parametrize(
    "text",
    [
        '{"paraphrases": ["a fine"]}',
        '```json\n{"paraphrases": ["a fine"]}\n```',
        'Here it is: {"paraphrases": ["a fine"]} I hope it helps {"x": 1}',
        '<think>Perhaps {"paraphrases": ["wrong"]}</think>\n{"paraphrases": ["a fine"]}',
        '{"paraphrases": ["1. a   fine", "", "  "], "why": "because"}',
        '{"paraphrases": "- a fine\\n"}',
        '{"paraphrases": ["\\"a fine\\""]}',
        'Set {x}: {"paraphrases": ["a fine"]}',
    ],
)
async def test_what_models_put_around_their_json_does_not_matter(text):
    lines = [line for line in (await filled(text)).paraphrases if line]
    assert lines == ["a fine"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "{",
        "[]",
        "{}",
        '{"paraphrases": []}',
        '{"paraphrases": [1]}',
        '{"paraphrases": null}',
        "{" * 5000,
    ],
)
async def test_nonsense_is_not_used(text):
    with pytest.raises(NotWritten, match="could not be used"):
        await filled(text)


@pytest.mark.parametrize("value", ["", "   ", "…", "?!"])
async def test_an_empty_line_is_nonsense(value):
    with pytest.raises(NotWritten):
        await filled(json.dumps({"standalone_query": value}), StandaloneQuery)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (DependencyFailed("The model does not answer.", dependency="model"), "The model does not answer"),
        (LimitExceeded("The model's limit is used up.", setting="model"), "The model's limit is used up"),
    ],
)
async def test_a_model_that_fails_is_told_in_one_line(error, says):
    with pytest.raises(NotWritten) as caught:
        await filled(error)
    assert str(caught.value) == says


async def test_a_model_that_is_slow_is_left_behind():
    with pytest.raises(NotWritten, match=r"did not answer within 0\.05s"):
        await filled('{"paraphrases": ["a fine"]}', seconds=0.05, delay_seconds=10)


async def test_the_model_gets_task_history_and_query_and_no_tools():
    model, spent = ScriptedModel([Turn('{"standalone_query": "x"}', usage=Usage(50, 5))]), Spent()
    history = [Message("user", "Before?"), Message("assistant", "Yes.")]
    await QueryWriter(model, spent).fill(StandaloneQuery, "and now?", 2, history)
    [(messages, tools)] = model.requests
    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[0].text == StandaloneQuery.task
    assert messages[-1].text == "and now?"
    assert tools == []
    assert (spent.turns, spent.usage) == (1, Usage(50, 5))


@settings(deadline=None)
@given(st.text(max_size=200) | st.recursive(st.none() | st.text(max_size=9), st.lists, max_leaves=5).map(json.dumps))
async def test_any_answer_is_read_or_refused(text):
    for form in FORMS:
        try:
            assert isinstance(await filled(text, form), form)
        except NotWritten:
            pass


def test_an_object_with_half_a_surrogate_pair_is_none():
    with pytest.raises(ValueError, match="no JSON object"):
        json_in('{"queries": ["a\\ud800"]}')
