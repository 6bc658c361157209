"""Whether a number of an answer can be computed from those of its sources, where the sentence says that it was."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from itertools import chain, combinations

from services.orchestrator.citing.figures import SECTION, Figure, Kind
from services.orchestrator.citing.source_text import SourceText

# Of more numbers than that the first are tried: the time is bounded whatever the source.
_MAX_NUMBERS, _MAX_IN_TRIPLES = 48, 20
_HUNDRED = Decimal(100)
# What is still called a third, and what is nearly or more than one, in points.
_SHARE_NEAR, _SHARE_FAR = Decimal("1.7"), Decimal(6)
# A number of that size is hardly met by chance, as a small one is: a product explains it without a word that says so.
_UNLIKELY = Decimal(1_000)
_SUM = frozenset(
    """total totals totalling sum sums altogether together combined overall add adds
    adding added suma sumando suman sumado sumados sumadas
    conjunto juntos juntas totalizan totaliza ascienden asciende""".split()
) | {"in all", "en todo"}
_DIFFERENCE = frozenset(
    """difference differ more fewer less higher lower longer shorter increase increased decrease decreased rose fell
    grew dropped gap remain remains remaining left late later delay delayed ahead missing short between diferencia mas
    menos subio bajo aumento aumentado disminuyo crecio cayo falta faltan faltaban queda quedan resta restan retraso
    reduced reduces reduction narrowed shrank faster slower cheaper dearer sooner earlier quicker older younger saves
    saved saving redujo reduce reducido reduccion ahorra ahorran ahorro rapido barato caro
    tarde antes despues entre brecha sobran sobra""".split()
)
_MEAN = frozenset("average averages averaging averaged mean media promedio medio promediada".split())
_RATIO = frozenset("times ratio double triple twice each per veces doble triple cada por razon proporcion".split())
_PRODUCT = frozenset("year yearly annual annually total altogether ano anual anuales anualmente".split())
_SHARE = frozenset("percent percentage share proportion porcentaje proporcion ciento cuota".split())
_REST = frozenset(
    "rest remaining remainder other others downtime resto restante restantes demas otro otros otras".split()
)
_BOUNDING = frozenset("more fewer less mas menos between entre".split())
# `the two of them` counts who acts, and is nothing to reckon with.
_FEW = 3
_PERIODS = tuple(map(Decimal, (12, 52, 4)))


@dataclass(frozen=True)
class Pool:
    """Numbers to compute with, each with the family of its unit; columns; what can be counted; whole dates."""

    numbers: Sequence[tuple[str, Decimal]]
    columns: Sequence[Sequence[Decimal]]
    counts: frozenset[int]
    dates: Sequence[date]

    @classmethod
    def of(cls, sources: Iterable[SourceText], beside: Iterable[Figure], *, years: bool) -> "Pool":
        """The numbers of the sources, and those that stand beside in the same sentence and are known to be right.

        `years`: years are numbers too, as for durations.
        """
        numbers: dict[tuple[str, Decimal], None] = {}
        columns: list[Sequence[Decimal]] = []
        counts: set[int] = set()
        dates: list[date] = []
        for one in beside:
            if not (one.spelt and not one.unit and one.value <= _FEW) and _counts(one, years=years):
                numbers[one.measure] = None
        for source in sources:
            columns.extend(source.columns)
            counts |= source.counts
            numbers |= {one.measure: None for one in source.figures if _counts(one, years=years or source.tabular)}
            dates.extend(_whole(source.figures))
        return cls(list(numbers)[:_MAX_NUMBERS], columns, frozenset(counts), dates[:_MAX_NUMBERS])


def is_computed(figure: Figure, pool: Pool, said: frozenset[str]) -> bool:
    """Whether the figure comes out of a small expression over the pool that the words `said` speak of."""
    if figure.kind is not Kind.NUMBER:
        return False
    if int(figure.value) == figure.value and int(figure.value) in pool.counts:
        return True
    family, target = figure.measure
    if figure.rounded:  # `more than 40` is a bound, and no difference
        said -= _BOUNDING
    with localcontext() as context:
        for trap in (InvalidOperation, DivisionByZero, Overflow):
            context.traps[trap] = False
        exact, inexact = _results(family, figure, pool, said)
        step = Decimal(1).scaleb(-figure.places) / 2
        return any(_near(result, target, step if figure.rounded else Decimal(0), figure) for result in exact) or any(
            _near(result, target, step, figure) for result in inexact
        )


def _counts(figure: Figure, *, years: bool) -> bool:
    return figure.kind is Kind.NUMBER and figure.unit != SECTION and (years or not is_year(figure))


def _near(result: Decimal, target: Decimal, step: Decimal, figure: Figure) -> bool:
    if not result.is_finite():
        return False
    return abs(abs(result) - target) <= step or (bool(figure.rounded) and is_rounded(figure, target, abs(result)))


def is_rounded(figure: Figure, target: Decimal, exact: Decimal) -> bool:
    """Whether `exact` in fewer digits is `target`, as the figure's text says: about, over or under it. Years never are.

    `target`: the figure's value, in the unit of `exact`.
    """
    if not target or is_year(figure):
        return exact == target
    step, off = _step(figure, target), exact - target
    if figure.share:
        within = _SHARE_NEAR if figure.rounded == "about" else _SHARE_FAR
        return abs(off) <= within and (figure.rounded == "about" or (off > 0) is (figure.rounded == "over"))
    if figure.rounded == "about":
        step /= 2
    elif (off < 0) is (figure.rounded == "over"):
        return False
    return abs(off) <= step and abs(off) * 10 <= target


def _step(figure: Figure, target: Decimal) -> Decimal:
    """What the last digit that is not 0 of the figure as written counts, in the unit of `target`."""
    if figure.last_place is None:
        return Decimal(0)
    return Decimal(1).scaleb(figure.last_place) * target / figure.value


def is_year(figure: Figure) -> bool:
    """Whether the number is written as years are, and has no unit."""
    return not (figure.unit or figure.places) and not set(figure.text) & set(".,'") and 1400 <= figure.value <= 2100


def _results(
    family: str, figure: Figure, pool: Pool, said: frozenset[str]
) -> tuple[Iterator[Decimal], Iterator[Decimal]]:
    """Results that must meet the figure exactly, and such that are rounded by nature."""
    if family == "percentage point":
        family = "%"
    alike = [value for of, value in pool.numbers if of == family or not of or not family]
    exact = (_sums_and_differences(alike, figure, pool, said), _products(alike, family, figure, pool, said))
    return chain.from_iterable(exact), _rates(alike, family, figure, pool, said)


def _sums_and_differences(
    alike: Sequence[Decimal], figure: Figure, pool: Pool, said: frozenset[str]
) -> Iterator[Decimal]:
    if said & _SUM:
        yield from _sums(alike, pool.columns)
    if figure.unit == "%" and said & _REST:
        yield from (_HUNDRED - value for of, value in pool.numbers if of == "%")
    if said & _DIFFERENCE:
        yield from (first - second for first, second in combinations(alike, 2))
        if figure.unit in ("day", "week", ""):
            yield from (
                Decimal(abs((a - b).days)) * (86_400 if figure.unit else 1) for a, b in combinations(pool.dates, 2)
            )


def _products(
    alike: Sequence[Decimal], family: str, figure: Figure, pool: Pool, said: frozenset[str]
) -> Iterator[Decimal]:
    if figure.value >= _UNLIKELY:
        yield from _multiples(family, pool.numbers[:_MAX_IN_TRIPLES])
    if said & _PRODUCT and family not in ("time", "months"):
        yield from (value * period for value in alike for period in _PERIODS)
        yield from (first * second for first, second in combinations(alike[:_MAX_IN_TRIPLES], 2))


def _rates(
    alike: Sequence[Decimal], family: str, figure: Figure, pool: Pool, said: frozenset[str]
) -> Iterator[Decimal]:
    large = figure.value >= _UNLIKELY and family != "%"
    if said & _MEAN:
        yield from (sum(column, Decimal(0)) / len(column) for column in [*pool.columns, alike] if column)
    if said & _MEAN or (said & _RATIO and (figure.places or figure.rounded or large)):
        yield from _quotients(alike)
    if large:
        yield from _by_percentage(alike, [value for of, value in pool.numbers if of == "%"])
    if figure.unit == "%" or said & _SHARE:
        yield from _percentages([value for of, value in pool.numbers if of != "%"])
        yield from _percentages_of_columns(pool.columns)


def _sums(numbers: Sequence[Decimal], columns: Sequence[Sequence[Decimal]]) -> Iterator[Decimal]:
    for column in columns:
        for start in range(min(len(column), _MAX_NUMBERS)):
            total = Decimal(0)
            for value in column[start:]:
                total += value
                yield total
    yield from (first + second for first, second in combinations(numbers, 2))
    yield from (sum(three, Decimal(0)) for three in combinations(numbers[:_MAX_IN_TRIPLES], 3))
    yield sum(numbers, Decimal(0))


def _quotients(numbers: Sequence[Decimal]) -> Iterator[Decimal]:
    for first, second in combinations(numbers, 2):
        yield first / second
        yield second / first


def _by_percentage(numbers: Sequence[Decimal], rates: Sequence[Decimal]) -> Iterator[Decimal]:
    """What a percentage makes of a number, and what it was before the percentage was added or taken off."""
    for number in numbers:
        for rate in rates:
            part = number * rate / _HUNDRED
            yield from (part, number + part, number - part)
            for factor in (1 + rate / _HUNDRED, 1 - rate / _HUNDRED):
                if factor:
                    yield from (number / factor, number - number / factor)


def _multiples(family: str, numbers: Sequence[tuple[str, Decimal]]) -> Iterator[Decimal]:
    """So many of something: of the two factors one is in the result's unit, and the other is not."""
    for of, value in numbers:
        if of == family or not of or not family:
            yield from (value * times for other, times in numbers if (not other or other != family) and times != 1)


def _percentages(numbers: Sequence[Decimal]) -> Iterator[Decimal]:
    for first, second in combinations(numbers, 2):
        for part, whole in ((first, second), (second, first)):
            yield part / whole * _HUNDRED
            yield (part - whole) / whole * _HUNDRED


def _percentages_of_columns(columns: Sequence[Sequence[Decimal]]) -> Iterator[Decimal]:
    for column in columns:
        total = sum(column, Decimal(0))
        yield from (value / total * _HUNDRED for value in column[:_MAX_NUMBERS])


def _whole(found: Iterable[Figure]) -> Iterator[date]:
    for one in found:
        if one.kind is Kind.DATE and one.day.year and one.day.month and one.day.day:
            try:
                yield date(one.day.year, one.day.month, one.day.day)
            except ValueError:
                continue
