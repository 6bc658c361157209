"""Whether a call has the arguments that are expected of it.

As BFCL does it (Patil et al., ICML 2025: lists of accepted values, optional arguments, strict types), but for its
comparison of texts: that one drops punctuation, so that ERR-4032 equals err4032 and 1.5 equals 15. Here a code is
compared as it is, a date by its day, a number by its value, a choice without regard to case, and free text without
regard to case, accents and spaces.
"""

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.evaluation.answered import Call, Json
from services.evaluation.golden.item import ExpectedCall
from services.evaluation.tools import expectation
from services.evaluation.tools.expectation import as_day

# Relative.
TOLERANCE = 1e-9
# No space, and a digit in it: a code, a version, a file's name.
_CODE = re.compile(r"\S*\d\S*")
# Long enough that what follows is an ending and not another word.
_INFLECTED = re.compile(r"[^\W\d_]{4}\Z")
_ENDS = " \t\n.,;:!?¡¿\"'«»“”‘’"


@dataclass(frozen=True)
class Arguments:
    """What became of each argument that is expected: right, wrong, or None where nothing could judge it."""

    verdicts: Mapping[str, bool | None]
    # Names that are not expected, where the call is closed.
    unexpected: tuple[str, ...] = ()

    @property
    def right_count(self) -> int:
        return sum(verdict is True for verdict in self.verdicts.values())

    @property
    def judged_count(self) -> int:
        """Arguments with a verdict; one that should not be there is one more."""
        return sum(verdict is not None for verdict in self.verdicts.values()) + len(self.unexpected)

    @property
    def all_right(self) -> bool | None:
        """None where nothing is wrong and something could not be judged."""
        if self.unexpected or False in self.verdicts.values():
            return False
        return None if None in self.verdicts.values() else True


def arguments(expected: ExpectedCall, call: Call, parameters: Mapping[str, Any] | None = None) -> Arguments:
    """Compares all but equivalent statements, whose verdict is None. `parameters`: the tool's JSON Schema, if known."""
    schemas: Mapping[str, Any] = (parameters or {}).get("properties", {})
    # A null is no argument: the tools take it so too.
    given = {name: value for name, value in call.arguments.items() if value is not None}
    verdicts: dict[str, bool | None] = {}
    for name, wanted in expected.arguments.items():
        if name not in given:
            verdicts[name] = expectation.is_optional(wanted) or matches(wanted, None)
        elif expectation.sql_of(wanted) is not None:
            verdicts[name] = None
        else:
            verdicts[name] = matches(wanted, given[name], schemas.get(name))
    unexpected = tuple(sorted(set(given) - set(expected.arguments))) if expected.closed else ()
    return Arguments(verdicts, unexpected)


def matches(expected: Json, actual: Json, schema: Any = None) -> bool:
    """Whether a value is one that is expected. `schema`: the argument's own, for enumerations and dates."""
    if isinstance(expected, dict):
        return _matches_object(expected, actual, schema)
    if isinstance(expected, list):
        return _in_order(expected, actual, schema)
    if isinstance(expected, str):
        return isinstance(actual, str) and same_text(expected, actual, _kind(expected, schema))
    # In Python True is 1.
    if isinstance(expected, bool) or isinstance(actual, bool) or expected is None:
        return expected is actual
    return isinstance(actual, int | float) and same_number(expected, actual)


def _matches_object(expected: Mapping[str, Json], actual: Json, schema: Any) -> bool:
    match expected:
        case {"any_of": list(values)}:
            return any(matches(one, actual, schema) for one in values)
        case {"optional": value}:
            return matches(value, actual, schema)
        case {"equals": str(value), "as": str(kind)}:
            return isinstance(actual, str) and same_text(value, actual, kind)
        case {"equals": value}:
            return _same(value, actual)
        case {"contains": list(words)}:
            return isinstance(actual, str) and _has(words, normalised(actual))
        case {"fields": dict(values)}:
            return isinstance(actual, dict) and _fields(values, actual)
        case {"items": list(values)}:
            return _in_order(values, actual, schema)
        case {"unordered": list(values)}:
            return _in_any_order(values, actual, schema)
        case _:
            return _within(expected, actual)


def same_number(expected: float, actual: float) -> bool:
    """Equal; fractions but for what floats lose when they are added up in another order."""
    if float(expected).is_integer() and float(actual).is_integer():
        return expected == actual
    return math.isclose(expected, actual, rel_tol=TOLERANCE, abs_tol=1e-12)


