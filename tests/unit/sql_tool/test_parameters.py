"""JSON parameters become values of the server's types, or an error that names the parameter."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.errors import InvalidField
from services.sql_tool.parameters import ParameterType, check_count, coerce, parse


def one(value, name, array=False):
    return coerce(parse(json.dumps([value])), [ParameterType(name, array)])[0]


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (2025, "int4", 2025),
        (-(2**63), "int8", -(2**63)),
        (1, "float8", 1.0),
        ("NaN", "numeric", "NaN"),
        ("12.50", "numeric", "12.50"),
        (7, "numeric", "7"),
        (True, "bool", True),
        ("EU", "text", "EU"),
        ("2025-02-28", "date", "2025-02-28"),
        ("infinity", "date", "infinity"),
        ("2025-02-28T10:00:00Z", "timestamptz", "2025-02-28T10:00:00Z"),
        ("2025-02-28 10:00", "timestamp", "2025-02-28 10:00"),
        ("P1M", "interval", "P1M"),
        ("30 days", "interval", "30 days"),
        ("24:00", "time", "24:00"),
        ("24:00:00", "time", "24:00:00"),
        ("$.a", "jsonpath", "$.a"),
        ("🚀\\u0000", "jsonb", '"\\ud83d\\ude80\\\\u0000"'),
        ({"a": [1, None]}, "jsonb", '{"a":[1,null]}'),
        ("plain", "jsonb", '"plain"'),
        ("6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        (None, "int4", None),
        ("\\x00ff", "bytea", "\\x00ff"),
        ("10.0.0.0/8", "cidr", "10.0.0.0/8"),
        ("0101", "varbit", "0101"),
        ("[2025-01-01,)", "daterange", "[2025-01-01,)"),
        ("{[1,2),[5,6)}", "int4multirange", "{[1,2),[5,6)}"),
        ("Infinity", "float8", float("inf")),
    ],
)
def test_a_value_is_taken_for_what_it_is(value, name, expected):
    assert one(value, name) == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("2025", "int4"),
        (True, "int4"),
        (2025.0, "int4"),
        (2**31, "int4"),
        (2**15, "int2"),
        (1, "bool"),
        (5, "text"),
        (True, "numeric"),
        ("12,50", "numeric"),
        ("1e99999", "numeric"),
        ("2025-02-30", "date"),
        ("01/02/2025", "date"),
        ("20250228", "date"),
        ("2025-02-28T10:00:00Z", "timestamp"),
        ("yesterday", "timestamptz"),
        ("10:00:00+01", "time"),
        ("'; DROP", "interval"),
        ('{"a": 1}', "jsonb"),
        ("x", "uuid"),
        ([1, 2], "int4"),
        ("a\0b", "text"),
        ("00ff", "bytea"),
        ("\\x0", "bytea"),
        ("10.0.0.1/8", "cidr"),
        ("012", "bit"),
        ("1,5", "int4range"),
        ("1e400", "float8"),
        ("2023-W01-1", "timestamp"),
        ("2023-01-01_10:00:00", "timestamp"),
        ({"a": "b\0c"}, "jsonb"),
        ({"a": "\ud800"}, "jsonb"),
        (json.loads("[" * 600 + "]" * 600), "jsonb"),
    ],
)
def test_a_value_of_another_type_is_refused(value, name):
    with pytest.raises(InvalidField) as caught:
        one(value, name)
    assert caught.value.metadata["field"] == "params[0]"


def test_arrays_are_checked_item_by_item():
    assert one(["a", None], "text", array=True) == ["a", None]
    assert one([[1, 2], [3, 4]], "int4", array=True) == [[1, 2], [3, 4]]
    assert one([[1], {"a": 2}], "jsonb", array=True) == ["[1]", '{"a":2}']
    for wrong in ("a", [[1], [2, 3]], [[1], 2]):
        with pytest.raises(InvalidField):
            one(wrong, "int4", array=True)
    with pytest.raises(InvalidField) as caught:
        one([1, "x"], "int4", array=True)
    assert caught.value.metadata["field"] == "params[0][1]"


def test_a_refusal_helps_to_repair_the_call():
    with pytest.raises(InvalidField, match=r"= ANY\(\$1\)"):
        one([1, 2], "int4")
    with pytest.raises(InvalidField, match=r"\$1::int"):
        one(1, "text")


def test_decimals_stay_exact():
    assert coerce(parse("[8300000.10, 0.1]"), [ParameterType("numeric"), ParameterType("jsonb")]) == [
        "8300000.10",
        "0.1",
    ]


@pytest.mark.parametrize("text", ["{}", "5", "[1", "[NaN]", '["\\ud800"', "[" * 100_000])
def test_what_is_no_json_array_is_refused(text):
    with pytest.raises(InvalidField) as caught:
        parse(text)
    assert caught.value.metadata["field"] == "params_json"


def test_nothing_means_no_parameters():
    assert parse("") == []


def test_the_number_of_values_must_fit():
    check_count([1], 1)
    with pytest.raises(InvalidField) as caught:
        check_count([1], 0)
    assert caught.value.metadata["field"] == "params"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = """
int2 int4 int8 float4 float8 numeric bool text date timestamp timestamptz time timetz interval uuid json jsonb inet
bytea cidr varbit daterange nummultirange macaddr
""".split()


@given(JSON, st.sampled_from(NAMES), st.booleans())
def test_any_json_is_taken_or_refused_by_name(value, name, array):
    try:
        one(value, name, array)
    except InvalidField as error:
        field = error.metadata["field"]
    else:
        field = "params"
    assert field.startswith("params")
