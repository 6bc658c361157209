"""What is checked on the text itself: every word must be one that we know, or a name that the tree accounts for."""

from collections.abc import Collection, Sequence

from sqlglot import exp

from services.runtime.errors import InvalidField, NotPermitted, SqlError
from services.sql_tool import vocabulary
from services.sql_tool.allowlist import AllowList
from services.sql_tool.constructs import unknown_function
from services.sql_tool.lexer import Kind, Token
from services.sql_tool.nodes import Node, position
from services.sql_tool.spelling import Spelling

MAX_NESTING = 30
# The parser reads arrays, and brackets after names of types, in several ways at every level: its time multiplies.
MAX_AMBIGUOUS_NESTING = 5

_NAMES = (Kind.WORD, Kind.QUOTED)
_VALUES = (Kind.STRING, Kind.NUMBER, Kind.PARAMETER)
_NO_CALLS = vocabulary.SYNTAX_WORDS | vocabulary.TYPE_WORDS
_KNOWN = _NO_CALLS | vocabulary.FUNCTIONS
# Words that the parser takes for types, whatever they are to PostgreSQL.
PARSER_TYPES = frozenset({"array", "null", "range", "union", "unknown"})
PLAIN = (vocabulary.FUNCTIONS | vocabulary.SYNTAX_WORDS) - vocabulary.TYPE_WORDS - PARSER_TYPES
# `_is_syntax` lets fields of dates stand only where PostgreSQL takes no column.
_NO_COLUMNS = vocabulary.RESERVED | vocabulary.TIME_FIELDS
# The second word is syntax after the first, whatever columns there are.
_PAIRS = frozenset(
    {
        ("at", "time"), ("current", "row"), ("double", "precision"), ("fetch", "first"), ("fetch", "next"),
        ("group", "by"), ("nulls", "first"), ("nulls", "last"), ("order", "by"), ("partition", "by"), ("time", "zone"),
    }
)  # fmt: skip
# Constructs that PostgreSQL turns into operators by name.
_OPERATOR_WORDS = {
    "like": ("~~", "!~~"),
    "ilike": ("~~*", "!~~*"),
    "similar": ("~", "!~"),
    "between": ("<", "<=", ">", ">="),
    **dict.fromkeys(("in", "nullif", "case", "distinct", "using", "natural", "any", "all", "some"), ("=", "<>")),
}
_BEGINNINGS = ("select", "table", "values", "with")
# A value cannot stand after these: neither in place of a name, nor of the text of a typed literal.
_NO_VALUES = frozenset("as date interval into join time timestamp timestamptz".split())
# sqlglot takes a column in their first place for the name of a field.
_FIELD_CALLS = ("date_part", "date_trunc")


def check_tokens(found: Sequence[Token], allowed: AllowList) -> None:
    """Operators, and words for the caller's identity. Raises NotPermitted (operator, function)."""
    for at, token in enumerate(found):
        if token.kind is Kind.OPERATOR:
            _check_operators(("<>", "!=") if token.text == "!=" else (token.text,), token.text, allowed)
        elif token.kind is Kind.WORD:
            _check_word(token, found[at - 1] if at else None, allowed)
        elif token.kind is Kind.PARAMETER and at and _is_no_value(found, at):
            raise NotPermitted(
                "A placeholder stands for a value, not for a name or a part of the syntax.",
                rule="placeholder",
                hint="Write the name itself; write `= ANY($1)` for IN, and $1::interval for interval $1.",
            )


def _is_no_value(found: Sequence[Token], at: int) -> bool:
    before = found[at - 1]
    if before.kind is Kind.PUNCTUATION and before.text == "(":
        return at > 1 and found[at - 2].kind is Kind.WORD and found[at - 2].text == "extract"
    if before.kind is Kind.PUNCTUATION:
        return before.text == "."
    if before.kind is not Kind.WORD:
        return False
    return before.text in _NO_VALUES or (before.text == "in" and not any(one.text == "position" for one in found[:at]))


