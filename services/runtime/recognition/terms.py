"""Finds words and codes of a list in a text, however they are written: case, accents, spacing, look-alikes.

No regular expressions: terms come from tenants and callers, and the time must not depend on how they are made.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.runtime.recognition.folding import Folded, fold

# A wildcard inside a term spans at most this many letters and digits.
_MAX_WILD = 40
# From this length on a term is found across any separators; a shorter one would be found in ordinary words.
_LONG = 5
_MARKS = "@$!"
_NO_MARKS = str.maketrans(_MARKS, " " * len(_MARKS))
# Digits and marks in the place of letters; `1` may be an i or an l.
_LEET = str.maketrans("03457@$", "oeastas")
_DISGUISES = (_LEET | str.maketrans("1!", "ii"), _LEET | str.maketrans("1!", "ll"))


@dataclass(frozen=True)
class Skeleton:
    """Letters and digits of a folded text, in lower case.

    Of the i-th: `gaps[i]`, whether something else stood before it; `blanks[i]`, whether a blank did; `humps[i]`,
    whether it begins a word as in `camelCase`; `places[i]`, where it stands in the folded text.
    """

    text: str
    gaps: Sequence[bool]
    blanks: Sequence[bool]
    humps: Sequence[bool]
    places: Sequence[int]

    @classmethod
    def of(cls, text: str) -> "Skeleton":
        """The skeleton of `text`; marks that can stand for letters count as such."""
        characters: list[str] = []
        gaps: list[bool] = []
        blanks: list[bool] = []
        humps: list[bool] = []
        places: list[int] = []
        gap, blank, before = True, True, " "
        for place, original in enumerate(text):
            kept = original.isalnum() or original in _MARKS
            for character in original.casefold() if kept else "":
                characters.append(character)
                gaps.append(gap)
                blanks.append(blank)
                humps.append(before.islower() and original.isupper())
                places.append(place)
                gap, blank, before = False, False, original
            gap, blank, before = gap or not kept, blank or original.isspace(), original
        return cls("".join(characters), gaps, blanks, humps, places)


@dataclass(frozen=True)
class _Term:
    """The parts between wildcards. `opened`, `closed`: a wildcard begins or ends the term."""

    pieces: Sequence[Skeleton]
    opened: bool
    closed: bool

    @property
    def length(self) -> int:
        return sum(len(piece.text) for piece in self.pieces)


def find_terms(folded: Folded, terms: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Spans of the folded text that say one of `terms`. Terms of fewer than two letters and digits are left out."""
    compiled = _compiled(tuple(terms))
    plain = Skeleton.of(folded.text.translate(_NO_MARKS))
    for term in compiled:
        for start, end in _places(term, plain, plain.text, {}):
            yield plain.places[start], plain.places[end - 1] + 1
    disguised = Skeleton.of(folded.text)
    for table in _DISGUISES:
        text = disguised.text.translate(table)
        for term in compiled if text != plain.text else ():
            for start, end in _places(term, disguised, text, table):
                if _mostly_literal(disguised.text[start:end], term, table):
                    yield disguised.places[start], disguised.places[end - 1] + 1


def says_term(folded: Folded, terms: Sequence[str]) -> bool:
    """Whether a text that was hidden in another says one of `terms`, of four letters and digits or more, anywhere."""
    text = Skeleton.of(folded.text.translate(_NO_MARKS)).text
    return any(
        term.length >= 4 and all(piece.text in text for piece in term.pieces) for term in _compiled(tuple(terms))
    )


@lru_cache(maxsize=256)
def _compiled(terms: tuple[str, ...]) -> tuple[_Term, ...]:
    compiled: list[_Term] = []
    for term in dict.fromkeys(terms):
        pieces = [Skeleton.of(fold(piece).text.translate(_NO_MARKS)) for piece in term.strip().split("*")]
        filled = tuple(piece for piece in pieces if piece.text)
        found = _Term(filled, not pieces[0].text, not pieces[-1].text)
        if found.length >= 2:
            compiled.append(found)
    return tuple(compiled)


def _places(term: _Term, skeleton: Skeleton, text: str, table: dict[int, int]) -> Iterator[tuple[int, int]]:
    first, *others = (piece.text.translate(table) for piece in term.pieces)
    start = -1
    while (start := text.find(first, start + 1)) >= 0:
        end = start + len(first)
        for piece in others:
            found = text.find(piece, end, end + _MAX_WILD + len(piece))
            if found < 0:
                break
            end = found + len(piece)
        else:
            yield from _checked(term, skeleton, start, end)


def _checked(term: _Term, skeleton: Skeleton, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The match, widened by a wildcard at its edge, if it stands on the boundaries of words."""
    spaced = _is_spaced(term, skeleton, start)
    while term.opened and start and not skeleton.blanks[start]:
        start -= 1
    while term.closed and end < len(skeleton.text) and not skeleton.blanks[end]:
        end += 1
    if spaced and _is_boundary(skeleton, start, term) and _is_boundary(skeleton, end, term):
        yield start, end


def _is_boundary(skeleton: Skeleton, place: int, term: _Term) -> bool:
    if place in (0, len(skeleton.text)) or skeleton.gaps[place]:
        return True
    before, after = skeleton.text[place - 1], skeleton.text[place]
    if not (before.isascii() and after.isascii()):
        return True  # scripts that put no blanks between words
    return term.length >= _LONG and (before.isdigit() != after.isdigit() or skeleton.humps[place])


def _is_spaced(term: _Term, skeleton: Skeleton, start: int) -> bool:
    """Whether separators inside of the match may be there."""
    if len(term.pieces) > 1 or term.length >= _LONG or any(map(str.isdigit, term.pieces[0].text)):
        return True
    own = term.pieces[0].gaps[1:]
    seen = skeleton.gaps[start + 1 : start + len(own) + 1]
    return all(seen) or all(mine or not there for mine, there in zip(own, seen, strict=True))


def _mostly_literal(match: str, term: _Term, table: dict[int, int]) -> bool:
    """Whether at least half of a disguise is written as it is: `17` must not be read as a term `it`."""
    replaced = sum(ord(character) in table for character in match)
    return term.length >= _LONG and 0 < replaced <= len(match) / 2
