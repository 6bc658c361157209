"""Finds the tables, columns and values of a schema that the words of a question mean."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.understudy.schema_reader import Column, Schema, Table
from services.understudy.words import alike, content, fold, stem

# Parts of names that say nothing of the meaning.
_FORM_WORDS = frozenset("id code key on at fk pk date num no ref uuid info data tabla table column".split())
_SEGMENT = re.compile(r"[()\[\];:,./]|\s[-–—]\s")


def vocabulary(name: str, description: str) -> Mapping[str, float]:
    """Stems by weight: the name most, then the first words of each part of the description, then the rest."""
    weights: dict[str, float] = {}
    for segment in _SEGMENT.split(description):
        for index, word in enumerate(content(segment)):
            one = stem(word)
            weights[one] = max(weights.get(one, 0), 2.5 if index == 0 else 1.5 if index == 1 else 0.6)
    for word in content(name.replace("_", " ")):
        if word not in _FORM_WORDS:
            weights[stem(word)] = 3
    return weights


def weight(word: str, known: Mapping[str, float]) -> float:
    """How surely the stem `word` means the thing with the vocabulary `known`; 0 is not at all."""
    exact = known.get(word, 0)
    return exact or max((0.8 * value for one, value in known.items() if alike(word, one)), default=0)


@dataclass(frozen=True)
class Place:
    """A column and the table it is in."""

    table: str
    column: Column


@dataclass(frozen=True)
class ValueMatch:
    """The question names `value` of a column, from `start` to `end`; `negated` as in `not active`."""

    place: Place
    value: str
    negated: bool
    start: int
    end: int


class SchemaWords:
    """Vocabulary of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._tables = {table.name: vocabulary(table.name, table.description) for table in schema.tables.values()}
        self._columns = {
            (table.name, column.name): vocabulary(column.name, column.description)
            for table in schema.tables.values()
            for column in table.columns.values()
        }

    def places(self) -> Iterator[Place]:
        """Every column."""
        for table in self.schema.tables.values():
            for column in table.columns.values():
                yield Place(table.name, column)

    def table_weight(self, word: str, table: str) -> float:
        """How surely a stem means a table."""
        return weight(word, self._tables[table])

    def column_weight(self, word: str, place: Place) -> float:
        """How surely a stem means a column."""
        return weight(word, self._columns[place.table, place.column.name])

    def table_of(self, word: str, at_least: float = 2) -> str | None:
        """The table that a stem surely means."""
        scored = [(self.table_weight(word, name), name) for name in self._tables]
        best = max(scored, default=(0, ""))
        return best[1] if best[0] >= at_least else None

    def column_of(self, word: str, at_least: float = 1.5) -> Place | None:
        """The column that a stem surely means."""
        scored = [(self.column_weight(word, place), place) for place in self.places()]
        best = max(scored, key=lambda one: one[0], default=None)
        return best[1] if best and best[0] >= at_least else None

    def knows(self, word: str) -> bool:
        """Whether any table or column is called by a stem."""
        return self.table_of(word) is not None or self.column_of(word) is not None

    def score(self, table: Table, words: list[str]) -> float:
        """How well a table fits the stems of a question; what comes first counts a little more."""
        total = 0.0
        for index, word in enumerate(dict.fromkeys(words)):
            own = self.table_weight(word, table.name)
            inner = max((self.column_weight(word, Place(table.name, c)) for c in table.columns.values()), default=0)
            total += max(own, 0.4 * inner) * (1 + 0.5 / (1 + index))
        return total

    def values(self, question: str) -> tuple[ValueMatch, ...]:
        """Listed values that the question names, by themselves or by a synonym in their meaning."""
        return _values(self, question)

    def find_values(self, question: str) -> Iterator[ValueMatch]:
        """What `values` gives, found anew."""
        folded = fold(question)
        spoken = [(_singular(match[0]), *match.span()) for match in _SPOKEN.finditer(folded)]
        for place in self.places():
            listed = dict.fromkeys(place.column.examples, "") | dict(place.column.values)
            for value, meaning in listed.items():
                spans = [span for name in _names(value, meaning) for span in _mentions(name, question, spoken)]
                if spans and not self._names_a_thing(value, question[slice(*spans[0])]):
                    start, end = max(spans, key=lambda one: one[1] - one[0])
                    negated = bool(_NEGATION.search(folded, 0, start))
                    yield ValueMatch(place, value, negated, start, end)

    def _names_a_thing(self, value: str, mention: str) -> bool:
        """`contract` as a value of some column is not meant where it is the name of a table."""
        return mention != value and self.table_of(stem(fold(mention)), 3) is not None


@lru_cache(maxsize=64)
def words_of(schema: Schema) -> SchemaWords:
    """The vocabulary of a schema, made once."""
    return SchemaWords(schema)


@lru_cache(maxsize=256)
def _values(words: SchemaWords, question: str) -> tuple[ValueMatch, ...]:
    return tuple(words.find_values(question))


_SPOKEN = re.compile(r"[^\W_]+")
_NEGATION = re.compile(
    r"(?:\b(?:not|no|non|without|sin|excepto|except|excluding|salvo|fuera de|outside|"
    r"distint[oa]s? de)[\s-]+(?:(?:in|en|the|la|el|los|las|de|of|estan?|son|are|is|sea|"
    r"sean)\s+){0,3})$"
)


@lru_cache(maxsize=8192)
def _singular(word: str) -> str:
    """Without plural and gender only: `pagado` is not `pago`."""
    return re.sub(r"[aeo]$", "", re.sub(r"e?s$", "", word)) if len(word) > 3 else word


@lru_cache(maxsize=8192)
def _names(value: str, meaning: str) -> tuple[str, ...]:
    names = [name.strip() for name in re.split(r"[,;()/=]|\s(?:o|or|u|aka)\s", meaning)]
    return (value, *filter(None, names))


@lru_cache(maxsize=8192)
def _wanted(name: str) -> tuple[str, ...]:
    """The words of a name without plural and gender; none when it is too short to be recognised."""
    words = _SPOKEN.findall(fold(name.replace("_", " ")))
    if len(words) == 1 and (len(words[0]) < 3 or words[0].isdigit()):
        return ()
    return tuple(map(_singular, words))


def _mentions(name: str, question: str, spoken: Sequence[tuple[str, int, int]]) -> Iterator[tuple[int, int]]:
    """Places where a name stands in a question. Short capitals must be capitals there too: `US` is not `us`."""
    if len(name) <= 3 and name.isupper():
        if name in question:
            for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", question):
                yield match.span()
        return
    wanted = _wanted(name)
    for index in range(len(spoken) - len(wanted) + 1 if wanted else 0):
        if all(spoken[index + offset][0] == one for offset, one in enumerate(wanted)):
            yield spoken[index][1], spoken[index + len(wanted) - 1][2]