def check_begin(found: Sequence[Token]) -> None:
    """The first word: the parser knows forms of other databases. Raises NotPermitted (statement)."""
    first = next((token for token in found if token.text not in (";", "(") or token.kind in _NAMES), None)
    if first is None or first.kind is not Kind.WORD or first.text not in _BEGINNINGS:
        raise NotPermitted("Only SELECT is permitted.", rule="statement", hint="Write one SELECT.")


def check_nesting(found: Sequence[Token]) -> None:
    """The depth of brackets. Raises NotPermitted (nesting)."""
    brackets: list[bool] = []
    ambiguous = 0
    subscripts = 0
    for at, token in enumerate(found):
        if token.kind is not Kind.PUNCTUATION:
            continue
        if token.text in "([":
            subscripts = subscripts + 1 if token.text == "[" and at and found[at - 1].text in ("]", ")") else 0
            if subscripts > MAX_NESTING:
                raise too_nested()
            brackets.append(token.text == "[" or (at > 0 and _is_ambiguous(found[at - 1])))
            ambiguous += brackets[-1]
            if len(brackets) > MAX_NESTING or ambiguous > MAX_AMBIGUOUS_NESTING:
                raise too_nested()
        elif token.text in ")]":
            if not brackets:
                raise SqlError(
                    f"Syntax error at or near `{token.text}`.", sqlstate="42601", position=str(token.start + 1)
                )
            ambiguous -= brackets.pop()


def too_nested() -> NotPermitted:
    """What to say of a statement that is deeper than the parser can go."""
    return NotPermitted(
        f"The statement is nested deeper than {MAX_NESTING} brackets, or {MAX_AMBIGUOUS_NESTING} arrays or types.",
        rule="nesting",
        hint="Use WITH for the steps.",
    )


def _is_ambiguous(before: Token) -> bool:
    """Whether a bracket after this may hold a type's modifier or a call's arguments."""
    return before.kind is Kind.WORD and before.text not in PLAIN


def _check_operators(names: Collection[str], shown: str, allowed: AllowList) -> None:
    if allowed.shadowed_operators and not allowed.shadowed_operators.isdisjoint(names):
        raise NotPermitted(f"Operator `{shown}` is not permitted.", rule="operator")


def _check_word(token: Token, before: Token | None, allowed: AllowList) -> None:
    if token.text == "operator":
        raise NotPermitted("OPERATOR(…) is not permitted.", rule="operator", hint="Write the operator itself.")
    if operators := _OPERATOR_WORDS.get(token.text):
        _check_operators(operators, token.text.upper(), allowed)
    if token.text in vocabulary.IDENTITY_WORDS and (before is None or before.text not in (".", "as")):
        raise NotPermitted(
            f"`{token.text}` is not permitted.", rule="function", hint="Put a column of that name into double quotes."
        )


def check_calls(found: Sequence[Token], spelling: Spelling, root: Node, allowed: AllowList) -> None:
    """Every name before a bracket is a permitted function by PostgreSQL's name: sqlglot renames some.

    Raises NotPermitted (function, syntax).
    """
    renaming = {
        position(alias.this) for alias in root.find_all(exp.TableAlias) if alias.args.get("columns") and alias.this
    }
    for at, token in enumerate(found):
        if token.kind not in _NAMES or token.start in renaming or not _has_bracket(found, at):
            continue
        qualified = at > 1 and _is_dot(found[at - 1])
        if qualified and found[at - 2].text != "pg_catalog":
            raise NotPermitted("Functions of other schemas are not permitted.", rule="function", name=token.text)
        reserved = token.kind is Kind.WORD and token.text in vocabulary.RESERVED and not qualified
        if not qualified and not reserved and token.text in allowed.shadowed_functions:
            raise NotPermitted(
                f"Function `{token.text}` is not permitted here without its schema.",
                rule="function",
                name=token.text,
                hint=f"Write pg_catalog.{token.text}(…).",
            )
        if at not in spelling.syntax and is_call(found, at):
            _check_call(found, at)


