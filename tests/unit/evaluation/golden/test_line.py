"""A line of a golden set: what is read, what is refused, and that writing it is the same bytes each time."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from services.evaluation.golden import line
from services.evaluation.golden.item import ExpectedCall, Item, Stratum

SCHEMA = Path(line.__file__).with_name("item.schema.json")
VALIDATOR = Draft202012Validator(line.schema())
LEAST = '{"id": "a-1", "question": "How many?", "language": "en", "stratum": "single_hop"}'

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
names = st.from_regex(r"\A[a-z][a-z0-9-]{0,9}\Z")
values = st.recursive(
    st.booleans() | st.integers(-(10**9), 10**9) | texts | st.floats(-1e6, 1e6, allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.builds(lambda one: {"optional": one}, inner),
    max_leaves=5,
)
calls = st.builds(
    ExpectedCall,
    tool=names,
    arguments=st.dictionaries(names, values, max_size=3),
    group=st.integers(0, 3),
    closed=st.booleans(),
)
items = st.builds(
    Item,
    id=names,
    question=texts,
    language=st.sampled_from(["es", "en"]),
    stratum=st.sampled_from(list(Stratum)),
    sources=st.lists(names, max_size=3).map(tuple),
    calls=st.lists(
        st.builds(lambda call, other: ExpectedCall(call.tool, call.arguments, alternatives=(other,)), calls, calls),
        max_size=2,
    ).map(tuple),
    reference=st.none() | texts,
    split=st.sampled_from(["dev", "test"]),
    provenance=texts,
    reviewer=texts,
    family=names,
    made_from=st.lists(names, max_size=2).map(tuple),
    other_calls=st.lists(st.lists(calls, min_size=1, max_size=2).map(tuple), max_size=1).map(tuple),
    contains=st.lists(st.lists(texts, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
)


@settings(max_examples=30)
@given(items)
def test_what_is_written_is_read_as_it_was(item):
    written = line.write(item)
    assert "\n" not in written
    assert line.parse(written) == item
    VALIDATOR.validate(json.loads(written))


@settings(max_examples=15)
@given(st.lists(items, max_size=3, unique_by=lambda one: one.id), st.randoms())
def test_the_fingerprint_is_that_of_the_items_and_not_of_their_order(some, random):
    before = line.fingerprint(some)
    shuffled = list(some)
    random.shuffle(shuffled)
    assert line.fingerprint(shuffled) == before
    assert line.fingerprint(line.parse_all(line.write_all(some))) == before


@settings(max_examples=15)
@given(items, texts)
def test_the_fingerprint_is_the_same_whoever_reviewed_an_item_and_another_one_for_another_question(item, text):
    assert line.fingerprint([replace(item, reviewer=text)]) == line.fingerprint([replace(item, reviewer="")])
    assert line.fingerprint([replace(item, question=f"{item.question}{text}")]) != line.fingerprint([item])


@given(st.text() | st.binary().map(lambda one: one.decode(errors="replace")))
def test_any_text_is_items_or_a_wrong_line(text):
    # Any other exception fails the test.
    with contextlib.suppress(line.WrongLine):
        line.parse_all(text)


def test_defaults_are_not_written():
    assert line.write(line.parse(LEAST)) == LEAST


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"question": ""}, "question"),
        ({"language": "fr"}, "language"),
        ({"stratum": "hard"}, "stratum"),
        ({"split": "train"}, "split"),
        ({"id": "a b"}, "id"),
        ({"colour": "red"}, "colour"),
        ({"calls": [{"tool": "x", "argument": {}}]}, "calls.0.argument"),
        ({"calls": [{"tool": "x", "arguments": {"n": {"any_off": [1]}}}]}, "calls.0"),
        ({"calls": [{"tool": "x", "group": -1}]}, "calls.0.group"),
        ({"contains": ["words"]}, "contains.0"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(changed, place):
    wrong = json.dumps(json.loads(LEAST) | changed)
    with pytest.raises(line.WrongLine) as raised:
        line.parse_all(f"{LEAST}\n\n{wrong}\n")
    assert (raised.value.line, raised.value.field) == (3, place)
    assert str(raised.value).startswith(f"line 3: {place}: ")


def test_the_expectation_that_means_nothing_is_named():
    wrong = json.dumps(json.loads(LEAST) | {"calls": [{"tool": "x", "arguments": {"n": {"from": 1}}}]})
    with pytest.raises(line.WrongLine, match="argument `n`: an object with from means nothing"):
        line.parse(wrong)


@pytest.mark.parametrize("text", ["{", "[]", "null", '"text"', "{}", "[" * 100_000, '{"id": ' + "9" * 5_000 + "}"])
def test_what_is_no_object_is_a_wrong_line(text):
    with pytest.raises(line.WrongLine, match="line 1: "):
        line.parse(text)


def test_an_id_comes_once_in_a_set():
    with pytest.raises(line.WrongLine, match="line 2: id: `a-1` is on line 1 already"):
        line.parse_all(f"{LEAST}\n{LEAST}\n")


def test_a_line_separator_within_a_text_does_not_end_a_line():
    item = Item("a", "one\u2028two\x85three", "en", Stratum.SINGLE_HOP)
    assert line.parse_all(line.write_all([item])) == [item]


def test_the_schema_in_the_folder_is_the_one_that_lines_are_checked_by():
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == line.schema()
