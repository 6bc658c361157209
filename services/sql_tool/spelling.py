"""Writes for the parser what PostgreSQL knows and the parser does not, with every name left at its place.

Only the parser sees this text: it has the same length, and the guard's other checks see the original. A clause is
blanked out where an operand has just ended, so that PostgreSQL cannot take its words for columns.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from services.sql_tool import sqljson, vocabulary
from services.sql_tool.lexer import Kind, Token
from services.sql_tool.phrases import Phrases

_NAMES = (Kind.WORD, Kind.QUOTED)
# Stands for ROWS FROM. No statement can call it: it is on no list of functions.
ROWS_CALL = "____"
_WORDS = frozenset({"all", "at", "by", "cycle", "json", "json_table", "row", "rows", "search", "some", *sqljson.CALLS})


@dataclass
class Spelling:
    """`text` for the parser, and `tokens` as it should see them.

    `hidden` counts the tokens that it sees differently or not at all, `syntax` those that are no names. `added` are
    the columns that SEARCH and CYCLE add to the WITH query whose name is at an offset.
    """

    text: str
    tokens: Sequence[Token]
    hidden: Collection[int] = ()
    syntax: Collection[int] = ()
    added: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])


def for_parser(sql: str, tokens: Sequence[Token]) -> Spelling:
    """The statement as the parser can read it."""
    writer = _Writer(sql, tokens)
    for at, token in enumerate(tokens):
        if token.kind is Kind.WORD and token.text in _WORDS and at not in writer.done:
            writer.word(at, token.text)
        elif token.kind is Kind.NUMBER and not token.text.isdecimal():
            writer.number(at, token.text)
        elif token.kind is Kind.PARAMETER:
            writer.parameter(at, token)
    return writer.result()


def _has_space(text: str) -> bool:
    return any(char.isspace() for char in text)


class _Writer:
    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self._sql = sql
        self._tokens = tokens
        self._phrases = Phrases(tokens)
        self._written: dict[int, str] = {}  # in place of the token; empty is blank
        self._syntax = set[int]()
        self._added: dict[int, list[str]] = {}
        self.done = set[int]()

    def result(self) -> Spelling:
        if not self._written:
            return Spelling(self._sql, self._tokens, syntax=self._syntax)
        parts, seen, last = list[str](), list[Token](), 0
        for at, token in enumerate(self._tokens):
            new = self._written.get(at)
            if new is None:
                seen.append(token)
                continue
            if new:
                kind = Kind.PUNCTUATION if new == "," else token.kind
                seen.append(replace(token, kind=kind, text=new, end=token.start + len(new)))
            parts += (self._sql[last : token.start], new.ljust(token.end - token.start))
            last = token.end
        parts.append(self._sql[last:])
        return Spelling("".join(parts), seen, self.done, self._syntax, self._added)

    def word(self, at: int, text: str) -> None:
        """What becomes of one of _WORDS."""
        follows = self._phrases.text(at + 1)
        if text == "json" and (self._phrases.text(at - 1) == "is" or self._phrases.words(at - 2, ("is", "not"))):
            self._predicate(at)
        elif text in ("search", "cycle"):
            if self._phrases.text(at - 1) == ")":
                self._search(at)
        elif follows == "(":
            self._before_bracket(at, text)
        elif text == "by" and self._phrases.text(at - 1) == "group" and follows == "all":
            self._write(at + 1, "")
        elif text == "at" and follows == "local" and self._phrases.ended(at - 1):
            self._blank(at, 2)
        elif text == "rows" and follows == "from" and self._phrases.text(at + 2) == "(":
            self._write(at, "")
            self._write(at + 1, ROWS_CALL)

    def _before_bracket(self, at: int, text: str) -> None:
        if self._is_alias(at):
            return
        if text == "row":
            self._write(at, "")
        elif text == "some" or (text == "all" and self._phrases.kind(at - 1) is Kind.OPERATOR):
            self._write(at, "any")
        elif text == "json_table":
            self._json_table(at)
        elif text in sqljson.CALLS:
            self._json_call(at, sqljson.CALLS[text])

    def _is_alias(self, at: int) -> bool:
        """Whether this names what has columns in the bracket: `AS row(a, b)`, `WITH json(a) AS (…)`."""
        if self._phrases.text(at - 1) == "as" or self._phrases.ended(at - 1):
            return True
        end = self._phrases.closing(at + 1) + 1
        return self._phrases.text(end) == "as" and self._phrases.text(end + 1) in ("(", "materialized", "not")

    def number(self, at: int, text: str) -> None:
        """0x1F, 0o17, 0b11 and 1_000 as plain digits, .5 rounded down."""
        plain = text.replace("_", "")
        if plain[0] == "." and plain[1:].isdecimal():
            plain = "0"
        if plain[:2].lower() in ("0x", "0o", "0b"):
            plain = str(int(plain, 0))
        if plain != text and len(plain) <= len(text):
            self._write(at, plain)

    def parameter(self, at: int, token: Token) -> None:
        """`$1,$` would begin a dollar-quoted string to the parser; it knows @1 too."""
        _, before, between = self._sql[: token.start].rpartition("$")
        following, after, _ = self._sql[token.end :].partition("$")
        joined = (before and not _has_space(between)) or (after and not _has_space(following))
        if joined and self._sql[token.start - 1] not in "<@":  # `<@` is an operator
            self._write(at, f"@{token.text[1:]}")

    # Writing

    def _write(self, at: int, text: str) -> None:
        self._written[at] = text
        self.done.add(at)

    def _blank(self, at: int, count: int) -> None:
        for one in range(at, min(at + count, len(self._tokens))):
            self._write(one, "")

    def _predicate(self, at: int) -> None:
        """IS JSON and its kinds become IS NULL."""
        clause = next(clause for clause in sqljson.PREDICATES if self._phrases.words(at + 1, clause))
        self._blank(at, 1 + len(clause))
        self._write(at, "null")

    def _json_call(self, at: int, name: str) -> None:
        self._write(at, name)
        ended = False  # whether the last token, or clause, left a whole operand
        for here in self._phrases.inside(at + 1):
            if here in self.done:
                continue
            text = self._phrases.text(here)
            if ended and (count := self._clause(here)):
                self._blank(here, count)
            elif ended and text in ("default", "passing", "value"):
                self._write(here, ",")
                ended = False
            elif ended and text == "as" and self._phrases.kind(here + 1) in _NAMES:
                self._blank(here, 2)  # the name of a value that is passed to the path
            elif text == ":" and not self._is_cast(here):
                self._write(here, ",")
                ended = False
            else:
                ended = self._phrases.ended(here) or text in ("(", "[")

    def _is_cast(self, at: int) -> bool:
        here, beside = self._tokens[at], (self._tokens[at - 1], self._tokens[min(at + 1, len(self._tokens) - 1)])
        return any(one.text == ":" and (one.end == here.start or here.end == one.start) for one in beside)

    def _clause(self, at: int) -> int:
        """How many tokens the clause takes that begins here; 0 for none."""
        if self._phrases.text(at) == "returning":
            return self._type(at + 1)
        return next((len(clause) for clause in sqljson.CLAUSES if self._phrases.words(at, clause)), 0)

    def _type(self, start: int) -> int:
        at = start
        while self._phrases.text(at) in vocabulary.TYPE_WORDS and self._tokens[at].kind is Kind.WORD:
            at += 1
        if at == start:
            return 0
        if self._phrases.text(at) == "(":
            end = self._phrases.closing(at)
            if any(
                self._phrases.kind(i) is not Kind.NUMBER and self._phrases.text(i) != "," for i in range(at + 1, end)
            ):
                return 0
            at = end + 1
        while self._phrases.text(at) == "[" and self._phrases.text(at + 1) == "]":
            at += 2
        return at - start + 1

    def _json_table(self, at: int) -> None:
        """Its columns stay; the parser knows them. What is to be done about errors goes."""
        self._syntax.add(at)
        for here in self._phrases.inside(at + 1):
            if count := self._phrases.ended(here - 1) and self._clause(here):
                self._blank(here, count)
            elif self._phrases.text(here) == "columns" and self._phrases.text(here + 1) == "(":
                self._json_columns(here)

    def _json_columns(self, at: int) -> None:
        self._syntax.add(at)
        begins = True
        for here in self._phrases.inside(at + 1):
            text, follows = self._phrases.text(here), self._phrases.text(here + 1)
            literal = self._phrases.kind(here + 1) in (Kind.STRING, Kind.NUMBER)
            if here in self.done:
                continue
            if begins and text == "nested" and (follows == "path" or literal):
                self._syntax.add(here)
            elif text == "path" and literal:
                self._syntax.add(here)
            elif text == "exists" and follows == "path":
                self._blank(here, 1)
            elif text == "columns" and follows == "(":
                self._json_columns(here)
            elif text == "default" and literal and self._phrases.text(here + 2) == "on":
                self._blank(here, 4)
            elif not begins and (count := self._clause(here)):
                self._blank(here, count)
            begins = text == ","

    def _search(self, at: int) -> None:
        """SEARCH and CYCLE after a WITH query add columns to it."""
        name = self._phrases.with_name(at - 1)
        while name is not None and (clause := self._search_clause(at)):
            columns, end = clause
            self._blank(at, end - at)
            self._added.setdefault(name, []).extend(columns)
            at = end

    def _search_clause(self, at: int) -> tuple[list[str], int] | None:
        """The columns that a clause at this place adds, and where it ends."""
        forms = ("search", "depth", "first", "by"), ("search", "breadth", "first", "by"), ("cycle",)
        form = next((words for words in forms if self._phrases.words(at, words)), None)
        if form is None:
            return None
        here = at + len(form)
        while self._phrases.is_name(here) and self._phrases.text(here + 1) == ",":
            here += 2
        if not (
            self._phrases.is_name(here) and self._phrases.text(here + 1) == "set" and self._phrases.is_name(here + 2)
        ):
            return None
        columns, here = [self._tokens[here + 2].text], here + 3
        if self._phrases.text(here) == "to" and self._phrases.text(here + 2) == "default":
            if not (self._phrases.is_literal(here + 1) and self._phrases.is_literal(here + 3)):
                return None
            here += 4
        if self._phrases.text(here) == "using" and self._phrases.is_name(here + 1):
            columns, here = [*columns, self._tokens[here + 1].text], here + 2
        return columns, here
