"""Turns the model's JSON parameters into values of the types that the server infers. Strict: no silent conversion."""

import ipaddress
import json
import math
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import cast

from services.runtime.errors import InvalidField

MAX_BYTES = 64 * 1024
_INTEGERS = {"int2": 15, "int4": 31, "int8": 63}
_TEXTS = ("text", "varchar", "bpchar", "name", "char")
_RANGES = ("int4", "int8", "num", "ts", "tstz", "date")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?|NaN|-?Infinity")
_RANGE = re.compile(r"empty|[\[(][^,]*,[^,]*[\])]")
_MULTIRANGE = re.compile(r"\{.*\}", re.DOTALL)
_HEX = re.compile(r"\\x([0-9a-fA-F]{2})*")
_BITS = re.compile(r"[01]*")
_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")
# Python reads more forms of ISO 8601 than PostgreSQL does.
_STAMP = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d(:?\d\d)?)?)?)?")
_INTERVAL = re.compile(
    r"[-+]?P[-+\d.,YMWDTHS]+|[-+]?\d+(\.\d+)? [a-z]+(,? [-+]?\d+(\.\d+)? [a-z]+)*|[-+]?\d+:\d\d(:\d\d(\.\d+)?)?"
)


@dataclass(frozen=True)
class ParameterType:
    """A type as the server names it; `array` is of `name`. `foreign`: not of pg_catalog, such as an enumeration."""

    name: str
    array: bool = False
    foreign: bool = False

    def __str__(self) -> str:
        return self.name + ("[]" if self.array else "")


