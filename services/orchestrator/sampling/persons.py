"""Finds names of persons in Spanish and English text, by lists of frequent names and by what stands around names.

No model: nothing to load, and the same every time. Found are frequent given names with what follows them; names after
a title, an initial, a closing formula or a phrase such as `my name is`; an unknown word before a frequent family name;
and, once a whole name is known, its parts. How much that is: docs/evaluation.md. What is wrongly found does no harm to
what is measured: the same word is replaced by the same name everywhere in an answer.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import yaml

_WORD = re.compile(r"[^\W\d_]+(?:['’-](?!s\b)[^\W\d_]+)*")
# Between two words of one name; after an initial or a title there is a full stop.
_JOINT = re.compile(r"\.?ª?[ \u00a0]")
_AFTER_ENDING = re.compile(r",? (?:&|and|y|e) |,? ")
_CUE = re.compile(
    r"(?:\b(?:me llamo|mi nombre es|my name is|firmado(?: por)?|signed by|autora?|author|contacto?|remitente|sender|"
    r"(?:elabora|revisa|aproba|redacta)do por|(?:review|written|draft)ed by)\b:?|\b(?:cc|from|to|de|para):)\s{1,3}"
    r"|\b(?:atentamente|saludos|un saludo|regards|best wishes|sincerely|cheers),\s{1,3}",
    re.IGNORECASE,
)
_MOST_WORDS = 5
# Shorter parts of a name, alone, are as often something else.
_LEAST_PART_CHARS = 3

Span = tuple[int, int]


class _Word(NamedTuple):
    text: str
    start: int
    end: int
    # In small letters, without accents and signs.
    key: str
    # What stands between the word before and this one.
    gap: str
    # After a phrase that says that a name follows.
    is_after_cue: bool

    @property
    def is_capital(self) -> bool:
        return self.text[0].isupper()

    @property
    def is_initial(self) -> bool:
        return len(self.text) == 1 and self.is_capital


class People:
    """Names of the persons in the texts of one answer."""

    def __init__(self) -> None:
        # Of each person the words of the longest name that was seen.
        self._persons: list[set[str]] = []
        self._parts: set[str] = set()
        self._read: dict[str, tuple[Sequence[_Word], Mapping[int, int]]] = {}

    def learn(self, text: str) -> None:
        """Remembers the names in a text, so that their parts are known in every other text."""
        if text in self._read:
            return
        words = _words(text)
        self._read[text] = words, dict(_found(words))
        for first, past in self._read[text][1].items():
            keys = _keys(words[first:past])
            person = self._who(keys)
            if person is None:
                self._persons.append(keys)
            else:
                self._persons[person] |= keys
            self._parts |= keys

    def spans(self, text: str) -> Iterator[tuple[int, Span]]:
        """Who (a number from 0) stands where, in the text's order."""
        self.learn(text)
        words, whole = self._read[text]
        place = 0
        while place < len(words):
            past = whole.get(place) or (place + 1 if self._is_part(words, place) else 0)
            person = self._who(_keys(words[place:past])) if past else None
            if person is not None:
                yield person, (words[place].start, words[past - 1].end)
            place = max(past, place + 1)

    def _is_part(self, words: Sequence[_Word], place: int) -> bool:
        word = words[place]
        return (
            word.is_capital
            and len(word.key) >= _LEAST_PART_CHARS
            and word.key in self._parts
            and not _is_in_a_longer_name(words, place)
            and not _is_company(words, place, place + 1)
        )

    def _who(self, keys: set[str]) -> int | None:
        """Ana Ruiz and Ana Ruiz Soler are one, and so is Ruiz; Ana Ruiz and Ana Soler are two."""
        same = (person for person, known in enumerate(self._persons) if keys <= known or known <= keys)
        return next(same, None) if keys else None


def _found(words: Sequence[_Word]) -> Iterator[tuple[int, int]]:
    """Places of names, as (first word, past the last one), in order, each word in one at most."""
    small = _lists().given | _lists().titles
    place = 0
    while place < len(words):
        # Most words are none of a name, and are seen to be none at once.
        may_begin = words[place].is_capital or words[place].key in small
        if may_begin and (past := _name_at(words, place)) > place:
            # The title is not the name.
            first = next((n for n in range(place, past) if words[n].key not in _lists().titles), place)
            yield first, past
            place = past
        else:
            place += 1


def _name_at(words: Sequence[_Word], place: int) -> int:
    """Past the last word of the name that begins here; `place` where none does."""
    word, lists = words[place], _lists()
    if word.key in lists.titles and (past := _run(words, place + 1)) > place + 1:
        return past if _joined(words, place + 1) else place
    if not word.is_capital:
        return _small(words, place)
    if _is_in_a_longer_name(words, place):
        return place
    past = _run(words, place)
    if past == place or _is_company(words, place, past):
        return place
    inner = [one for one in words[place + 1 : past] if _tells(one)]
    is_name = (
        word.key in lists.given
        or (word.key in lists.ambiguous and bool(inner) and inner[0].key in lists.first | lists.family)
        or (word.is_initial and bool(inner))
        or (bool(inner) and inner[0].key in lists.family and word.key not in lists.organisations)
        or word.is_after_cue
    )
    if is_name:
        return past
    return _reversed(words, place, past)


