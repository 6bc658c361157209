import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.calling.shown_schema import shown
from services.sql_tool.verified_types import SCALARS

NUMBER = {
    "anyOf": [{"type": "number", "minimum": 0}, SCALARS["numeric"].schema["anyOf"][1]],
    "description": "EUR",
}
MIXED = {"anyOf": [{"type": "number"}, {"type": "string", "minLength": 1}]}


@pytest.mark.parametrize(
    ("whole", "read"),
    [
        ({"type": "string", "minLength": 1, "maxLength": 9}, {"type": "string"}),
        (NUMBER, {"type": "number", "minimum": 0, "description": "EUR"}),
        # Any text, or one of several kinds: a number is not all that it may be.
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        (MIXED, {"anyOf": [{"type": "number"}, {"type": "string"}]}),
        # A pattern may be all that says how a value is written.
        (SCALARS["timestamp"].schema, SCALARS["timestamp"].schema),
        ({"type": "array", "items": NUMBER, "maxItems": 3}, None),
        # Arguments may be called as a keyword is.
        ({"properties": {"minLength": {"minLength": 1}, "x": {}}}, {"properties": {"minLength": {}, "x": {}}}),
        # What is no schema stays as it is.
        ({"enum": [{"pattern": 1}], "default": {"pattern": 1}, "additionalProperties": False}, None),
        ({"anyOf": True, "items": [1], "properties": None}, None),
    ],
)
def test_a_model_reads_no_bounds_that_only_a_check_needs(whole, read):
    if read is None:
        read = {key: value for key, value in whole.items() if key != "maxItems"}
        if "maxItems" in whole:
            read["items"] = shown(NUMBER)
    assert shown(whole) == read


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "anyOf", "pattern", "minLength", "x", "not", "allOf"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "items", "maxLength"]), JSON, max_size=4))
def test_whatever_a_foreign_tool_sends_is_read(schema):
    once = shown(schema)
    assert shown(once) == once
