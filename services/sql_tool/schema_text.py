"""Chooses what a model is told of the tenant's schema: all of it if it fits, else what the question needs."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.runtime.tenants import SqlSource
from services.sql_tool import schema
from services.sql_tool.catalog import Catalog, split
from services.sql_tool.relevance import Index, Words
from services.sql_tool.schema import Detail, tokens

# Tables whose score is at least this share of the best one's are what the question is about.
_RELEVANT = 0.25
_MOST_RELEVANT = 12
_MOST_JOINS = 3
# Of the best tables, what they refer to comes along too.
_WITH_PARENTS = 3
# Tables in a row that do not fit any more, after which no other is tried.
_MOST_MISSES = 8
# Shares of the budget: for a first line on each relevant table, and for the names of what is left out.
_FIRST_PASS, _NAMES_LEFT_OUT = 0.7, 0.08
_NAME, _DESCRIPTION, _COLUMN_NAME, _COLUMN_MEANING, _VALUES = 3.0, 2.0, 1.0, 1.0, 1.0


@dataclass(frozen=True)
class Description:
    """The text, and the tables in it as schema.table."""

    text: str
    tables: tuple[str, ...]


class SchemaText:
    """One source's schema for a model, prepared once. `examples` holds values by schema.table.column."""

    def __init__(self, source: SqlSource, known: Catalog, examples: Mapping[str, list[str]]) -> None:
        self.source = source
        self._known = known
        self._examples = examples
        keys = [split(name, source.database_schema) for name in source.tables]
        # In the order of the tenant's file, whatever the question: the text is part of cached prompts.
        self._tables = [known.allowed.tables[key] for key in keys if key in known.allowed.tables]
        self._said = [schema.declared(source, table) for table in self._tables]
        self._index = Index([self._words(at) for at in range(len(self._tables))])
        places = {table.qualified: place for place, table in enumerate(self._tables)}
        self._parents = [self._references(at, places) for at in range(len(self._tables))]
        self._children: list[list[int]] = [[] for _ in self._tables]
        for child, parents in enumerate(self._parents):
            for parent in parents:
                self._children[parent].append(child)
        self._texts: dict[tuple[int, Detail], str] = {}
        self._sizes: dict[tuple[int, Detail], int] = {}

    def size(self) -> int:
        """Tokens of everything that could be said."""
        return sum(self._size(at, Detail.EXAMPLES) for at in range(len(self._tables)))

    def relevance(self, question: str) -> float:
        """The score of the table that fits best; 0 where none does."""
        return max(self._index.scores(question), default=0) if question else 0

    def describe(self, max_tokens: int, question: str = "") -> Description:
        """As much as fits into `max_tokens`.

        Everything, or without examples. Else, with a question: its tables and those that join them in full, others as
        far as there is room. Without one: columns without meanings, then as many tables as fit, in the file's order.
        """
        every = range(len(self._tables))
        scores = self._index.scores(question) if question else []
        about = question if any(scores) else ""
        for detail in (
            (Detail.EXAMPLES, Detail.MEANINGS) if about else (Detail.EXAMPLES, Detail.MEANINGS, Detail.COLUMNS)
        ):
            if sum(self._size(at, detail) for at in every) <= max_tokens:
                return self._joined({at: self._text(at, detail) for at in every}, max_tokens)
        return self._chosen(max_tokens, about, scores)

    def _chosen(self, max_tokens: int, question: str, scores: Sequence[float]) -> Description:
        relevant = self._relevant(scores) if question else []
        others = [at for at in range(len(self._tables)) if at not in set(relevant)]
        if question:
            others.sort(key=lambda at: -scores[at])
        stems = self._index.stems(question) if question else None
        line = tokens(_left_out(len(self._tables)))
        room = max_tokens - max(line, round(max_tokens * _NAMES_LEFT_OUT))
        chosen: dict[int, str] = {}
        left = self._add(chosen, relevant, round(room * _FIRST_PASS), stems) + room - round(room * _FIRST_PASS)
        for at in list(chosen):
            for detail in (Detail.EXAMPLES, Detail.MEANINGS):
                gain = self._size(at, detail) - tokens(chosen[at])
                if gain <= left:
                    chosen[at] = self._text(at, detail)
                    left -= gain
                    break
        self._add(chosen, [*relevant, *others], left, stems)
        return self._joined(chosen, max_tokens, [*relevant, *others])

    def _add(self, chosen: dict[int, str], wanted: Sequence[int], room: int, stems: frozenset[str] | None) -> int:
        """Adds tables in brief while they fit into `room` tokens. Returns what is left of it."""
        misses = 0
        for at in wanted:
            if at in chosen:
                continue
            text = self._text(at, Detail.COLUMNS) if stems is None else self._brief(at, stems)
            size = tokens(text)
            if size <= room:
                chosen[at] = text
                room -= size
                misses = 0
            elif (misses := misses + 1) == _MOST_MISSES:
                break
        return room

    def _joined(self, texts: Mapping[int, str], max_tokens: int, order: Sequence[int] = ()) -> Description:
        shown = sorted(texts)
        parts = [texts[at] for at in shown]
        names = [schema.table_name(self._known, self._tables[at]) for at in order if at not in texts]
        if names:
            head = _left_out(len(names))
            room = max_tokens - sum(map(tokens, (*parts, head)))
            listed = schema.listed(names, min(room, round(max_tokens * _NAMES_LEFT_OUT)))
            parts.append(f"{head}: {listed}" if listed else head)
        return Description("\n".join(parts), tuple(self._tables[at].qualified for at in shown))

    def _relevant(self, scores: Sequence[float]) -> list[int]:
        """Best first; tables that join two of them come with the second."""
        least = _RELEVANT * max(scores)
        ranked = sorted(
            (at for at, score in enumerate(scores) if score >= least and score > 0), key=lambda at: -scores[at]
        )
        found: dict[int, None] = {}
        for at in ranked[:_MOST_RELEVANT]:
            before = list(found)
            found[at] = None
            for other in before:
                found.update(dict.fromkeys(self._between(other, at)))
        for at in list(found)[:_WITH_PARENTS]:
            found.update(dict.fromkeys(sorted(self._parents[at])))
        return list(found)

    def _between(self, one: int, other: int) -> Iterable[int]:
        """The tables on the shortest way of joins; none where a parent in common is all that there is."""
        came_from: dict[int, int] = {one: one}
        waiting = deque([(one, 0)])
        while waiting:
            at, steps = waiting.popleft()
            if at == other:
                break
            if steps == _MOST_JOINS:
                continue
            came = came_from[at]
            rose = at != one and at in self._parents[came]
            for next_one in self._neighbours(at):
                # Two children of one parent join on its key without it.
                if next_one not in came_from and not (rose and at in self._parents[next_one]):
                    came_from[next_one] = at
                    waiting.append((next_one, steps + 1))
        way: list[int] = []
        at = came_from.get(other, one)
        while at != one:
            way.append(at)
            at = came_from[at]
        return way

    def _neighbours(self, at: int) -> list[int]:
        return [*sorted(self._parents[at]), *self._children[at]]

    def _references(self, at: int, places: Mapping[str, int]) -> frozenset[int]:
        found: set[int] = set()
        for column in self._known.columns[self._tables[at].qualified]:
            refers = schema.target(self._known, self._said[at].columns[column.name], column)
            if refers is not None and refers[0].qualified in places:
                found.add(places[refers[0].qualified])
        return frozenset(found - {at})

    def _words(self, at: int) -> Words:
        table, said = self._tables[at], self._said[at]
        fields = [(_NAME, table.name), (_DESCRIPTION, said.description)]
        columns: dict[str, str] = {}
        for name in table.columns:
            column = said.columns[name]
            examples = self._examples.get(f"{table.qualified}.{name}", [])
            values = " ".join((*column.values, *column.values.values(), *examples))
            fields += [(_COLUMN_NAME, name), (_COLUMN_MEANING, column.description), (_VALUES, values)]
            columns[name] = f"{name} {column.description} {values}"
        return Words(fields, columns)

    def _brief(self, at: int, stems: frozenset[str]) -> str:
        wanted = self._index.columns(at, stems)
        return schema.ddl(self._said[at], self._known, self._tables[at], {}, Detail.NAMES, wanted)

    def _text(self, at: int, detail: Detail) -> str:
        if (at, detail) not in self._texts:
            self._texts[at, detail] = schema.ddl(self._said[at], self._known, self._tables[at], self._examples, detail)
        return self._texts[at, detail]

    def _size(self, at: int, detail: Detail) -> int:
        if (at, detail) not in self._sizes:
            self._sizes[at, detail] = tokens(self._text(at, detail))
        return self._sizes[at, detail]


