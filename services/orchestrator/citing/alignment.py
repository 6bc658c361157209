"""Finds the clause of a source that speaks of what a clause of an answer speaks of."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from services.orchestrator.citing.clauses import Clause, clauses

# What counts beside the words that both have: words of the sentence around, contraries of one pair, that both are
# conditions or neither is, and how near the sentence is by its vector. Tuned on the development material.
_BESIDE, _SAME_PAIR, _SAME_OPENING, _NEARNESS = 0.3, 0.6, 0.3, 2.0
_LEAST_WEIGHT = 0.5


@dataclass(frozen=True)
class Place:
    """A clause of a source, with all clauses of its sentence, that sentence's text and its nearness by vectors."""

    clause: Clause
    sentence: tuple[Clause, ...]
    text: str
    nearness: float = 0

    @cached_property
    def around(self) -> frozenset[str]:
        """What the whole sentence speaks of."""
        return spoken(self.sentence)


@dataclass(frozen=True)
class Aligned:
    """A clause of an answer and its place in the source. `share` of its words that clause and sentence have."""

    clause: Clause
    place: Place
    share: float


class Alignment:
    """The clauses of one sentence of an answer, each with its place among sentences of the source."""

    def __init__(self, said: str, sentences: Sequence[str], nearness: Sequence[float] = ()) -> None:
        """`sentences` in the order of the source; `nearness` of each by its vector, where that is known."""
        self.text, self.sentences = said, tuple(sentences)
        self.said = clauses(said)
        near = nearness or [0.0] * len(sentences)
        self.places = [
            Place(clause, read, text, close)
            for text, close in zip(sentences, near, strict=True)
            for read in (clauses(text),)
            for clause in read
        ]
        self._frequency = Counter(chain.from_iterable(place.clause.anchors for place in self.places))
        self.pairs = [self._aligned(clause) for clause in self.said] if self.places else []

    def weight(self, anchors: Iterable[str]) -> float:
        """What anchors tell: those that stand in many clauses of the source tell little."""
        return sum(1 / (1 + math.log(max(1, self._frequency[one]))) for one in anchors)

    @property
    def anchors(self) -> frozenset[str]:
        """What the sentence speaks of."""
        return spoken(self.said)

    @property
    def share(self) -> float:
        """Of what the sentence speaks of, the share that the clauses have and sentences at its places; 0 to 1."""
        weights = [max(_LEAST_WEIGHT, self.weight(one.clause.anchors)) for one in self.pairs]
        told = sum(pair.share * weight for pair, weight in zip(self.pairs, weights, strict=True))
        return told / sum(weights) if weights else 0.0

    def _aligned(self, clause: Clause) -> Aligned:
        place = max(self.places, key=lambda one: self._likeness(clause, one))
        whole = max(_LEAST_WEIGHT, self.weight(clause.anchors))
        found = self.weight(clause.anchors & place.clause.anchors) + self.weight(clause.anchors & place.around)
        return Aligned(clause, place, found / 2 / whole)

    def _likeness(self, clause: Clause, place: Place) -> float:
        own = self.weight(clause.anchors & place.clause.anchors)
        beside = self.weight(clause.anchors & (place.around - place.clause.anchors))
        pairs = clause.pairs & place.clause.pairs
        opening = (clause.opening == "if") == (place.clause.opening == "if")
        return own + _BESIDE * beside + _SAME_PAIR * len(pairs) + _SAME_OPENING * opening + _NEARNESS * place.nearness


def spoken(found: Iterable[Clause]) -> frozenset[str]:
    """What clauses speak of."""
    return frozenset(chain.from_iterable(one.anchors for one in found))