def same_text(expected: str, actual: str, kind: str) -> bool:
    """Compares texts of a kind of `expectation.KINDS`."""
    match kind:
        case "id":
            return expected == actual
        case "enum":
            return expected.strip().casefold() == actual.strip().casefold()
        case "date":
            return _same_day(expected, actual)
        case _:
            return normalised(expected) == normalised(actual)


def normalised(text: str) -> str:
    """Without case, accents, superfluous spaces, and punctuation at the ends. What is within a word stays."""
    # Both again: letters may come out of symbols, and marks out of letters.
    for _ in range(2):
        text = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))
    return " ".join(bare.split()).strip(_ENDS)


def _kind(expected: str, schema: Any) -> str:
    """How to compare with `expected`, where nothing says it: as the schema has it, or as the text looks."""
    known: Mapping[str, Any] = schema or {}
    inner: Mapping[str, Any] = known.get("items") or {}
    if "enum" in known or "enum" in inner:
        return "enum"
    if known.get("format") in ("date", "date-time") or as_day(expected):
        return "date"
    return "id" if _CODE.fullmatch(expected.strip()) else "text"


def _same_day(expected: str, actual: str) -> bool:
    wanted, got = as_day(expected), as_day(actual)
    if wanted is None or got is None:
        return normalised(expected) == normalised(actual)
    # A zone on one side only says nothing about the day that was meant.
    if wanted.tzinfo is None or got.tzinfo is None:
        wanted, got = wanted.replace(tzinfo=None), got.replace(tzinfo=None)
    return wanted == got


def _has(words: list[Json], text: str) -> bool:
    """Every entry, in one of its forms, as whole words."""
    for entry in words:
        forms = entry if isinstance(entry, list) else [entry]
        if not any(_word_in(normalised(str(form)), text) for form in forms):
            return False
    return True


def _word_in(word: str, text: str) -> bool:
    """Whole; a word of letters may have another ending (hotel, hoteles), a code may not."""
    ending = r"\w{0,3}" if _INFLECTED.search(word) and not _CODE.fullmatch(word) else ""
    return re.search(rf"(?<!\w){re.escape(word)}{ending}(?!\w)", text) is not None


def _fields(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> bool:
    missing = [name for name, wanted in expected.items() if name not in actual and not expectation.is_optional(wanted)]
    known = set(actual) <= set(expected)
    return known and not missing and all(matches(expected[name], value) for name, value in actual.items())


def _in_order(expected: list[Json], actual: Json, schema: Any) -> bool:
    if not isinstance(actual, list) or len(actual) != len(expected):
        return False
    return all(matches(one, got, schema) for one, got in zip(expected, actual, strict=True))


def _in_any_order(expected: list[Json], actual: Json, schema: Any) -> bool:
    """As a multiset. The expectations of such a list do not overlap, so the first that fits may be taken."""
    if not isinstance(actual, list) or len(actual) != len(expected):
        return False
    left = list(actual)
    for one in expected:
        place = next((index for index, got in enumerate(left) if matches(one, got, schema)), None)
        if place is None:
            return False
        del left[place]
    return True


def _within(expected: Mapping[str, Json], actual: Json) -> bool:
    low, high = expected.get(expectation.AT_LEAST), expected.get(expectation.AT_MOST)
    # A number is not within days, nor a day within numbers.
    if any(isinstance(bound, str) != isinstance(actual, str) for bound in (low, high) if bound is not None):
        return False
    value, least, most = map(_ordinal, (actual, low, high))
    return value is not None and (least is None or value >= least) and (most is None or value <= most)


def _ordinal(value: Json) -> float | None:
    """A number, or a day as one."""
    if isinstance(value, str):
        day = as_day(value)
        return day.replace(tzinfo=None).toordinal() if day else None
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def _same(expected: Json, actual: Json) -> bool:
    """Literal equality, but for numbers' rounding and Python's True == 1."""
    match expected, actual:
        case dict(), dict():
            return expected.keys() == actual.keys() and all(_same(expected[name], actual[name]) for name in expected)
        case list(), list():
            return len(expected) == len(actual) and all(map(_same, expected, actual))
        case _:
            return matches(expected, actual) if not isinstance(expected, dict | list) else False
