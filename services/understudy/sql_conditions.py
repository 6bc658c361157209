"""The conditions that a question sets: thresholds, days, listed values, codes and names."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from services.runtime.expressions.dates import DateRange
from services.runtime.expressions.quantities import Comparison
from services.understudy import sql_request
from services.understudy.schema_words import Place, ValueMatch
from services.understudy.sql_scope import YEAR_COLUMN, CannotExpress, Scope
from services.understudy.words import content, stem


@dataclass
class Condition:
    """A condition on a column. In `template` `{}` stands for the column and each `$` for the next of `values`."""

    place: Place
    template: str
    values: list[Any] = field(default_factory=list[Any])


@dataclass(frozen=True)
class RowCount:
    """A condition on how many rows of another table belong to a row, as in `with more than 5 contracts`."""

    table: str
    operator: str
    value: int | float


def row_counts(scope: Scope) -> list[RowCount]:
    """Thresholds on numbers of rows. Raises CannotExpress where rows cannot be counted from the main table."""
    found: list[RowCount] = []
    for one in scope.request.comparisons:
        table = scope.counted_by(one)
        if table is None or table == scope.table.name:
            continue
        path = scope.paths.get(table, [])
        if one.upper or scope.fan_outs(table) != 1 or not path[-1].fans_out:
            raise CannotExpress("rows that cannot be counted from here")
        found.append(RowCount(table, one.operator, as_json(one.quantity.value)))
    return found


def conditions(scope: Scope) -> list[Condition]:
    """All conditions on columns. Raises CannotExpress for one that no column fits: leaving it out would be wrong."""
    taken = [(one.start, one.end) for one in (*scope.request.comparisons, *scope.request.dates)]
    return [
        *_thresholds(scope),
        *(condition for one in scope.request.dates for condition in _days(scope, one)),
        *_listed_values(scope, taken),
        *_codes(scope, taken),
        *_names(scope, taken),
    ]


def _thresholds(scope: Scope) -> Iterator[Condition]:
    for one in scope.request.comparisons:
        counted = scope.counted_by(one)
        if counted and counted != scope.table.name:
            continue
        place = scope.measure(one.quantity.unit, _words_around(scope, one)) or scope.measure(one.quantity.unit)
        if place is None:
            raise CannotExpress("no number column for a threshold")
        if one.upper is not None:
            yield Condition(place, "{} BETWEEN $ AND $", [as_json(one.quantity.value), as_json(one.upper.value)])
        else:
            yield Condition(place, f"{{}} {one.operator} $", [as_json(one.quantity.value)])


def _words_around(scope: Scope, one: Comparison) -> list[str]:
    """Stems of the column names just before a threshold and of the word after it."""
    question = scope.request.question
    near = [*content(question[max(0, one.start - 40) : one.start]), *content(question[one.end :])[:1]]
    return [stem(word) for word in near if scope.words.column_of(stem(word))]


def _days(scope: Scope, one: DateRange) -> Iterator[Condition]:
    bounds = [(template, day) for template, day in (("{} >= $", one.first), ("{} < $", one.until)) if day]
    place = scope.day()
    if place is not None:
        yield from (Condition(place, template, [day.isoformat()]) for template, day in bounds)
        return
    years = [place for place in scope.places() if place.column.is_number and YEAR_COLUMN.search(place.column.name)]
    if not years or any((day.month, day.day) != (1, 1) for _, day in bounds):
        raise CannotExpress("no date column")
    yield from (Condition(years[0], template, [day.year]) for template, day in bounds)


def _listed_values(scope: Scope, taken: list[tuple[int, int]]) -> list[Condition]:
    """One condition a column. Of columns that the same mention fits, the nearest; longer mentions come first."""

    def rank(one: ValueMatch) -> tuple[int, float]:
        return one.start - one.end, scope.distance(one.place) - 0.1 * scope.meant(one.place)

    matches = [one for one in scope.words.values(scope.request.question) if one.place.table in scope.paths]
    chosen: dict[tuple[str, str, bool], Condition] = {}
    for one in sorted(matches, key=rank):
        if _free(taken, one.start, one.end):
            taken.append((one.start, one.end))
            key = one.place.table, one.place.column.name, one.negated
            chosen.setdefault(key, Condition(one.place, "")).values.append(one.value)
    for (_, _, negated), condition in chosen.items():
        several = len(condition.values) > 1
        marks = f"({', '.join('$' for _ in condition.values)})" if several else "$"
        operator = ("NOT IN" if negated else "IN") if several else ("<>" if negated else "=")
        condition.template = f"{{}} {operator} {marks}"
    return list(chosen.values())


def _codes(scope: Scope, taken: list[tuple[int, int]]) -> Iterator[Condition]:
    for code, start, end in sql_request.codes(scope.request.question):
        if not _free(taken, start, end):
            continue
        taken.append((start, end))
        place = _code_column(scope, code)
        if place is None:
            raise CannotExpress("no column for a code")
        yield Condition(place, "{} = $", [code])


def _code_column(scope: Scope, code: str) -> Place | None:
    """The text column whose samples look like the code, else the nearest key of text."""
    wanted = sql_request.shape(code)
    texts = [place for place in scope.places() if place.column.is_text]
    for place in texts:
        samples = sql_request.codes(f"{place.column.description} {' '.join(place.column.examples)}")
        if wanted in (sql_request.shape(sample) for sample, _, _ in samples):
            return place
    return next((place for place in texts if place.column.primary_key), None)


def _names(scope: Scope, taken: list[tuple[int, int]]) -> Iterator[Condition]:
    """Names in quotation marks must be equal, capitalised names be part."""
    for name, start, end in sql_request.quoted(scope.request.question):
        if _free(taken, start, end) and (place := _name_column(scope, start)):
            taken.append((start, end))
            yield Condition(place, "{} = $", [name])
    for name, start, end in sql_request.proper_nouns(scope.request.question):
        known = all(scope.words.knows(stem(word)) for word in content(name))
        if known or not _free(taken, start, end):
            continue
        place = _name_column(scope, start)
        if place is None:
            raise CannotExpress("no column for a name")
        yield Condition(place, "{} ILIKE $", [f"%{name}%"])


def _name_column(scope: Scope, start: int) -> Place | None:
    """The label of the table named just before; else of what the main table references, of itself, of the rest."""
    tables = scope.words.schema.tables
    before = [stem(word) for word in content(scope.request.question[:start])][-2:]
    for word in reversed(before):
        name = scope.words.table_of(word)
        if name in scope.paths and name != scope.table.name and (label := tables[name].label):
            return Place(name, label)

    def rank(name: str) -> tuple[int, bool, int]:
        return scope.fan_outs(name), name == scope.table.name, len(scope.paths[name])

    labels = ((name, tables[name].label) for name in sorted(scope.paths, key=rank))
    return next((Place(name, label) for name, label in labels if label), None)


def _free(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    return not any(a < end and start < b for a, b in taken)


def as_json(value: Decimal) -> int | float:
    """A number as JSON holds it."""
    return int(value) if value == value.to_integral_value() else float(value)
