"""Keys of tool calls: what is the same call and what is another one."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.runtime.errors import InvalidField
from services.tool_cache.keys import argument_text, call_key, canonical, scope, with_text


def digest(arguments, tool="t", version="1", tenant="acme"):
    return call_key(tenant, tool, version, arguments).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":{"x":1,"y":2}}', '{"b":{"y":2,"x":1},"a":1}'),
        ('{"a":[{"p":1,"q":2}]}', ' { "a" : [ { "q" : 2 , "p" : 1 } ] } '),
        ('{"a":"\\u00e9\\n"}', '{"a":"é\\n"}'),
        ('{"a":"\\/"}', '{"a":"/"}'),
    ],
)
def test_order_spacing_and_escapes_do_not_matter(one, other):
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    "arguments",
    [
        ['{"a":1}', '{"a":1.0}', '{"a":"1"}', '{"a":true}', '{"a":[1]}', '{"a":1.00}', '{"a":1e0}'],
        ["{}", '{"a":null}', '{"a":0}', '{"a":""}', '{"a":false}', '{"a":[]}', '{"a":{}}', '{"":null}'],
        ['{"big":9007199254740993}', '{"big":9007199254740992}', '{"big":9007199254740993.0}'],
        ['{"p":0.1}', '{"p":0.10000000000000000001}'],
        ['{"q":"é"}', '{"q":"e\u0301"}'],
        ['{"a":[1,2]}', '{"a":[2,1]}', '{"a":[1,[2]]}', '{"a":"1,2"}'],
        ['{"a":"x","b":"y"}', '{"a":"x\\",\\"b\\":\\"y"}'],
        ['{"a":{"b":1}}', '{"a":"{\\"b\\":1}"}'],
        ['{"limit":10}', '{"limit":10,"offset":0}', '{"limit":100}'],
    ],
)
def test_types_numbers_and_missing_values_are_told_apart(arguments):
    assert len({digest(one) for one in arguments}) == len(arguments)


def test_a_large_integer_stays_exact():
    assert canonical('{"year":2023,"big":9007199254740993}') == '{"big":9007199254740993,"year":2023}'


def test_labels_and_the_day_are_part_of_the_key():
    keys = {
        call_key("acme", "t", "1", "{}", labels, day).digest
        for labels in ((), ("hr",), ("hr", "board"), ('hr","board',), ("*",))
        for day in ("", "2025-03-01", "2025-03-02")
    }
    assert len(keys) == 15
    assert call_key("acme", "t", "1", "{}", ("a", "b")) == call_key("acme", "t", "1", "{}", ["b", "a", "b"])


def test_a_field_that_a_tool_gets_later_makes_another_key():
    assert digest('{"query":"q"}') != digest('{"query":"q","new":null}')


def test_calls_are_equal_exactly_where_their_material_is():
    one, same, other = (call_key("acme", "t", "1", text) for text in ('{"a":1,"b":2}', '{"b":2,"a":1}', '{"a":1}'))
    assert (one, one.material) == (same, same.material)
    assert one.material != other.material


def test_every_part_of_the_key_matters_and_none_runs_into_the_next():
    keys = {
        digest("{}"),
        digest("{}", tenant="other"),
        digest("{}", tool="t2"),
        digest("{}", version="2"),
        digest("{}", tool="t1", version=""),
        digest("{}", tool="t", version="11"),
        digest("{}", tool="t1", version="1"),
    }
    assert len(keys) == 7


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"a":1,"a":2}', "twice"),
        ('{"x":{"a":1,"a":1}}', "twice"),
        ('{"a":1,"\\u0061":1}', "twice"),
        ('{"a":NaN}', "NaN"),
        ('{"a":Infinity}', "Infinity"),
        ('{"a":-Infinity}', "-Infinity"),
        ('{"a":1e999}', "too large"),
        ('{"a":"\\ud835"}', "surrogate"),
        ('{"\\udc00":1}', "surrogate"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('"a"', "not a JSON object"),
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("{'a':1}", "not valid JSON"),
        ('{"a":1} {}', "not valid JSON"),
        ('{"a":' + "1" * 5000 + "}", "not valid JSON"),
        ('{"a":' * 70 + "1" + "}" * 70, "nested deeper"),
        ('{"a":' * 20_000 + "1" + "}" * 20_000, "more than"),
        ('{"a":' + "[" * 10_000 + "]" * 10_000 + "}", "nested deeper"),
        ('{"a":"' + "x" * 70_000 + '"}', "more than"),
    ],
)
def test_improper_arguments_are_refused(arguments, reason):
    with pytest.raises(InvalidField, match=reason) as caught:
        canonical(arguments)
    assert caught.value.metadata == {"field": "call.arguments_json"}


@pytest.mark.parametrize("tool", ["", "a b", "x" * 129, "a\n", "ñ"])
def test_an_improper_tool_name_is_refused(tool):
    with pytest.raises(InvalidField, match=r"call\.tool"):
        digest("{}", tool=tool)


def test_a_version_beyond_bounds_is_refused():
    with pytest.raises(InvalidField, match=r"call\.version"):
        digest("{}", version="x" * 513)


def web(arguments, **fields):
    return call_key("acme", "web_search", fields.pop("version", "1"), arguments, **fields)


def test_a_scope_holds_all_but_the_text():
    base = scope(web('{"query":"a","top_k":5,"ratio":0.10}'), "query")
    assert scope(web('{"ratio":0.10,"top_k":5,"query":"another"}'), "query") == base
    others = [
        scope(web('{"query":"a","top_k":6,"ratio":0.10}'), "query"),
        scope(web('{"query":"a","top_k":5,"ratio":0.1}'), "query"),
        scope(web('{"query":"a","top_k":5}'), "query"),
        scope(web('{"query":"a","top_k":5,"ratio":0.10}', version="2"), "query"),
        scope(web('{"query":"a","top_k":5,"ratio":0.10}', labels=["hr"]), "query"),
        scope(call_key("other", "web_search", "1", '{"query":"a","top_k":5,"ratio":0.10}'), "query"),
        scope(call_key("acme", "vector_search", "1", '{"query":"a","top_k":5,"ratio":0.10}'), "query"),
        scope(web('{"query":"a","top_k":5,"ratio":0.10,"q":"x"}'), "q"),
    ]
    assert len({base, *others}) == len(others) + 1


def test_another_text_leads_to_the_key_of_the_call_with_that_text():
    asked = web('{"query":"one","ratio":1.50}', labels=["hr"])
    meant = web('{"ratio":1.50,"query":"\\"two\\""}', labels=["hr"], day="2025-03-01")
    assert with_text(asked, "query", '"two"', "2025-03-01") == meant
    assert argument_text(meant, "query") == '"two"'


@pytest.mark.parametrize("arguments", ["{}", '{"query":1}', '{"query":1.5}', '{"query":null}', '{"query":["a"]}'])
def test_what_is_no_text_is_refused_as_one(arguments):
    with pytest.raises(InvalidField, match=r"call\.semantic_argument"):
        argument_text(web(arguments), "query")


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.dictionaries(text, values, max_size=5), st.randoms())
def test_the_canonical_form_keeps_the_value_and_is_stable(arguments, rng):
    written = canonical(json.dumps(arguments))
    assert json.loads(written) == arguments
    assert canonical(written) == written
    shuffled = list(arguments.items())
    rng.shuffle(shuffled)
    assert canonical(json.dumps(dict(shuffled), ensure_ascii=False, indent=1)) == written


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_either_refused_by_field_or_made_canonical(arguments):
    try:
        written = canonical(arguments)
    except InvalidField:
        return
    assert canonical(written) == written
