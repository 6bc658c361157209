"""Writes one parameterised SELECT from a question and a schema, by rules."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

from services.understudy.schema_reader import Schema
from services.understudy.schema_words import Place, words_of
from services.understudy.sql_conditions import Condition, conditions, row_counts
from services.understudy.sql_request import read_request
from services.understudy.sql_scope import CURRENCY, CannotExpress, Scope, is_measure
from services.understudy.sql_text import SelectText, alias_of, output
from services.understudy.words import content, stem

_ROW_LIMIT, _RANKING_LIMIT, _MAX_COLUMNS = 20, 5, 8
_PERIOD_FORMS = {"year": "YYYY", "month": "YYYY-MM", "quarter": 'YYYY-"Q"Q'}


@dataclass(frozen=True)
class Statement:
    """A SELECT with `$1` placeholders and the values of them, as JSON can hold them."""

    sql: str
    params: list[Any]


@lru_cache(maxsize=256)
def write_sql(question: str, schema: Schema, today: date) -> Statement | None:
    """The statement that answers a question, or None when a table, or a column for a condition, is missing."""
    if not schema.tables:
        return None
    try:
        return _Writer(Scope(read_request(question, today), words_of(schema))).write()
    except CannotExpress:
        return None


class _Writer:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._request = scope.request
        self._words = scope.words
        self._text = SelectText(scope)

    def write(self) -> Statement:
        found, counts = conditions(self._scope), row_counts(self._scope)
        groups = self._groups()
        rows = not groups and self._wants_rows(found)
        outputs = self._row_columns() if rows else self._aggregates(found)
        # Parameters are numbered in the order of the text: only WHERE has any.
        where = self._text.where(found, counts)
        tail = self._row_order() if rows else self._group_tail(len(groups), len(outputs))
        sql = "SELECT " + ", ".join(output(expression, alias) for expression, alias in (*groups, *outputs))
        sql += f" FROM {self._text.sources()}" + (f" WHERE {' AND '.join(where)}" if where else "") + tail
        return Statement(sql, self._text.params)

    # Groups

    def _groups(self) -> list[tuple[str, str]]:
        """(expression, alias) to group by."""
        request = self._request
        found: list[tuple[str, str]] = []
        words = list(request.group_words)
        if request.ranked and not self._scope.means_table(request.ranked):
            words.insert(0, request.ranked)
        for place in filter(None, map(self._category, words)):
            name = place.column.name
            alias = f"{place.table.removesuffix('s')}_name" if name == "name" else name
            found.append((self._text.column(place), alias))
        if request.period and (day := self._scope.day()):
            form = _PERIOD_FORMS[request.period]
            found.append((f"to_char({self._text.column(day)}, '{form}')", request.period))
        return list(dict.fromkeys(found))

    def _category(self, word: str) -> Place | None:
        """The column that a noun after `per` means; of a table, the column that names its rows."""
        best: tuple[float, Place] | None = None
        for place in self._scope.places(fans_out=False):
            column, table = place.column, self._words.schema.tables[place.table]
            if column.is_number and not column.is_key:
                continue
            score = self._words.column_weight(word, place)
            if column == table.label and table is not self._scope.table:
                score = max(score, self._words.table_weight(word, place.table) + 0.5)
            elif column.is_key:
                score -= 1.2  # a name says more to a reader than a number
            score -= self._scope.distance(place)
            if score >= 1 and (best is None or score > best[0]):
                best = score, place
        return best[1] if best else None

    def _group_tail(self, groups: int, outputs: int) -> str:
        if not groups:
            return ""
        request = self._request
        text = " GROUP BY " + ", ".join(str(index + 1) for index in range(groups))
        if request.ranked or request.order in ("most", "least") or request.limit:
            least = request.order == "least" or re.search(r"\b(?:fewest|menos|least)\b", request.plain)
            limit = request.limit or (1 if request.ranked and not request.group_words else _ROW_LIMIT)
            return f"{text} ORDER BY {groups + outputs} {'ASC' if least else 'DESC'} LIMIT {limit}"
        return text + (" ORDER BY 1" if request.period else f" ORDER BY {groups + 1} DESC")

    # Rows

    def _wants_rows(self, found: Sequence[Condition]) -> bool:
        request = self._request
        if request.counts or request.averages:
            return False
        if not request.sums and any(one.place.column.primary_key for one in found):
            return True
        if request.order in ("latest", "oldest"):
            return True
        if request.order:
            return self._superlative_is_of_rows()
        return request.lists and not request.sums

    def _superlative_is_of_rows(self) -> bool:
        """`the largest contract`, `the contract with the highest amount`: rows. `the highest amount`: a number."""
        start, end = self._request.order_at
        if self._request.limit or self._request.plain[start:end] == "top":
            return True
        before = [stem(word) for word in content(self._request.plain[:start])][-2:]
        after = [stem(word) for word in content(self._request.plain[end:])][:1]
        if before and self._means_measure(before[-1]):
            return False
        return any(map(self._scope.means_table, (*after, *before)))

    def _means_measure(self, word: str) -> bool:
        place = self._words.column_of(word)
        return place is not None and is_measure(place)

    def _row_columns(self) -> list[tuple[str, str]]:
        """What names a row, what was asked for, what it is ordered by, and the names of what it references."""
        scope, table = self._scope, self._scope.table
        own = [Place(table.name, column) for column in table.columns.values()]
        wanted = [Place(table.name, column) for column in (table.key, table.label) if column]
        wanted += [place for place in own if scope.meant(place) >= 2 and not place.column.references]
        wanted += [place for place in (scope.measure(), scope.day()) if place and place.table == table.name]
        for name, path in scope.paths.items():
            label = self._words.schema.tables[name].label
            named = any(self._words.table_of(word) == name for word in self._request.words)
            if path and label and named and not scope.fan_outs(name):
                wanted.append(Place(name, label))
        chosen = list({(place.table, place.column.name): place for place in wanted}.values()) or own
        outputs: dict[str, str] = {}
        for place in chosen[:_MAX_COLUMNS]:
            alias = alias_of("", place.column)
            away = place.table != table.name or alias in outputs
            outputs[f"{place.table.removesuffix('s')}_{alias}" if away else alias] = self._text.column(place)
        return [(expression, alias) for alias, expression in outputs.items()]

    def _row_order(self) -> str:
        request = self._request
        ranked = self._scope.day() if request.order in ("latest", "oldest") else self._scope.measure()
        default = (_RANKING_LIMIT if self._is_plural() else 1) if request.order else _ROW_LIMIT
        limit = request.limit or default
        if not request.order or ranked is None or self._scope.paths[ranked.table]:
            return f" ORDER BY 1 LIMIT {limit}"
        falling = request.order in ("most", "latest")
        return f" ORDER BY {self._text.column(ranked)} {'DESC NULLS LAST' if falling else 'ASC'} LIMIT {limit}"

    def _is_plural(self) -> bool:
        start, end = self._request.order_at
        near = content(self._request.plain[max(0, start - 25) : end + 25])
        return any(word.endswith("s") and self._scope.means_table(stem(word)) for word in near)

    # Aggregates

    def _aggregates(self, found: Sequence[Condition]) -> list[tuple[str, str]]:
        """Count, sum, average, greatest or least. A count above an amount of money comes with the sum."""
        request = self._request
        if distinct := self._distinct_count():
            return [distinct]
        rows = ("count(*)", f"{self._scope.table.name}_count")
        of_money = (one.place for one in found if CURRENCY.match(one.place.column.unit))
        threshold = next((place for place in of_money if is_measure(place)), None)
        measure = threshold or self._scope.measure()
        if measure is None or self._scope.fan_outs(measure.table):
            return [rows]
        ranked_by_measure = bool(request.ranked) and not self._words.table_of(request.ranked_by)
        superlative = request.order if request.order in ("most", "least") and not request.ranked else ""
        superlative = "" if request.counts or request.limit else superlative
        sums = (request.sums or threshold is not None or ranked_by_measure) and not superlative
        sums = sums and (request.counts or not request.averages)
        asks_number = request.sums or request.averages or bool(superlative) or ranked_by_measure
        outputs: list[tuple[str, str]] = [rows] if request.counts or not asks_number else []
        outputs = self._with_numbers_counted(outputs, measure)
        column = self._text.column(measure) if sums or request.averages or superlative else ""
        if sums:
            outputs.append((f"sum({column})", alias_of("total", measure.column)))
        if request.averages:
            outputs.append((f"avg({column})", alias_of("average", measure.column)))
        if superlative:
            kind = "max" if superlative == "most" else "min"
            outputs.append((f"{kind}({column})", alias_of(kind, measure.column)))
        return outputs

    def _with_numbers_counted(self, outputs: list[tuple[str, str]], measure: Place) -> list[tuple[str, str]]:
        """`How many inhabitants`: the things counted are a number column, so they are added up."""
        counted = self._request.counted[:1]
        if not counted or any(map(self._words.table_of, counted)) or self._scope.meant(measure, counted) < 1.5:
            return outputs
        return [(f"sum({self._text.column(measure)})", alias_of("total", measure.column))]

    def _distinct_count(self) -> tuple[str, str] | None:
        """`How many categories`: the different values of a column."""
        for word in self._request.counted[:1]:
            place = self._words.column_of(word) if self._words.table_of(word, 1.5) is None else None
            if place and place.table == self._scope.table.name and not place.column.is_number:
                return f"count(DISTINCT {self._text.column(place)})", f"{place.column.name}_count"
        return None
