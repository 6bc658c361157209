"""Members of JSON objects, found in the bytes."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.streams.members import members, replaced, without

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=6)
FORMS = st.sampled_from(
    [{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"separators": (" ,\n", "\t: ")}]
)


@settings(deadline=None, max_examples=100)
@given(OBJECTS, FORMS)
def test_every_member_is_found_where_it_is(value, form):
    text = json.dumps(value, **form).encode()
    found = [(one.name, json.loads(text[one.value : one.end])) for one in members(text)]
    assert found == list(value.items())


@settings(deadline=None, max_examples=100)
@given(OBJECTS, FORMS, VALUES)
def test_one_is_replaced_and_the_others_keep_their_bytes(value, form, other):
    value = {"a": 1, **value, "usage": {"usage": None}}
    text = json.dumps(value, **form).encode()
    new = json.dumps(other).encode()
    assert json.loads(replaced(text, "usage", new)) == {**value, "usage": other}
    assert json.loads(without(text, "usage")) == {name: v for name, v in value.items() if name != "usage"}


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (b'{"usage":null,"a":1}', b'{"a":1}'),
        (b'{"a":1,"usage":null}', b'{"a":1}'),
        (b'{"a":1,"usage":null,"b":2}', b'{"a":1,"b":2}'),
        (b'{"usage":null}', b"{}"),
        (b'{"a":{"usage":null},"b":"\\"usage\\":null,"}', b'{"a":{"usage":null},"b":"\\"usage\\":null,"}'),
        (b'{"us\\u0061ge":1,"a":1,"usage":2}', b'{"a":1}'),
        (b'{ "a" : [1, 2] , "usage" : {"x": [ ]} }', b'{ "a" : [1, 2] }'),
    ],
)
def test_a_member_goes_with_its_comma(text, rest):
    assert json.loads(without(text, "usage")) == json.loads(rest)
    assert without(text, "usage").replace(b" ", b"") == rest.replace(b" ", b"")


def test_a_large_body_is_searched_quickly():
    body = json.dumps({"prompt": list(range(200_000)), "text": 'a"\\' * 200_000, "usage": 1}).encode()
    since = time.perf_counter()
    assert json.loads(without(body, "usage"))["prompt"][-1] == 199_999
    assert time.perf_counter() - since < 10
