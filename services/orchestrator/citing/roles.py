"""Tells when who does it and who has it done to him have changed places: `A sold it to B` for `B sold it to A`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.orchestrator.citing.lexicon import Term, terms
from services.orchestrator.citing.words import has_content, key

_CUT = re.compile(
    r"(?<=[.;:!?])\s+|[,;:()]\s+|\s+(?=(?:but|while|whereas|because|when|if|pero|mientras|porque|cuando|si)\s)"
)
_ARTICLES = frozenset(
    "the a an this that these those its their his her el la los las un una este esta estos estas su sus".split()
)
_PASSIVE = frozenset("is are was were be been being by es son fue fueron sera seran ser sido por se".split())
# Between a thing and a verb they say that the thing is what it is done to: `el convenio lo firma el director`.
_CLITICS = frozenset("lo la los las se".split())
_PREPOSITIONS = frozenset("of to for in on at from by de del a al para por en con desde".split())
# What is done together has no sides.
_TOGETHER = frozenset("and or y e o with con between entre against contra".split())
_MOST_CHARS = 1_200


@dataclass(frozen=True)
class Deed:
    """A part of a sentence: its words in order, of each what it stands for, empty for words that only relate."""

    words: tuple[str, ...]
    anchors: tuple[str, ...]
    names: tuple[bool, ...]

    def first(self) -> int | None:
        """The place of what it begins with; None where that stands behind a preposition."""
        for at, (word, anchor) in enumerate(zip(self.words, self.anchors, strict=True)):
            if anchor:
                return at
            if word not in _ARTICLES:
                return None
        return None


def is_turned(said: str, sentences: Sequence[str]) -> str:
    """The sentence of the source in which the parties stand the other way round; empty where there is none."""
    for mine in deeds(said):
        if mine.first() is None:
            continue
        found = [(text, _order(mine, its)) for text in sentences for its in deeds(text)]
        if any(order > 0 for _, order in found):
            continue
        for text, order in found:
            if order < 0:
                return text
    return ""


def _order(mine: Deed, its: Deed) -> int:
    """1 if both say the same of the same, -1 if the other way round, 0 where that cannot be told."""
    first, other = mine.first(), its.first()
    if first is None or other is None:
        return 0
    here, there = mine.anchors[first], its.anchors[other]
    if here == there:
        return int(bool(set(mine.anchors[first + 1 :]) & set(its.anchors[other + 1 :]) - {""}))
    if there not in mine.anchors[first:] or here not in its.anchors[other:]:
        return 0
    mine_between = range(first + 1, mine.anchors.index(there, first))
    its_between = range(other + 1, its.anchors.index(here, other))
    shared = {mine.anchors[at] for at in mine_between} & {its.anchors[at] for at in its_between} - {""}
    if (
        not shared & set(_deed(mine, first))
        or _is_open(mine, mine_between, shared)
        or _is_open(its, its_between, shared)
    ):
        return 0
    return -1


def _deed(deed: Deed, first: int) -> Iterator[str]:
    """What is done, by the words behind who does it; what stands behind a preposition goes with him."""
    complement = False
    for at in range(first + 1, len(deed.words)):
        if not deed.anchors[at]:
            complement = complement or deed.words[at] in _PREPOSITIONS
            continue
        if not complement and not deed.names[at]:
            yield deed.anchors[at]
        complement = False


def _is_open(deed: Deed, between: Sequence[int], shared: set[str]) -> bool:
    """Whether it may be told the other way round: in the passive, with the object first, or of both together."""
    inside = [deed.words[at] for at in between]
    if _TOGETHER & set(inside) or _PASSIVE & set(inside):
        return True
    verb = next((at for at in between if deed.anchors[at] in shared), None)
    return verb is not None and deed.words[verb - 1] in _CLITICS


@lru_cache(maxsize=4_096)
def deeds(text: str) -> tuple[Deed, ...]:
    """The parts of a text."""
    return tuple(_deeds(text[:_MOST_CHARS]))


def _deeds(text: str) -> Iterator[Deed]:
    start = 0
    for end in [*(match.start() for match in _CUT.finditer(text)), len(text)]:
        found = terms(text[start:end])
        if len(found) > 2:
            yield Deed(
                tuple(one.text for one in found), tuple(map(_anchor, found)), tuple(one.capitalised for one in found)
            )
        start = end


def _anchor(term: Term) -> str:
    if term.sense or term.party:
        return term.sense or f"@{term.party}"
    if term.contraries:
        return "~{}{:+}".format(*term.contraries[0])
    return key(term.text) if "light" not in term.labels and has_content(term.text) else ""
