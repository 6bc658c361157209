"""Dates as an answer and its sources write them, with or without day and year, in Spanish and English."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from services.runtime.expressions.dates import MONTHS

_LONG = [name for name in MONTHS if len(name) > 3 and name != "march"]
_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\.?"
_YEAR = r"(?P<year>1\d{3}|20\d\d)"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th|º|o)?"
_JOINED = r"(?:\s*(?:,|y|e|and|al?|to|or|o|-|–)\s*)"
_NO_WORD = r"(?![\w])"
_WORD = re.compile(r"\w+")
# The first two are digits alone; the last one is the name of a month alone.
_FORMS = (
    re.compile(rf"(?<![\w.,/-]){_YEAR}-(?P<m>0[1-9]|1[0-2])-(?P<days>[0-3]\d)(?!\d)"),
    re.compile(rf"(?<![\w.,/-])(?P<days>[0-3]?\d)(?P<by>[/.-])(?P<m>[0-3]?\d)(?P=by){_YEAR}(?![\w/-])"),
    re.compile(
        rf"(?<![\w.,/-])(?P<days>{_DAY}(?:{_JOINED}{_DAY}){{0,3}})\s+(?:de\s+|of\s+)?{_MONTH}{_NO_WORD}"
        rf"(?:,?\s+(?:del?\s+|of\s+)?{_YEAR}(?![\w]))?"
    ),
    re.compile(
        rf"(?<!\w){_MONTH}\s+(?P<days>{_DAY}(?:{_JOINED}{_DAY}){{0,3}})(?![\w:]|\s?%|\s(?:per\s?cent|por\sciento)|[.,]\d)"
        rf"(?:,?\s+{_YEAR}(?!\w))?"
    ),
    re.compile(rf"(?<!\w){_MONTH}(?:\s+|,\s*)(?:del?\s+|of\s+)?{_YEAR}(?!\w)"),
    re.compile(rf"(?<!\w)(?P<month>{'|'.join(_LONG)})(?!\w)"),
)


@dataclass(frozen=True)
class Day:
    """A date; 0 for what is not said."""

    year: int = 0
    month: int = 0
    day: int = 0

    def agrees(self, other: "Day") -> bool:
        """Whether `other` says at least as closely the same: nothing differs, and what is closest is there."""
        closest = other.day if self.day else other.month if self.month else other.year
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        return bool(closest) and all(not mine or not its or mine == its for mine, its in pairs)


def days(folded: str) -> Iterator[tuple[Day, int, int]]:
    """The dates of a folded text, each with its place. Several days of one month come one by one, at one place."""
    taken: list[tuple[int, int]] = []
    named = not MONTHS.keys().isdisjoint(_WORD.findall(folded))
    for form in _FORMS if named else _FORMS[:2]:
        for match in form.finditer(folded):
            if any(start < match.end() and match.start() < end for start, end in taken):
                continue
            read = list(_read(match.groupdict()))
            if read:
                taken.append(match.span())
            yield from ((day, *match.span()) for day in read)


def _read(groups: dict[str, str | None]) -> Iterator[Day]:
    year = int(groups.get("year") or 0)
    numbers = [int(number) for number in re.findall(r"\d+", groups.get("days") or "")]
    if name := groups.get("month"):
        month = MONTHS[name]
    else:
        month = int(groups.get("m") or 0)
        if month > 12:  # as it is written in the United States
            numbers, month = [month], numbers[0]
    if not 1 <= month <= 12:
        return
    for number in numbers or [0]:
        if number <= 31:
            yield Day(year, month, number)


def is_month(folded: str) -> bool:
    """Whether the word names a month."""
    return folded in MONTHS
