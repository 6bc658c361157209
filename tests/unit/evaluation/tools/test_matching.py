"""Arguments: what is the same, and what only looks so."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.evaluation.answered import Call
from services.evaluation.golden.item import ExpectedCall
from services.evaluation.tools import expectation
from services.evaluation.tools.expectation import WrongExpectation
from services.evaluation.tools.matching import arguments, matches, normalised

scalars = st.booleans() | st.integers(-(10**12), 10**12) | st.floats(-1e9, 1e9) | st.text(max_size=20)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
ENUM = {"type": "string", "enum": ["EU", "UK"]}


@given(values)
def test_every_value_is_the_one_that_is_expected_of_itself(value):
    assert matches(value, value)
    assert matches({"any_of": [value]}, value)
    assert matches({"optional": value}, value)
    assert matches({"equals": value}, value)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4))
def test_every_object_equals_itself(value):
    assert matches({"equals": value}, value)
    assert matches({"fields": value}, value)


@given(values, values)
def test_a_value_with_another_type_is_another_value(left, right):
    kinds = {bool: "bool", int: "number", float: "number", str: "text", list: "list"}
    if kinds[type(left)] != kinds[type(right)]:
        assert not matches(left, right)


@given(st.lists(st.integers(), max_size=6, unique=True), st.randoms())
def test_the_order_counts_unless_it_is_said_not_to(some, random):
    shuffled = list(some)
    random.shuffle(shuffled)
    assert matches({"unordered": some}, shuffled)
    assert matches(some, shuffled) == (some == shuffled)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        # Free text: case, accents, spaces, punctuation at the ends.
        ("Penalización por retraso", "penalizacion  por retraso."),
        ("late delivery", "Late Delivery"),
        ("¿Qué plazo hay?", "Que plazo hay"),
        # Numbers by value.
        (5, 5.0),
        (0.1 + 0.2, 0.3),
        (100000, 1e5),
        # Dates by their day.
        ("2025-01-01", "2025-01-01T00:00:00"),
        ("2025-01-01T10:00:00Z", "2025-01-01T11:00:00+01:00"),
        # Codes as they are.
        ("CT-2025-0001", "CT-2025-0001"),
        ({"at_least": 1, "at_most": 5}, 5),
        ({"at_least": "2025-01-01"}, "2025-03-04"),
        ({"contains": ["penalty", ["delay", "late"]]}, "What is the penalty for LATE delivery?"),
        ({"contains": ["hotel", "payment term"]}, "precios de hoteles; payment terms"),
        ({"contains": ["CT-2025-0001"]}, "contract ct-2025-0001?"),
        ({"any_of": ["EU", "UE"]}, "UE"),
        ({"unordered": ["EU", "UK"]}, ["UK", "EU"]),
        ({"fields": {"min": [1, 2], "max": {"optional": 9}}}, {"min": [1, 2]}),
        ({"items": [{"any_of": [1, 2]}, "x"]}, [2, "x"]),
        ({"equals": "Type 2", "as": "enum"}, "type 2"),
        ({"equals": "1.5", "as": "text"}, "1.5."),
    ],
)
def test_these_are_the_same(expected, actual):
    expectation.check(expected)
    assert matches(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        # What the leaderboard's rule for texts takes for the same.
        ("ERR-4032", "err4032"),
        ("1.5", "15"),
        ("v2.10", "v21.0"),
        ("a/b", "ab"),
        ("CT-2025-0001", "ct-2025-0001"),
        ("CT-2025-0001", "CT-2025-0010"),
        ("2025-01-01", "2025-01-02"),
        ("2025-01-01", "01/01/2025"),
        ("2025-01-01", 20250101),
        (5, "5"),
        (1, True),
        (True, 1),
        (0, False),
        (5, 5.01),
        (2_000_000, 2_000_001),
        (10**12, 10**12 + 1),
        (0.5, 0.500001),
        (None, 0),
        (["EU", "UK"], ["UK", "EU"]),
        (["EU"], "EU"),
        ({"unordered": ["EU", "EU"]}, ["EU", "UK"]),
        ({"at_least": 1, "at_most": 5}, 6),
        ({"at_least": 1}, "3"),
        ({"at_least": 1}, True),
        ({"at_least": "2025-01-01"}, "2024-12-31"),
        ({"at_least": "2025-01-01"}, 2026),
        ({"contains": ["art"]}, "a party"),
        ({"contains": ["art"]}, "arts"),
        ({"contains": ["port"]}, "portable"),
        ({"contains": ["CT-2025-001"]}, "CT-2025-0010"),
        ({"contains": ["S1"]}, "S10"),
        ({"contains": ["penalty", "delay"]}, "the penalty"),
        ({"fields": {"min": 1}}, {"min": 1, "max": 2}),
        ({"fields": {"min": 1}}, {}),
        ({"items": [1]}, [1, 1]),
        ({"equals": {"a": 1}}, {"a": True}),
    ],
)
def test_these_are_not(expected, actual):
    expectation.check(expected)
    assert not matches(expected, actual)


def test_a_choice_of_the_schema_is_compared_without_case():
    assert matches("EU", "eu", ENUM)
    assert matches(["EU"], ["eu"], {"type": "array", "items": ENUM})
    assert not matches("A1", "a1", {"type": "string"})


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"any": [1]},
        {"any_of": 1},
        {"any_of": [{"from": 1}]},
        {"contains": []},
        {"contains": [1]},
        {"contains": "word"},
        {"sql": 1},
        {"sql": "SELECT 1", "params": 1},
        {"at_least": "soon"},
        {"at_least": 1, "at_most": "2025-01-01"},
        {"at_least": True},
        {"equals": 1, "as": "id"},
        {"equals": "1", "as": "colour"},
        {"fields": []},
        {"optional": {"x": 1}},
        [{"x": 1}],
    ],
)
def test_an_expectation_that_means_nothing_is_refused(expected):
    with pytest.raises(WrongExpectation):
        expectation.check(expected)


def test_a_missing_argument_is_wrong_unless_it_is_optional_and_a_null_is_missing():
    expected = ExpectedCall("t", {"a": 1, "b": {"optional": 2}, "c": {"optional": 3}})
    found = arguments(expected, Call("t", {"a": None, "c": 4}))
    assert found.verdicts == {"a": False, "b": True, "c": False}
    assert (found.right_count, found.judged_count, found.all_right) == (1, 3, False)
    assert arguments(ExpectedCall("t", {"a": {"any_of": [None, 1]}}), Call("t", {})).all_right is True


def test_an_argument_that_is_not_named_may_be_anything_unless_the_call_is_closed():
    call = Call("t", {"a": 1, "top_k": 8})
    assert arguments(ExpectedCall("t", {"a": 1}), call).all_right is True
    closed = arguments(ExpectedCall("t", {"a": 1}, closed=True), call)
    assert (closed.unexpected, closed.all_right, closed.judged_count) == (("top_k",), False, 2)


def test_a_statement_is_left_to_the_database():
    found = arguments(ExpectedCall("t", {"query": {"sql": "SELECT 1"}}), Call("t", {"query": "SELECT 1"}))
    assert (found.verdicts, found.all_right, found.judged_count) == ({"query": None}, None, 0)
    wrong = arguments(ExpectedCall("t", {"query": {"sql": "SELECT 1"}, "n": 1}), Call("t", {"query": "", "n": 2}))
    assert wrong.all_right is False


@example("\u2121 \u0130 \ufb03 \u1e9e")
@given(st.text(max_size=40))
def test_normalising_twice_changes_nothing(text):
    once = normalised(text)
    assert normalised(once) == once
