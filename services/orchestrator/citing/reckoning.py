"""Whether a number follows from the numbers of its sources in a step or two, without a word that says it was computed.

A wrong number follows from others by chance: where most numbers of its size do, that this one does explains nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import lru_cache
from itertools import chain, combinations, islice, product
from typing import TypeVar

from services.orchestrator.citing.arithmetic import is_rounded, is_year
from services.orchestrator.citing.calendar_dates import Day
from services.orchestrator.citing.figures import SECTION, Figure, Kind
from services.orchestrator.citing.source_text import SourceText
from services.orchestrator.citing.units import measure
from services.runtime.expressions.folding import fold

_Any = TypeVar("_Any")
_MAX_NUMBERS, _MAX_IN_THREES, _MAX_TIMES = 24, 7, 12
_LARGEST_COUNT, _OLDEST = 400, 130
_FIRST, _LAST = 1_000, 2_100
_FEW, _MANY_DIGITS, _MAX_MIXED = 3, 3, 4
_LEAST_BARE = 100
_GRAINS = (86_400, 3_600, 60)
_PERIODS = (12, 52)
_DAY_SECONDS, _DAY_MINUTES, _YEAR_MONTHS, _SOME_YEAR = 86_400, 1_440, 12, 2001
_UNITS_OF_DAYS = {"day": 1, "week": 7}
_NO_NOUN = re.compile(r"\s*(?:[.,;:)]|$|(?:y|and|e|or|o)\s)")
# `a week` behind a number says how often.
_RATES = frozenset("a an un una al cada each per por".split())
_PARTS = {2: re.compile(r"\b(?:half|mitad|medio)\b"), 3: re.compile(r"\b(?:a third|un tercio|tercera parte)\b"),
          4: re.compile(r"\b(?:a quarter|un cuarto|cuarta parte)\b")}  # fmt: skip
_AGE = re.compile(r"\b(?:age of|aged|at|edad de|a los|con)\s+$")
_CURRENCIES = frozenset(("EUR", "USD", "GBP"))
# Of the numbers between two thirds and four thirds of this one, this share may follow from the sources as well.
_CHANCE, _AROUND, _LEAST_AROUND = Decimal("0.4"), Decimal("0.34"), 3


@dataclass(frozen=True)
class Ground:
    """What can be reckoned with: numbers by the family of their unit, years, days, and times of day in minutes.

    `elliptic`: numbers whose unit may be that of another. `told`: numbers of the sentence itself. `divisors`: of parts
    that are said, 2 for a half. Numbers of tables are left out: between so many a step says nothing.
    """

    numbers: tuple[tuple[str, Decimal], ...]
    elliptic: tuple[Decimal, ...]
    told: tuple[tuple[str, Decimal], ...]
    years: tuple[int, ...]
    days: tuple[Day, ...]
    times: tuple[int, ...]
    divisors: tuple[int, ...] = ()

    @classmethod
    def of(cls, sources: Sequence[SourceText], beside: Iterable[Figure] = ()) -> "Ground":
        """The figures of sources, and such of the sentence that are known to be right."""
        beside = [one for one in beside if one.unit or not one.spelt or one.value > _FEW]
        drawn = [_drawn(one) for one in sources if not one.tabular]
        parts = [_of_figures(beside), *drawn]
        return cls(
            _first(_MAX_NUMBERS, [one.numbers for one in parts]),
            tuple(islice(chain.from_iterable(one.elliptic for one in drawn), _MAX_TIMES)),
            tuple(_told(beside)),
            _first(_MAX_TIMES, [one.years for one in parts]),
            _first(_MAX_TIMES, [one.days for one in parts]),
            _first(_MAX_TIMES, [one.times for one in parts]),
            tuple(by for by in _PARTS if any(by in one.divisors for one in drawn)),
        )


def _first(count: int, listed: Iterable[Iterable[_Any]]) -> tuple[_Any, ...]:
    """The first of all that are different."""
    return tuple(islice(dict.fromkeys(chain.from_iterable(listed)), count))


# Every figure of an answer that its source lacks is reckoned with the same sources.
@lru_cache(maxsize=512)
def _drawn(source: SourceText) -> Ground:
    """All of one source, for putting together."""
    folded = fold(source.text)
    divisors = tuple(by for by, said in _PARTS.items() if said.search(folded))
    return replace(_of_figures(source.figures), elliptic=tuple(_without_noun(source)), divisors=divisors)


def _of_figures(found: Iterable[Figure]) -> Ground:
    numbers: dict[tuple[str, Decimal], None] = {}
    years: dict[int, None] = {}
    days: dict[Day, None] = {}
    times: dict[int, None] = {}
    for one in found:
        if one.kind is Kind.DATE:
            days[one.day] = None
            if one.day.year:
                years[one.day.year] = None
        elif one.kind is Kind.TIME:
            times[int(one.value)] = None
        elif one.kind is Kind.NUMBER and one.text.isdecimal() and not one.unit and _FIRST <= one.value <= _LAST:
            years[int(one.value)] = None
        elif one.kind is Kind.NUMBER and one.unit != SECTION and one.text.lower() not in _RATES:
            family, value = one.measure
            numbers["%" if family == "percentage point" else family, value] = None
    return Ground(tuple(numbers), (), (), tuple(years), tuple(days), tuple(times))


def follows(figure: Figure, text: str, ground: Ground, others: Ground | None = None) -> bool:
    """Whether the figure of the sentence `text` is a sum, difference, product or time between figures of the ground.

    With `others`, one of the two has to come from there.
    """
    if figure.kind is not Kind.NUMBER or figure.unit == SECTION or is_year(figure):
        return False
    if any(_meets(figure, result) for result in _spans(figure, text, ground, others)):
        return True
    found = set(_results(figure, ground, others))
    few = others is None and len(ground.numbers) <= _MAX_IN_THREES
    return any(_meets(figure, result) for result in found) and (few or not _by_chance(figure, found))


def _meets(figure: Figure, result: Decimal) -> bool:
    target = figure.measure[1]
    result = abs(result)
    return result == target or (bool(figure.rounded) and is_rounded(figure, target, result))


def _worth(figure: Figure) -> Decimal:
    """What 1 of the figure's unit is in the smallest unit of its family."""
    return figure.measure[1] / figure.value if figure.value else Decimal(1)


