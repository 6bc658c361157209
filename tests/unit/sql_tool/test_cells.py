"""Driver values become exact cells."""

import pytest

from services.sql_tool.cells import Cell, ColumnType, Kind, cell


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, ColumnType("int4"), Cell(Kind.NULL)),
        (2**53 + 1, ColumnType("int8"), Cell(Kind.INTEGER, 2**53 + 1)),
        ("1.50", ColumnType("numeric"), Cell(Kind.DECIMAL, "1.50")),
        ("2025-01-02 03:04:05+00", ColumnType("timestamptz"), Cell(Kind.TIME, "2025-01-02T03:04:05Z")),
        ("0044-03-15 00:00:00 BC", ColumnType("timestamp"), Cell(Kind.TIME, "0044-03-15 00:00:00 BC")),
        ("infinity", ColumnType("date"), Cell(Kind.TIME, "infinity")),
        ([1, None, [2]], ColumnType("int4", array=True), Cell(Kind.JSON, "[1,null,[2]]")),
        ([float("nan"), float("-inf")], ColumnType("float8", array=True), Cell(Kind.JSON, '["NaN","-Infinity"]')),
        (['{"a": 1.10}'], ColumnType("jsonb", array=True), Cell(Kind.JSON, '[{"a": 1.10}]')),
        ([b"\x00"], ColumnType("bytea", array=True), Cell(Kind.JSON, '["\\\\x00"]')),
        ("a", ColumnType("citext"), Cell(Kind.TEXT, "a")),
    ],
)
def test_a_value_keeps_all_that_it_says(value, kind, expected):
    assert cell(value, kind) == expected


def test_sizes_are_bytes_of_utf8():
    assert Cell(Kind.TEXT, "ñ").size == 2


def test_types_have_their_sql_names():
    assert [ColumnType("int4").sql_name, ColumnType("bool", True).sql_name, ColumnType("date").sql_name] == [
        "integer", "boolean[]", "date",
    ]  # fmt: skip
