"""Values through the SQL tool's driver, exact: PostgreSQL's own text form is the oracle."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.runtime.errors import SqlError
from services.sql_tool import cells, parameters
from services.sql_tool.cells import Cell, Kind, column_type
from services.sql_tool.codecs import PgType
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.database import Limits, PostgresDatabase
from services.sql_tool.guard import Approved
from tests.integration.sql_stack import connected, make_database, source_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOURCE = source_of({"things": ["id"]}, "values-dsn")
SCHEMA = """
    CREATE TABLE things (id int, name text);
    CREATE TYPE mood AS ENUM ('sad', 'so so', 'happy');
    CREATE DOMAIN price AS numeric CHECK (VALUE >= 0);
    CREATE DOMAIN prices AS price[];
    CREATE TYPE point3 AS (x int, y text, z numeric[]);
    CREATE TYPE floatrange AS RANGE (subtype = float8);
"""
LIMITS = Limits(timeout_seconds=5, max_rows=100, max_bytes=1_000_000, max_cost=1e6)


@pytest.fixture(scope="module")
def dsn(postgres_server):
    name = make_database(postgres_server, "sql_values", SCHEMA, ("values_reader", SOURCE))
    return postgres_server.dsn(name, "values_reader", "pass")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(dsn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("values")
    (folder / "values-dsn").write_text(dsn)
    connections = Connections(folder, Pooling(size=1))
    tool = PostgresDatabase(connections)
    yield tool, await tool.catalog("acme", SOURCE)
    await connections.close()


async def run(database, sql, *params):
    """The row's cells, without the guard, which does not know all these types."""
    tool, known = database
    values = parameters.parse(json.dumps(params))
    result = await tool.run(SOURCE, known, Approved(sql, (), len(params)), values, LIMITS)
    return result.rows[0] if result.rows else None


# Expressions whose text PostgreSQL's own cast to text must give.
AS_TEXT = (
    """
'1.50'::numeric|'NaN'::numeric|'-Infinity'::numeric|12345678901234567890.123456789012345678|1e-20::numeric|0.00::numeric
'$1,234.50'::money|'sad'::mood|'so so'::mood|row(1, null, 'a b', '')|row(1, row(2, 'x,"y'))
'(1,"a b","{1.50,NULL}")'::point3|int4range(1, 5)|'empty'::int4range|'(,)'::int8range|numrange(1.50, null, '[]')
tstzrange('2025-01-01', 'infinity')|daterange('2025-01-01', '2025-02-01')|'[1.5,2.25)'::floatrange|B'101'|B''::varbit
'192.168.0.1/24'::inet|'::1'::inet|'10.0.0.0/8'::cidr|'08:00:2b:01:02:03'::macaddr|'08:00:2b:01:02:03:04:05'::macaddr8
point(1.5, -2)|box '((1,2),(3,4))'|'{1,2,3}'::line|'[(0,0),(1,1)]'::lseg|'((0,0),(1,1))'::path|'[(0,0),(1,1)]'::path
polygon '((0,0),(1,1),(1,0))'|circle '<(0,0),1>'|to_tsvector('english', 'The quick brown foxes')|'quick & fox'::tsquery
'<a b="c">x</a>'::xml|'x'::"char"|'abc'::name|'abc '::char(5)|'1 2 3'::int2vector|'1 2'::oidvector
'$.a[*] ? (@ > 1)'::jsonpath|'16/B374D848'::pg_lsn|'10:20:10,14'::pg_snapshot|null::point3|row()
'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid|int4multirange(int4range(1, 3), int4range(5, 9))|'{}'::nummultirange
""".strip()
    .replace("\n", "|")
    .split("|")
)


@pytest.mark.parametrize("expression", AS_TEXT)
async def test_a_value_is_the_text_that_postgresql_makes_of_it(database, expression):
    # format() writes what the type's output function says; a cast to text adds and drops things for some types.
    try:
        plain, text = await run(database, f"SELECT {expression}, format('%s', {expression})")
    except SqlError as error:
        if "::xml" in expression and error.metadata["sqlstate"] == "0A000":
            pytest.skip("this PostgreSQL was built without XML")
        raise
    assert (plain.value or "") == text.value
    assert plain.kind in (Kind.TEXT, Kind.DECIMAL, Kind.NULL)


