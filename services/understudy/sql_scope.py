"""What a statement is about: its main table, and the columns near it that the words of the question mean."""

import re
from collections.abc import Sequence

from services.runtime.expressions.quantities import Comparison
from services.understudy.schema_reader import Join, Table
from services.understudy.schema_words import Place, SchemaWords
from services.understudy.sql_request import Request
from services.understudy.words import content, stem

CURRENCY = re.compile(r"^[A-Z]{3}$")
YEAR_COLUMN = re.compile(r"^(?:year|ano|anio|ejercicio)$|_(?:year|ano)$")
_SUM_WORDS = frozenset(map(stem, ("total", "totals", "totales", "sum", "suma")))


class CannotExpress(Exception):
    """The question asks for something that the schema, or the writer, has no words for."""


class Scope:
    """The main table (`table`) of a request, and the joins from it to every table in reach (`paths`)."""

    def __init__(self, request: Request, words: SchemaWords) -> None:
        """Raises CannotExpress when no table fits."""
        self.request = request
        self.words = words
        self.table = _main_table(request, words)
        self.paths: dict[str, list[Join]] = words.schema.paths(self.table.name)

    def fan_outs(self, table: str) -> int:
        """How many joins on the way to a table may multiply rows."""
        return sum(join.fans_out for join in self.paths[table])

    def places(self, *, fans_out: bool = True) -> list[Place]:
        """Columns by nearness: the table itself, what it references, then what references it."""
        names = sorted(self.paths, key=lambda name: (self.fan_outs(name), len(self.paths[name])))
        return [
            Place(name, column)
            for name in names
            if fans_out or not self.fan_outs(name)
            for column in self.words.schema.tables[name].columns.values()
        ]

    def distance(self, place: Place) -> float:
        """What nearness is worth when columns compete."""
        return 0.3 * len(self.paths[place.table]) + 1.0 * self.fan_outs(place.table)

    def meant(self, place: Place, words: Sequence[str] | None = None) -> float:
        """How surely the request, or the given stems, mean a column."""
        known = self.request.words if words is None else words
        return max((self.words.column_weight(word, place) for word in known), default=0)

    def measure(self, unit: str = "", near: Sequence[str] | None = None) -> Place | None:
        """The number column meant, by words, unit and nearness. `near` are stems around a threshold."""
        words = near or [word for word in self.request.words if word not in _SUM_WORDS]
        best: tuple[float, Place] | None = None
        for place in self.places():
            column = place.column
            if not is_measure(place) or (unit and column.unit and column.unit.upper() != unit):
                continue
            score = self.meant(place, words) + 2 * bool(unit and column.unit) - self.distance(place)
            score += 0.5 * bool(CURRENCY.match(column.unit))
            if best is None or score > best[0]:
                best = score, place
        return best[1] if best and best[0] > -0.5 else None

    def day(self) -> Place | None:
        """The date column that is meant."""
        dated = [place for place in self.places() if place.column.is_date]
        return max(dated, key=lambda place: self.meant(place) - 2 * self.distance(place), default=None)

    def means_table(self, word: str) -> bool:
        """Whether a stem means the main table."""
        return self.words.table_of(word) == self.table.name

    def counted_by(self, threshold: Comparison) -> str | None:
        """The table whose rows a threshold counts, as in `more than 5 contracts`."""
        return _counted_by(threshold, self.request, self.words)


def is_measure(place: Place) -> bool:
    """Whether a column holds numbers that can be added or compared."""
    column = place.column
    return column.is_number and not column.is_key and not YEAR_COLUMN.search(column.name)


def _counted_by(threshold: Comparison, request: Request, words: SchemaWords) -> str | None:
    following = content(request.question[threshold.end :])[:1]
    return words.table_of(stem(following[0])) if following and not threshold.quantity.unit else None


def _main_table(request: Request, words: SchemaWords) -> Table:
    tables = words.schema.tables
    named = words.table_of(request.ranked_by) if request.ranked_by else None
    named = named or _subject_of_counting(request, words)
    for word in request.counted[:2]:
        named = named or words.table_of(word)
    if named:
        return tables[named]
    scores = {name: words.score(table, request.words) + 0.5 * _suits(request, table) for name, table in tables.items()}
    ranked = words.table_of(request.ranked) if request.ranked else None
    if ranked and not _has_measure_for(request, ranked, words):
        scores[ranked] = 0  # "Which region has the highest amount": what is added up is in another table
    best = max(scores, key=lambda name: scores[name])
    if scores[best] < 1.5 and not (len(tables) == 1 and (scores[best] > 0 or request.counts)):
        raise CannotExpress("no table fits")
    return tables[best]


def _subject_of_counting(request: Request, words: SchemaWords) -> str | None:
    """`Which providers have more than 5 contracts` is about providers."""
    counted = {_counted_by(one, request, words) for one in request.comparisons} - {None}
    for word in (request.subject, *request.counted[:2]):
        name = words.table_of(word) if word and counted else None
        if name and name not in counted:
            return name
    return None


def _has_measure_for(request: Request, table: str, words: SchemaWords) -> bool:
    places = [Place(table, column) for column in words.schema.tables[table].columns.values()]
    measures = [place for place in places if is_measure(place)]
    return any(words.column_weight(word, place) >= 1.5 for word in request.words for place in measures)


def _suits(request: Request, table: Table) -> int:
    numbers = any(is_measure(Place(table.name, column)) for column in table.columns.values())
    dates = any(column.is_date for column in table.columns.values())
    return int(bool(request.comparisons or request.sums) and numbers) + int(bool(request.dates) and dates)
