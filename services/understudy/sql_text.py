"""Pieces of SQL text: quoted names, aliases, joins, conditions and numbered parameters."""

import re
from collections.abc import Sequence
from typing import Any

from services.understudy.schema_reader import Column, Join
from services.understudy.schema_words import Place
from services.understudy.sql_conditions import Condition, RowCount
from services.understudy.sql_scope import CURRENCY, Scope
from services.understudy.words import fold

_RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create
    current_date current_role current_time current_timestamp current_user default deferrable desc distinct do else end
    except false fetch for foreign from grant group having in initially intersect into lateral leading limit localtime
    localtimestamp not null offset on only or order placing primary references returning select session_user some
    symmetric table then to trailing true union unique user using variadic when where window with left right full
    inner join cross natural outer is like ilike similar""".split()
)


class SelectText:
    """Collects the joins and parameters of one SELECT while its parts are written."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._joined: list[Join] = []
        self.params: list[Any] = []

    def column(self, place: Place) -> str:
        """The qualified name of a column; its table is joined."""
        self._join_to(place.table)
        return f"{self._alias(place.table)}.{quote(place.column.name)}"

    def sources(self) -> str:
        """What stands after FROM. To be asked for last."""
        main = self._scope.table.name
        parts = [self._table(main), *(f"{self._table(join.other)} ON {self._on(join)}" for join in self._joined)]
        return " JOIN ".join(parts)

    def where(self, conditions: Sequence[Condition], counts: Sequence[RowCount]) -> list[str]:
        """Conditions as text. Those on tables that multiply rows become EXISTS or a count, once a table."""
        texts: list[str] = []
        apart: dict[str, list[Condition]] = {one.table: [] for one in counts}
        for one in conditions:
            if self._scope.fan_outs(one.place.table):
                apart.setdefault(one.place.table, []).append(one)
            else:
                texts.append(self._filled(one, self.column(one.place)))
        for table, own in apart.items():
            inner = self._inner(table, own)
            count = next((one for one in counts if one.table == table), None)
            if count:
                texts.append(f"(SELECT count(*) {inner}) {count.operator} {self._param(count.value)}")
            else:
                texts.append(f"EXISTS (SELECT 1 {inner})")
        return texts

    def _inner(self, table: str, conditions: Sequence[Condition]) -> str:
        """The subquery's text from FROM on; what comes before the first join that multiplies rows stays outside."""
        path = self._scope.paths[table]
        first = next(index for index, join in enumerate(path) if join.fans_out)
        if first:
            self._join_to(path[first - 1].other)
        sources = [self._table(path[first].other)]
        sources += [f"{self._table(join.other)} ON {self._on(join)}" for join in path[first + 1 :]]
        filled = [self._filled(one, f"{self._alias(table)}.{quote(one.place.column.name)}") for one in conditions]
        return f"FROM {' JOIN '.join(sources)} WHERE {' AND '.join([self._on(path[first]), *filled])}"

    def _join_to(self, table: str) -> None:
        self._joined += [join for join in self._scope.paths[table] if join not in self._joined]

    def _alias(self, table: str) -> str:
        return quote(_short(table, list(self._scope.words.schema.tables)))

    def _table(self, table: str) -> str:
        return f"{quote(table)} AS {self._alias(table)}"

    def _on(self, join: Join) -> str:
        left = f"{self._alias(join.other)}.{quote(join.other_column)}"
        return f"{left} = {self._alias(join.table)}.{quote(join.column)}"

    def _filled(self, condition: Condition, column: str) -> str:
        pieces = condition.template.split("$")
        marks = [self._param(value) for value in condition.values]
        text = "".join(piece + mark for piece, mark in zip(pieces, [*marks, ""], strict=True))
        return text.replace("{}", column)

    def _param(self, value: Any) -> str:
        self.params.append(value)
        return f"${len(self.params)}"


def quote(name: str) -> str:
    """A name as SQL writes it: in quotation marks only where it must be."""
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def output(expression: str, alias: str) -> str:
    """An output column; a column that already has the name needs no alias."""
    return expression if expression.endswith(f".{quote(alias)}") else f"{expression} AS {quote(alias)}"


def alias_of(kind: str, column: Column) -> str:
    """The name says the unit, so that a reader of the result needs no schema: `total_amount_eur`."""
    unit = column.unit.lower()
    named = CURRENCY.match(column.unit) and not column.name.endswith(unit)
    return fold(f"{kind}_{column.name}{f'_{unit}' if named else ''}".removeprefix("_"))


def _short(table: str, tables: list[str]) -> str:
    """The shortest beginning of a table's name that no other table shares."""
    for length in range(1, len(table)):
        if not any(other != table and other[:length] == table[:length] for other in tables):
            return table[:length].lower()
    return table
