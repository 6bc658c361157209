import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.arguments import ForeignForm, TypedForm, WrongArguments, is_nested, unknown_tool
from services.orchestrator.tools import SqlQuery, VectorSearch, WebSearch
from services.tool_cache.keys import canonical

SCHEMA = {"type": "object", "properties": {"year": {"type": "integer"}}}
FORM = ForeignForm(SCHEMA)


def test_a_foreign_schema_reaches_the_model_as_it_is():
    assert FORM.schema is SCHEMA


def test_a_foreign_form_takes_any_object_and_leaves_out_what_is_null():
    assert FORM.read('{"year": 2025, "status": null, "big": 9007199254740993}') == {"year": 2025, "big": 2**53 + 1}
    assert FORM.read("") == {}


def test_the_order_of_arguments_makes_no_difference():
    assert FORM.canonical(FORM.read('{"b": [1], "a": "ñ"}')) == FORM.canonical(FORM.read('{"a": "ñ", "b": [1]}'))


@pytest.mark.parametrize(
    "text",
    ["[]", "1", '"x"', "{", "no json", '{"a": NaN}', '{"a": 1, "a": 2}', '{"a": "\\ud800"}', '{"a":' * 100_000],
)
def test_what_is_no_object_is_refused_in_words_for_the_model(text):
    with pytest.raises(WrongArguments, match="invalid arguments"):
        FORM.read(text)


@given(st.text())
def test_no_text_breaks_the_reader(text):
    with contextlib.suppress(WrongArguments):
        json.loads(FORM.canonical(FORM.read(text)))


HOSTILE = [
    '{"query": "x", "query": "y"}',
    '{"query": "x", "params": [{"a": 1, "a": 2}]}',
    '{"query": "\\udfff"}',
    '{"query": "x", "params": "[\\"\\\\ud800\\"]"}',
    '{"query": "x", "params": ' + "[" * 33 + "]" * 33 + "}",
    '{"query": "x", "params": "' + "[" * 900 + "]" * 900 + '"}',
    '{"query": "x", "params": "' + "[" * 100_000 + '"}',
    '{"query": "x", "params": ' + "[" * 100_000 + "}",
    '{"query": "x", "params": [1e999]}',
    '{"query": "x", "params": "[1e999]"}',
    '{"query": "x", "params": [' + "9" * 5000 + "]}",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_arguments_that_could_be_read_in_two_ways_or_not_written_again_are_refused(text):
    with pytest.raises(WrongArguments, match="invalid arguments"):
        TypedForm(SqlQuery).read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=5), st.booleans())
def test_whatever_is_taken_can_be_looked_up(params, as_text):
    """The tool cache refuses a whole turn for one call that it cannot read."""
    written = json.dumps({"query": "SELECT 1", "params": json.dumps(params) if as_text else params})
    with contextlib.suppress(WrongArguments):
        arguments = TypedForm(SqlQuery).canonical(TypedForm(SqlQuery).read(written))
        assert json.loads(canonical(arguments))["params"] == params


@pytest.mark.parametrize(
    ("one", "other"),
    [("1", "1.0"), ("1", '"1"'), ("1", "true"), ("0", "false"), ("0", "null"), ("0", "-0.0"), ("[1, 2]", "[2, 1]")],
)
def test_parameters_of_another_type_or_order_are_another_call(one, other):
    form = TypedForm(SqlQuery)
    read = [form.canonical(form.read(f'{{"query": "x", "params": [{value}]}}')) for value in (one, other)]
    assert read[0] != read[1]


def test_white_space_and_case_within_a_statement_make_another_call():
    form = TypedForm(SqlQuery)
    written = "SELECT 'a'", "SELECT  'a'", "select 'a'", "SELECT 'a' ", "SELECT 'A'", "SELECT 'a '"
    assert len({form.canonical(form.read(json.dumps({"query": one}))) for one in written}) == len(written)


