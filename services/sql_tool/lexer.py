"""Splits a statement into tokens as PostgreSQL does, to find out where another parser would see something else."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from services.runtime.errors import NotPermitted, SqlError

# Nothing else occurs in a SELECT outside of literals; braces and backticks would mean something to other parsers.
_SPACE = " \t\n\r\f\v"
_PUNCTUATION = "()[],;.:"
_OPERATOR = "+-*/<>=~!@#%^&|?"

_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(
    r"0[xXoObB][0-9a-fA-F_]+|\d[\d_]*\.[\d_]*(?:[eE][+-]?\d+)?|\d[\d_]*(?:[eE][+-]?\d+)?|\.\d[\d_]*(?:[eE][+-]?\d+)?"
)
_LINE_COMMENT = re.compile(r"--[^\n\r]*")
_STRING = re.compile(r"'(?:[^']|'')*'")
_ESCAPE_STRING = re.compile(r"[eE]'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_PREFIXED_STRING = re.compile(r"[bBxXnN]'(?:[^']|'')*'")
_QUOTED = re.compile(r'"(?:[^"]|"")+"')
_DOLLAR_TAG = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_PARAMETER = re.compile(r"\$\d{1,5}")

# PostgreSQL cuts longer names off without an error, and so finds another object than the one that was checked.
_NAME_BYTES = 63
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


class Kind(Enum):
    """What a token is."""

    WORD = 1
    QUOTED = 2
    STRING = 3
    NUMBER = 4
    PARAMETER = 5
    OPERATOR = 6
    PUNCTUATION = 7


@dataclass(frozen=True, slots=True)
class Token:
    """`start` and `end` (exclusive) are character offsets. `text` of a name is folded as PostgreSQL folds it."""

    kind: Kind
    text: str
    start: int
    end: int


def fold(name: str, quoted: bool) -> str:
    """A name as PostgreSQL stores it: only ASCII letters are lowered, and only without quotes."""
    return name if quoted else name.translate(_LOWER)


def tokens(sql: str) -> list[Token]:
    """All tokens without comments.

    Raises SqlError when a literal or comment does not end, NotPermitted (characters) on what is no part of a SELECT.
    """
    found = list(_scan(sql))
    for token in found:
        if token.kind in (Kind.WORD, Kind.QUOTED) and len(token.text.encode()) > _NAME_BYTES:
            raise NotPermitted(
                f"A name is longer than {_NAME_BYTES} bytes.",
                rule="characters",
                hint="Use the column's or table's name.",
            )
    return found


def _scan(sql: str) -> Iterator[Token]:
    at = 0
    while at < len(sql):
        char = sql[at]
        if char in _SPACE:
            at += 1
        elif sql.startswith("--", at):
            at = _match(_LINE_COMMENT, sql, at).end()
        elif sql.startswith("/*", at):
            at = _end_of_comment(sql, at)
        else:
            token = _token(sql, at)
            yield token
            at = token.end


def _token(sql: str, at: int) -> Token:
    char, following = sql[at], sql[at + 1 : at + 2]
    if char in "uU" and sql[at + 1 : at + 3] in ("&'", '&"'):
        raise _refused(sql, at, "Write the characters themselves in place of U& escapes.")
    if char == "'" or (following == "'" and char in "eEbBxXnN"):
        return _string(sql, at)
    if char == '"':
        found = _QUOTED.match(sql, at)
        if found is None:
            raise _unended(at, "quoted name")
        return Token(Kind.QUOTED, found[0][1:-1].replace('""', '"'), at, found.end())
    if char == "$":
        return _dollar(sql, at)
    if char.isdigit() or (char == "." and following.isascii() and following.isdigit()):
        return _number(sql, at)
    if word := _WORD.match(sql, at):
        return _word(sql, word)
    if char in _PUNCTUATION:
        return Token(Kind.PUNCTUATION, char, at, at + 1)
    if char in _OPERATOR:
        return _operator(sql, at)
    raise _refused(sql, at, "Use plain spaces between words, and quotes around text.")


def _string(sql: str, at: int) -> Token:
    pattern = _STRING if sql[at] == "'" else _ESCAPE_STRING if sql[at] in "eE" else _PREFIXED_STRING
    found = pattern.match(sql, at)
    if found is None:
        raise _unended(at, "string")
    return Token(Kind.STRING, found[0], at, found.end())


def _dollar(sql: str, at: int) -> Token:
    if found := _PARAMETER.match(sql, at):
        if sql[found.end() : found.end() + 1].isalnum():
            raise _refused(sql, found.end(), "Leave a space after the placeholder.")
        return Token(Kind.PARAMETER, found[0], at, found.end())
    tag = _DOLLAR_TAG.match(sql, at)
    if tag is None:
        raise _refused(sql, at, "Placeholders are $1, $2, and so on.")
    end = sql.find(tag[0], tag.end())
    if end < 0:
        raise _unended(at, "dollar-quoted string")
    return Token(Kind.STRING, sql[at : end + len(tag[0])], at, end + len(tag[0]))


def _number(sql: str, at: int) -> Token:
    found = _match(_NUMBER, sql, at) if sql[at] in "0123456789." else None
    if found is None or _WORD.match(sql, found.end()):
        raise _refused(sql, at, "Leave a space between a number and a word.")
    return Token(Kind.NUMBER, found[0], at, found.end())


def _word(sql: str, word: re.Match[str]) -> Token:
    if sql[word.end() : word.end() + 1] == "$":
        raise _refused(sql, word.end(), "Quote names that hold a dollar sign.")
    return Token(Kind.WORD, fold(word[0], False), word.start(), word.end())


def _operator(sql: str, at: int) -> Token:
    end = at
    while end < len(sql) and sql[end] in _OPERATOR and not sql.startswith(("--", "/*"), end):
        end += 1
        if end - at > _NAME_BYTES:
            break
    text = sql[at:end]
    if len(text) > _NAME_BYTES:
        raise _refused(sql, at, "Leave a space between operators.")
    # PostgreSQL's rule: an operator ends in + or - only if it has one of these characters.
    while len(text) > 1 and text[-1] in "+-" and not set(text) & set("~!@#%^&|?"):
        text = text[:-1]
    return Token(Kind.OPERATOR, text, at, at + len(text))


def _end_of_comment(sql: str, at: int) -> int:
    """PostgreSQL nests block comments."""
    depth, here = 1, at + 2
    while depth:
        opened, closed = sql.find("/*", here), sql.find("*/", here)
        if closed < 0:
            raise _unended(at, "comment")
        if 0 <= opened < closed:
            depth, here = depth + 1, opened + 2
        else:
            depth, here = depth - 1, closed + 2
    return here


def _match(pattern: re.Pattern[str], sql: str, at: int) -> re.Match[str]:
    found = pattern.match(sql, at)
    assert found is not None  # the caller looked at the first character
    return found


def _unended(at: int, what: str) -> SqlError:
    return SqlError(f"A {what} does not end.", sqlstate="42601", position=str(at + 1))


def _refused(sql: str, at: int, hint: str) -> NotPermitted:
    shown = sql[at] if sql[at].isprintable() else f"U+{ord(sql[at]):04X}"
    return NotPermitted(
        f"The character {shown} is not permitted here (position {at + 1}).",
        rule="characters",
        position=str(at + 1),
        hint=hint,
    )
