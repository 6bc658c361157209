"""Arguments of verified queries: strict types, synonyms in two languages, bounds; and the JSON Schema for the model."""

import json
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.errors import InvalidField, ServiceError
from services.runtime.tenants import SqlSource, VerifiedQuery
from services.sql_tool import verified
from services.sql_tool.hints import folded
from services.sql_tool.verified_types import SCALARS


def query(parameters, **fields):
    made = {"description": "d", "sql": "SELECT 1", "owner": "finance", "reviewed_on": "2025-01-01"}
    return VerifiedQuery.model_validate(made | {"parameters": parameters} | fields)


STATUS = {
    "type": "text",
    "description": "State of the contract.",
    "values": {"active": ["vigente", "en vigor", "in force"], "ended": ["terminado", "Finalización"], "draft": []},
}
CONTRACTS = query(
    {
        "status": STATUS,
        "since": {"type": "date", "minimum": date(2015, 1, 1), "maximum": "2035-12-31"},
        "least": {"type": "numeric", "description": "Least amount in EUR", "minimum": 0, "default": 0.1},
        "years": {"type": "integer[]", "default": [2024, 2025]},
    }
)


def resolved(made, **arguments):
    return verified.resolve(made, json.dumps(arguments))


def refused(made, arguments_json):
    with pytest.raises(InvalidField) as caught:
        verified.resolve(made, arguments_json if isinstance(arguments_json, str) else json.dumps(arguments_json))
    return caught.value


def test_the_schema_says_types_values_synonyms_bounds_and_defaults():
    assert verified.parameters_schema(CONTRACTS) == {
        "type": "object",
        "properties": {
            "status": {
                "type": "string",
                "enum": ["active", "ended", "draft"],
                "description": "State of the contract. Values: active (vigente, en vigor, in force); "
                "ended (terminado, Finalización); draft.",
            },
            "since": {"type": "string", "format": "date", "description": "Permitted from 2015-01-01 to 2035-12-31."},
            "least": {
                "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^[+-]?\d+(\.\d+)?$"}],
                "description": "Least amount in EUR. Permitted from 0 on.",
                "default": "0.1",
            },
            "years": {"type": "array", "items": {"type": "integer"}, "maxItems": 1000, "default": [2024, 2025]},
        },
        "required": ["status", "since"],
        "additionalProperties": False,
    }


def test_values_come_in_the_order_of_the_file_with_defaults():
    assert resolved(CONTRACTS, since="2025-01-01", status="ended") == [
        "ended",
        "2025-01-01",
        Decimal("0.1"),
        [2024, 2025],
    ]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("active", "active"),
        ("ACTIVE", "active"),
        ("Vigente", "active"),
        ("En  Vigor.", "active"),
        ("in force", "active"),
        ("finalizacion", "ended"),
        ("FINALIZACIÓN", "ended"),
        ("Finalizacio\u0301n", "ended"),
    ],
)
def test_synonyms_match_without_regard_to_case_and_accents(said, meant):
    assert resolved(CONTRACTS, status=said, since="2025-01-01")[0] == meant


@given(st.sampled_from(["active", "vigente", "en vigor", "terminado", "Finalización"]), st.data())
def test_any_spelling_of_a_synonym_is_understood(name, data):
    spelt = "".join(data.draw(st.sampled_from([char.upper(), char.lower()])) for char in name)
    value = resolved(CONTRACTS, status=spelt, since="2025-01-01")[0]
    assert folded(spelt) in {folded(one) for one in (value, *STATUS["values"][value])}


def test_a_wrong_value_names_the_permitted_ones_and_the_nearest():
    error = refused(CONTRACTS, {"status": "vigentes", "since": "2025-01-01"})
    assert error.message == "`status` must be one of active, ended, draft (did you mean `vigente`?)."
    assert error.metadata["field"] == "arguments.status"


def test_unknown_and_missing_arguments_are_named():
    unknown = refused(CONTRACTS, {"estatus": "active", "since": "2025-01-01"})
    assert unknown.metadata["field"] == "arguments.estatus"
    assert "did you mean `status`?" in unknown.message
    assert "status, since, least, years" in unknown.message
    missing = refused(CONTRACTS, {"since": "2025-01-01"})
    assert missing.message == "`status` is missing (State of the contract)."
    assert missing.metadata["field"] == "arguments.status"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("integer", [0, -5, 2**63 - 1], [True, "5", 5.5, 2023.0, 2**63, [1], {}]),
        ("numeric", [1, 1.5, "12.50", "-3"], [True, "1e5", "NaN", "Infinity", "", "1,5", [1]]),
        ("boolean", [True, False], [1, 0, "true", "sí"]),
        ("date", ["2025-02-28"], ["2025-02-30", "28/02/2025", "2025-2-1", "2025-01-01T00:00:00", 20250101, "today"]),
        (
            "timestamp",
            ["2025-02-28", "2025-02-28T10:00", "2025-02-28 10:00:00.5"],
            ["2025-02-28T10:00:00Z", "2025-02-28T10:00:00+01:00", "10:00", 5],
        ),
        ("text", ["", "ñandú", "'; DROP TABLE x"], [5, True, "a\0b", "x" * 2001, ["x"]]),
        ("text[]", [[], ["a"]], ["a", [5], [["a"]], ["a"] * 1001]),
        ("integer[]", [[1, 2]], [1, [True], ["1"], [1.5]]),
        ("date[]", [["2025-01-01"]], [["x"], "2025-01-01"]),
    ],
)
def test_types_are_strict(kind, good, bad):
    made = query({"x": {"type": kind}})
    for value in good:
        assert len(verified.resolve(made, json.dumps({"x": value}))) == 1
    for value in bad:
        assert refused(made, {"x": value}).metadata["field"] == "arguments.x"


