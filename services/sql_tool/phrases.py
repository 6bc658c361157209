"""Looks at the words of a statement around a place: where a bracket ends, whether an operand has just ended."""

from collections.abc import Iterator, Sequence

from services.sql_tool import vocabulary
from services.sql_tool.lexer import Kind, Token

# After these words an operand is still to come.
_OPEN_WORDS = (
    vocabulary.RESERVED | frozenset("between by escape filter first over path set value within zone".split())
) - (vocabulary.WHOLE_OPERANDS)


class Phrases:
    """The tokens of a statement. Every method takes places that may lie outside of it."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens

    def text(self, at: int) -> str:
        """The text of a word or sign, and nothing for literals and quoted names."""
        if not 0 <= at < len(self._tokens):
            return ""
        token = self._tokens[at]
        return token.text if token.kind in (Kind.WORD, Kind.PUNCTUATION) else ""

    def kind(self, at: int) -> Kind | None:
        """What the token is; None where there is none."""
        return self._tokens[at].kind if 0 <= at < len(self._tokens) else None

    def words(self, at: int, words: Sequence[str]) -> bool:
        """Whether these words follow each other from here."""
        return all(self.text(at + i) == word for i, word in enumerate(words))

    def ended(self, at: int) -> bool:
        """Whether an operand ends with this token."""
        if at < 0:
            return False
        token = self._tokens[at]
        if token.kind is Kind.PUNCTUATION:
            return token.text in ")]"
        return token.kind is not Kind.OPERATOR and not (token.kind is Kind.WORD and token.text in _OPEN_WORDS)

    def closing(self, opening: int) -> int:
        """The bracket that ends what `opening` begins; the end of the text where there is none."""
        depth = 0
        for at in range(opening, len(self._tokens)):
            text = self.text(at)
            depth += (text in ("(", "[")) - (text in (")", "]"))
            if depth == 0:
                return at
        return len(self._tokens)

    def opening(self, closing: int) -> int:
        """The bracket that `closing` ends; -1 where there is none."""
        depth = 0
        for at in range(closing, -1, -1):
            text = self.text(at)
            depth += (text == ")") - (text == "(")
            if depth == 0:
                return at
        return -1

    def inside(self, opening: int) -> Iterator[int]:
        """Tokens of this bracket, without those of brackets inside."""
        end, at = self.closing(opening), opening + 1
        while at < end:
            yield at
            at = self.closing(at) + 1 if self.text(at) in ("(", "[") else at + 1

    def is_literal(self, at: int) -> bool:
        """Whether this is a constant."""
        return at < len(self._tokens) and (
            self._tokens[at].kind in (Kind.STRING, Kind.NUMBER) or self.text(at) in ("true", "false", "null")
        )

    def is_name(self, at: int) -> bool:
        """Whether this can name a column or table."""
        if at >= len(self._tokens):
            return False
        token = self._tokens[at]
        return token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.text not in vocabulary.RESERVED)

    def with_name(self, closing: int) -> int | None:
        """Where the WITH query's name stands whose body ends with this bracket."""
        at = self.opening(closing) - 1
        if self.text(at) == "materialized":
            at -= 2 if self.text(at - 1) == "not" else 1
        if self.text(at) != "as":
            return None
        at -= 1
        if self.text(at) == ")":
            at = self.opening(at) - 1
        return self._tokens[at].start if at > 0 and self.is_name(at) else None
