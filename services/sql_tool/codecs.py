"""Reads and writes values in PostgreSQL's own text form, which loses nothing: no float, no calendar of ours in between.

The driver's binary forms cannot say infinity, years BC or `1 mon`, and its reader of arrays in text form breaks on
empty elements; so every type is exchanged as text, and read here.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from services.sql_tool.meter import CUT_MARK

# Types by number. `element` is 0 unless the type is an array; vectors such as int2vector are written otherwise.
TYPES = """
    SELECT t.oid::int8 AS oid, t.typname::text AS name, n.nspname::text AS schema, t.typdelim::text AS delimiter,
           CASE WHEN t.typinput = 'pg_catalog.array_in'::regproc THEN t.typelem::int8 ELSE 0::int8 END AS element,
           CASE WHEN t.typtype = 'd' THEN t.typbasetype::int8 ELSE 0::int8 END AS base
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
"""
# Numbers below this are the same in every database of a version.
BUILT_IN = "n.nspname = 'pg_catalog' AND t.oid < 10000"
# The tenant's own and those of extensions, but for rows of tables that the role may not read.
OWN = """
    n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%'
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_type e JOIN pg_catalog.pg_class c ON c.oid = e.typrelid AND c.relkind <> 'c'
        WHERE e.oid IN (t.oid, t.typelem) AND NOT pg_catalog.has_any_column_privilege(c.oid, 'SELECT'))
"""


@dataclass(frozen=True)
class Cut:
    """The beginning of a value that was too large."""

    text: str


@dataclass(frozen=True)
class PgType:
    """A type of the server. Of an array, `element` is the type of its elements; of a domain, `base` the type below."""

    oid: int
    name: str
    schema: str
    delimiter: str = ","
    element: "PgType | None" = None
    base: "PgType | None" = None

    @property
    def foreign(self) -> bool:
        """Whether it is the tenant's own or an extension's."""
        return self.schema != "pg_catalog"


def read_types(rows: Iterable[Mapping[str, Any]], known: Mapping[int, PgType]) -> dict[int, PgType]:
    """The types of rows of TYPES. What they refer to is among the rows or in `known`."""
    by_oid = {int(row["oid"]): row for row in rows}
    made: dict[int, PgType] = {}

    def make(oid: int) -> PgType | None:
        if oid in known:
            return known[oid]
        if oid not in made and oid in by_oid:
            row = by_oid[oid]
            made[oid] = PgType(
                oid, row["name"], row["schema"], row["delimiter"], make(int(row["element"])), make(int(row["base"]))
            )
        return made.get(oid)

    for oid in by_oid:
        make(oid)
    return made


def decoder(kind: PgType) -> Callable[[str], object]:
    """Reads the text form: bool, int, float, bytes, list; str for all others; Cut for a value that was cut."""
    read = _reader(kind)

    def decode(text: str) -> object:
        return Cut(text[:-1]) if text.endswith(CUT_MARK) else read(text)

    return decode


def encode(value: object) -> str:
    """The text form of a parameter: str is taken as it is, list becomes an array."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return write_array(cast(list[object], value))
    return str(value)


def write_array(values: Iterable[object]) -> str:
    """Text form of an array; lists within are further dimensions."""
    return "{" + ",".join(_written(value) for value in values) + "}"


def _written(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return write_array(cast(list[object], value))
    return '"' + encode(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def read_array(text: str, read: Callable[[str], object], delimiter: str = ",") -> list[object]:
    """The elements of an array's text form, nested as its dimensions are. Lower bounds are left out."""
    if text.startswith("["):
        text = text[text.index("=") + 1 :]
    outermost: list[object] = []
    open_lists = [outermost]
    for token in _tokens(delimiter).findall(text):
        if token == "{":
            inner: list[object] = []
            open_lists[-1].append(inner)
            open_lists.append(inner)
        elif token == "}":
            open_lists.pop()
        elif token[0] == '"':
            open_lists[-1].append(read(_ESCAPED.sub(r"\1", token[1:-1])))
        elif token != delimiter:
            open_lists[-1].append(None if token == "NULL" else read(token))
    return cast(list[object], outermost[0])


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@lru_cache
def _tokens(delimiter: str) -> re.Pattern[str]:
    end = re.escape(delimiter)
    return re.compile(rf'"(?:[^"\\]|\\.)*"|[{{}}{end}]|[^"{{}}{end}]+', re.DOTALL)


def _reader(kind: PgType) -> Callable[[str], object]:
    if kind.element is not None:
        element, delimiter = _reader(kind.element), kind.delimiter
        return lambda text: read_array(text, element, delimiter)
    if kind.base is not None:
        return _reader(kind.base)
    return str if kind.foreign else _READERS.get(kind.name, str)


def _read_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


_READERS: dict[str, Callable[[str], object]] = {
    "bool": lambda text: text == "t",
    **dict.fromkeys(("int2", "int4", "int8", "oid"), int),
    **dict.fromkeys(("float4", "float8"), float),
    "bytea": _read_bytes,
}
