"""Finds a tenant's words in a text that arrives in pieces, as soon as they are complete and however they are cut.

As in the web tool: in any case, accent, spacing, look-alike or common disguise. What could still become one of the
words is held back, and no more than that.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from services.runtime.recognition.folding import fold
from services.runtime.recognition.terms import Skeleton, find_terms

# A word that is spread over more characters than these is not one.
MAX_CHARS = 4096
_CONTEXT_CHARS = 16  # whether a word begins here depends on what stands before it
_WILD_CHARS = 40  # of a `*`, in letters and digits
_MARKS = "@$!"
_NO_MARKS = str.maketrans(dict.fromkeys(_MARKS, " "))
# How letters are disguised: not at all, and by digits and marks, where `1` and `!` may be an i or an l.
_LEET = "03457@$", "oeastas"
_DISGUISES: Sequence[Mapping[str, str]] = (
    dict.fromkeys(_MARKS, ""),
    dict(zip(_LEET[0] + "1!", _LEET[1] + "ii", strict=True)),
    dict(zip(_LEET[0] + "1!", _LEET[1] + "ll", strict=True)),
)


class _Letters(dict[int, str]):
    """For `str.translate`: what a character is in a skeleton. Made once for each character."""

    def __init__(self, disguise: Mapping[str, str]) -> None:
        super().__init__()
        self._disguise = disguise

    def __missing__(self, code: int) -> str:
        kept = (one.casefold() for one in fold(chr(code)).text if one.isalnum() or one in _MARKS)
        letters = "".join(self._disguise.get(one, one) for folded in kept for one in folded)
        if len(self) < 20_000:
            self[code] = letters
        return letters


_ALPHABETS = tuple(_Letters(disguise) for disguise in _DISGUISES)


class _Word(NamedTuple):
    """One of the words. `first`: its letters up to a `*` in it; `reach`: how far it may go on after those."""

    term: str
    first: str
    reach: int
    open_end: bool


class _Words(NamedTuple):
    """All words of one disguise. `beginnings` of the first letters of any, whole ones too."""

    words: Sequence[_Word]
    beginnings: frozenset[str]
    longest: int


@lru_cache(maxsize=256)
def _compiled(terms: tuple[str, ...]) -> tuple[_Words, ...]:
    return tuple(_words(terms, alphabet) for alphabet in _ALPHABETS)


def _words(terms: Sequence[str], alphabet: _Letters) -> _Words:
    words: list[_Word] = []
    for term in dict.fromkeys(terms):
        pieces = [piece for part in term.split("*") if (piece := part.translate(alphabet))]
        if sum(map(len, pieces)) >= 2:
            reach = sum(len(piece) + _WILD_CHARS for piece in pieces[1:])
            words.append(_Word(term, pieces[0], reach, term.endswith("*")))
    beginnings = frozenset(word.first[:size] for word in words for size in range(1, len(word.first) + 1))
    return _Words(words, beginnings, max(map(len, beginnings), default=0))


class BlockedTerms:
    """One text on its way."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._disguised = _compiled(tuple(terms))
        self._open_start = any(term.startswith("*") for term in terms)
        self._before = ""
        self._held = ""
        self.settled = 0  # up to here no word begins

    def feed(self, piece: str, *, last: bool = False) -> int | None:
        """Takes the next piece; where the first word begins in the whole text, or None."""
        text = self._before + self._held + piece
        base, start = self.settled - len(self._before), len(self._before)
        # A `*` at its front makes a word begin earlier, perhaps in what has gone out already.
        found = min((max(a, start) for a, b in self._found(text, last) if b > start), default=None)
        if found is not None:
            self.settled = base + found
            return self.settled
        place = len(text)
        if not last:
            place = self._open(text, start)
            while self._open_start and place > start and not text[place - 1].isspace():
                place -= 1
            place = max(place, len(text) - MAX_CHARS)
        self.settled = base + place
        self._before, self._held = text[max(0, place - _CONTEXT_CHARS) : place], text[place:]
        return None

    def _found(self, text: str, last: bool) -> Sequence[tuple[int, int]]:
        """Where words stand that are complete."""
        likely: dict[str, _Word] = {}
        for alphabet, (words, _, _) in zip(_ALPHABETS, self._disguised, strict=True):
            letters = text.translate(alphabet)
            likely |= {word.term: word for word in words if word.first in letters}
        if not likely:
            return ()
        folded = fold(text)
        places: list[tuple[int, int]] = []
        for word in likely.values():
            for start, end in find_terms(folded, (word.term,)):
                # At the very end of what there is, the word may still turn out to be a longer one.
                if last or word.open_end or end < len(folded.text):
                    places.append(folded.span(start, end))
        return places

    def _open(self, text: str, start: int) -> int:
        """Where the first word could begin that is not complete; the end of the text if none."""
        held = text[max(start, len(text) - MAX_CHARS) :]
        unfinished = [
            _unfinished(held.translate(alphabet), words)
            for alphabet, words in zip(_ALPHABETS, self._disguised, strict=True)
        ]
        if not any(unfinished):
            return len(text)
        folded = fold(held)
        # Marks are letters in a disguise only.
        skeletons = Skeleton.of(folded.text.translate(_NO_MARKS)), Skeleton.of(folded.text)
        first = min(skeletons[index > 0].places[-letters] for index, letters in enumerate(unfinished) if letters)
        return len(text) - len(held) + folded.origin[first]


def _unfinished(letters: str, words: _Words) -> int:
    """How many letters at the end may be the beginning of a word."""
    most = 0
    for size in range(min(words.longest, len(letters)), 0, -1):
        if letters[-size:] in words.beginnings:
            most = size
            break
    for word in words.words:
        if word.reach:
            at = letters.find(word.first, max(0, len(letters) - word.reach - len(word.first)))
            most = max(most, len(letters) - at if at >= 0 else 0)
    return most
