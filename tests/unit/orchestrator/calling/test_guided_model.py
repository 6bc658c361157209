import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.calling.guided_model import GuidedModel
from services.orchestrator.calling.guided_schema import plain, plan_schema
from services.orchestrator.model import Delta, Message, Sampling, ScriptedModel, ToolSpec, Turn, Usage
from services.orchestrator.tools import SqlQuery, VectorSearch

SEARCH = ToolSpec("vector_search", "Searches.", VectorSearch.model_json_schema())
QUERY = ToolSpec("sql_query", "Counts.", SqlQuery.model_json_schema())
MESSAGES = [Message("system", "Rules."), Message("user", "Why?")]


class Recording:
    """Replies with one text and keeps what it was asked."""

    def __init__(self, text, size=3, *, cut=False):
        self.text, self.size, self.cut = text, size, cut
        self.asked = []

    async def stream(self, messages, tools, sampling):
        self.asked.append((list(messages), list(tools), sampling))
        for at in range(0, len(self.text), self.size):
            yield Delta(self.text[at : at + self.size])
        yield Turn(self.text, usage=Usage(10, 5), cut=self.cut)


async def run(text, size=3, *, cut=False, tools=(SEARCH, QUERY), sampling=None):
    """(pieces, turn, what was asked)"""
    model = Recording(text, size, cut=cut)
    stream = GuidedModel(model, "m").stream(MESSAGES, tools, sampling or Sampling())
    parts = [part async for part in stream]
    assert [part for part in parts if isinstance(part, Turn)] == parts[-1:]
    return [part.text for part in parts[:-1]], parts[-1], model.asked[0]


def plan(thought="", calls=(), answer=""):
    return json.dumps({"thought": thought, "calls": list(calls), "answer": answer}, ensure_ascii=False)


BOTH = [
    {"tool": "vector_search", "arguments": {"query": "penalty"}},
    {"tool": "sql_query", "arguments": {"query": "SELECT 1", "params": []}},
]


async def test_several_calls_come_from_one_turn():
    pieces, turn, _ = await run(plan("I need both.", BOTH))
    assert pieces == []
    assert turn.text == "I need both."
    assert [(call.name, json.loads(call.arguments_json), call.model) for call in turn.calls] == [
        ("vector_search", {"query": "penalty"}, "m"),
        ("sql_query", {"query": "SELECT 1", "params": []}, "m"),
    ]
    assert turn.usage == Usage(10, 5)


async def test_the_server_is_asked_for_the_schema_and_reads_of_the_tools_where_nothing_changes():
    _, _, (messages, tools, sampling) = await run(plan(answer="Hi"))
    assert (tools, sampling.json_schema["title"]) == ([], "tool_plan")
    assert messages[0].text.startswith("Rules.\n")
    assert '{"name": "vector_search", "description": "Searches."' in messages[0].text
    assert messages[1:] == MESSAGES[1:]
    _, _, (last, _, last_sampling) = await run("Hi", sampling=Sampling(may_call=False))
    assert last == messages
    assert last_sampling.json_schema is None


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
async def test_an_answer_flows_while_it_is_written(size):
    answer = 'Línea «1» [1]:\n"quoted" \\ and 😀 [2].'
    for text in (plan("", (), answer), json.dumps(json.loads(plan("", (), answer)))):
        pieces, turn, _ = await run(text, size)
        assert "".join(pieces) == answer
        assert (turn.text, turn.calls) == (answer, ())
        assert size > 7 or len(pieces) > 3


async def test_an_answer_beside_calls_is_premature_and_not_shown():
    pieces, turn, _ = await run(plan("", BOTH[:1], "It is 47."))
    assert (pieces, len(turn.calls), turn.text) == ([], 1, "")


async def test_a_model_that_writes_plain_text_all_the_same_is_heard():
    pieces, turn, _ = await run("It is 47 [1].")
    assert "".join(pieces) == turn.text == "It is 47 [1]."


@pytest.mark.parametrize("text", [plan(), '{"thought": "x", "calls": 7}', "{", '{"answer": 7}', '{"calls": [7]}'])
async def test_a_reply_that_says_nothing_is_complained_of(text):
    pieces, turn, _ = await run(text)
    assert (pieces, turn.text, turn.calls) == ([], "", ())
    assert "\n" not in turn.malformed
    assert turn.malformed