@pytest.mark.parametrize(
    ("expression", "cell"),
    [
        ("9223372036854775807", Cell(Kind.INTEGER, 2**63 - 1)),
        ("'-32768'::int2", Cell(Kind.INTEGER, -32768)),
        ("4294967295::oid", Cell(Kind.INTEGER, 4294967295)),
        ("false", Cell(Kind.BOOL, False)),
        ("'-0'::float8", Cell(Kind.REAL, -0.0)),
        ("1e-320::float8", Cell(Kind.REAL, 1e-320)),
        ("'\\x00ff'::bytea", Cell(Kind.BYTES, b"\x00\xff")),
        ("''::bytea", Cell(Kind.BYTES, b"")),
        ("date '4713-01-01 BC'", Cell(Kind.TIME, "4713-01-01 BC")),
        ("date '5874897-12-31'", Cell(Kind.TIME, "5874897-12-31")),
        ("'infinity'::timestamptz", Cell(Kind.TIME, "infinity")),
        ("timestamp '0044-03-15 12:00 BC'", Cell(Kind.TIME, "0044-03-15 12:00:00 BC")),
        ("timestamptz '2025-03-30 02:30+02'", Cell(Kind.TIME, "2025-03-30T00:30:00Z")),
        ("time '24:00'", Cell(Kind.TIME, "24:00:00")),
        ("timetz '12:00+05:30'", Cell(Kind.TIME, "12:00:00+05:30")),
        ("interval '1 year 2 mons -3 days 04:05:06.5'", Cell(Kind.TIME, "P1Y2M-3DT4H5M6.5S")),
        ("interval '0'", Cell(Kind.TIME, "PT0S")),
        ("""'{"a":1,"a":2,"n":1.10000000000000000001}'::json""",
         Cell(Kind.JSON, '{"a":1,"a":2,"n":1.10000000000000000001}')),
        ("""'{"n": 123456789012345678901234567890.5}'::jsonb""",
         Cell(Kind.JSON, '{"n": 123456789012345678901234567890.5}')),
        ("array[1, null, 3]", Cell(Kind.JSON, "[1,null,3]")),
        ("'{}'::int[]", Cell(Kind.JSON, "[]")),
        ("'[5:6]={1,2}'::int[]", Cell(Kind.JSON, "[1,2]")),
        ("array[[1, null], [3, 4]]", Cell(Kind.JSON, "[[1,null],[3,4]]")),
        ("array['', 'NULL', null, 'a\"b\\c', '{x}', ' ']", Cell(Kind.JSON, '["","NULL",null,"a\\"b\\\\c","{x}"," "]')),
        ("array[''::varbit, B'1']", Cell(Kind.JSON, '["","1"]')),
        ("array[date 'infinity', date '0044-03-15 BC']", Cell(Kind.JSON, '["infinity","0044-03-15 BC"]')),
        ("array[1.50, 'NaN']::numeric[]", Cell(Kind.JSON, '["1.50","NaN"]')),
        ("array[true, false]", Cell(Kind.JSON, "[true,false]")),
        ("array['NaN', 'Infinity', 1.5]::float8[]", Cell(Kind.JSON, '["NaN","Infinity",1.5]')),
        ("array['\\x00ff'::bytea]", Cell(Kind.JSON, '["\\\\x00ff"]')),
        ("""array['{"a": 1.10}'::jsonb]""", Cell(Kind.JSON, '[{"a": 1.10}]')),
        ("array['happy', null]::mood[]", Cell(Kind.JSON, '["happy",null]')),
        ("array[box '((1,2),(3,4))', box '((5,6),(7,8))']", Cell(Kind.JSON, '["(3,4),(1,2)","(7,8),(5,6)"]')),
        ("array[int4range(1, 2)]", Cell(Kind.JSON, '["[1,2)"]')),
        ("array[row(1, 'a b')::things]", Cell(Kind.JSON, '["(1,\\"a b\\")"]')),
        ("12.5::price", Cell(Kind.DECIMAL, "12.5")),
        ("array[12.5]::price[]", Cell(Kind.JSON, '["12.5"]')),
        ("array[12.5]::prices", Cell(Kind.JSON, '["12.5"]')),
        ("'x'::unknown", Cell(Kind.TEXT, "x")),
    ],
)  # fmt: skip
async def test_a_value_keeps_its_kind(database, expression, cell):
    (found,) = await run(database, f"SELECT {expression}")
    assert found == cell
    assert str(found.value) == str(cell.value)  # -0.0 equals 0.0


