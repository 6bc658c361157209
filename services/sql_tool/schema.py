"""Describes allowed tables for a model as DDL with meanings, units and sample values, one text a table and detail."""

import re
from collections.abc import Collection, Mapping
from enum import IntEnum

from services.runtime.tenants import Column, SqlSource, Table
from services.sql_tool.allowlist import AllowedTable
from services.sql_tool.catalog import Catalog, Described, split

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
# A model's tokenizer cuts words into pieces of some four letters and keeps punctuation apart. Measured on DDL with
# comments in both languages: 1.1 to 1.3 times the tokens of XLM-RoBERTa's tokenizer. Characters / 4 gave 0.8 to 0.95.
_TOKEN = re.compile(r"\w{1,4}|[^\w\s]")
_EXAMPLE_CHARACTERS = 40
_NAMED_TOKENS = 60


class Detail(IntEnum):
    """How much is said of a table."""

    NAMES = 0  # keys, references and what the question speaks of; other columns by name
    COLUMNS = 1  # all columns with types, units and declared values
    MEANINGS = 2  # descriptions too
    EXAMPLES = 3  # sample values too


def tokens(text: str) -> int:
    """A model's tokens, rather too many than too few."""
    return len(_TOKEN.findall(text))


def columns_without_values(source: SqlSource, known: Catalog) -> list[tuple[str, str, str]]:
    """Text columns whose values the tenant's file does not list, and which samples would explain."""
    found: list[tuple[str, str, str]] = []
    for table in known.allowed.tables.values():
        said = declared(source, table)
        for column in known.columns[table.qualified]:
            plain = not column.primary_key and column.references is None
            if column.is_text and plain and not said.columns[column.name].values:
                found.append((table.schema, table.name, column.name))
    return found


def declared(source: SqlSource, table: AllowedTable) -> Table:
    """What the tenant's file says of a table."""
    key = table.schema, table.name
    return next(said for name, said in source.tables.items() if split(name, source.database_schema) == key)


def target(known: Catalog, said: Column, column: Described) -> tuple[AllowedTable, str] | None:
    """The permitted table and column that a column refers to, by the tenant's file or by a foreign key."""
    to = column.references
    if said.references:
        table, _, name = said.references.partition(".")
        to = (known.allowed.schema, table, name)
    found = known.allowed.find(to[0], to[1]) if to is not None else None
    return (found, to[2]) if found is not None and to is not None and to[2] in found.columns else None


def ddl(
    said: Table,
    known: Catalog,
    table: AllowedTable,
    examples: Mapping[str, list[str]],
    detail: Detail,
    wanted: Collection[str] = (),
) -> str:
    """CREATE TABLE with comments. `examples` holds values by schema.table.column; `wanted` columns stay in NAMES."""
    key = known.primary_keys.get(table.qualified, ())
    lines: list[tuple[str, str]] = []
    named: list[str] = []
    for column in known.columns[table.qualified]:
        about = said.columns[column.name]
        refers = target(known, about, column)
        if detail is Detail.NAMES and not (refers or column.primary_key or column.name in (*key, *wanted)):
            named.append(identifier(column.name))
            continue
        values = examples.get(f"{table.qualified}.{column.name}", ()) if detail is Detail.EXAMPLES else ()
        meanings = detail >= Detail.MEANINGS or column.name in wanted
        lines.append((_column(known, column, refers), _comment(about, values, meanings)))
    if len(key) > 1 and set(key) <= set(table.columns):
        lines.append((f"PRIMARY KEY ({', '.join(map(identifier, key))})", ""))
    head = f"CREATE TABLE {table_name(known, table)} ("
    about = _clean(said.description) if detail >= Detail.MEANINGS or detail is Detail.NAMES else ""
    text = [f"{head} -- {about}" if about else head]
    for at, (definition, comment) in enumerate(lines):
        comma = "," if at < len(lines) - 1 else ""
        text.append(f"  {definition}{comma}" + (f" -- {comment}" if comment else ""))
    if named:
        text.append(f"  -- and {listed(named, _NAMED_TOKENS) or f'{len(named)} more'}")
    return "\n".join([*text, ");"])


def listed(names: Collection[str], budget: int) -> str:
    """Names on one line within a budget of tokens, and how many are left out; empty when not one fits."""
    shown: list[str] = []
    room = budget - tokens(f" and {len(names)} more")
    for name in names:
        room -= tokens(name) + 1
        if room < 0:
            break
        shown.append(name)
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if shown and left else "")


def _column(known: Catalog, column: Described, refers: tuple[AllowedTable, str] | None) -> str:
    text = f"{identifier(column.name)} {column.type}"
    if column.primary_key:
        text += " PRIMARY KEY"
    if refers is not None:
        text += f" REFERENCES {table_name(known, refers[0])} ({identifier(refers[1])})"
    return text


def _comment(about: Column, examples: Collection[str], meanings: bool) -> str:
    parts: list[str] = []
    if about.description and meanings:
        parts.append(_clean(about.description))
    if about.unit:
        parts.append(f"Unit: {_clean(about.unit)}")
    if about.values:
        said = "; ".join(
            f"{_literal(value)} = {_clean(meaning)}" if meaning else _literal(value)
            for value, meaning in about.values.items()
        )
        parts.append(f"Values: {said}")
    short = [value for value in examples if len(value) <= _EXAMPLE_CHARACTERS]
    if short:
        parts.append(f"Examples: {', '.join(map(_literal, short))}")
    return ". ".join(part.rstrip(".") for part in parts)


def table_name(known: Catalog, table: AllowedTable) -> str:
    """A table's name as a statement writes it."""
    name = identifier(table.name)
    return name if table.schema == known.allowed.schema else f"{identifier(table.schema)}.{name}"


def identifier(name: str) -> str:
    """A name as a statement writes it: quoted only where it must be."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _literal(value: str) -> str:
    return "'" + _clean(value).replace("'", "''") + "'"


def _clean(text: str) -> str:
    # One line: a value with a line break would end the comment and become DDL, or an instruction, in the model's eyes.
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
