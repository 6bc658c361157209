import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.calling.tolerant_json import NotReadable, read_object, read_values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{'a': 'b', 'c': True, 'd': None,}", [{"a": "b", "c": True, "d": None}]),
        ('{"a": "it\'s", "b": [1, 2,],}', [{"a": "it's", "b": [1, 2]}]),
        ("{'q': 'the \"big\" one'}", [{"q": 'the "big" one'}]),
        ('{"a": {"b": 1}', [{"a": {"b": 1}}]),
        ('{"a": "line\nbreak"}', [{"a": "line\nbreak"}]),
        ('```json\n{"a": 1}\n```', [{"a": 1}]),
        ('{"a": 1}}; {"b": 2}\n{"c": 3}<|eom_id|>', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ("{a: 1}", [{"a": 1}]),
    ],
)
def test_what_can_only_mean_one_thing_is_read(text, values):
    assert read_values(text) == values


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "never ends',
        "{'a': 'it's'}",
        "{'a': 'it''s ok'}",
        '{"a": 1, "a": 2}',
        '{"a": 007}',
        '{"a": 1,',
        '{"a": "\\ud800"}',
        'said {"a": 1}',
        "[" * 5_000,
        "{" * 5_000,
        '{"a":' * 500 + "1" + "}" * 500,
        "x" * 100_000,
        "{" + '"a": "b",' * 20_000,
    ],
    ids=range(13),
)
def test_what_is_no_json_or_may_be_read_in_several_ways_is_not(text):
    with pytest.raises(NotReadable):
        read_values(text)


def test_nothing_is_closed_where_no_more_could_be_written():
    assert read_object('{"a": {"b": 1}') == {"a": {"b": 1}}
    with pytest.raises(NotReadable, match="breaks off"):
        read_object('{"a": {"b": 1}', cut=True)


@given(OBJECTS)
def test_json_is_read_as_it_is(value):
    assert read_object(json.dumps(value)) == value
    assert read_object(json.dumps(value, ensure_ascii=False, indent=1)) == value


@given(OBJECTS)
def test_what_python_writes_is_read_as_it_is_or_not_at_all(value):
    with contextlib.suppress(NotReadable):
        assert read_object(repr(value)) == value


@given(st.text() | st.text(alphabet="{}[]\"',: \\ab1\n"), st.booleans())
def test_no_text_breaks_it(text, cut):
    for one in (text, "{" + text, '{"a": "' + text, "{'a': '" + text):
        with contextlib.suppress(NotReadable):
            json.dumps(read_values(one, cut=cut)).encode()
