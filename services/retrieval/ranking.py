"""Scores of the candidates: how the legs of a hybrid search are joined, and what the reranker adds.

Ranks throw distances away, so that RRF fell below its better leg on several public collections; standard scores over
all candidates did not. Words count a little less than meaning, and much less where query and passage are in different
languages; meaning counts less where the model never learned the query's language. Figures: docs/retrieval-quality.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from services.retrieval.store import Hit, Mode

# Standard constant of reciprocal rank fusion (Cormack, Clarke, Büttcher: SIGIR 2009).
RRF_K = 60
_WORDS, _WORDS_ACROSS_LANGUAGES = 0.7, 0.3
_MEANING_UNFIT = 0.3
_LATE = 1.5
# Least standard score of meaning: one passage that the words alone find among many that are near must not be out.
_LEAST_MEANING = -2.0


class Fusion(Enum):
    """How the legs of a hybrid search are joined."""

    RRF = "rrf"
    DBSF = "dbsf"
    CALIBRATED = "calibrated"


@dataclass(frozen=True)
class Fitness:
    """What is known of the query: its language (empty: unknown), and whether the embedding model knows that one."""

    language: str = ""
    model_knows_it: bool = True

    @property
    def meaning(self) -> float:
        """Weight of the dense leg."""
        return 1.0 if self.model_knows_it else _MEANING_UNFIT

    @property
    def late(self) -> float:
        """Weight of late interaction, which has the same model."""
        return _LATE * self.meaning

    def words(self, hit: Hit) -> float:
        """Weight of the sparse leg for one candidate."""
        across = self.language and hit.chunk.language and self.language != hit.chunk.language
        return _WORDS_ACROSS_LANGUAGES if across else _WORDS


def fused(hits: Sequence[Hit], mode: Mode, fusion: Fusion, fitness: Fitness) -> list[float]:
    """Scores of the first stage, in the order of `hits`. A single leg's are its own."""
    dense, sparse = [hit.dense for hit in hits], [hit.sparse for hit in hits]
    match mode:
        case Mode.DENSE:
            return dense
        case Mode.SPARSE:
            return sparse
        case Mode.HYBRID:
            if not any(sparse):
                return dense
            meaning = [max(_LEAST_MEANING, one) for one in _JOINED[fusion](dense, hits)]
            words = _JOINED[fusion](sparse, hits)
            if fusion is not Fusion.CALIBRATED:
                return [sum(both) for both in zip(meaning, words, strict=True)]
            weights = [fitness.words(hit) for hit in hits]
            return [fitness.meaning * m + w * s for m, s, w in zip(meaning, words, weights, strict=True)]


def added(first: Sequence[float], late: Sequence[float | None], weight: float = 1.0) -> list[float]:
    """The first stage's standard scores plus the reranker's. A candidate that it did not see is taken for average."""
    standard = iter(standardised([score for score in late if score is not None]))
    return [one if score is None else one + weight * next(standard) for one, score in zip(first, late, strict=True)]


def standardised(scores: Sequence[float]) -> list[float]:
    """Standard scores: distance from the mean in deviations; all 0 when the scores are equal."""
    if not scores:
        return []
    mean = sum(scores) / len(scores)
    # Not `statistics`: its exact arithmetic takes longer than the rest of a search.
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    # What is equal up to rounding is equal.
    flat = deviation <= 1e-12 * max(1.0, abs(mean))
    return [0.0 if flat else (score - mean) / deviation for score in scores]


def _by_rank(scores: Sequence[float], hits: Sequence[Hit]) -> list[float]:
    """1 / (k + rank), rank from 1; equal scores share a rank. Who scored 0 was not found by this leg."""
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], hits[at].chunk.chunk_id))
    ranks = {order[0]: 1} if order else {}
    for place, (before, at) in enumerate(pairwise(order), start=2):
        ranks[at] = ranks[before] if scores[at] == scores[before] else place
    return [1 / (RRF_K + ranks[at]) if score else 0.0 for at, score in enumerate(scores)]


def _by_distribution(scores: Sequence[float], _: Sequence[Hit]) -> list[float]:
    """Place between mean - 3 deviations (0) and mean + 3 deviations (1), cut off there."""
    return [min(1.0, max(0.0, 0.5 + standard / 6)) for standard in standardised(scores)]


def _calibrated(scores: Sequence[float], _: Sequence[Hit]) -> list[float]:
    return standardised(scores)


_JOINED: dict[Fusion, Callable[[Sequence[float], Sequence[Hit]], list[float]]] = {
    Fusion.RRF: _by_rank,
    Fusion.DBSF: _by_distribution,
    Fusion.CALIBRATED: _calibrated,
}
