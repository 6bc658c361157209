"""Reads tables, columns, functions and operators out of a schema's SQL text, as far as it says them plainly."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from services.sql_tool import nodes
from services.sql_tool.lexer import fold

_ROUTINES = ("FUNCTION", "PROCEDURE", "AGGREGATE")


@dataclass(frozen=True)
class Ddl:
    """Columns by `schema.table`; names of the functions and operators in schema public."""

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    functions: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()


def read(text: str) -> Ddl:
    """What CREATE TABLE, VIEW, FUNCTION and OPERATOR make; other statements are skipped."""
    columns: dict[str, tuple[str, ...]] = {}
    functions, operators = set[str](), set[str]()
    for statement, words in _statements(text):
        kind = next((word for word in words[1:5] if word in (*_ROUTINES, "OPERATOR", "TABLE", "VIEW")), "")
        if not words or words[0] != "CREATE" or not kind:
            continue
        if kind in ("TABLE", "VIEW"):
            if made := _relation(statement):
                columns[made[0]] = made[1]
        elif name := _name(statement[statement.upper().index(kind) + len(kind) :]):
            (operators if kind == "OPERATOR" else functions).add(name)
    return Ddl(columns, frozenset(functions), frozenset(operators))


def _statements(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each statement, and its first words in capitals."""
    try:
        tokens: Sequence[Token] = Postgres().tokenize(text)
    except SqlglotError:
        return
    start, words = None, list[str]()
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if start is not None:
                yield text[start : token.start], words
            start, words = None, []
            continue
        if start is None:
            start = token.start
        if len(words) < 5:
            words.append(token.text.upper())
    if start is not None:
        yield text[start:], words


def _name(rest: str) -> str:
    """The name before the bracket, when its schema is public or not said."""
    written = rest.partition("(")[0].strip()
    schema, dot, name = written.rpartition(".")
    if dot and fold(schema.strip('"'), schema.startswith('"')) != "public":
        return ""
    return fold(name.strip('"'), name.startswith('"'))


def _relation(statement: str) -> tuple[str, tuple[str, ...]] | None:
    try:
        tree = sqlglot.parse_one(statement, dialect="postgres")
    except Exception:
        return None  # besides its own errors sqlglot has those of Python for some malformed text
    schema = tree.this
    table = schema.this if isinstance(schema, exp.Schema) else schema
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return None
    name = f"{nodes.optional_name(table.args.get('db')) or 'public'}.{nodes.name(table.this)}"
    listed = schema.expressions if isinstance(schema, exp.Schema) else []
    columns = [nodes.name(column) for part in listed if (column := _column(part)) is not None]
    query = tree.args.get("expression")
    if not columns and isinstance(query, exp.Select):
        named = [_output(item) for item in query.expressions]
        if any(column is None for column in named):
            return None
        columns = [column for column in named if column is not None]
    return name, tuple(columns)


def _column(part: exp.Expr) -> exp.Expr | None:
    inner = part.this if isinstance(part, exp.ColumnDef) else part
    return inner if isinstance(inner, exp.Identifier) else None


def _output(item: exp.Expr) -> str | None:
    return nodes.name(item.args["alias"]) if isinstance(item, exp.Alias) else nodes.output_name(item)
