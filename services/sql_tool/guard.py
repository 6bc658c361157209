"""Decides whether a statement may run. Deny by default: text, tokens, tree and names must all be known."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError

# Some calls make the parser load it, and that takes as long as a hundred statements.
from sqlglot.optimizer import annotate_types  # noqa: F401  # pyright: ignore[reportUnusedImport]
from sqlglot.tokenizer_core import Token as ParserToken
from sqlglot.tokenizer_core import TokenType

from services.runtime.errors import InvalidField, NotPermitted, SqlError
from services.sql_tool import lexer, sizes, spelling, volatility, words
from services.sql_tool.allowlist import AllowList
from services.sql_tool.lexer import Kind, Token
from services.sql_tool.nodes import Node
from services.sql_tool.resolver import Resolver

log = logging.getLogger(__name__)
# It logs the statements that it cannot parse.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

MAX_SQL_BYTES = 16 * 1024
RULES = (
    "characters",
    "column",
    "cost",
    "function",
    "lock",
    "nesting",
    "operator",
    "placeholder",
    "size",
    "statement",
    "syntax",
    "table",
    "type",
    "write",
)


@dataclass(frozen=True)
class Approved:
    """A statement that may run. `tables` are those that it names, as schema.table.

    `volatile`: the same statement may give other rows although no table changed, as it reads the clock or chance.
    """

    sql: str
    tables: tuple[str, ...]
    parameter_count: int
    volatile: bool = False


def check(sql: str, allowed: AllowList) -> Approved:
    """Approves one SELECT over `allowed`, or says how to repair it.

    Raises InvalidField (sql empty or too long), SqlError (does not parse) and NotPermitted (`rule` is one of RULES).
    """
    _check_size(sql)
    try:
        found = lexer.tokens(sql)
        words.check_nesting(found)
        words.check_begin(found)
        words.check_tokens(found, allowed)
        spelled = spelling.for_parser(sql, found)
        if spelled.hidden:
            words.check_nesting(spelled.tokens)
        root = _parse(spelled.text, spelled.tokens)
        words.check_calls(found, spelled, root, allowed)
        resolver = Resolver(allowed, spelled.added)
        resolver.check(root)
        words.check_names(found, spelled, resolver.taken, resolver.guarded())
        sizes.check(root)
        volatile = volatility.is_volatile(found, root)
    except RecursionError:
        raise words.too_nested() from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Malformed text can give a tree of no form that we know. What cannot be read is not run.
        log.warning("a statement could not be checked", extra={"cause": type(error).__name__})
        raise NotPermitted("The statement is not understood.", rule="syntax", hint="Write one plain SELECT.") from None
    return Approved(_plannable(sql, found), tuple(sorted(resolver.tables)), words.parameter_count(found), volatile)


def _plannable(sql: str, found: Sequence[Token]) -> str:
    """The text itself, without semicolons before the statement: EXPLAIN is put in front of it."""
    for token in found:
        if token.text != ";" or token.kind is not Kind.PUNCTUATION:
            break
        sql = f"{sql[: token.start]} {sql[token.end :]}"
    return sql


def _check_size(sql: str) -> None:
    if not sql.strip():
        raise InvalidField("`sql` is empty; write one SELECT.", field="sql")
    if len(sql.encode("utf-8", "surrogatepass")) > MAX_SQL_BYTES:
        raise InvalidField(f"`sql` is longer than {MAX_SQL_BYTES} bytes; write a shorter statement.", field="sql")
    if "\0" in sql or any("\ud800" <= char <= "\udfff" for char in sql):
        raise NotPermitted("NUL and lone surrogates are not permitted.", rule="characters")


def _parse(text: str, found: Sequence[Token]) -> Node:
    """The tree of the only statement, over the tokens that PostgreSQL sees."""
    dialect = Postgres()
    try:
        tokens = dialect.tokenize(text)
        _check_agreement(text, found, tokens)
        trees = [tree for tree in dialect.parser().parse(tokens, text) if tree is not None]
    except ParseError as error:
        raise _syntax_error(text, error) from None
    except (NotPermitted, RecursionError):
        raise
    except Exception:
        # sqlglot breaks on some malformed text in ways of its own; what it cannot read is not run.
        raise SqlError("The statement is not valid SQL.", sqlstate="42601") from None
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if len(trees) != 1:
        raise NotPermitted(
            f"Exactly one statement is permitted, not {len(trees)}.", rule="statement", hint="Write one SELECT."
        )
    root = plain = trees[0]
    while isinstance(plain, exp.Subquery):
        plain = plain.this
    if not isinstance(plain, exp.Select | exp.SetOperation):
        raise NotPermitted("Only SELECT is permitted.", rule="statement", hint="Write one SELECT.")
    return root


def _syntax_error(sql: str, error: ParseError) -> SqlError:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return SqlError("The statement is not valid SQL.", sqlstate="42601")
    start = sum(len(text) for text in sql.splitlines(keepends=True)[: line - 1])
    word = str(first.get("highlight") or "")[:40]
    position = max(1, start + column - len(word) + 1)
    return SqlError(f"Syntax error at or near `{word}`.", sqlstate="42601", position=str(position))


def _check_agreement(sql: str, found: Sequence[Token], parsed: Sequence[ParserToken]) -> None:
    """The parser must see the same tokens: else it checked another statement than the server runs."""
    starts, ends = set[int](), set[int]()
    for token in found:
        inside = range(token.start, token.end) if token.kind is Kind.OPERATOR else (token.start,)
        starts.update(inside)
        ends.update(at + 1 for at in inside if token.kind is Kind.OPERATOR)
        ends.add(token.end)
        if token.kind is Kind.PARAMETER:
            starts.add(token.start + 1)
            ends.add(token.start + 1)
    covered = bytearray(len(sql) + 1)
    for token in parsed:
        if token.token_type is TokenType.SEMICOLON and token.start not in starts:
            continue  # carries a trailing comment
        if token.start not in starts or token.end + 1 not in ends:
            raise _disagreement(token.start)
        covered[token.start : token.end + 1] = b"\1" * (token.end + 1 - token.start)
    for token in found:
        if not covered[token.start]:
            raise _disagreement(token.start)


def _disagreement(at: int) -> NotPermitted:
    return NotPermitted(
        f"The text at position {at + 1} can be read in two ways.",
        rule="characters",
        position=str(at + 1),
        hint="Write it in a simpler way, and values as parameters.",
    )