async def test_half_a_call_is_not_made_and_half_an_answer_is_kept():
    whole = plan("", BOTH)
    _, turn, _ = await run(whole[: whole.index("SELECT") + 3], cut=True)
    assert [call.name for call in turn.calls] == ["vector_search"]
    pieces, turn, _ = await run('{"thought": "", "calls": [], "answer": "It is 4', cut=True)
    assert "".join(pieces) == turn.text == "It is 4"
    assert turn.cut


async def test_a_turn_without_tools_and_one_with_another_form_pass_through():
    form = {"title": "other", "type": "object"}
    for sampling in (Sampling(), Sampling(json_schema=form)):
        pieces, turn, asked = await run('{"a": 1}', tools=(), sampling=sampling)
        assert ("".join(pieces), turn.text, asked[2]) == ('{"a": 1}', '{"a": 1}', sampling)


@given(st.text(), st.integers(1, 5), st.booleans())
async def test_no_reply_breaks_it(text, size, cut):
    for reply in (text, "{" + text, plan(answer=text)[: len(text)]):
        pieces, turn, _ = await run(reply, size, cut=cut)
        assert turn.calls or turn.malformed or "".join(pieces) == turn.text


def test_the_schema_takes_what_the_tools_take():
    schema = plan_schema([SEARCH, QUERY])
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(plan("x", BOTH)), schema)
    for wrong in ({"tool": "web_search", "arguments": {}}, {"tool": "vector_search", "arguments": {}}, {"tool": "x"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(plan("x", [wrong])), schema)


# What vLLM's xgrammar backend answers with 400, and what would be compiled for seconds or not at all.
UNSUPPORTED = {"multipleOf", "uniqueItems", "contains", "minContains", "maxContains", "patternProperties"} | {
    "propertyNames",
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "$ref",
    "$defs",
    "not",
    "if",
    "allOf",
    "oneOf",
    "default",
}
FOREIGN = {
    "$defs": {
        "day": {"type": "string", "format": "date"},
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
    },
    "type": "object",
    "properties": {
        "day": {"$ref": "#/$defs/day"},
        "tree": {"$ref": "#/$defs/node"},
        "nothing": {"$ref": "https://elsewhere.example/schema"},
        "code": {"type": "string", "pattern": "^(a+)+$", "maxLength": 9_999},
        "tags": {
            "type": "array",
            "items": {"type": "string", "enum": ["a", "b"]},
            "uniqueItems": True,
            "maxItems": 500,
        },
        "either": {"oneOf": [{"type": "integer", "multipleOf": 5}, {"type": "null"}], "default": None},
        "map": {"type": "object", "patternProperties": {"^x": {}}, "required": ["x1"]},
    },
    "required": ["day", "not_there"],
}


def keys_of(value, names=()):
    """Keywords of a schema, without the names of properties."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key == "properties":
                for prop in one.values():
                    yield from keys_of(prop)
            else:
                yield key
                yield from keys_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from keys_of(one)


def test_a_foreign_schema_is_widened_to_what_a_grammar_can_hold():
    schema = plain(FOREIGN)
    assert not UNSUPPORTED & set(keys_of(schema))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["day"] == {"type": "string"}
    assert schema["properties"]["either"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert schema["properties"]["tags"] == {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
    assert schema["properties"]["nothing"] == {}
    assert schema["required"] == ["day"]


async def test_it_can_stand_before_a_scripted_model():
    model = ScriptedModel([Turn(plan("", BOTH))])
    parts = [part async for part in GuidedModel(model).stream(MESSAGES, (SEARCH,), Sampling())]
    assert len(parts[-1].calls) == 2


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "object", "properties": {"a": {}}, "required": True},
        {"type": "object", "properties": {"a": {}}, "required": [{"a": 1}, 7]},
        {"type": "string", "required": True},
        {"anyOf": [True, 5, None]},
    ],
)
def test_what_makes_no_sense_in_a_foreign_schema_is_left_out(odd):
    schema = plain({"type": "object", "properties": {"odd": odd, "good": {"type": "string"}}})
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["good"] == {"type": "string"}


def test_a_schema_that_refers_to_itself_in_many_places_has_an_end():
    node = {"type": "object", "properties": {f"p{number}": {"$ref": "#/$defs/node"} for number in range(60)}}
    schema = plain({"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    jsonschema.Draft202012Validator.check_schema(schema)
    assert len(json.dumps(schema)) < 100_000
