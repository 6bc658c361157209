"""Cuts a text that arrives in pieces into windows, the same ones however the pieces are cut.

What is found in a window depends on the window alone, so that an answer is judged the same, streamed or not. A window
ends where nothing that is looked for can go on, and at the latest after `MAX_CHARS`; windows that were ended by force
overlap, so that nothing of up to `REACH_CHARS` is missed.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from services.gateway.guards.recognition import Finder, Finding

MAX_CHARS, REACH_CHARS = 2048, 512
# What stands before a window can explain it: "version 10.1.2.3".
_CONTEXT_CHARS = 24
# Scripts without blanks between words: each character is a word.
_IDEOGRAPHS = "\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CHAR = rf"[^\s{_IDEOGRAPHS}]"
# Digits, in rings and boxes too, and what can be an @.
_DIGITS = r"\d²³¹⁰-⁹₀-₉①-⓿❶-➓㈠-㋿＠﹫@"
_WORD = re.compile(rf"\s*({_CHAR}+|[{_IDEOGRAPHS}])")
_LAST_BOUNDARY = re.compile(rf".*[\s{_IDEOGRAPHS}]", re.DOTALL)
# A word that an identifier may hold or go on over: with digits, or as "ES", "NWBK" and "Z" in the groups of some.
_HOT = (
    rf"{_CHAR}{{0,{MAX_CHARS - 8}}}?(?:[{_DIGITS}]|[\[(<{{](?i:at|arroba)[\])>}}])"
    rf"|[^\s\w]{{0,3}}[A-Z]{{1,4}}[^\s\w]{{0,3}}(?!{_CHAR})"
)
_HOT_WORD = re.compile(_HOT)
# The next one of these, or of the words that are too long to say.
_MATTERS = rf"(?P<hot>{_HOT})|{_CHAR}{{{MAX_CHARS + 1}}}"
_MATTERS_HERE, _NEXT = re.compile(_MATTERS), re.compile(rf"(?<!{_CHAR})(?:{_MATTERS})")
_SENTENCE_END = re.compile(r"[.!?…:;][\"'»)\]]*\s|\n|[。！？]")


class _Window(NamedTuple):
    """Of a text: where a window begins and ends, and where the next begins."""

    start: int
    end: int
    forced: bool = False


class Windows:
    """One text on its way. `feed` and `end` return findings with places in the whole text, in order."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._next = _near_digits if finder.near_digits else _sentence
        self._before = ""
        self._held = ""
        self.settled = 0  # all that begins before this place in the whole text is known

    def feed(self, piece: str) -> list[Finding]:
        """Takes the next piece."""
        return list(self._advance(piece, False))

    def end(self) -> list[Finding]:
        """Takes the end of the text."""
        return list(self._advance("", True))

    def _advance(self, piece: str, last: bool) -> Iterator[Finding]:
        text = self._before + self._held + piece
        base, place = self.settled - len(self._before), len(self._before)
        boundary = None if last else _LAST_BOUNDARY.match(text, place)
        open_word = len(text) if last else place if boundary is None else boundary.end()
        while True:
            start, end, forced = self._next(text, place, last, open_word)
            place = end
            if start == end:  # nothing more to look at
                break
            found = self._look(text, start, end)
            if forced:
                place = _cut(found, start, end)
                found = [one for one in found if one.start < place]
            yield from (Finding(kind, base + begin, base + stop) for kind, begin, stop in found)
        self.settled = base + place
        self._before, self._held = text[max(0, place - _CONTEXT_CHARS) : place], text[place:]

    def _look(self, text: str, start: int, end: int) -> list[Finding]:
        first = max(0, start - _CONTEXT_CHARS)
        found = self._finder.find(text[first:end])
        return [Finding(kind, first + a, first + b) for kind, a, b in found if first + a >= start]


def _cut(found: list[Finding], start: int, end: int) -> int:
    """Where to go on after a window that was ended by force: never within a finding."""
    place = end - REACH_CHARS
    for one in found:
        if one.start < place < one.end:
            return one.start if one.start > start else one.end
    return place


def _near_digits(text: str, place: int, last: bool, open_word: int) -> _Window:
    """The next window around digits, or an empty one up to where nothing is left to look at.

    `open_word`: where the last word begins, which may go on and become one that matters.
    """
    while True:
        # What was cut by force begins in the middle of a word.
        word = _MATTERS_HERE.match(text, place) or _NEXT.search(text, place)
        if word is None:
            start = max(place, open_word)
            return _Window(start, start)
        start = word.start()
        if word["hot"] is not None:
            break
        place = start + REACH_CHARS
    end = _end_of(text, start, last)
    if end is not None:
        return _Window(start, end)
    return _Window(start, start + MAX_CHARS, True) if len(text) - start > MAX_CHARS else _Window(start, start)


def _end_of(text: str, start: int, last: bool) -> int | None:
    """Where the first word ends that no identifier goes on over; None when it is not there yet, or too far away."""
    place = start
    while place - start <= MAX_CHARS:
        word = _WORD.match(text, place)
        if word is None:
            return len(text) if last else None
        place = word.end()
        if place - start > MAX_CHARS or (place == len(text) and not last and not _is_ideograph(text[-1])):
            return None
        if _HOT_WORD.match(text, word.start(1), word.end(1)) is None:
            return place
    return None


def _is_ideograph(character: str) -> bool:
    return re.match(f"[{_IDEOGRAPHS}]", character) is not None


def _sentence(text: str, place: int, last: bool, _: int) -> _Window:
    """The next sentence or line."""
    found = _SENTENCE_END.search(text, place, place + MAX_CHARS)
    if found is not None:
        return _Window(place, found.end())
    if len(text) - place > MAX_CHARS:
        return _Window(place, place + MAX_CHARS, True)
    return _Window(place, len(text)) if last else _Window(place, place)