def test_decimals_keep_their_digits():
    made = query({"x": {"type": "numeric"}})
    (value,) = verified.resolve(made, '{"x": 12345678901234567890.123456789}')
    assert verified.params_json([value]) == '["12345678901234567890.123456789"]'


def test_bounds_hold_for_numbers_days_and_items_of_arrays():
    amounts = query({"x": {"type": "numeric", "minimum": 0.5, "maximum": 10}})
    assert resolved(amounts, x=0.5) == [Decimal("0.5")]
    assert refused(amounts, {"x": 0.49}).message == (
        '`x` must be a number or a decimal string such as "12.50" from 0.5 to 10.'
    )
    refused(amounts, {"x": "10.01"})
    days = query({"x": {"type": "date[]", "minimum": date(2020, 1, 1)}})
    assert resolved(days, x=["2020-01-01"]) == [["2020-01-01"]]
    assert "from 2020-01-01 on" in refused(days, {"x": ["2020-01-01", "2019-12-31"]}).message


def test_values_of_an_enumeration_of_numbers_are_numbers():
    quarters = query({"q": {"type": "integer", "values": {"1": ["first", "primer trimestre"], "2": ["second"]}}})
    assert verified.parameters_schema(quarters)["properties"]["q"]["enum"] == [1, 2]
    assert resolved(quarters, q=1) == [1]
    assert resolved(quarters, q="Primer Trimestre") == [1]
    refused(quarters, {"q": 3})
    refused(quarters, {"q": True})


def test_null_stands_for_an_argument_that_is_left_out():
    assert resolved(CONTRACTS, status="draft", since="2025-01-01", least=None)[2] == Decimal("0.1")
    assert "missing" in refused(CONTRACTS, {"status": None, "since": "2025-01-01"}).message


@pytest.mark.parametrize(
    "text", ["[]", "5", "{", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 5000, '{"x": "' + "y" * 70_000 + '"}']
)
def test_what_is_no_json_object_is_refused(text):
    assert refused(query({}), text).metadata["field"] == "arguments_json"


@given(st.text() | st.dictionaries(st.text(), st.none() | st.booleans() | st.floats() | st.text()).map(json.dumps))
def test_any_text_gives_values_or_our_own_error(text):
    try:
        values = verified.resolve(CONTRACTS, text)
    except ServiceError:
        return
    assert len(values) == len(CONTRACTS.parameters)


@pytest.mark.parametrize(
    ("parameters", "examples", "said"),
    [
        ({"x": {"type": "text", "values": {"a": ["same"], "b": ["Sáme"]}}}, [], "`same` stands for several"),
        ({"x": {"type": "boolean", "values": {"true": []}}}, [], "need no `values`"),
        ({"x": {"type": "integer", "values": {"one": []}}}, [], "an integer in each of `values`"),
        ({"x": {"type": "text", "minimum": 1}}, [], "to have bounds"),
        ({"x": {"type": "date", "minimum": "soon"}}, [], "bounded by a date"),
        ({"x": {"type": "integer", "minimum": 5, "maximum": 4}}, [], "`minimum` is above `maximum`"),
        ({"x": {"type": "integer", "default": "5"}}, [], "an integer"),
        ({"x": {"type": "integer"}}, [{"question": "How?", "arguments": {"x": "5"}}], "example `How?`: `x` must be"),
        ({"x": {"type": "integer"}}, [{"question": "How?"}], "example `How?`: `x` is missing"),
        ({"x": {"type": "integer", "default": 5}}, [{"question": "How?"}], ""),
    ],
)
def test_a_definition_that_contradicts_itself_is_told(parameters, examples, said):
    defect = verified.definition_defect(query(parameters, examples=examples))
    assert said in defect
    assert bool(defect) == bool(said)


def test_every_type_has_a_typical_value_that_it_takes():
    for kind in SCALARS.values():
        assert kind.read(kind.probe) == kind.probe


def test_the_version_changes_with_the_statement_and_the_parameters():
    source = SqlSource.model_validate({"dsn_secret": "x", "tables": {"t": {"columns": {"a": {}}}}})
    versions = {
        verified.version(source, made, None, ["public.t"])
        for made in (CONTRACTS, query({}), query({}, sql="SELECT 2"), query({"x": {"type": "date"}}))
    }
    assert len(versions) == 4
    assert verified.version(source, query({}, owner="other"), None, []) == verified.version(source, query({}), None, [])
