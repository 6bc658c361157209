"""Which questions ask what another one asks: by their words, and by their meaning where something embeds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from services.evaluation.golden.building.candidate import Candidate, Rejection
from services.evaluation.golden.building.chunk import plain
from services.evaluation.golden.building.corpus import has_digit, overlap, words
from services.evaluation.metrics.embedder import Embedder, EmbedderFailed, Vectors, directions

# From this overlap of words on, two questions are one.
SAME_WORDS = 0.8
# From this cosine of centred vectors on. Of 224 paraphrases in two languages 0.84 have it, of 296 pairs of other
# questions on the same paragraph 3 (multilingual-e5-small, int8); these three have other answers.
SAME_MEANING = 0.82
# Of two answers to one question; of fewer shared words they are answers to two.
_SAME_ANSWER = 0.2
_BATCH = 64


class Duplicates:
    """Finds, of questions in their order, those that ask what an earlier one asks."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        """`embedder`: of centred vectors; None: words alone tell."""
        self._embedder = embedder
        self._vectors: dict[tuple[str, str], Vectors] = {}

    async def learn(self, candidates: Sequence[Candidate]) -> str:
        """Embeds what may be taken. Why meanings are not compared; empty where they are."""
        if self._embedder is None:
            return "nothing embeds questions"
        taken = [one for one in candidates if one.rejected is None]
        try:
            for language in sorted({one.language for one in taken}):
                own = list(dict.fromkeys(one.question for one in taken if one.language == language))
                for start in range(0, len(own), _BATCH):
                    part = own[start : start + _BATCH]
                    rows = directions(await self._embedder.embed(part, language))
                    self._vectors |= {(language, text): row for text, row in zip(part, rows, strict=True)}
        except EmbedderFailed as error:
            self._vectors = {}
            return str(error)
        return ""

    def marked(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The same, in order: of several that ask the same all but the first are rejected."""
        kept: list[_Compared] = []
        found: list[Candidate] = []
        for one in candidates:
            if one.rejected is None:
                compared = _Compared.of(one)
                if why := next((why for other in kept if (why := self._why(compared, other))), None):
                    one = one.refused(why)
                else:
                    kept.append(compared)
            found.append(one)
        return found

    def _why(self, one: "_Compared", other: "_Compared") -> Rejection | None:
        if one.question.plain == other.question.plain:
            return Rejection.DUPLICATE
        if one.candidate.stratum != other.candidate.stratum or one.question.figures != other.question.figures:
            # With another number it is another question.
            return None
        if overlap(one.question.words, other.question.words) >= SAME_WORDS:
            return Rejection.DUPLICATE
        return Rejection.SAME_MEANING if self._means_the_same(one, other) else None

    def _means_the_same(self, one: "_Compared", other: "_Compared") -> bool:
        first, second = one.candidate, other.candidate
        left, right = (self._vectors.get((each.language, each.question)) for each in (first, second))
        if left is None or right is None or first.language != second.language:
            return False
        return float(np.dot(left, right)) >= SAME_MEANING and _same_answer(one.reference, other.reference)


@dataclass(frozen=True)
class _Text:
    """What is compared of a text, worked out once: each is compared with all that are kept."""

    plain: str
    words: set[str]
    figures: set[str]

    @classmethod
    def of(cls, text: str) -> Self:
        found = words(text)
        return cls(plain(text), found, set(filter(has_digit, found)))


@dataclass(frozen=True)
class _Compared:
    candidate: Candidate
    question: _Text
    reference: _Text | None

    @classmethod
    def of(cls, one: Candidate) -> Self:
        return cls(one, _Text.of(one.question), None if one.reference is None else _Text.of(one.reference))


def _same_answer(left: _Text | None, right: _Text | None) -> bool:
    """Whether two references may answer the same question. What is refused has none to tell them apart."""
    if left is None or right is None:
        return left is right
    if left.plain == right.plain:
        return True
    return left.figures == right.figures and overlap(left.words, right.words) >= _SAME_ANSWER
