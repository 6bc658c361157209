"""Which column or row a name means at one place of a statement, by PostgreSQL's rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.runtime.errors import NotPermitted
from services.sql_tool import hints
from services.sql_tool.allowlist import SYSTEM_COLUMNS, AllowedTable
from services.sql_tool.nodes import Inferred

# Output columns of a query in order; None is a column whose name we do not know for certain.
Columns = tuple[str | None, ...]


@dataclass(frozen=True)
class Source:
    """One item of FROM. `table` is None for queries and functions, whose contents were checked where they stand."""

    name: str
    columns: Columns
    table: AllowedTable | None = None

    def has(self, column: str) -> bool:
        """Whether the column is there and may be read."""
        return column in self.columns

    def surely_has(self, column: str) -> bool:
        """Whether PostgreSQL is bound to find the column here, too."""
        return any(own == column and not isinstance(own, Inferred) for own in self.columns)

    def hides(self, column: str) -> bool:
        """Whether the column is there and may not be read."""
        return self.table is not None and (column in self.table.hidden or column in SYSTEM_COLUMNS)

    @property
    def whole(self) -> bool:
        """Whether the whole row may be read."""
        return self.table is None or not self.table.hidden


@dataclass
class Scope:
    """The sources of one query level and the levels around it. `ctes` are the WITH names that FROM may use.

    `shown` are the columns that `*` stands for.
    """

    sources: list[Source] = field(default_factory=list[Source])
    parent: Scope | None = None
    ctes: Mapping[str, Columns] = field(default_factory=dict[str, Columns])
    shown: list[str | None] = field(default_factory=list[str | None])

    def inner(self, sources: Sequence[Source] = ()) -> Scope:
        """A level inside of this one."""
        return Scope(list(sources), self, self.ctes)

    def beside(self, sources: Sequence[Source]) -> Scope:
        """The level as a join condition sees it: only `sources`."""
        return Scope(list(sources), self.parent, self.ctes)

    def has_local(self, column: str) -> bool:
        """Whether this level has the column. Raises NotPermitted (column) when it has it and hides it."""
        if any(source.hides(column) for source in self.sources):
            raise self.unknown(column)
        return any(source.has(column) for source in self.sources)

    def check_name(self, name: str) -> None:
        """A bare name: a column of the nearest level that has it, else a whole row. Raises NotPermitted (column)."""
        level: Scope | None = self
        found = False
        while level is not None:
            if level.has_local(name):
                found = True
                if any(source.surely_has(name) for source in level.sources):
                    return
            level = level.parent
        row = self._source(name, None)
        if row is not None:
            self.check_row(row)
        elif not found:
            raise self.unknown(name)

    def hides(self, name: str) -> bool:
        """Whether a bare name could be a column that may not be read, at this level or around it."""
        return any(source.hides(name) for source in self._visible())

    def check_column(self, schema: str | None, table: str, column: str) -> None:
        """A name with its table. Raises NotPermitted (table, column)."""
        source = self.source(schema, table)
        if source.hides(column) or not source.has(column):
            raise _unknown(f"{table}.{column}", source.columns)

    def unknown(self, name: str) -> NotPermitted:
        """What to say of a bare name that may not be read. The same for hidden columns: their names are hidden too."""
        return _unknown(name, [column for source in self._visible() for column in source.columns])

    def source(self, schema: str | None, name: str) -> Source:
        """The nearest source of that name. Raises NotPermitted (table)."""
        found = self._source(name, schema)
        if found is None:
            names = sorted({source.name for source in self._visible() if source.name})
            raise NotPermitted(
                f"`{name}` is no table or alias in this place.", rule="table", name=name, hint=nearest(name, names)
            )
        return found

    def check_row(self, source: Source) -> None:
        """A whole row or a star. Raises NotPermitted (column) when a column of it may not be read."""
        if not source.whole:
            readable = ", ".join(str(column) for column in source.columns)
            raise NotPermitted(
                f"Not every column of `{source.name}` may be read, so neither `*` nor the whole row.",
                rule="column",
                name=source.name,
                hint=f"Name the columns: {readable}.",
            )

    def _source(self, name: str, schema: str | None) -> Source | None:
        level: Scope | None = self
        while level is not None:
            for source in level.sources:
                if source.name == name and (schema is None or (source.table and source.table.schema == schema)):
                    return source
            level = level.parent
        return None

    def _visible(self) -> list[Source]:
        found: list[Source] = []
        level: Scope | None = self
        while level is not None:
            found += level.sources
            level = level.parent
        return found


def nearest(name: str, candidates: Sequence[str]) -> str:
    """Words that help to repair a wrong name."""
    if not candidates:
        return ""
    close = hints.nearest(name, candidates)
    listed = ", ".join(candidates[:40])
    return f"Did you mean `{close}`? Permitted: {listed}." if close else f"Permitted: {listed}."


def _unknown(name: str, candidates: Sequence[str | None]) -> NotPermitted:
    known = sorted({column for column in candidates if column})
    return NotPermitted(
        f"`{name}` is not a column that may be read here.",
        rule="column",
        name=name,
        hint=nearest(name.rsplit(".", 1)[-1], known) or "Give computed columns of subqueries a name with AS.",
    )
