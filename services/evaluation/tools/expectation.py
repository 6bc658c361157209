"""What an argument is expected to be: a value, or an object that says what else would do."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import cast

from services.evaluation.answered import Json

# The objects that mean something; a literal object is written {"equals": {…}}.
ANY_OF, OPTIONAL, EQUALS, CONTAINS, SQL = "any_of", "optional", "equals", "contains", "sql"
AT_LEAST, AT_MOST, FIELDS, ITEMS, UNORDERED = "at_least", "at_most", "fields", "items", "unordered"
KIND = "as"
# How a text is compared, where neither the tool's schema nor the text itself says it.
KINDS = ("id", "date", "enum", "text")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?")

_ALLOWED = (
    {ANY_OF},
    {OPTIONAL},
    {EQUALS},
    {EQUALS, KIND},
    {CONTAINS},
    {SQL},
    {SQL, "params"},
    {AT_LEAST},
    {AT_MOST},
    {AT_LEAST, AT_MOST},
    {FIELDS},
    {ITEMS},
    {UNORDERED},
)


class WrongExpectation(ValueError):
    """An expectation that means nothing."""


def check(expected: Json) -> None:
    """Raises WrongExpectation."""
    if isinstance(expected, list):
        for one in expected:
            check(one)
    if not isinstance(expected, dict):
        return
    names = set(expected)
    if names not in _ALLOWED:
        raise WrongExpectation(
            f"an object with {', '.join(sorted(names)) or 'nothing'} means nothing; a value that is an object is"
            ' written {"equals": {…}}'
        )
    _check_content(expected)


def _check_content(expected: Mapping[str, Json]) -> None:
    match expected:
        case {"any_of": list(values)} | {"items": list(values)} | {"unordered": list(values)}:
            for one in values:
                check(one)
        case {"optional": value}:
            check(value)
        case {"fields": dict(values)}:
            for one in values.values():
                check(one)
        case {"at_least": _} | {"at_most": _}:
            _check_range(expected)
        case _:
            if not _is_leaf(expected):
                raise WrongExpectation(f"{', '.join(expected)} with a value of the wrong type")


def _is_leaf(expected: Mapping[str, Json]) -> bool:
    match expected:
        case {"contains": list(words)}:
            return bool(words) and all(_is_word(one) for one in words)
        case {"sql": str()}:
            return isinstance(expected.get("params", []), list)
        case {"equals": value}:
            return KIND not in expected or (isinstance(value, str) and expected[KIND] in KINDS)
        case _:
            return False


def _is_word(value: Json) -> bool:
    """A word, or a list of words of which one will do."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, str) for one in value)
    return isinstance(value, str)


def _check_range(expected: Mapping[str, Json]) -> None:
    bounds = list(expected.values())
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in bounds)
    dates = all(isinstance(one, str) and is_date(one) for one in bounds)
    if not (numbers or dates):
        raise WrongExpectation("a range has numbers, or dates as texts")


def is_date(text: str) -> bool:
    """Whether a text is a day, or a time, as ISO 8601 writes them."""
    return as_day(text) is not None


def as_day(text: str) -> datetime | None:
    """The time meant, without its zone where it has none; None where it is no date."""
    # Python reads 20250101 and W-dates too, which may well be codes.
    if not _ISO.fullmatch(text.strip()):
        return None
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def is_optional(expected: Json) -> bool:
    """Whether the argument may be left out."""
    return isinstance(expected, dict) and OPTIONAL in expected


def sql_of(expected: Json) -> tuple[str, list[Json]] | None:
    """The statement and its values, where an equivalent one is expected."""
    if isinstance(expected, dict) and isinstance(statement := expected.get(SQL), str):
        return statement, cast(list[Json], expected.get("params", []))
    return None
