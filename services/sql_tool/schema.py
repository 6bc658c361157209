"""Describes the allowed tables for a model: DDL with meanings, units and sample values, within a budget of tokens."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.runtime.tenants import Column, SqlSource, Table
from services.sql_tool.allowlist import AllowedTable
from services.sql_tool.catalog import Catalog, Described, split

CHARACTERS_PER_TOKEN = 4
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_WORD = re.compile(r"\w{3,}")
_EXAMPLE_CHARACTERS = 40


@dataclass(frozen=True)
class Description:
    """The text, and the tables in it as schema.table."""

    text: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class _Detail:
    examples: bool
    descriptions: bool


def columns_without_values(source: SqlSource, known: Catalog) -> list[tuple[str, str, str]]:
    """Text columns whose values the tenant's file does not list, and which samples would explain."""
    found: list[tuple[str, str, str]] = []
    for table in known.allowed.tables.values():
        said = _said(source, table)
        for column in known.columns[table.qualified]:
            plain = not column.primary_key and column.references is None
            if column.is_text and plain and not said.columns[column.name].values:
                found.append((table.schema, table.name, column.name))
    return found


def describe(
    source: SqlSource, known: Catalog, examples: Mapping[str, Sequence[str]], max_tokens: int, question: str = ""
) -> Description:
    """As much as fits into `max_tokens`: examples go first, then descriptions, then tables far from `question`.

    `examples` holds values by schema.table.column.
    """
    tables = [known.allowed.tables[key] for key in _order(source, known, question)]
    budget = max_tokens * CHARACTERS_PER_TOKEN
    for detail in (_Detail(True, True), _Detail(False, True), _Detail(False, False)):
        texts = [_table(source, known, table, examples, detail) for table in tables]
        if len("\n".join(texts)) <= budget:
            return _joined(source, known, dict(zip(tables, texts, strict=True)), ())
    kept: dict[AllowedTable, str] = {}
    for table, text in zip(tables, texts, strict=True):
        left_out = [one for one in tables if one not in kept and one is not table]
        if len(_joined(source, known, kept | {table: text}, left_out).text) <= budget:
            kept[table] = text
    return _joined(source, known, kept, [table for table in tables if table not in kept])


def _joined(
    source: SqlSource, known: Catalog, texts: Mapping[AllowedTable, str], left_out: Sequence[AllowedTable]
) -> Description:
    """In the order of the tenant's file, whatever the question: the text is part of cached prompts."""
    order = [known.allowed.tables[key] for key in _order(source, known, "")]
    shown = [table for table in order if table in texts]
    parts = [texts[table] for table in shown]
    if left_out:
        names = ", ".join(_table_name(known, table) for table in left_out)
        parts.append(f"-- {len(left_out)} more tables are not shown: {names}"[: CHARACTERS_PER_TOKEN * 50])
    return Description("\n".join(parts), tuple(table.qualified for table in shown))


def _order(source: SqlSource, known: Catalog, question: str) -> list[tuple[str, str]]:
    keys = [split(name, source.database_schema) for name in source.tables]
    present = [key for key in keys if key in known.allowed.tables]
    words = set(_WORD.findall(question.lower()))
    return sorted(present, key=lambda key: -len(words & _words(source, known.allowed.tables[key])))


def _words(source: SqlSource, table: AllowedTable) -> set[str]:
    said = _said(source, table)
    parts = [table.name.replace("_", " "), said.description]
    for name, column in said.columns.items():
        parts += [name.replace("_", " "), column.description, *column.values.values()]
    return set(_WORD.findall(" ".join(parts).lower()))


def _said(source: SqlSource, table: AllowedTable) -> Table:
    return next(
        said
        for name, said in source.tables.items()
        if split(name, source.database_schema) == (table.schema, table.name)
    )


def _table(
    source: SqlSource, known: Catalog, table: AllowedTable, examples: Mapping[str, Sequence[str]], detail: _Detail
) -> str:
    said = _said(source, table)
    columns = known.columns[table.qualified]
    lines: list[tuple[str, str]] = []
    for column in columns:
        values = examples.get(f"{table.qualified}.{column.name}", ()) if detail.examples else ()
        declared = said.columns[column.name]
        lines.append((_column(known, declared, column), _comment(declared, values, detail)))
    key = known.primary_keys.get(table.qualified, ())
    if len(key) > 1 and set(key) <= set(table.columns):
        lines.append((f"PRIMARY KEY ({', '.join(map(identifier, key))})", ""))
    head = f"CREATE TABLE {_table_name(known, table)} ("
    about = _clean(said.description) if detail.descriptions else ""
    text = [f"{head} -- {about}" if about else head]
    for at, (definition, comment) in enumerate(lines):
        comma = "," if at < len(lines) - 1 else ""
        text.append(f"  {definition}{comma}" + (f" -- {comment}" if comment else ""))
    return "\n".join([*text, ");"])


def _column(known: Catalog, declared: Column, column: Described) -> str:
    text = f"{identifier(column.name)} {column.type}"
    if column.primary_key:
        text += " PRIMARY KEY"
    target = column.references
    if declared.references:
        table, _, name = declared.references.partition(".")
        target = (known.allowed.schema, table, name)
    if target is not None:
        found = known.allowed.find(target[0], target[1])
        if found is not None and target[2] in found.columns:
            text += f" REFERENCES {_table_name(known, found)} ({identifier(target[2])})"
    return text


def _comment(declared: Column, examples: Sequence[str], detail: _Detail) -> str:
    parts: list[str] = []
    if declared.description and detail.descriptions:
        parts.append(_clean(declared.description))
    if declared.unit:
        parts.append(f"Unit: {_clean(declared.unit)}")
    if declared.values:
        meanings = "; ".join(
            f"{_literal(value)} = {_clean(meaning)}" if meaning else _literal(value)
            for value, meaning in declared.values.items()
        )
        parts.append(f"Values: {meanings}")
    short = [value for value in examples if len(value) <= _EXAMPLE_CHARACTERS]
    if short:
        parts.append(f"Examples: {', '.join(map(_literal, short))}")
    return ". ".join(part.rstrip(".") for part in parts)


def _table_name(known: Catalog, table: AllowedTable) -> str:
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