async def test_types_of_extensions_are_text(database, dsn, postgres_server):
    async with connected(postgres_server.dsn("sql_values")) as admin:
        known = {row[0] for row in await admin.fetch("SELECT name FROM pg_available_extensions")}
        wanted = {"vector": "'[1,2.5]'::vector", "hstore": "'a=>1'::hstore", "citext": "'Ab'::citext"}
        for extension in wanted.keys() & known:
            await admin.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
    expected = {"vector": "[1,2.5]", "hstore": '"a"=>"1"', "citext": "Ab"}
    for extension in wanted.keys() & known:
        one, several = await run(database, f"SELECT {wanted[extension]}, ARRAY[{wanted[extension]}, NULL]")
        assert one == Cell(Kind.TEXT, expected[extension])
        assert several == Cell(Kind.JSON, json.dumps([expected[extension], None], separators=(",", ":")))
    if "citext" in known:
        (empty,) = await run(database, "SELECT ARRAY[''::citext]")
        assert empty == Cell(Kind.JSON, '[""]')


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
DATES = st.dates().map(date.isoformat)
TIMES = st.datetimes(timezones=st.just(UTC)).map(lambda time: time.isoformat().replace("+00:00", "Z"))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False).filter(lambda n: abs(n.adjusted()) < 100).map(str)
# Text that looks like JSON is refused as a jsonb: it would be taken for a string.
SCALARS = st.booleans() | st.integers(-(2**70), 2**70) | TEXTS.filter(lambda text: text.strip()[:1] not in ("{", "["))
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=5
)
BY_TYPE = {
    "int8": (st.integers(-(2**63), 2**63 - 1), lambda sent, cell: cell == Cell(Kind.INTEGER, sent)),
    "int2": (st.integers(-(2**15), 2**15 - 1), lambda sent, cell: cell == Cell(Kind.INTEGER, sent)),
    "bool": (st.booleans(), lambda sent, cell: cell == Cell(Kind.BOOL, sent)),
    "text": (TEXTS, lambda sent, cell: cell == Cell(Kind.TEXT, sent)),
    "float8": (st.floats(allow_nan=False, allow_infinity=False), lambda sent, cell: cell == Cell(Kind.REAL, sent)),
    "numeric": (DECIMALS, lambda sent, cell: Decimal(cell.value) == Decimal(sent)),
    "date": (DATES, lambda sent, cell: cell == Cell(Kind.TIME, sent)),
    "timestamptz": (TIMES, lambda sent, cell: same_time(cell.value, sent)),
    "uuid": (st.uuids().map(str), lambda sent, cell: cell == Cell(Kind.TEXT, sent)),
    "text[]": (st.lists(st.none() | TEXTS, max_size=4), lambda sent, cell: json.loads(cell.value) == sent),
    "int8[]": (st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4),
               lambda sent, cell: json.loads(cell.value) == sent),
    "date[]": (st.lists(st.none() | DATES, max_size=3), lambda sent, cell: json.loads(cell.value) == sent),
    "jsonb": (JSON, lambda sent, cell: json.loads(cell.value) == sent),
}  # fmt: skip


def same_time(text, sent):
    return datetime.fromisoformat(text) == datetime.fromisoformat(sent)


@pytest.mark.parametrize("kind", BY_TYPE)
async def test_what_is_sent_comes_back_as_it_was(database, kind):
    strategy, same = BY_TYPE[kind]
    sent = []

    @given(st.lists(strategy, min_size=8, max_size=8))
    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def collect(values):
        sent.append(values)

    collect()
    for values in sent:
        columns = ", ".join(f"${at + 1}::{kind}" for at in range(len(values)))
        texts = ", ".join(f"(${at + 1}::{kind})::text" for at in range(len(values)))
        row = await run(database, f"SELECT {columns}, {texts}", *values)
        for value, cell, text in zip(values, row, row[len(values) :], strict=False):
            assert same(value, cell), (value, cell)
            assert agrees(cell, text.value, kind), (cell, text)