def _by_chance(figure: Figure, found: set[Decimal]) -> bool:
    """Whether most numbers of the figure's size, as closely as it is given, follow as well."""
    target = figure.measure[1]
    grain = _worth(figure).scaleb(-figure.places)
    width = max(_LEAST_AROUND * grain, target * _AROUND)
    near = {abs(one) // grain for one in found if abs(abs(one) - target) <= width and abs(one) != target and one}
    return len(near) > _CHANCE * 2 * width / grain


def _results(figure: Figure, ground: Ground, others: Ground | None) -> Iterator[Decimal]:
    family = figure.measure[0]
    family = "%" if family == "percentage point" else family
    mine = [value for of, value in ground.numbers if of == family]
    counts = [value for of, value in ground.numbers if not of and value == int(value) and 1 < value <= _LARGEST_COUNT]
    if others is not None:
        its = [value for of, value in others.numbers if of == family]
        yield from (first - second for first, second in product(mine, its))
        return
    yield from (first - second for first, second in combinations(mine, 2))
    if family == "%":
        return
    yield sum(mine, Decimal(0))
    if mine:
        yield 2 * max(mine) - sum(mine, Decimal(0))  # what is left of the largest
    yield from _wholes(figure, ground, mine)
    yield from (value / by for value in mine for by in ground.divisors)
    yield sum((value for of, value in ground.told if of == family), Decimal(0))
    if _is_long(figure) or family in _CURRENCIES:  # two of several small numbers have many a sum
        yield from (first + second for first, second in combinations(mine, 2))
    if not family and len(mine) <= _MAX_IN_THREES:
        yield from (first * second for first, second in combinations(mine, 2))
    if len(mine) <= _MAX_IN_THREES:
        yield from (one for three in combinations(mine, 3) for one in _of_three(*three) if _is_long(figure))
    if family:
        yield from (value * count for value in mine for count in counts)
    if family in _CURRENCIES:
        pairs = [first + second for first, second in combinations(mine, 2)]
        yield from (value * period for value in [*mine, *pairs] for period in _PERIODS)
    if len(ground.numbers) <= _MAX_IN_THREES:
        yield from _mixed(figure, ground)


def _wholes(figure: Figure, ground: Ground, mine: Sequence[Decimal]) -> Iterator[Decimal]:
    """Sums of all numbers, where the unit is said of the first alone: `1,150 hectares of pine and 340 of scrub`."""
    family, worth = figure.measure[0], _worth(figure)
    if not family:
        yield from _totals(ground)
    if not family or not mine:
        return
    for bare in (ground.elliptic, [value for of, value in ground.numbers if not of and value >= _LEAST_BARE]):
        if 0 < len(bare) <= _MAX_MIXED:
            yield sum(mine, Decimal(0)) + worth * sum(bare, Decimal(0))
            yield from (value + worth * other for value, other in product(mine, bare) if _is_long(figure))


def _totals(ground: Ground) -> Iterator[Decimal]:
    """All that is told of one kind, for a total without its unit: `with security it comes to 150,500`."""
    long = sum((value for of, value in ground.numbers if not of and value >= _LEAST_BARE), Decimal(0))
    for family in {of for of, _ in ground.numbers if of in _CURRENCIES or of == "time"}:
        told = [value for of, value in ground.numbers if of == family]
        if family in _CURRENCIES:
            yield sum(told, Decimal(0)) + long
            continue
        grain = next((one for one in _GRAINS if all(value % one == 0 for value in told)), 1)
        yield sum(told, Decimal(0)) / grain + sum(ground.elliptic, Decimal(0))


def _mixed(figure: Figure, ground: Ground) -> Iterator[Decimal]:
    """Of numbers some of which are said without their unit: `one takes four weeks, the other eight`; one each day."""
    family, worth = figure.measure[0], _worth(figure)
    if family:
        mine, bare = [value for of, value in ground.numbers if of == family], [one * worth for one in ground.elliptic]
        yield from (one - other for one, other in product(mine, bare))
        if len(mine) == 1:
            yield from (mine[0] + other for other in bare)
        return
    if len(ground.numbers) > _MAX_MIXED:
        return
    natural = [_natural(of, value) for of, value in ground.numbers if of in ("", "time")]
    yield from (first + second for first, second in combinations(natural, 2))
    yield from (first - second for first, second in combinations(natural, 2))
    yield from (sum(three, Decimal(0)) for three in combinations(natural, 3))


def _told(beside: Iterable[Figure]) -> Iterator[tuple[str, Decimal]]:
    """Numbers of the sentence: `140 minutes by train and 45 by bus` has the unit once."""
    unit = ""
    for one in beside:
        if one.kind is Kind.NUMBER and not is_year(one):
            unit = one.unit or unit
            yield measure(one.value, unit)


def _without_noun(source: SourceText) -> Iterator[Decimal]:
    """Numbers behind which nothing says of what, `the other takes eight`, and ordinals: `on the fifth day`."""
    yield from (value for value in source.loose if value > _FEW)
    for one in source.figures:
        if one.kind is Kind.NUMBER and not one.unit and one.end and _NO_NOUN.match(source.text, one.end):
            yield one.value


def _of_three(first: Decimal, second: Decimal, third: Decimal) -> Iterator[Decimal]:
    yield from (first + second + third, first + second - third, first - second + third, first - second - third)


def _is_long(figure: Figure) -> bool:
    """Whether the number has so many digits that are not 0 at its end that no other is met by chance."""
    return len(figure.value.normalize().as_tuple().digits) >= _MANY_DIGITS


def _natural(family: str, value: Decimal) -> Decimal:
    """Days rather than seconds: what is counted beside them is one for each."""
    return value / _DAY_SECONDS if family == "time" and value % _DAY_SECONDS == 0 else value


def _spans(figure: Figure, text: str, ground: Ground, others: Ground | None) -> Iterator[Decimal]:
    """Times between years, days and times of day, in the smallest unit of the figure's family."""
    family = figure.measure[0]
    if figure.unit == "year" or (not figure.unit and _is_age(figure, text)):
        worth = _YEAR_MONTHS if figure.unit else 1
        yield from (Decimal(abs(a - b) * worth) for a, b in _pairs(ground.years, others and others.years))
        yield from (Decimal(abs(a - b) - 1) * worth for a, b in _pairs(*_years_of_days(ground, others)))
    elif family == "months":
        yield from (Decimal(_months(a) - _months(b)) for a, b in _pairs(*_days(ground, others)))
    elif figure.unit in _UNITS_OF_DAYS:
        for a, b in _pairs(*_days(ground, others)):
            between = _days_between(a, b)
            if between is not None:
                yield from (Decimal(between * _DAY_SECONDS), Decimal((between + 1) * _DAY_SECONDS))
    elif family == "time":
        for a, b in _pairs(ground.times, others and others.times):
            yield from (Decimal(minutes * 60) for minutes in (abs(a - b), _DAY_MINUTES - abs(a - b)))


def _is_age(figure: Figure, text: str) -> bool:
    before = fold(text)[max(0, figure.start - 12) : figure.start]
    return figure.value <= _OLDEST and _AGE.search(before) is not None


def _pairs(mine: Sequence[_Any], others: Sequence[_Any] | None = None) -> Iterator[tuple[_Any, _Any]]:
    yield from combinations(mine, 2) if others is None else product(mine, others)


def _days(ground: Ground, others: Ground | None) -> tuple[Sequence[Day], Sequence[Day] | None]:
    return [one for one in ground.days if one.month], others and [one for one in others.days if one.month]


def _years_of_days(ground: Ground, others: Ground | None) -> tuple[Sequence[int], Sequence[int] | None]:
    """Years of whole dates: between two of them one year may not be complete."""
    mine = [one.year for one in ground.days if one.year and one.month]
    return mine, others and [one.year for one in others.days if one.year and one.month]


def _months(day: Day) -> int:
    return (day.year or _SOME_YEAR) * _YEAR_MONTHS + day.month


def _days_between(first: Day, second: Day) -> int | None:
    if not (first.day and second.day) or bool(first.year) is not bool(second.year):
        return None
    try:
        return abs((_date(first) - _date(second)).days)
    except ValueError:
        return None


def _date(day: Day) -> date:
    return date(day.year or _SOME_YEAR, day.month, day.day)