def parse(params_json: str) -> list[object]:
    """The values of a JSON array; numbers with a fraction stay exact. Empty means none. Raises InvalidField."""
    if not params_json.strip():
        return []
    if len(params_json.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidField(f"`params_json` is longer than {MAX_BYTES} bytes.", field="params_json")
    try:
        values: object = json.loads(params_json, parse_float=Decimal, parse_constant=refuse_constant)
    except (ValueError, RecursionError, ArithmeticError):
        raise InvalidField(
            '`params_json` is not valid JSON; write an array such as [2025, "EU"].', field="params_json"
        ) from None
    if not isinstance(values, list):
        raise InvalidField("`params_json` must be a JSON array, one value per placeholder.", field="params_json")
    return cast(list[object], values)


def check_count(values: Sequence[object], placeholders: int) -> None:
    """Raises InvalidField (params) unless there is one value per placeholder."""
    if len(values) != placeholders:
        raise InvalidField(
            f"`params` has {len(values)} values, but the statement has {placeholders} placeholders "
            "($1, $2, …, without quotes).",
            field="params",
        )


def coerce(values: Sequence[object], types: Sequence[ParameterType]) -> list[object]:
    """What the driver takes, one a placeholder. Raises InvalidField (params[i]) that names the expected type."""
    return [_bounded(value, kind, f"params[{i}]") for i, (value, kind) in enumerate(zip(values, types, strict=True))]


def _bounded(value: object, kind: ParameterType, field: str) -> object:
    try:
        return _coerce(value, kind, field)
    except RecursionError:
        raise InvalidField(f"`{field}` is nested too deeply.", field=field) from None


def _coerce(value: object, kind: ParameterType, field: str) -> object:
    if value is None:
        return None
    if not kind.array:
        return _scalar(value, kind, field)
    if not isinstance(value, list):
        raise _wrong(field, kind, "a JSON array")
    element = ParameterType(kind.name, foreign=kind.foreign)
    items = cast(list[object], value)
    nested = [cast(list[object], item) for item in items if isinstance(item, list)]
    if nested and kind.name not in ("json", "jsonb"):
        widths = {len(item) for item in nested}
        if len(nested) != len(items) or len(widths) != 1:
            raise _wrong(field, kind, "an array of arrays of one length")
        return [_coerce(item, kind, field) for item in items]
    return [None if item is None else _scalar(item, element, f"{field}[{i}]") for i, item in enumerate(items)]


def _scalar(value: object, kind: ParameterType, field: str) -> object:
    if isinstance(value, str):
        if _is_unstorable(value):
            raise InvalidField(
                f"`{field}` holds a NUL or a lone surrogate, which PostgreSQL cannot store.", field=field
            )
    convert = _converter(kind)
    if convert is None:
        raise InvalidField(
            f"`{field}` is of type {kind}, which no JSON value stands for; cast the placeholder, such as $1::text.",
            field=field,
        )
    converter, expected = convert
    try:
        return converter(value)
    except (ValueError, TypeError, OverflowError, ArithmeticError):
        raise _wrong(field, kind, expected, value) from None


def _is_unstorable(text: str) -> bool:
    return "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)


def _wrong(field: str, kind: ParameterType, expected: str, value: object = None) -> InvalidField:
    hint = ""
    if isinstance(value, list):
        hint = " To compare with any of several values write `= ANY($1)`."
    elif kind.name in _TEXTS and isinstance(value, int | Decimal):
        hint = " If a number is meant, cast the placeholder, such as $1::int."
    return InvalidField(f"`{field}` must be {expected} (type {kind}).{hint}", field=field, expected=str(kind))


def _converter(kind: ParameterType) -> tuple[Callable[[object], object], str] | None:
    if kind.foreign:
        return _text, "a string"
    if bits := _INTEGERS.get(kind.name):
        return lambda value: _integer(value, bits), f"an integer of {bits + 1} bits"
    if kind.name in _TEXTS:
        return _text, "a string"
    return _CONVERTERS.get(kind.name)


def _integer(value: object, bits: int) -> int:
    if type(value) is not int or not -(1 << bits) <= value < 1 << bits:
        raise ValueError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _decimal(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise TypeError
    text = str(value)
    if not _NUMBER.fullmatch(text):
        raise ValueError
    return text


def _real(value: object) -> float:
    text = _decimal(value)
    real = float(text)
    if math.isinf(real) and not text.endswith("Infinity"):
        raise ValueError  # too large: it would become infinity
    return real


def _matching(pattern: re.Pattern[str]) -> Callable[[object], str]:
    def convert(value: object) -> str:
        text = _text(value)
        if not pattern.fullmatch(text):
            raise ValueError
        return text

    return convert


def _date(value: object) -> str:
    text = _text(value)
    if text not in ("infinity", "-infinity"):
        if len(text) != 10:
            raise ValueError
        date.fromisoformat(text)
    return text


def _timestamp(value: object) -> str:
    text = _text(value)
    if text in ("infinity", "-infinity"):
        return text
    if not _STAMP.fullmatch(text) or _ZONE.search(text[10:]):
        raise ValueError  # PostgreSQL would drop the zone without a word
    datetime.fromisoformat(text)
    return text


def _timestamptz(value: object) -> str:
    text = _text(value)
    if text in ("infinity", "-infinity"):
        return text
    if not _STAMP.fullmatch(text):
        raise ValueError
    datetime.fromisoformat(text)
    return text


def _time(value: object) -> str:
    text = _text(value)
    if text[2:3] != ":":
        raise ValueError
    if text not in ("24:00", "24:00:00") and time.fromisoformat(text).tzinfo is not None:
        raise ValueError
    return text


def _timetz(value: object) -> str:
    text = _text(value)
    if text[2:3] != ":":
        raise ValueError
    time.fromisoformat(text)
    return text


def _interval(value: object) -> str:
    text = _text(value)
    if not _INTERVAL.fullmatch(text):
        raise ValueError
    return text


def _uuid(value: object) -> str:
    return str(uuid.UUID(_text(value)))


def _inet(value: object) -> str:
    return str(ipaddress.ip_interface(_text(value)))


def _network(value: object) -> str:
    return str(ipaddress.ip_network(_text(value)))


def _json(value: object) -> str:
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        raise ValueError  # text of JSON inside of JSON: it would be taken for a string and match nothing
    return _dump(value)


def _dump(value: object) -> str:
    """JSON text that keeps decimals exact."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(_dump(item) for item in cast(list[object], value)) + "]"
    if isinstance(value, dict):
        items = cast(dict[str, object], value).items()
        return "{" + ",".join(f"{_dump(key)}:{_dump(item)}" for key, item in items) + "}"
    if isinstance(value, str) and _is_unstorable(value):
        raise ValueError
    return json.dumps(value)


def refuse_constant(name: str) -> object:
    """For a JSON decoder: NaN and infinities are no JSON."""
    raise ValueError(name)


_CONVERTERS: dict[str, tuple[Callable[[object], object], str]] = {
    "bool": (_boolean, "true or false"),
    "float4": (_real, "a number"),
    "float8": (_real, "a number"),
    "numeric": (_decimal, 'a number, or a decimal string such as "12.50"'),
    "date": (_date, "a date as YYYY-MM-DD"),
    "timestamp": (_timestamp, "a time as YYYY-MM-DDTHH:MM:SS without zone"),
    "timestamptz": (_timestamptz, "a time as YYYY-MM-DDTHH:MM:SSZ"),
    "time": (_time, "a time of day as HH:MM:SS"),
    "timetz": (_timetz, "a time of day as HH:MM:SS+00:00"),
    "interval": (_interval, 'an interval such as "P1M" or "30 days"'),
    "uuid": (_uuid, "a UUID"),
    "inet": (_inet, "an IP address"),
    "cidr": (_network, "a network such as 10.0.0.0/8"),
    "macaddr": (_text, "a MAC address"),
    "macaddr8": (_text, "a MAC address"),
    "bytea": (_matching(_HEX), "bytes as \\x and hex digits"),
    "bit": (_matching(_BITS), "a string of 0 and 1"),
    "varbit": (_matching(_BITS), "a string of 0 and 1"),
    **{f"{name}range": (_matching(_RANGE), "a range such as [1,5)") for name in _RANGES},
    **{f"{name}multirange": (_matching(_MULTIRANGE), "ranges such as {[1,5),[7,9)}") for name in _RANGES},
    "jsonpath": (_text, "a JSON path such as $.a.b"),
    "json": (_json, "a JSON value itself, not text of JSON"),
    "jsonb": (_json, "a JSON value itself, not text of JSON"),
}
