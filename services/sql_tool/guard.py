"""Decides whether a statement may run. Deny by default: text, tokens, tree and names must all be known."""

import logging
from collections import Counter
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import TokenType

from services.runtime.errors import InvalidField, NotPermitted, SqlError
from services.sql_tool import lexer, vocabulary
from services.sql_tool.allowlist import AllowList
from services.sql_tool.constructs import unknown_function
from services.sql_tool.lexer import Kind, Token
from services.sql_tool.nodes import Node
from services.sql_tool.resolver import Resolver

# It logs the statements that it cannot parse.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

MAX_SQL_BYTES = 16 * 1024
MAX_NESTING = 30
# The parser reads arrays, and brackets after names of types, in several ways at every level: its time multiplies.
MAX_AMBIGUOUS_NESTING = 5
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
# sqlglot takes a column in their first place for the name of a field.
_FIELD_CALLS = ("date_part", "date_trunc")


@dataclass(frozen=True)
class Approved:
    """A statement that may run. `tables` are those that it names, as schema.table."""

    sql: str
    tables: tuple[str, ...]
    parameter_count: int


def check(sql: str, allowed: AllowList) -> Approved:
    """Approves one SELECT over `allowed`, or says how to repair it.

    Raises InvalidField (sql empty or too long), SqlError (does not parse) and NotPermitted (`rule` is one of RULES).
    """
    _check_size(sql)
    try:
        found = lexer.tokens(sql)
        _check_tokens(found, allowed)
        root = _parse(sql)
        _check_agreement(sql, found)
        _check_calls(found, root, allowed)
        resolver = Resolver(allowed)
        resolver.check(root)
        _check_words(found, root)
    except RecursionError:
        raise _too_nested() from None
    count = _parameter_count(found)
    return Approved(sql, tuple(sorted(resolver.tables)), count)


def _check_size(sql: str) -> None:
    if not sql.strip():
        raise InvalidField("`sql` is empty; write one SELECT.", field="sql")
    if len(sql.encode("utf-8", "surrogatepass")) > MAX_SQL_BYTES:
        raise InvalidField(f"`sql` is longer than {MAX_SQL_BYTES} bytes; write a shorter statement.", field="sql")
    if "\0" in sql or any("\ud800" <= char <= "\udfff" for char in sql):
        raise NotPermitted("NUL and lone surrogates are not permitted.", rule="characters")


def _check_tokens(found: list[Token], allowed: AllowList) -> None:
    open_brackets: list[bool] = []
    for at, token in enumerate(found):
        before = found[at - 1] if at else None
        if token.kind is Kind.PUNCTUATION and token.text in "([":
            open_brackets.append(token.text == "[" or (before is not None and _is_ambiguous(before)))
            if len(open_brackets) > MAX_NESTING or sum(open_brackets) > MAX_AMBIGUOUS_NESTING:
                raise _too_nested()
        elif token.kind is Kind.PUNCTUATION and token.text in ")]" and open_brackets:
            open_brackets.pop()
        elif token.kind is Kind.OPERATOR:
            _check_operator(token, allowed)
        elif token.kind is Kind.WORD:
            _check_word(token, before)


def _is_ambiguous(before: Token) -> bool:
    """Whether a bracket after this may hold a type's modifier or a call's arguments."""
    known = vocabulary.FUNCTIONS | vocabulary.SYNTAX_WORDS
    return before.kind is Kind.WORD and (before.text in vocabulary.TYPE_WORDS or before.text not in known)


def _check_operator(token: Token, allowed: AllowList) -> None:
    if token.text in allowed.shadowed_operators:
        raise NotPermitted(f"Operator `{token.text}` is not permitted.", rule="operator")


def _check_word(token: Token, before: Token | None) -> None:
    if token.text == "operator":
        raise NotPermitted("OPERATOR(…) is not permitted.", rule="operator", hint="Write the operator itself.")
    named = before is not None and before.text in (".", "as")
    if token.text in vocabulary.IDENTITY_WORDS and not named:
        raise NotPermitted(
            f"`{token.text}` is not permitted.", rule="function", hint="Put a column of that name into double quotes."
        )


def _parse(sql: str) -> Node:
    try:
        trees = [tree for tree in sqlglot.parse(sql, dialect="postgres") if tree is not None]
    except ParseError as error:
        raise _syntax_error(sql, error) from None
    except SqlglotError:
        raise SqlError("The statement is not valid SQL.", sqlstate="42601") from None
    except (ValueError, TypeError, AttributeError, KeyError, IndexError):
        # sqlglot breaks on some malformed text in ways of its own; what it cannot read is not run.
        raise SqlError("The statement is not valid SQL.", sqlstate="42601") from None
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if len(trees) != 1:
        raise NotPermitted(
            f"Exactly one statement is permitted, not {len(trees)}.", rule="statement", hint="Write one SELECT."
        )
    root = trees[0]
    plain = root
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


