"""Says how a sentence stands among those around it: whether it bids or asks where nobody else does, of something else.

Manuals bid in every other sentence, and planted orders stand among statements about another matter: the same words mean
different things. Nothing here knows what an order says; concepts.py does.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import cast

import yaml

from services.runtime.recognition.injections.function_words import ENGLISH, FUNCTION_WORDS, SPANISH
from services.runtime.recognition.injections.gestures import MACHINES

# So many sentences on either side are looked at.
REACH = 16
# Fewer tell nothing about what is usual there; shorter ones are headings and cells.
_LEAST_NEIGHBOURS, _LEAST_WORDS = 2, 3
# Words are the same that begin alike: endings differ within one matter.
_STEM_LETTERS, _LEAST_LETTERS = 5, 3
# From which share on neighbours do it often, and of its words a sentence has many in common with them.
_LONGEST_WORD = 40
_OFTEN, _MUCH = 0.25, 0.34
_MANY_STEMS, _MOST_APART = 4, 8
_LEADS = frozenset(
    "please kindly then also now first next finally always never por favor luego tambien ahora primero siempre nunca"
    " and y just simply do not dont no".split()
)
# What stands after a verb that bids and hardly ever after a noun.
_OBJECTS = frozenset(
    "a an the this that these those your my our their his her its all any each every some me us him them it"
    " el la los las un una unos unas tu tus su sus este esta estos estas todo toda todos todas lo cualquier cada mi mis"
    " nuestro nuestra al".split()
)
# What may stand there in either case, and what shows that it was a noun.
_PARTICLES = frozenset(
    "to in on at by with for from as into out up down off over about only exactly of if when until and or"
    " a en con por para como solo de sin sobre desde hasta si cuando y o entre".split()
)
_FINITE = frozenset(
    "is are was were has have had will can could may might must would should does did do shall be been"
    " es son fue era sera esta estan ha han hay puede pueden debe deben tiene tienen sean sea fueron".split()
)
_NO_VERB = re.compile(r".*(?:ing|ed|ly|tion|sion|ment|ness|ity|ous|ful|cion|dad|mente|miento|aba|ado|ada|aron|\d)$")
YOU = frozenset("you your yours yourself tu tus te ti usted ustedes contigo".split())
# A letter to people, and who speaks in a conversation of people.
_GREETS = re.compile(
    r"^\W{0,3}(?:dear|hi|hello|hey|hola|estimad[oa]s?|querid[oa]s?|buen[oa]s (?:dias|tardes|noches)?"
    r"|good (?:morning|afternoon))\b[^.!?]{0,40}[,:!]"
    r"|^\W{0,3}(?:[a-z]{1,12} ){0,3}(?:regards|sincerely|cheers|faithfully|saludos?|abrazos?|besos?|atentamente"
    r"|love|thanks|gracias)\b"
)
# Speech in a story: a dash that nothing parts from its word, or a quotation.
_SAYS = re.compile(r"^ ?(?:-|\u2014|[\"“«„])[a-z¿¡]")
_SPEAKS = re.compile(r"^\W{0,3}(?:\d{1,2}:\d\d\W{1,3})?[a-z]{2,14}(?: [a-z]{2,14})?: ")
_CODE = re.compile(r"[(){}=<>$\[\]\\|`_]")
# `dime`, `explicamelo`
_ENCLITICS = re.compile(r"(?:me|nos|te|se|le|les)?(?:lo|la|los|las|le|les|me|nos|se)$")


@dataclass(frozen=True, slots=True)
class Traits:
    """What is to be known of a sentence in order to compare it.

    `moods`: of `asks`, `bids`, `may bid`, `you`, `states`. `does`: the class of the verb with which it bids, or empty.
    `tongue`: `en`, `es`, or empty. `counts`: it is long enough to tell what is usual.
    `marks`: of `letter`, `talk`, `speech` and `machines`, what it shows the text to be or to be about.
    """

    moods: Sequence[str]
    does: str
    codes: bool
    tongue: str
    stems: frozenset[str]
    counts: bool
    marks: Sequence[str] = ()


@lru_cache(maxsize=1)
def _classes() -> Mapping[str, str]:
    """Of verbs.yaml: word → class."""
    text = files("services.runtime.recognition.injections").joinpath("verbs.yaml").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for name, words in cast(Mapping[str, str], yaml.safe_load(text)).items():
        for word in words.split():
            found.setdefault(word, name)
    return found


def traits(sentence: str, words: Sequence[str], mood: str, does: str) -> Traits:
    """Of a folded sentence and its words. `mood` and `does`: as `mood_of` tells them."""
    said = set(words)
    english, spanish = len(said & ENGLISH), len(said & SPANISH)
    stems = frozenset([word[:_STEM_LETTERS] for word in said - FUNCTION_WORDS if len(word) >= _LEAST_LETTERS])
    moods = (mood, "you") if not YOU.isdisjoint(said) else (mood,)
    codes = len(_CODE.findall(sentence)) * 4 > len(words)
    tongue = "en" if english > spanish + 1 else "es" if spanish > english + 1 else ""
    return Traits(moods, does, codes, tongue, stems, len(words) >= _LEAST_WORDS, tuple(_marks(sentence, said)))


def _marks(sentence: str, said: Set[str]) -> Iterator[str]:
    named = not MACHINES.isdisjoint(said)
    if named:
        yield "machines"
    elif _GREETS.match(sentence):
        yield "letter"
    if ":" in sentence and _SPEAKS.match(sentence):
        yield "talk"
    if _SAYS.match(sentence):
        yield "speech"


def mood_of(sentence: str, words: Sequence[str], *, verb: bool = False) -> tuple[str, str]:
    """`asks`, `bids`, `may bid` or `states`, and the class of the verb with which it bids.

    `verb`: it is known that its first word is one that bids.
    """
    if "?" in sentence or "¿" in sentence:
        return "asks", ""
    at = next((at for at, word in enumerate(words[:5]) if word not in _LEADS), 0)
    if len(words) < at + 2:
        return "states", ""
    first, second = words[at], words[at + 1]
    does, could = _first_word(first[:_LONGEST_WORD])
    if verb or (does and _FINITE.isdisjoint(words[at : at + 4])) or (could and second in _OBJECTS):
        return "bids", does
    if could and len(words) > at + 2 and second in _PARTICLES and _FINITE.isdisjoint(words):
        return "may bid", ""
    return "states", ""


@lru_cache(maxsize=8_192)
def _first_word(word: str) -> tuple[str, bool]:
    """The class of the verb that it is when it bids, and whether it could be one at all."""
    known = _classes()
    does = known.get(word) or known.get(_ENCLITICS.sub("", word, count=1), "")
    return does, word not in FUNCTION_WORDS and len(word) > 2 and not _NO_VERB.match(word)


class Window:
    """The sentences around one: what they say and do, counted as they come and go, however many they are."""

    def __init__(self) -> None:
        self._stems = Counter[str]()
        self._moods = Counter[str]()
        self._tongues = Counter[str]()
        self._marks = Counter[str]()
        self._codes = self._count = 0

    def add(self, one: Traits, times: int = 1) -> None:
        """Takes a sentence in; `times` -1: out."""
        for mark in one.marks:
            self._marks[mark] += times
        if not one.counts:
            return
        self._count += times
        self._codes += one.codes * times
        self._tongues[one.tongue] += times
        stems, moods = self._stems, self._moods
        for stem in one.stems:
            stems[stem] += times
            if not stems[stem]:
                del stems[stem]
        for mood in one.moods:
            moods[mood] += times

    def standing(self, own: Traits, *, ends: bool) -> list[str]:
        """Features of a sentence that was taken in, among the others. `ends`: the text ends with it."""
        itself = int(own.counts)
        near = self._count - itself
        if near < _LEAST_NEIGHBOURS:
            lonely = ["alone", *(f"alone:{mood}" for mood in own.moods)]
            lonely += self._marked(own)
            return [*lonely, f"alone:{own.does}"] if own.does else lonely
        shared = sum(self._stems[stem] > itself for stem in own.stems)
        touch = "none" if not shared else "some" if shared < _MUCH * len(own.stems) else "much"
        apart = len(own.stems) - shared
        count = f"{touch}{min(apart, _MANY_STEMS)}" if touch == "none" else touch
        found = [f"touch:{touch}", f"apart:{min(apart, _MOST_APART)}"]
        found += (f"touch:{count}",) if count != touch else ()
        coded, bidding = self._codes - own.codes * itself, self._usual("bids", own, near)
        for mood in own.moods:
            usual = bidding if mood == "may bid" else self._usual(mood, own, near)
            found += f"{mood}:{usual}", f"{mood}:{usual}:{touch}", f"{mood}:{count}"
            found += (f"among code:{mood}",) if coded * 3 > near else ()
        if own.does:
            does = f"does {own.does}"
            found += does, f"{does}:{touch}", f"{does}:{bidding}", f"does:{bidding}:{touch}"
        others = near - self._tongues[""] - self._tongues[own.tongue] + itself
        told = {
            "among code": coded * 3 > near,
            "among bids": bidding == "often",
            "among asks": "asks" not in own.moods and self._usual("asks", own, near) == "often",
            "other tongue": bool(own.tongue) and others * 2 > near,
            "last": ends,
        }
        return [*found, *self._marked(own), *(name for name, holds in told.items() if holds)]

    def _marked(self, own: Traits) -> Iterator[str]:
        """What the text is. A greeting may be the sentence's own; what is about machines, others must say."""
        if self._marks["letter"]:
            yield "among letters"
        yield from (f"among {mark}" for mark in ("talk", "speech") if self._marks[mark] > 1)
        if self._marks["machines"] > ("machines" in own.marks):
            yield "among machines"

    def _usual(self, mood: str, own: Traits, near: int) -> str:
        count = self._moods[mood] - (mood in own.moods and own.counts)
        return "never" if not count else "often" if count > _OFTEN * near else "seldom"
