"""Values of a result, exact and by kind, independent of the wire format."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast


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
    """One value: bool, int, float or bytes as such; decimal, text, JSON and times as text."""

    kind: Kind
    value: bool | int | float | str | bytes | None = None

    @property
    def size(self) -> int:
        """Bytes that count against the result's limit."""
        if isinstance(self.value, str):
            return len(self.value.encode())
        return len(self.value) if isinstance(self.value, bytes) else 8


# Types that the driver hands over as PostgreSQL's own text, because its Python values lose something: infinities,
# years BC, months of an interval, digits.
TEXT_TYPES = (
    "numeric", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "inet", "cidr", "macaddr",
    "bit", "varbit", "char", "point", "line", "lseg", "box", "path", "polygon", "circle",
)  # fmt: skip
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
    """A result column's type by the server's internal name; `array` is of `name`."""

    name: str
    array: bool = False

    @property
    def sql_name(self) -> str:
        """The name that SQL uses, such as `integer`."""
        return _SQL_NAMES.get(self.name, self.name) + ("[]" if self.array else "")


def cell(value: object, kind: ColumnType) -> Cell:
    """The value that the driver returned for a column of `kind`."""
    if value is None:
        return Cell(Kind.NULL)
    if kind.array:
        return Cell(Kind.JSON, _array(cast(Sequence[object], value), kind.name))
    return Cell(_KINDS.get(kind.name, Kind.TEXT), _exact(value, kind.name))


def _exact(value: object, name: str) -> bool | int | float | str | bytes:
    if isinstance(value, str) and _KINDS.get(name) is Kind.TIME:
        return _iso(value)
    if isinstance(value, bool | int | float | str | bytes):
        return value
    return str(value)


def _iso(text: str) -> str:
    """PostgreSQL's ISO style is ISO 8601 but for the T and the zone. Years BC stay as PostgreSQL writes them."""
    if text.endswith("BC"):
        return text
    if text.endswith("+00"):
        text = text[:-3] + "Z"
    return text.replace(" ", "T", 1)


def _array(values: Sequence[object], name: str) -> str:
    return "[" + ",".join(_element(value, name) for value in values) + "]"


def _element(value: object, name: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return _array(cast(list[object], value), name)
    if _KINDS.get(name) is Kind.JSON:
        return str(value)
    if isinstance(value, bytes):
        return json.dumps("\\x" + value.hex())
    exact = _exact(value, name)
    if isinstance(exact, float) and not math.isfinite(exact):
        return json.dumps({math.inf: "Infinity", -math.inf: "-Infinity"}.get(exact, "NaN"))
    return json.dumps(exact, ensure_ascii=False)
