"""Cuts a question into tokens and loses nothing that may carry meaning: what is not known stays as it was written."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

Kind = Literal["word", "number", "code", "quote", "break", "symbol"]

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-", "−": "-", "\u00a0": " "})
_CURRENCY = "€$£¥"
_TOKEN = re.compile(
    r"""(?P<quote>"[^"]+"|«[^»]+»|(?<!\w)'[^']+'(?!\w))
    |(?P<address>https?://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
    |(?P<number>(?<![\w.])[+-]?\d+(?:[.,]\d+)*(?![\w]|[.,/:-]\w))
    |(?P<scaled>(?<![\w.])[+-]?\d+(?:[.,]\d+)*(?:k|K|M|bn)(?![\w]|[/:-]\w))
    |(?P<code>\w+(?:[-./:&_]\w+)*[+\#]+|\w*\d\w*(?:[-./:&_]\w+)*|\w+(?:[-./:&_]\w*\d\w*)+|\w(?:[-&]\w+)+|\w+&\w+|\.\w+)
    |(?P<genitive>'(?:s|d|ll|re|ve|m)\b|'(?=\s)|n't\b)
    |(?P<word>[^\W\d_]+)
    |(?P<break>[,;:()/.?!¿¡-])
    |(?P<operator>>=|<=|[^\w\s])
    """,
    re.VERBOSE,
)
_ENDS = ".?!¿¡"
_AROUND = "¿¡?!.,;: \t\r\n"


@dataclass(frozen=True)
class Token:
    """`text` as written, `fold` for comparison. `name`: written as a name within a sentence that is not."""

    kind: Kind
    text: str
    fold: str
    name: bool = False


class NotComparable(ValueError):
    """The text is not one that may ever be like another one."""


def tokens_of(text: str) -> list[Token]:
    """The tokens of a question in one sentence. Raises NotComparable for anything else."""
    # Not NFKC: it makes 102 of 10².
    plain = unicodedata.normalize("NFC", text).translate(_QUOTES).strip().lstrip("¿¡").rstrip(_AROUND)
    if any(unicodedata.category(sign) in ("Cc", "Cf", "Co", "Cs") for sign in plain if sign not in "\n\t"):
        raise NotComparable("invisible signs")
    found: list[Token] = []
    for match in _TOKEN.finditer(_apart(plain)):
        token = _token(match)
        if token.kind == "break" and token.text in _ENDS:
            raise NotComparable("more than one sentence")
        found.append(token)
    shouted = plain.upper() == plain
    return [_named(token, first=at == 0, shouted=shouted) for at, token in enumerate(found)]


def folded(word: str) -> str:
    """Lower case without accents, but with ñ, and with an accent at the end: "firmó" is not "firmo"."""
    lower = word.casefold()
    return "".join(map(_plain, lower[:-1])) + lower[-1:] if lower[-1:] in "áéíóú" else "".join(map(_plain, lower))


def _plain(sign: str) -> str:
    return sign if sign == "ñ" else unicodedata.normalize("NFD", sign)[0]


def _apart(text: str) -> str:
    """Currency signs and percent apart from their number; contractions opened, "part-time" in two words."""
    text = re.sub(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})", " ", text)
    text = re.sub(rf"([{_CURRENCY}%])", r" \1 ", text)
    return re.sub(r"(\w)(n't|'(?:s|d|ll|re|ve|m))\b", r"\1 \2", text, flags=re.IGNORECASE)


def _token(match: re.Match[str]) -> Token:
    group, text = str(match.lastgroup), match.group()
    if group in ("number", "scaled"):
        return Token("number", text, text.lower() if group == "number" else text)
    if group == "quote":
        return Token("quote", text, "=" + text[1:-1].strip())
    if group in ("code", "address"):
        return Token("code", text, text.casefold())
    if group == "break":
        return Token("break", text, text)
    return Token("word" if group in ("word", "genitive") else "symbol", text, folded(text))


def _named(token: Token, *, first: bool, shouted: bool) -> Token:
    if token.kind != "word" or shouted or token.text == "I":
        return token
    shape = len(token.text) > 1 if token.text.isupper() and first else not first and token.text[0].isupper()
    return Token(token.kind, token.text, token.fold, name=shape)