def _reversed(words: Sequence[_Word], place: int, past: int) -> int:
    """Past `García López, Andrés`."""
    lists = _lists()
    if words[place].key in lists.family and past < len(words) and words[past].gap == ", ":
        if words[past].is_capital and words[past].key in lists.given | lists.ambiguous:
            return _run(words, past)
    return place


def _small(words: Sequence[_Word], place: int) -> int:
    """Past a name in small letters: a given name and a family name, both frequent, side by side."""
    lists = _lists()
    past = place
    while past < len(words) and words[past].key in lists.given and (past == place or _joined(words, past)):
        past += 1
    is_name = place < past < len(words) and words[past].key in lists.family and _joined(words, past)
    return past + 1 if is_name else place


def _run(words: Sequence[_Word], place: int) -> int:
    """Past the words that may be one name, from `place` on: capitals, with particles between them."""
    lists = _lists()
    past = place
    while past < len(words) and past - place < _MOST_WORDS + 2:
        if past > place and not _joined(words, past):
            break
        word = words[past]
        if word.is_capital and word.key not in lists.not_names and word.key not in lists.organisations:
            past += 1
            continue
        after = past
        while after < len(words) and words[after].key in lists.particles and _joined(words, after):
            after += 1
        if past == place or after == past or after >= len(words) or not _joined(words, after):
            break
        # `Ana y Luis` are two persons, `Ruiz y Soler` is one.
        is_and = any(words[n].key in ("y", "i", "e") for n in range(past, after))
        if not words[after].is_capital or words[after].key in lists.not_names:
            break
        if is_and and words[after].key not in lists.family - lists.first:
            break
        past = after + 1
    return past


def _joined(words: Sequence[_Word], place: int) -> bool:
    """Whether a word may go on with the name of the word before."""
    if place == 0 or place >= len(words) or not _JOINT.fullmatch(words[place].gap):
        return False
    before = words[place - 1]
    return not words[place].gap.startswith(".") or before.is_initial or before.key in _lists().titles


def _is_in_a_longer_name(words: Sequence[_Word], place: int) -> bool:
    """Whether the word before makes this a street, a saint, an institution."""
    if place == 0:
        return False
    before = place - 1
    while before > 0 and words[before].text in _lists().particles and words[before].gap == " ":
        before -= 1
    is_near = words[place].gap == " " and all(words[n].gap == " " for n in range(before + 1, place + 1))
    return is_near and words[before].is_capital and words[before].key in _lists().organisations


def _is_company(words: Sequence[_Word], place: int, past: int) -> bool:
    """Whether what follows (or ends) the words makes them a company or a place."""
    lists = _lists()
    if any(one.key in lists.endings for one in words[place + 1 : past]):
        return True
    if past >= len(words):
        return False
    after = words[past]
    if _AFTER_ENDING.fullmatch(after.gap) and after.is_capital:
        # `S.L.` is two words with a full stop between them.
        following = "".join(one.key for one in words[past : past + 3] if one is after or one.gap == ".")
        return after.key in lists.endings or following in lists.endings
    return False


def _keys(words: Sequence[_Word]) -> set[str]:
    return {one.key for one in words if _tells(one)}


def _tells(word: _Word) -> bool:
    """Whether a word of a name says who is meant."""
    return not word.is_initial and word.key not in _lists().particles and word.key not in _lists().titles


def _words(text: str) -> list[_Word]:
    cues = {match.end() for match in _CUE.finditer(text)}
    found: list[_Word] = []
    past = 0
    for match in _WORD.finditer(text):
        said, start = match.group(), match.start()
        found.append(_Word(said, start, match.end(), _plain(said), text[past:start], start in cues))
        past = match.end()
    return found


@lru_cache(maxsize=50_000)
def _plain(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFKD", text.casefold()) if one.isalpha())


@dataclass(frozen=True)
class _Lists:
    given: frozenset[str]
    ambiguous: frozenset[str]
    family: frozenset[str]
    titles: frozenset[str]
    particles: frozenset[str]
    not_names: frozenset[str]
    organisations: frozenset[str]
    endings: frozenset[str]

    @property
    def first(self) -> frozenset[str]:
        """Given names, whatever else they are."""
        return self.given | self.ambiguous


@cache
def _lists() -> _Lists:
    text = files("services.orchestrator.sampling").joinpath("persons.yaml").read_text(encoding="utf-8")
    read: Mapping[str, str] = yaml.safe_load(text)
    return _Lists(**{name: frozenset(words.split()) for name, words in read.items()})
