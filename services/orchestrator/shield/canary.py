"""A word in the system prompt that no answer has reason to hold: where it turns up, the prompt is being given away."""

import base64
import codecs
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Sequence
from functools import lru_cache

from services.orchestrator.shield.addresses import squeezed

# Shorter beginnings of it turn up by chance.
_LEAST_PREFIX = 4
# Where the installation has no secret: of one process.
_OWN_SECRET = secrets.token_bytes(32)


def canary_of(tenant_id: str, secret: bytes = b"") -> str:
    """The tenant's word. The same for all its runs, so that their prompts begin alike; nobody can guess it."""
    return "cn" + hmac.new(secret or _OWN_SECRET, b"canary\0" + tenant_id.encode(), hashlib.sha256).hexdigest()[:20]


class Canary:
    """Finds one word in a text that comes in pieces: spaced out, back to front, in ROT13, hex, Base32 or Base64."""

    def __init__(self, word: str) -> None:
        self.word = word
        self._needles, self._start = _needles(word)
        self._longest = max(map(len, self._needles))
        self._tail = ""
        self._text = self._letters = ""

    def found(self, text: str) -> bool:
        """Whether it stands in what is pending together with what passed before."""
        joined = self._tail + self._squeezed(text)
        return self._start.search(joined) is not None and any(needle in joined for needle in self._needles)

    def safe(self, text: str) -> int:
        """How much of the pending text can pass: what may be the word's beginning is held."""
        joined = (self._tail + self._squeezed(text))[-self._longest :]
        if self._start.search(joined) is None:
            return len(text)
        held = max((_overlap(joined, needle) for needle in self._needles), default=0)
        at = len(text)
        while held and at > 0:
            at -= 1
            held -= len(squeezed(text[at]))
        return at

    def passed(self, text: str) -> None:
        """Remembers the end of what was let through."""
        self._tail = (self._tail + self._squeezed(text))[-self._longest :]

    def _squeezed(self, text: str) -> str:
        """The same text is asked for in a row."""
        if text != self._text:
            self._text, self._letters = text, squeezed(text)
        return self._letters


@lru_cache(maxsize=1000)
def _needles(word: str) -> tuple[Sequence[str], re.Pattern[str]]:
    """The word's writings, and what finds their beginnings. Every answer of a tenant looks for the same."""
    needles = tuple(squeezed(one) for one in _writings(word))
    return needles, re.compile("|".join(sorted({re.escape(needle[:_LEAST_PREFIX]) for needle in needles})))


def _overlap(text: str, needle: str) -> int:
    """Length of the longest end of `text` that `needle` begins with."""
    for length in range(min(len(needle) - 1, len(text)), _LEAST_PREFIX - 1, -1):
        if text.endswith(needle[:length]):
            return length
    return 0


def _writings(word: str) -> Iterator[str]:
    yield word
    yield word[::-1]
    yield codecs.encode(word, "rot13")
    yield word.encode().hex()
    for variant in (word, word.upper()):
        # Within a longer text Base64 depends on where the word begins; its edges mix with what stands beside it.
        for lead in range(3):
            code = base64.b64encode(b"\0" * lead + variant.encode()).decode()
            yield code[(0, 2, 3)[lead] : -4]
        for lead in range(5):
            code = base64.b32encode(b"\0" * lead + variant.encode()).decode().rstrip("=")
            yield code[-(-lead * 8 // 5) : -2]