@pytest.mark.parametrize("kind", [VectorSearch, WebSearch])
def test_accents_written_in_two_ways_and_outer_white_space_are_one_search(kind):
    form = TypedForm(kind)
    assert len({form.canonical(form.read(json.dumps({"query": one}))) for one in ("é", "e\u0301", " é\n")}) == 1


def test_accents_written_in_two_ways_are_two_parameters():
    form = TypedForm(SqlQuery)
    written = ({"query": "x", "params": [one]} for one in ("é", "e\u0301"))
    assert len({form.canonical(form.read(json.dumps(one))) for one in written}) == 2


def test_a_long_statement_in_another_script_fits_into_a_lookup():
    form = TypedForm(SqlQuery)
    assert len(form.canonical(form.read(json.dumps({"query": "ж" * 16_384})))) < 17_000


def test_nesting_is_counted_in_levels():
    assert is_nested([[1]], 1)
    assert not is_nested([[1], {"a": 2}], 2)
    assert not is_nested("[[[", 0)


CONTRACTS = ForeignForm(
    {
        "type": "object",
        "properties": {
            "year": {"type": "integer"},
            "status": {"enum": ["open", "closed"]},
            "filter": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
            "code": {"type": "string", "pattern": "^(a+)+$"},
        },
        "required": ["year"],
        "additionalProperties": False,
    }
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "'year' is a required property"),
        ('{"year": null}', "'year' is a required property"),
        ('{"year": "2025"}', "year: '2025' is not of type 'integer'"),
        ('{"year": 2025, "status": "lost"}', "status: 'lost' is not one of ['open', 'closed']"),
        ('{"year": 2025, "filter": {"tags": ["a", 7]}}', "filter.tags.1: 7 is not of type 'string'"),
        ('{"year": 2025, "month": 1}', "'month' was unexpected"),
    ],
)
def test_what_a_foreign_schema_says_is_wrong_is_said_with_its_place(text, said):
    with pytest.raises(WrongArguments) as raised:
        CONTRACTS.read(text)
    assert str(raised.value).startswith("invalid arguments: ")
    assert said in str(raised.value)


def test_complaints_are_few_and_short():
    form = ForeignForm({"type": "object", "additionalProperties": {"type": "integer"}})
    with pytest.raises(WrongArguments) as raised:
        form.read(json.dumps({f"k{i}": "x" * 10_000 for i in range(50)}))
    assert len(str(raised.value)) < 1_500


STRANGE = {
    "a reference to itself": {"$ref": "#"},
    "a reference to elsewhere": {"$ref": "https://elsewhere.example/schema"},
    "alternatives that are itself": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "a type that there is not": {"type": "nonsense"},
    "no schema at all": {"properties": 7},
    "a pattern for ever": {"properties": {"a": {"pattern": "^(a+)+$"}}},
    "names by a pattern": {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
    "items each with each": {"properties": {"list": {"uniqueItems": True}}},
    "doubling": {"$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}}
    | {"$ref": "#/$defs/d0"},
    "very large": {"description": "x" * 300_000, "type": "integer"},
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("schema", STRANGE.values(), ids=STRANGE)
def test_a_schema_that_cannot_be_checked_in_time_leaves_the_check_to_its_service(schema):
    arguments = {"a": "a" * 60 + "!", "list": [{"i": i} for i in range(5_000)]}
    assert ForeignForm(schema).read(json.dumps(arguments)) == arguments


def test_a_tool_that_there_is_not_is_answered_with_the_one_that_may_have_been_meant():
    names = ("vector_search", "sql_query")
    assert unknown_tool("vector-search", names) == (
        "there is no tool `vector-search`; did you mean `vector_search`? there are: vector_search, sql_query"
    )
    assert unknown_tool("weather", names) == "there is no tool `weather`; there are: vector_search, sql_query"
    assert unknown_tool("x" * 5_000, ()).startswith("there is no tool `xxx")
    assert len(unknown_tool("x" * 5_000, ())) < 200
