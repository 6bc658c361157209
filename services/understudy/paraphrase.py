"""Answers a question in other words than a passage tells: by what it names, what it is about and what it wants.

Only for short stretches of text that are about all that the question names. A word that the text does not have is no
reason to refuse by itself; a name, a number, a year, an order or a rank is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from services.understudy.answer_kind import answer_kind
from services.understudy.predicate import LIGHT, predicate
from services.understudy.premise import Said, holds, premise
from services.understudy.premise_words import FRAME, UNTOLD
from services.understudy.strictness import denied, other_rank, turned_round, unnamed
from services.understudy.wanted import Wanted, wanted
from services.understudy.words import ENGLISH_STOPS, SPANISH_STOPS, content, fold, language, stem, stems

_STOPS = ENGLISH_STOPS | SPANISH_STOPS
# Of the words of a question, how many a stretch must hold; more where nothing shows what is wanted.
MIN_SHARE, MIN_SHARE_OF_MANY, MIN_SHARE_UNTYPED, MIN_SHARE_ACROSS = 0.45, 0.55, 0.7, 0.75
# Forms that show so well that the deed may be told in any word.
_TELLING = frozenset("kind money span length weight area degrees speed volume share often number".split())
_STRETCH_WORDS, _FEW_WORDS, _FEW_ASKED, _LONGEST_ENDING = 60, 6, 4, 3


@dataclass(frozen=True)
class Line:
    """A sentence of a passage: `rank` is the passage's place among those found, `at` its own in it."""

    rank: int
    at: int
    text: str


@dataclass(frozen=True)
class Told:
    """A sentence that answers and the one, if any, that says of what; `score` is higher for better ones."""

    score: float
    line: Line
    about: Line | None = None


def paraphrased(question: str, passages: Sequence[tuple[str, str, Sequence[str]]]) -> list[Told]:
    """The sentences that answer best, best first. `passages`: the heading, language and sentences of each."""
    asked = _Asked(question)
    if not asked.words or denied(question, asked.words, [one for _, _, texts in passages for one in texts]):
        return []
    found: list[Told] = []
    for rank, (heading, told_in, texts) in enumerate(passages):
        if asked.share(frozenset(stems("\n".join((heading, *texts)))), told_in) > asked.least(told_in):
            found += _answers(asked, rank, heading, told_in, texts)
    return sorted(found, key=lambda one: -one.score)


class _Asked:
    """A question with what it wants, and the words that a text about it holds."""

    def __init__(self, question: str) -> None:
        self.question, self.wants, self.spoken = question, wanted(question), language(question)
        self.words = matter(question, self.wants)
        self.attribute = attribute(question)

    def held(self, known: frozenset[str], read: str) -> list[str]:
        return [one for one in self.words if says(one, known, self.spoken, read)]

    def share(self, known: frozenset[str], read: str) -> float:
        return len(self.held(known, read)) / len(self.words)

    def least(self, read: str) -> float:
        if read != self.spoken:
            return MIN_SHARE_ACROSS
        if not self.wants.typed:
            return MIN_SHARE_UNTYPED
        return MIN_SHARE if len(self.words) <= _FEW_ASKED else MIN_SHARE_OF_MANY


def _answers(asked: _Asked, rank: int, heading: str, told_in: str, texts: Sequence[str]) -> Iterator[Told]:
    """The sentences of one passage that answer."""
    for at, text in enumerate(texts):
        if asked.wants.typed and not asked.wants.told(text):
            continue
        first, last = _stretch(texts, at)
        known, own = frozenset(stems("\n".join((heading, *texts[first:last])))), frozenset(stems(text))
        held, in_own = asked.held(known, told_in), asked.held(own, told_in)
        share = len(held) / len(asked.words)
        across = told_in != asked.spoken
        if share <= asked.least(told_in) or len(in_own) < (2 if across else 0 if asked.wants.typed else 1):
            continue
        if _lacks(asked, heading, told_in, texts[first:last], at - first):
            continue
        rest = [one for one in held if one not in in_own]
        score = share + 0.6 * len(in_own) / len(asked.words) + 0.1 / (1 + rank)
        yield Told(
            score, Line(rank, at, text), _about(rest, asked.spoken, told_in, rank, texts, at, range(first, last))
        )


