"""Figures that follow from a source by its words: dates after a time, one in so many, rows within a bound, lists."""

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal

from services.orchestrator.citing.arithmetic import is_year
from services.orchestrator.citing.calendar_dates import Day
from services.orchestrator.citing.figures import Figure, Kind
from services.orchestrator.citing.source_text import SourceText
from services.runtime.expressions.folding import fold

_MAX_FIGURES, _MAX_DAYS = 24, 36_600
_DAY_SECONDS, _YEAR_MONTHS = 86_400, 12
# Of a date without a year only day and month are told.
_SOME_YEAR = 2001
_ONE_IN = re.compile(
    r"\b(?P<part>one|two|three|four|five|una?|uno|dos|tres|cuatro|cinco|\d{1,3}) "
    r"(?:in|in every|out of|out of every|of every|de cada)(?: los| las)? $"
)
_PARTS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "un": 1, "una": 1, "uno": 1, "dos": 2, "tres": 3,
    "cuatro": 4, "cinco": 5,
}  # fmt: skip
_UNDER = re.compile(
    r"\b(?:less than|fewer than|under|below|before|until|menos de|por debajo de|inferior(?:es)? a|antes de)\s"
)
_OVER = re.compile(
    r"\b(?:more than|over|above|after|since|at least|mas de|por encima de|superior(?:es)? a|despues de|desde"
    r"|al menos)\s"
)
_LISTED = re.compile(r",\s|\s(?:y|e|and|o|or)\s")
_BOUND_CHARS = 24
_LONGEST_LIST = 12


def is_shifted(figure: Figure, sources: Sequence[SourceText]) -> bool:
    """Whether a date, or a year, is one of a source's dates plus or minus a duration that it names."""
    if figure.kind is Kind.DATE:
        day = figure.day
    elif is_year(figure):
        day = Day(year=int(figure.value))
    else:
        return False
    return any(day.agrees(one) for source in sources for one in _shifted(source.figures))


def _shifted(found: Sequence[Figure]) -> Iterator[Day]:
    known = [one.day for one in found if one.kind is Kind.DATE and one.day.month][:_MAX_FIGURES]
    measures = [one.measure for one in found if one.kind is Kind.NUMBER and one.unit][:_MAX_FIGURES]
    spans = {(family, int(value)) for family, value in measures if family in ("months", "time") and value == int(value)}
    for day in known:
        for family, value in spans:
            for sign in (1, -1):
                yield from _moved(day, family, sign * value)


def _moved(day: Day, family: str, value: int) -> Iterator[Day]:
    """The date moved by months, or by seconds of whole days, and the day before it: a term's last day."""
    year, month, first = day.year or _SOME_YEAR, day.month, day.day or 1
    try:
        if family == "months":
            months = year * _YEAR_MONTHS + month - 1 + value
            moved = date(months // _YEAR_MONTHS, months % _YEAR_MONTHS + 1, min(first, 28))
        elif value % _DAY_SECONDS == 0 and abs(value) <= _MAX_DAYS * _DAY_SECONDS and day.day:
            moved = date(year, month, first) + timedelta(days=value // _DAY_SECONDS)
        else:
            return
        ends = [moved, moved - timedelta(days=1)]
    except (ValueError, OverflowError):
        return
    for one in ends:
        yield Day(one.year if day.year else 0, one.month, one.day if day.day else 0)
        if not day.day:
            yield Day(one.year, one.month)


def fraction_of(figure: Figure, text: str) -> Decimal | None:
    """The share that `one in four` tells, for the figure `four`; None where it tells none."""
    match = _ONE_IN.search(fold(text)[max(0, figure.start - 32) : figure.start])
    if match is None or figure.kind is not Kind.NUMBER or not figure.value:
        return None
    part = _PARTS.get(match["part"]) or int(match["part"])
    return Decimal(part) / figure.value if part < figure.value else None


def has_share(share: Decimal, sources: Sequence[SourceText]) -> bool:
    """Whether a source says the share in per cent, or has two numbers of one unit in that proportion."""
    for source in sources:
        numbers = [one.measure for one in source.figures if one.kind is Kind.NUMBER and not is_year(one)][:_MAX_FIGURES]
        if any(family == "%" and value == share * 100 for family, value in numbers):
            return True
        if any(one[1] == share * other[1] for one in numbers for other in numbers if one[0] == other[0] and other[1]):
            return True
    return False


def within_bounds(figures: Sequence[Figure], text: str, sources: Sequence[SourceText]) -> set[Figure]:
    """Of `two of them joined before 2020`, bound and count, if a table has that many rows on that side of the bound."""
    folded, found = fold(text), set[Figure]()
    for bound in figures:
        before = folded[max(0, bound.start - _BOUND_CHARS) : bound.start]
        under, over = _UNDER.search(before), _OVER.search(before)
        if bound.kind is not Kind.NUMBER or not (under or over):
            continue
        counts = {
            sum(value < bound.value if under else value >= bound.value for value in column)
            for source in sources
            for column in (source.comparable if source.tabular else [_alike(bound, source)])
        }
        counted = {one for one in figures if one is not bound and one.kind is Kind.NUMBER and one.value in counts}
        if counted:
            found |= {bound, *counted}
    return found


def _alike(bound: Figure, source: SourceText) -> list[Decimal]:
    """The years of a running text, where the bound is one."""
    if not is_year(bound):
        return []
    years = [one.value for one in source.figures if one.kind is Kind.NUMBER and is_year(one)]
    return years + [Decimal(one.day.year) for one in source.figures if one.kind is Kind.DATE and one.day.year]


def counts_list(figure: Figure, keys: frozenset[str], sources: Sequence[SourceText], *, foreign: bool) -> bool:
    """Whether a source lists as many things as a spelt number says, in a sentence about the same."""
    if not figure.spelt or figure.unit or not 2 < figure.value <= _LONGEST_LIST:
        return False
    return any(
        len(_LISTED.findall(one.text)) + 1 == figure.value and (foreign or keys & one.keys)
        for source in sources
        if not source.tabular
        for one in source.sentences
    )
