"""Finds what a wrong name was probably meant to be, among names that may be shown. Never knows any other names."""

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

_CUTOFF = 0.6
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Of a name in a statement, with what stands before its dots: plain or in double quotes.
_PART = r'(?:"(?:[^"]|"")*"|[^\W\d][\w$]*)'
_NAME = re.compile(rf"{_PART}(?:\s*\.\s*{_PART})*(?:\s*\.\s*\*)?")
_SHOWN_CHARACTERS = 60


def folded(text: str) -> str:
    """Words in lower case without accents, joined by one space: how names and values are compared leniently."""
    bare = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return " ".join(_WORD.findall(bare.casefold()))


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The most similar candidate, or None when none is similar. Case, accents and underscores do not count.

    `candidates` are names that the caller may show.
    """
    wanted = _words(name)
    best, best_score = None, 0.0
    alone, letters = frozenset(wanted), Counter("".join(wanted))
    for candidate in candidates:
        words = _words(candidate)
        if alone.isdisjoint(words) and not _may_be_near(letters, _letters(candidate)):
            continue
        score = _similarity(wanted, words)
        if score > best_score:
            best, best_score = candidate, score
    return best if best_score >= _CUTOFF else None


def meant(word: str, said: Mapping[str, str]) -> str | None:
    """The only name whose description, by name in `said`, holds `word`: descriptions give synonyms in two languages."""
    wanted = folded(word)
    found = [name for name, text in said.items() if wanted and f" {wanted} " in f" {folded(text)} "]
    return found[0] if len(found) == 1 else None


def name_at(sql: str, position: int) -> str:
    """The name that stands at `position`, counted from 1, as it is written; empty where there is none."""
    found = _NAME.match(sql, position - 1) if 0 < position <= len(sql) else None
    return " ".join(found.group().split())[:_SHOWN_CHARACTERS] if found else ""


def position_of(sql: str, name: str) -> int | None:
    """Where a name, such as `amount` or `c.amount`, first stands in a statement, counted from 1; None if nowhere."""
    wanted = name.lower().split(".")
    for found in _NAME.finditer(_without_literals(sql)):
        parts = re.findall(_PART, found.group())
        if [plain(part) for part in parts[-len(wanted) :]] == wanted:
            return found.start() + 1
    return None


def plain(part: str) -> str:
    """A part of a name without its quotes, in lower case: for comparing with what a model wrote, not for security."""
    return (part[1:-1].replace('""', '"') if part.startswith('"') else part).lower()


def _without_literals(sql: str) -> str:
    """The statement with its texts and comments blanked out, of the same length."""
    literal = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$", re.DOTALL)
    return literal.sub(lambda found: " " * len(found.group()), sql)


@lru_cache(maxsize=4096)
def _words(name: str) -> list[str]:
    return folded(_CAMEL.sub("_", name)).split()


@lru_cache(maxsize=4096)
def _letters(name: str) -> Counter[str]:
    return Counter("".join(_words(name)))


def _may_be_near(one: Counter[str], other: Counter[str]) -> bool:
    """Whether the score can reach the cutoff: it has no more letters in common than both hold. Cheap."""
    one_size, other_size = one.total(), other.total()
    least = _CUTOFF * (one_size + other_size) / 2
    if min(one_size, other_size) < least:
        return False
    return sum([min(count, other[letter]) for letter, count in one.items()]) >= least


def _similarity(one: list[str], other: list[str]) -> float:
    """From 0 to 1: the letters in common, or that one name's words are part of the other's."""
    if not one or not other:
        return 0
    letters = difflib.SequenceMatcher(None, "".join(one), "".join(other), autojunk=False).ratio()
    shared = len(set(one) & set(other))
    if shared and shared == min(len(set(one)), len(set(other))):
        return max(letters, 0.6 + 0.4 * shared / max(len(one), len(other)))
    return letters