def _lacks(asked: _Asked, heading: str, told_in: str, texts: Sequence[str], at: int) -> bool:
    """Whether a sentence, with the stretch of text around it, lacks what no answer may lack."""
    question, text, near = asked.question, texts[at], "\n".join((heading, *texts))
    known, own = frozenset(stems(near)), frozenset(stems(text))
    if unnamed(question, near) or other_rank(question, near) or any(turned_round(question, one) for one in texts):
        return True
    if asked.attribute and not any(says(one, known, asked.spoken, told_in) for one in asked.attribute):
        return True
    wants = asked.wants
    if wants.form == "number" and wants.head and not wants.counts(text):
        if not says(wants.head, own, asked.spoken, told_in):
            return True
    before, after = texts[at - 1] if at else "", texts[at + 1] if at + 1 < len(texts) else ""
    if told_in == asked.spoken:
        # A sentence of few words goes on with the one before.
        whole = f"{before}\n{text}" if len(content(text)) < _FEW_WORDS else text
        if unqualified(question, known, asked.spoken, told_in):
            return True
        if wants.form not in _TELLING and not _deed_told(question, asked.spoken, whole):
            return True
    lack = premise(question).lack(Said(text, before, after, heading, told_in))
    missing = lack is not None and (lack.contrary or not (lack.words or lack.slight))
    return missing or not answer_kind(question).fits(text, after)


def _about(
    rest: Sequence[str], spoken: str, read: str, rank: int, texts: Sequence[str], at: int, places: Iterable[int]
) -> Line | None:
    """The sentence that holds most of what the answering one does not."""
    counted = [
        (sum(says(one, frozenset(stems(texts[place])), spoken, read) for one in rest), -abs(place - at), place)
        for place in places
        if place != at
    ]
    count, _, place = max(counted, default=(0, 0, at))
    return Line(rank, place, texts[place]) if count else None


_IS_THE = re.compile(
    r"\b(?:what|which|who|cual(?:es)?|quien(?:es)?) (?:is|are|was|were|es|son|fue|fueron|era|eran) "
    r"(?:the |an? |el |la |los |las |its |his |her |their |sus? |una? )(?P<noun>[a-z]+)(?: (?P<next>[a-z]+))?"
)


def attribute(question: str) -> tuple[str, ...]:
    """The words of `what is the fiscal year of …`, one of which has to be told; empty where none is asked for so."""
    match = _IS_THE.search(fold(question))
    if match is None:
        return ()
    found = [one for one in (match["noun"], match["next"] or "of") if one not in _STOPS]
    return tuple(one for one in found[:2] if stem(one) not in UNTOLD | FRAME)


def _deed_told(question: str, spoken: str, near: str) -> bool:
    """Whether what was done, as the question has it, is told in some word."""
    deed = predicate(question, spoken)
    return not deed or stem(deed) in FRAME or says(deed, frozenset(stems(near)), spoken, spoken)


def matter(question: str, asks: Wanted) -> list[str]:
    """The words of a question that a text about it holds: not those of asking, and not what is wanted."""
    skipped = {stem(one) for one in content(asks.head)}
    found = [
        one
        for one in dict.fromkeys(content(question))
        if stem(one) not in skipped and not _says_little(one) and not one.isdigit()
    ]
    return found


_ENGLISH_PAIR = re.compile(r"(?=\b([a-z]+) ([a-z]+)\b)")
_SPANISH_PAIR = re.compile(r"(?=\b([a-z]+) (?:de |del |de la |de las |de los )?([a-z]+)\b)")


def unqualified(question: str, known: frozenset[str], spoken: str, read: str) -> str:
    """The word that narrows a thing of the question, where a text has the thing without it; empty where none lacks.

    What is said of members is not said of honorary members.
    """
    folded = fold(question)
    pairs = _SPANISH_PAIR.findall(folded) if spoken == "es" else [pair[::-1] for pair in _ENGLISH_PAIR.findall(folded)]
    for thing, narrowed in pairs:
        if {thing, narrowed} & _STOPS or {stem(thing), stem(narrowed)} & (UNTOLD | FRAME | LIGHT):
            continue
        if says(thing, known, spoken, read) and not says(narrowed, known, spoken, read):
            return narrowed
    return ""


def _says_little(word: str) -> bool:
    # A stem of three letters is of many words: `goteros` is no `got`.
    return stem(word) in FRAME | UNTOLD | LIGHT and len(word) - len(stem(word)) <= _LONGEST_ENDING


def _stretch(texts: Sequence[str], at: int) -> tuple[int, int]:
    """From where to where sentences are read together: those before first, as they say of what."""
    first, last, room = at, at + 1, _STRETCH_WORDS - len(texts[at].split())
    while first > 0 and (room := room - len(texts[first - 1].split())) >= 0:
        first -= 1
    while last < len(texts) and (room := room - len(texts[last].split())) >= 0:
        last += 1
    return first, last


@lru_cache(maxsize=65_536)
def says(word: str, known: frozenset[str], spoken: str, read: str) -> bool:
    """Whether stems hold a word, or one that says nearly the same."""
    near = _near().get(stem(word), frozenset[str]())
    return not near.isdisjoint(known) or holds(word, known, spoken, read)


@cache
def _near() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in (resources.files(__package__ or "") / "paraphrases.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            group = {stem(one) for one in line.replace("|", " ").split()}
            for one in group:
                found.setdefault(one, set()).update(group - {one})
    return {one: frozenset(group) for one, group in found.items()}