def describe_all(texts: Sequence[SchemaText | SqlSource], max_tokens: int, question: str = "") -> Description:
    """All sources of a tenant; one that does not answer is given as its SqlSource, and said."""
    if len(texts) == 1 and isinstance(texts[0], SchemaText):
        return texts[0].describe(max_tokens, question)
    heads = [_head(one) for one in texts]
    shares = _shares(texts, max_tokens - sum(map(tokens, heads)), question)
    parts: list[str] = []
    tables: list[str] = []
    for head, one, share in zip(heads, texts, shares, strict=True):
        parts.append(head)
        if isinstance(one, SchemaText):
            description = one.describe(share, question)
            parts.append(description.text)
            tables += description.tables
    return Description("\n".join(part for part in parts if part), tuple(tables))


def _left_out(count: int) -> str:
    return f"-- {count} more tables are not shown"


def _head(one: SchemaText | SqlSource) -> str:
    source = one.source if isinstance(one, SchemaText) else one
    about = f": {' '.join(source.description.split())}" if source.description.strip() else ""
    lost = "" if isinstance(one, SchemaText) else " It does not answer at the moment."
    return f"-- Source {source.name}{about.rstrip('.')}.{lost}"


def _shares(texts: Sequence[SchemaText | SqlSource], budget: int, question: str) -> list[int]:
    """Equal parts, larger for what the question is about; what a small schema does not need goes to the others."""
    known = {at: text for at, text in enumerate(texts) if isinstance(text, SchemaText)}
    scores = {at: text.relevance(question) for at, text in known.items()}
    best = max(scores.values(), default=0) or 1
    weights = {at: 0.2 + score / best for at, score in scores.items()}
    shares = [0] * len(texts)
    for at in sorted(known, key=lambda at: known[at].size() / weights[at]):
        shares[at] = max(0, min(known[at].size(), int(budget * weights[at] / sum(weights.values()))))
        budget -= shares[at]
        del weights[at]
    return shares
