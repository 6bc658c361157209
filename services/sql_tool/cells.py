"""Values of a result, exact and by kind, independent of the wire format."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import cast

from services.sql_tool.codecs import Cut, PgType

_ELLIPSIS = "…"


class Kind(Enum):
    """Which of the contract's kinds a value has."""

    NULL = "null"
    BOOL = "bool"
    INTEGER = "integer"
    REAL = "real"
    DECIMAL = "decimal"
    TEXT = "text"
    JSON = "json"
    TIME = "time"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Cell:
    """One value: bool, int, float or bytes as such; decimal, text, JSON and times as text.

    `cut`: the value was too large and only its beginning is here.
    """

    kind: Kind
    value: bool | int | float | str | bytes | None = None
    cut: bool = False

    @property
    def size(self) -> int:
        """Bytes that count against the result's limit."""
        if isinstance(self.value, str):
            return len(self.value.encode())
        return len(self.value) if isinstance(self.value, bytes) else 8


_KINDS = {
    "bool": Kind.BOOL,
    "int2": Kind.INTEGER,
    "int4": Kind.INTEGER,
    "int8": Kind.INTEGER,
    "oid": Kind.INTEGER,
    "float4": Kind.REAL,
    "float8": Kind.REAL,
    "numeric": Kind.DECIMAL,
    "json": Kind.JSON,
    "jsonb": Kind.JSON,
    "bytea": Kind.BYTES,
    **dict.fromkeys(("date", "time", "timetz", "timestamp", "timestamptz", "interval"), Kind.TIME),
}
_SQL_NAMES = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bpchar": "character",
    "varchar": "character varying",
}


@dataclass(frozen=True)
class ColumnType:
    """A result column's type by the server's internal name; `array` is of `name`. `foreign`: not PostgreSQL's own."""

    name: str
    array: bool = False
    foreign: bool = False

    @property
    def sql_name(self) -> str:
        """The name that SQL uses, such as `integer`."""
        return _SQL_NAMES.get(self.name, self.name) + ("[]" if self.array else "")

    @cached_property
    def kind(self) -> Kind:
        """Of a value, or of an array's elements. What has no kind of its own is text, as PostgreSQL writes it."""
        return Kind.TEXT if self.foreign else _KINDS.get(self.name, Kind.TEXT)


def column_type(kind: PgType) -> ColumnType:
    """A type of the server as a result's column has it; a domain over an array is an array."""
    while kind.base is not None:
        kind = kind.base
    element = kind.element
    while element is not None and element.base is not None:
        element = element.base
    return ColumnType((element or kind).name, element is not None, (element or kind).foreign)


def cell(value: object, column: ColumnType) -> Cell:
    """The value that the driver returned for `column`.

    A cut one is its first characters and an ellipsis, as text: half a JSON document, array or number is none.
    """
    if value is None:
        return Cell(Kind.NULL)
    if isinstance(value, Cut):
        return _cut(value.text, column)
    if column.array:
        return Cell(Kind.JSON, _array(cast(Sequence[object], value), column))
    return Cell(column.kind, _exact(value, column))


def _cut(text: str, column: ColumnType) -> Cell:
    if column.kind is Kind.BYTES and not column.array:
        return Cell(Kind.BYTES, bytes.fromhex(text[2:]), cut=True)
    return Cell(Kind.TEXT, text + _ELLIPSIS, cut=True)


def _exact(value: object, column: ColumnType) -> bool | int | float | str | bytes:
    if isinstance(value, str):
        return _iso(value, column.name) if column.kind is Kind.TIME else value
    return value if isinstance(value, bool | int | float | bytes) else str(value)


def _iso(text: str, name: str) -> str:
    """PostgreSQL's ISO style is ISO 8601 but for the T and the zone. Years BC stay as PostgreSQL writes them."""
    if name == "interval" or text.endswith("BC"):
        return text
    if text.endswith("+00"):
        text = text[:-3] + "Z"
    return text.replace(" ", "T", 1)


def _array(values: Sequence[object], column: ColumnType) -> str:
    return "[" + ",".join(_element(value, column) for value in values) + "]"


def _element(value: object, column: ColumnType) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return _array(cast(list[object], value), column)
    if column.kind is Kind.JSON:
        return str(value)
    if isinstance(value, bytes):
        return json.dumps("\\x" + value.hex())
    exact = _exact(value, column)
    if isinstance(exact, float) and not math.isfinite(exact):
        return json.dumps({math.inf: "Infinity", -math.inf: "-Infinity"}.get(exact, "NaN"))
    return json.dumps(exact, ensure_ascii=False)
