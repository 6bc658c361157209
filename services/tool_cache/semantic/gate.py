"""The gate: two questions may be alike only when their signatures are equal.

A signature holds all that a question says: every word that is not known to be empty, numbers, dates, prepositions, who
does what to whom. So what the gate does not understand counts as different, whatever kind of difference it is; what it
does understand is listed in words_en.yaml and words_es.yaml, and what it moves in structure.py.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import date

from services.tool_cache.semantic.language import language_of
from services.tool_cache.semantic.reading import read
from services.tool_cache.semantic.structure import Canonical, arranged
from services.tool_cache.semantic.tokens import NotComparable, Token, folded, tokens_of

_LONGEST_TEXT, _MOST_TOKENS = 400, 60
# Changes with the gate: what another version wrote is not comparable.
_VERSION = "2"


@dataclass(frozen=True)
class Signature:
    """What a question says, on one day. Equal questions of two days differ: nobody can list all words like "lately"."""

    language: str
    day: date
    parts: Canonical

    @property
    def digest(self) -> str:
        """64 hex digits."""
        written = json.dumps([_VERSION, self.language, self.day.isoformat(), self.parts])
        return hashlib.sha256(written.encode()).hexdigest()


def signature(text: str, today: date) -> Signature | None:
    """What a text says; None where it may be like no other one (empty, long, several sentences, invisible signs)."""
    try:
        tokens = _tokens(text)
        language = language_of(tokens)
        parts = arranged(read(tokens, language, today), language) if language else _as_written(tokens)
    except NotComparable:
        return None
    if not any(part[0] != "question" for part in parts):
        return None
    return Signature(language, today, parts)


def _tokens(text: str) -> list[Token]:
    if len(text) > _LONGEST_TEXT:
        raise NotComparable("too long")
    tokens = tokens_of(text)
    if not any(token.kind != "break" for token in tokens) or len(tokens) > _MOST_TOKENS:
        raise NotComparable("empty or too long")
    return tokens


def _as_written(tokens: list[Token]) -> Canonical:
    """Without a language that is known: every token, in order."""
    return tuple((token.kind, token.fold) for token in tokens)


# Words whose meaning moves with the day. For the exact layer; a signature holds the day whatever its words are.
_MOVING = frozenset(
    "today tonight yesterday tomorrow now current currently this last next past previous recent recently latest ago "
    "upcoming coming newest "
    "hoy ayer anteayer mañana ahora actual actuales actualmente este esta estos estas ultimo ultima ultimos ultimas "
    "proximo proxima proximos proximas pasado pasada pasados pasadas anterior anteriores reciente recientes "
    "recientemente hace viene".split()
)


def depends_on_day(text: str) -> bool:
    """Whether a text has a word such as "today" or "último": the same words ask for something else tomorrow."""
    return any(folded(word) in _MOVING for word in re.findall(r"[^\W\d_]+", text))