def agrees(cell, text, kind):
    """Whether the cell says what PostgreSQL's own text says."""
    match cell.kind:
        case Kind.BOOL:
            return text == str(cell.value).lower()
        case Kind.REAL:
            return float(text) == cell.value
        case Kind.TIME if kind == "timestamptz":
            return cell.value == text.replace(" ", "T").removesuffix("+00") + "Z"
        case Kind.JSON if kind.endswith("[]"):
            return True
        case _:
            return str(cell.value) == text


async def test_values_over_the_whole_range_are_the_servers_own(database):
    """Dates, times, intervals and floats of every size; their text is the server's, with the signs of ISO 8601."""
    kinds = """
        date '4713-01-01 BC' + ($1::int * 18043), timestamp '0100-01-01 BC' + $1 * interval '61 days 1.000001 s',
        make_interval(months => $1 * 37, secs => $1 * 0.37), ($1 * 7919.7)::float8 ^ ($1 % 60 - 30)
    """
    for g in range(1, 120, 7):
        day, moment, span, number = await run(database, f"SELECT {kinds}", g)
        as_text = await run(database, "SELECT " + ", ".join(f"({one.strip()})::text" for one in split_top(kinds)), g)
        wanted = [cell.value for cell in as_text]
        moment_text = wanted[1] if wanted[1].endswith("BC") else wanted[1].replace(" ", "T")
        assert [day.value, moment.value, span.value, number.value] == [
            wanted[0], moment_text, wanted[2], float(wanted[3]),
        ]  # fmt: skip


def split_top(text):
    """Parts between commas that are in no bracket and no quotes."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


async def test_a_row_type_and_an_array_of_domains_have_their_names():
    numeric = PgType(1700, "numeric", "pg_catalog")
    price = PgType(90000, "price", "public", base=numeric)
    assert column_type(PgType(90001, "_price", "public", element=price)).sql_name == "numeric[]"
    assert column_type(PgType(90002, "things", "public")).kind is Kind.TEXT
    assert cells.cell("x", column_type(PgType(90003, "numeric", "public"))) == Cell(Kind.TEXT, "x")


@pytest.mark.parametrize("zone", [timedelta(hours=5, minutes=30), timedelta(hours=-3)])
async def test_moments_of_other_zones_are_the_same_moments(database, zone):
    sent = (datetime(2025, 6, 1, 12, tzinfo=UTC) + zone).isoformat().replace("+00:00", "")
    sign = "-" if zone < timedelta(0) else "+"
    hours, minutes = divmod(int(abs(zone).total_seconds() // 60), 60)
    (cell,) = await run(database, "SELECT $1::timestamptz", f"{sent}{sign}{hours:02d}:{minutes:02d}")
    assert cell == Cell(Kind.TIME, "2025-06-01T12:00:00Z")


async def test_many_statements_with_types_of_the_tenants_own_share_a_connection(database):
    for _ in range(3):
        first, second = await run(database, "SELECT 'sad'::mood, $1::mood", "happy")
        assert (first.value, second.value) == ("sad", "happy")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bytea", "\\x00ff"),
        ("varbit", "0101"),
        ("daterange", "[2025-01-01,2025-02-01)"),
        ("int4multirange", "{[1,3),[5,9)}"),
        ("cidr", "10.0.0.0/8"),
        ("macaddr", "08:00:2b:01:02:03"),
        ("point3", '(1,"a b",)'),
        ("text[]", [["a", None], ['"', "\\"]]),
        ("mood[]", ["sad", None]),
    ],
)
async def test_parameters_of_other_types_arrive_as_written(database, kind, value):
    plain, again = await run(database, f"SELECT $1::{kind}::text, $1::{kind}", value)
    if isinstance(value, list):
        assert json.loads(again.value) == value
    elif kind == "bytea":
        assert again == Cell(Kind.BYTES, b"\x00\xff")
    else:
        assert plain.value == value


async def test_types_that_are_younger_than_the_connection_are_learned(database, postgres_server):
    await run(database, "SELECT 1")
    async with connected(postgres_server.dsn("sql_values")) as admin:
        await admin.execute("CREATE TYPE young AS ENUM ('a'); CREATE TYPE younger AS (x young, y int[])")
    row = await run(database, "SELECT 'a'::young, ARRAY['a'::young], ('a', '{1,2}')::younger, $1::young", "a")
    assert [cell.value for cell in row] == ["a", '["a"]', '(a,"{1,2}")', "a"]
