"""Adds to a refusal what helps to repair it: where the name stands, and which permitted table or column was meant."""

from collections.abc import Generator
from contextlib import contextmanager

from services.runtime.errors import NotPermitted, ServiceError
from services.runtime.tenants import SqlSource
from services.sql_tool import hints
from services.sql_tool.catalog import Catalog, split
from services.sql_tool.codes import changed

_MOST_TABLES = 3


@contextmanager
def repairable(sql: str, source: SqlSource, known: Catalog) -> Generator[None]:
    """Refusals of a name in `sql` come out with `position` and a longer `hint`. Says nothing but what may be read."""
    try:
        yield
    except NotPermitted as error:
        raise _helped(error, sql, source, known) from None


def _helped(error: NotPermitted, sql: str, source: SqlSource, known: Catalog) -> ServiceError:
    name, rule = error.metadata.get("name", ""), error.metadata.get("rule", "")
    if not name or rule not in ("column", "table", "function", "type"):
        return error
    more: dict[str, str] = {}
    if not error.metadata.get("position") and (at := hints.position_of(sql, name)):
        more["position"] = str(at)
    bare = name.rsplit(".", 1)[-1]
    other = ""
    if rule == "column":
        other = _elsewhere(bare, sql, known) or _meant_column(bare, sql, source, known)
    elif rule == "table":
        other = _meant_table(bare, source, known)
    if other:
        more["hint"] = f"{error.metadata.get('hint', '')} {other}".strip()
    return changed(error, **more) if more else error


def _named(sql: str, known: Catalog) -> set[str]:
    """The permitted tables of the statement, as schema.table."""
    return {table.qualified for table in known.allowed.tables.values() if hints.position_of(sql, table.name)}


def _elsewhere(column: str, sql: str, known: Catalog) -> str:
    """Which other tables have the column, and how one of them is joined with a table of the statement."""
    named = _named(sql, known)
    others = [t for t in known.allowed.tables.values() if column in t.columns and t.qualified not in named]
    if not others:
        return ""
    for table in others:
        if join := _join(named, table.qualified, known):
            return f"`{column}` is a column of {table.name}: {join}."
    return f"`{column}` is a column of {', '.join(table.name for table in others[:_MOST_TABLES])}."


def _join(named: set[str], other: str, known: Catalog) -> str:
    for one in sorted(named):
        for child, parent in ((one, other), (other, one)):
            for column in known.columns.get(child, ()):
                if column.references and ".".join(column.references[:2]) == parent:
                    left, right, joined = (name.split(".", 1)[1] for name in (child, parent, other))
                    return f"JOIN {joined} ON {left}.{column.name} = {right}.{column.references[2]}"
    return ""


def _meant_column(word: str, sql: str, source: SqlSource, known: Catalog) -> str:
    """Descriptions give synonyms: who writes `importe` may mean `amount`, of a table that is named rather."""
    here: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    named = _named(sql, known)
    for name, table in source.tables.items():
        if (found := known.allowed.tables.get(split(name, source.database_schema))) is not None:
            said = here if found.qualified in named else elsewhere
            for column, about in table.columns.items():
                if column in found.columns:
                    said[f"{found.name}.{column}"] = about.description
    meant = hints.meant(word, here) or hints.meant(word, elsewhere)
    return f"`{word}` may mean {meant}." if meant else ""


def _meant_table(word: str, source: SqlSource, known: Catalog) -> str:
    said = {
        name: table.description
        for name, table in source.tables.items()
        if split(name, source.database_schema) in known.allowed.tables
    }
    meant = hints.meant(word, said)
    return f"`{word}` may mean {meant}." if meant else ""
