"""The types of a verified query's parameters: their JSON Schema, and which JSON values they take. Strict."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

from services.runtime.tenants import Parameter
from services.sql_tool.hints import folded, nearest

MAX_ITEMS = 1000
MAX_CHARACTERS = 2000
_BIGINT = 1 << 63
_DECIMAL = re.compile(r"[+-]?(\d{1,131072}(\.\d{1,16383})?|\.\d{1,16383})")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


class WrongValue(ValueError):
    """A value does not fit; the message says what would, as the end of a sentence that begins with "must be"."""


@dataclass(frozen=True)
class ScalarType:
    """`read` gives the value as it is sent, or raises WrongValue. `order` gives what bounds are compared by."""

    expected: str
    schema: Mapping[str, Any]
    read: Callable[[object], object]
    order: Callable[[object], Any] | None
    probe: object


def scalar(parameter: Parameter) -> tuple[ScalarType, bool]:
    """The type of one value, and whether the parameter is an array of them."""
    return SCALARS[parameter.type.removesuffix("[]")], parameter.type.endswith("[]")


def read(parameter: Parameter, value: object) -> object:
    """The value as it is sent: enumerations and their synonyms resolved, bounds checked. Raises WrongValue."""
    kind, array = scalar(parameter)
    if not array:
        return _one(parameter, kind, value)
    if not isinstance(value, list | tuple):
        raise WrongValue(f"an array, each item {_expected(parameter, kind)}")
    items = cast(Sequence[object], value)
    if len(items) > MAX_ITEMS:
        raise WrongValue(f"an array of at most {MAX_ITEMS} items")
    return [_one(parameter, kind, item) for item in items]


def _one(parameter: Parameter, kind: ScalarType, value: object) -> object:
    if parameter.values:
        return _of_enumeration(parameter, kind, value)
    try:
        found = kind.read(value)
    except (ValueError, TypeError, OverflowError, ArithmeticError):
        raise WrongValue(_expected(parameter, kind)) from None
    low, high = bounds(parameter)
    if kind.order is not None and (low is not None or high is not None):
        at = kind.order(found)
        if (low is not None and at < kind.order(low)) or (high is not None and at > kind.order(high)):
            raise WrongValue(_expected(parameter, kind))
    return found


def bounds(parameter: Parameter) -> tuple[object, object]:
    """Smallest and largest value as they are sent; None where there is none. Raises WrongValue."""
    kind, _ = scalar(parameter)
    given = (parameter.minimum, parameter.maximum)
    if any(bound is not None for bound in given) and kind.order is None:
        raise WrongValue("a number, a date or a timestamp to have bounds")
    try:
        low, high = (None if bound is None else kind.read(from_yaml(bound)) for bound in given)
    except (ValueError, TypeError, ArithmeticError):
        raise WrongValue(f"bounded by {kind.expected}") from None
    return low, high


def from_yaml(value: object) -> Any:
    """A value of the tenant's file as JSON has it: days as text, fractions exact, tuples as lists."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, tuple | list):
        return [from_yaml(item) for item in cast(Sequence[object], value)]
    return value


def _of_enumeration(parameter: Parameter, kind: ScalarType, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise WrongValue(_expected(parameter, kind))
    text = str(value)[:MAX_CHARACTERS]
    found = text if text in parameter.values else synonyms(parameter).get(folded(text))
    if found is None:
        near = nearest(text[:80], [name for value, names in parameter.values.items() for name in (value, *names)])
        raise WrongValue(_expected(parameter, kind) + (f" (did you mean `{near}`?)" if near else ""))
    return kind.read(_as_json(kind, found))


def synonyms(parameter: Parameter) -> Mapping[str, str]:
    """The values by what they are called, folded. What stands for two values is left out; see `twice`."""
    found: dict[str, str] = {}
    for value, names in parameter.values.items():
        for name in (value, *names):
            found.setdefault(folded(name), value)
    return {name: value for name, value in found.items() if name and name not in twice(parameter)}


def twice(parameter: Parameter) -> list[str]:
    """Names, folded, that stand for more than one value."""
    owners: dict[str, set[str]] = {}
    for value, names in parameter.values.items():
        for name in (value, *names):
            owners.setdefault(folded(name), set()).add(value)
    return sorted(name for name, values in owners.items() if name and len(values) > 1)


def _as_json(kind: ScalarType, text: str) -> object:
    """A key of `values` is text in YAML whatever the type."""
    return json.loads(text) if kind.schema.get("type") in ("integer", "boolean") else text


def enumeration(parameter: Parameter) -> list[object]:
    """The values as JSON has them. Raises WrongValue when one is not of the type."""
    kind, _ = scalar(parameter)
    try:
        return [kind.read(_as_json(kind, value)) for value in parameter.values]
    except (ValueError, TypeError, ArithmeticError):
        raise WrongValue(f"{kind.expected} in each of `values`") from None


def _expected(parameter: Parameter, kind: ScalarType) -> str:
    if parameter.values:
        return f"one of {', '.join(list(parameter.values)[:40])}"
    low, high = bounds(parameter)
    return kind.expected + between(low, high)


def between(low: object, high: object) -> str:
    """Bounds in words, with a space before; empty where there are none."""
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return f" from {low} on" if low is not None else f" up to {high}" if high is not None else ""


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise TypeError
    if len(value) > MAX_CHARACTERS:
        raise ValueError
    return value


def _integer(value: object) -> int:
    if type(value) is not int or not -_BIGINT <= value < _BIGINT:
        raise TypeError
    return value


def _numeric(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise TypeError
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        raise ValueError
    found = Decimal(value)
    if not found.is_finite() or abs(found.adjusted()) > 1000:
        raise ValueError
    return found


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _date(value: object) -> str:
    text = _text(value)
    if not _DATE.fullmatch(text):
        raise ValueError
    return date.fromisoformat(text).isoformat()


def _timestamp(value: object) -> str:
    text = _text(value)
    if not _TIMESTAMP.fullmatch(text):
        raise ValueError  # a zone too: the statement says which zone it means
    return datetime.fromisoformat(text).isoformat()


def _instant(value: object) -> datetime:
    return datetime.fromisoformat(str(value))


SCALARS: Mapping[str, ScalarType] = {
    "text": ScalarType(
        f"a string of at most {MAX_CHARACTERS} characters",
        {"type": "string", "maxLength": MAX_CHARACTERS},
        _text,
        None,
        "x",
    ),
    "integer": ScalarType("an integer", {"type": "integer"}, _integer, lambda value: value, 1),
    "numeric": ScalarType(
        'a number or a decimal string such as "12.50"',
        {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^[+-]?\d+(\.\d+)?$"}]},
        _numeric,
        lambda value: value,
        Decimal("1.5"),
    ),
    "boolean": ScalarType("true or false", {"type": "boolean"}, _boolean, None, True),
    "date": ScalarType("a date as YYYY-MM-DD", {"type": "string", "format": "date"}, _date, _instant, "2025-01-31"),
    "timestamp": ScalarType(
        "a time as YYYY-MM-DDTHH:MM:SS without zone",
        {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$"},
        _timestamp,
        _instant,
        "2025-01-31T12:00:00",
    ),
}  # fmt: skip