def _check_call(found: Sequence[Token], at: int) -> None:
    token = found[at]
    if token.text not in vocabulary.FUNCTIONS:
        raise unknown_function(token.text)
    if token.text in _FIELD_CALLS and found[at + 2].kind in _NAMES:
        raise NotPermitted(
            f"The field of `{token.text}` is quoted text.", rule="syntax", hint=f"Write {token.text}('month', …)."
        )


def check_names(found: Sequence[Token], spelling: Spelling, taken: Collection[int], guarded: Collection[str]) -> None:
    """Every other word is of the closed lists, or a name at a place that the resolver has checked (`taken`).

    A word of the lists that is also the name of something that may not be read (`guarded`) must stand where
    PostgreSQL cannot take it for that. Raises NotPermitted (syntax).
    """
    for at, token in enumerate(found):
        if token.kind not in _NAMES or token.start in taken or at in spelling.syntax or at in spelling.hidden:
            continue
        if is_call(found, at):
            continue
        known = token.kind is Kind.WORD and _is_syntax(found, at)
        if known and token.text in guarded and token.text not in _NO_COLUMNS:
            known = not _may_be_operand(found, at, taken)
        if not known:
            raise NotPermitted(
                f"`{token.text}` is not understood at position {token.start + 1}.",
                rule="syntax",
                position=str(token.start + 1),
                hint="Put names into double quotes, or write a simpler SELECT.",
            )


def _may_be_operand(found: Sequence[Token], at: int, taken: Collection[int]) -> bool:
    """Whether a column could stand here: no operand has just ended, and nothing follows that only a type has."""
    if at + 1 < len(found) and (found[at + 1].kind is Kind.STRING or found[at + 1].text in ("(", "=>")):
        return False
    if at == 0:
        return True
    before = found[at - 1]
    if before.kind is Kind.PUNCTUATION:
        return before.text not in ")]:"
    if before.kind in _VALUES or before.start in taken:
        return False
    ended = before.text == "as" or before.text in vocabulary.WHOLE_OPERANDS or (before.text, found[at].text) in _PAIRS
    return not ended


def _has_bracket(found: Sequence[Token], at: int) -> bool:
    return at + 1 < len(found) and found[at + 1].text == "(" and found[at + 1].kind is Kind.PUNCTUATION


def _is_dot(token: Token) -> bool:
    return token.text == "." and token.kind is Kind.PUNCTUATION


def is_call(found: Sequence[Token], at: int) -> bool:
    """Whether the word at this place calls a function."""
    if not _has_bracket(found, at):
        return False
    token = found[at]
    if token.kind is Kind.QUOTED or token.text in vocabulary.FUNCTIONS or token.text not in _NO_CALLS:
        return not _is_interval_field(found, at)
    return at > 0 and _is_dot(found[at - 1])


def _is_interval_field(found: Sequence[Token], at: int) -> bool:
    """SECOND(3) after an interval's text."""
    return found[at].text == "second" and at > 0 and (found[at - 1].kind is Kind.STRING or found[at - 1].text == "to")


def _is_syntax(found: Sequence[Token], at: int) -> bool:
    token = found[at]
    before = found[at - 1] if at else None
    following = found[at + 1].text if at + 1 < len(found) else ""
    if before is not None and _is_dot(before):
        return False
    if following == "=>":
        return True
    if following == "." and token.text == "pg_catalog":
        return True
    if token.text in vocabulary.TIME_FIELDS:
        # As a field of a date or an interval, not as a column: sqlglot does not tell `year` from `'year'` everywhere.
        of_extract = (
            before is not None
            and before.text == "("
            and found[at - 2].text == "extract"
            and found[at - 2].kind is Kind.WORD
        )
        return of_extract or (before is not None and (before.kind is Kind.STRING or before.text == "to"))
    return token.text in _KNOWN


def parameter_count(found: Sequence[Token]) -> int:
    """How many values the statement takes. Raises InvalidField (sql) when a number is left out."""
    numbers = {int(token.text[1:]) for token in found if token.kind is Kind.PARAMETER}
    if numbers and numbers != set(range(1, max(numbers) + 1)):
        raise InvalidField("The placeholders leave out a number; use $1, $2, and so on without gaps.", field="sql")
    return len(numbers)
