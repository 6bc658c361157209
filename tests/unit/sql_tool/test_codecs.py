"""PostgreSQL's text form of values is read and written without loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sql_tool.codecs import Cut, PgType, decoder, encode, read_array, read_types, write_array

INT4, TEXT = PgType(23, "int4", "pg_catalog"), PgType(25, "text", "pg_catalog")
ELEMENTS = st.none() | st.text(max_size=8)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("t", "bool", True),
        ("f", "bool", False),
        ("9007199254740993", "int8", 9007199254740993),
        ("1.50", "numeric", "1.50"),
        ("-Infinity", "float8", float("-inf")),
        ("\\x00ff", "bytea", b"\x00\xff"),
        ("0044-03-15 BC", "date", "0044-03-15 BC"),
        ("[1,5)", "int4range", "[1,5)"),
    ],
)
def test_a_value_becomes_what_it_is(text, name, value):
    assert decoder(PgType(1, name, "pg_catalog"))(text) == value


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("{}", []),
        ("{1,NULL,3}", ["1", None, "3"]),
        ('{"NULL",""}', ["NULL", ""]),
        ('{"a\\"b","c\\\\d","{,}"}', ['a"b', "c\\d", "{,}"]),
        ("{{1,2},{3,4}}", [["1", "2"], ["3", "4"]]),
        ("[0:1]={a,b}", ["a", "b"]),
        ('{"line\nbreak"}', ["line\nbreak"]),
    ],
)
def test_arrays_are_read_as_postgresql_writes_them(text, elements):
    assert read_array(text, str) == elements


def test_arrays_of_boxes_have_a_delimiter_of_their_own():
    assert read_array("{(1,1),(0,0);(2,2),(0,0)}", str, ";") == ["(1,1),(0,0)", "(2,2),(0,0)"]


@given(st.lists(ELEMENTS, max_size=5) | st.lists(st.lists(ELEMENTS, min_size=2, max_size=2), min_size=1, max_size=3))
def test_what_is_written_is_read_again(values):
    assert read_array(write_array(values), str) == values


def test_parameters_are_written_as_postgresql_reads_them():
    assert [encode(value) for value in (True, False, 5, 1.5, "x", [1, None, [True]])] == [
        "true", "false", "5", "1.5", "x", '{"1",NULL,{"true"}}',
    ]  # fmt: skip


def test_types_refer_to_one_another_and_to_those_known():
    rows = [
        {"oid": 101, "name": "_money_amount", "schema": "public", "delimiter": ",", "element": 100, "base": 0},
        {"oid": 100, "name": "money_amount", "schema": "public", "delimiter": ",", "element": 0, "base": 23},
    ]
    types = read_types(rows, {23: INT4})
    assert types[101].element == types[100]
    assert types[100].base == INT4
    assert decoder(types[101])("{1,2}") == [1, 2]


def test_a_type_of_the_tenant_is_text_whatever_its_name():
    assert decoder(PgType(7, "bool", "public"))("t") == "t"


def test_a_cut_value_is_not_read():
    assert decoder(INT4)("12\0") == Cut("12")
    assert decoder(PgType(1007, "_int4", "pg_catalog", ",", INT4))("{1,2\0") == Cut("{1,2")
    assert decoder(TEXT)("a\0") == Cut("a")