def _check_agreement(sql: str, found: list[Token]) -> None:
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
    for token in Postgres().tokenize(sql):
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


def _check_calls(found: list[Token], root: Node, allowed: AllowList) -> None:
    """Every name before a bracket is a permitted function by PostgreSQL's name: sqlglot renames some."""
    named_calls = Counter(
        lexer.fold(alias.this.name, bool(alias.this.args.get("quoted")))
        for alias in root.find_all(exp.TableAlias)
        if alias.args.get("columns") and alias.this
    )
    for at, token in enumerate(found):
        if token.kind in (Kind.WORD, Kind.QUOTED) and _is_call(found, at):
            _check_call(found, at, named_calls, allowed)


def _check_words(found: list[Token], root: Node) -> None:
    """Every word of the text is one of the closed lists, or a name that the tree holds and the resolver has checked."""
    names = Counter(
        lexer.fold(node.name, bool(node.args.get("quoted"))) for node in root.find_all(exp.Identifier) if node.name
    )
    for at, token in enumerate(found):
        if token.kind not in (Kind.WORD, Kind.QUOTED) or _is_call(found, at):
            continue
        if token.kind is Kind.QUOTED or not _is_syntax(found, at):
            names[token.text] -= 1
            if names[token.text] < 0:
                raise NotPermitted(
                    f"`{token.text}` is not understood at position {token.start + 1}.",
                    rule="syntax",
                    position=str(token.start + 1),
                    hint="Put names into double quotes, or write a simpler SELECT.",
                )


def _is_call(found: list[Token], at: int) -> bool:
    following = found[at + 1] if at + 1 < len(found) else None
    if following is None or following.text != "(" or following.kind is not Kind.PUNCTUATION:
        return False
    qualified = at > 0 and found[at - 1].text == "."
    token = found[at]
    syntax = token.kind is Kind.WORD and token.text in vocabulary.SYNTAX_WORDS | vocabulary.TYPE_WORDS
    return qualified or token.text in vocabulary.FUNCTIONS or not syntax


def _check_call(found: list[Token], at: int, named_calls: Counter[str], allowed: AllowList) -> None:
    token = found[at]
    qualified = at > 1 and found[at - 1].text == "."
    if named_calls[token.text] > 0 and token.text not in vocabulary.FUNCTIONS:
        named_calls[token.text] -= 1
        return
    if qualified and found[at - 2].text != "pg_catalog":
        raise NotPermitted("Functions of other schemas are not permitted.", rule="function", name=token.text)
    if token.text not in vocabulary.FUNCTIONS:
        raise unknown_function(token.text)
    if not qualified and token.text in allowed.shadowed_functions:
        raise NotPermitted(
            f"Function `{token.text}` is not permitted here without its schema.",
            rule="function",
            name=token.text,
            hint=f"Write pg_catalog.{token.text}(…).",
        )
    if token.text in _FIELD_CALLS and found[at + 2].kind in (Kind.WORD, Kind.QUOTED):
        raise NotPermitted(
            f"The field of `{token.text}` is quoted text.", rule="syntax", hint=f"Write {token.text}('month', …)."
        )


def _is_syntax(found: list[Token], at: int) -> bool:
    token = found[at]
    before = found[at - 1] if at else None
    following = found[at + 1] if at + 1 < len(found) else None
    if before is not None and before.text == "." and before.kind is Kind.PUNCTUATION:
        return False
    if following is not None and following.text == "=>":
        return True
    if following is not None and following.text == "." and token.text == "pg_catalog":
        return True
    if token.text in vocabulary.TIME_FIELDS:
        # As a field of a date or an interval, not as a column: sqlglot does not tell `year` from `'year'` everywhere.
        of_extract = before is not None and before.text == "(" and found[at - 2].text == "extract"
        return of_extract or (before is not None and (before.kind is Kind.STRING or before.text == "to"))
    return token.text in vocabulary.SYNTAX_WORDS | vocabulary.TYPE_WORDS | vocabulary.FUNCTIONS


def _parameter_count(found: list[Token]) -> int:
    numbers = {int(token.text[1:]) for token in found if token.kind is Kind.PARAMETER}
    if numbers and numbers != set(range(1, max(numbers) + 1)):
        raise InvalidField("The placeholders leave out a number; use $1, $2, and so on without gaps.", field="sql")
    return len(numbers)


def _too_nested() -> NotPermitted:
    return NotPermitted(
        f"The statement is nested deeper than {MAX_NESTING} brackets, or {MAX_AMBIGUOUS_NESTING} arrays or types.",
        rule="nesting",
        hint="Use WITH for the steps.",
    )
