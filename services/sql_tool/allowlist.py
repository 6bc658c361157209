"""What one tenant may read, as the guard needs it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Every table has these, and they answer to a bare name.
SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


@dataclass(frozen=True)
class AllowedTable:
    """`columns` may be read, in the order of the table; `hidden` exist and may not."""

    schema: str
    name: str
    columns: tuple[str, ...]
    hidden: frozenset[str] = frozenset()

    @property
    def qualified(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class AllowList:
    """Tables by schema and name; a bare table name means `schema`.

    `shadowed_functions` and `shadowed_operators` also exist in the tenant's own schema, where they may do anything.
    """

    schema: str
    tables: Mapping[tuple[str, str], AllowedTable]
    shadowed_functions: frozenset[str] = field(default=frozenset())
    shadowed_operators: frozenset[str] = field(default=frozenset())

    def find(self, schema: str | None, name: str) -> AllowedTable | None:
        """The table that a statement names, or None when it may not be read."""
        return self.tables.get((schema or self.schema, name))

    def names(self) -> list[str]:
        """Names of the tables as a statement writes them."""
        return sorted(t.name if t.schema == self.schema else t.qualified for t in self.tables.values())


def of(tables: Iterable[AllowedTable], schema: str = "public") -> AllowList:
    """An allow-list of `tables`, without anything of the tenant's own."""
    return AllowList(schema, {(table.schema, table.name): table for table in tables})
