"""Final order of the candidates.

Fusion by rank (RRF) chooses them well and orders them less well: it throws the distances away. Adding standard scores
of meaning, words and, where there is one, reranker did better on every public collection tried than RRF and than the
reranker's order alone: late interaction knows neither rare codes nor the passage as a whole.
"""

from collections.abc import Sequence
from statistics import fmean, pstdev

from services.retrieval.store import Hit


def combined(hits: Sequence[Hit], rerank_scores: Sequence[float] = ()) -> list[float]:
    """Final scores, in the order of `hits`: z(dense) + z(sparse) + z(rerank), each only where it took part."""
    # A candidate without any of the words has earned its 0 in `sparse`; in `dense` 0 only means that the leg was cut.
    legs = [_with_floor([hit.dense for hit in hits]), [hit.sparse for hit in hits], rerank_scores]
    seen = [leg for leg in legs if any(leg)]
    return [sum(scores) for scores in zip(*(_standardised(leg) for leg in seen), strict=True)]


def _with_floor(scores: Sequence[float]) -> list[float]:
    """A candidate that the leg did not find is taken for as good as the worst that it did find."""
    floor = min((score for score in scores if score), default=0.0)
    return [score or floor for score in scores]


def _standardised(scores: Sequence[float]) -> list[float]:
    mean, deviation = fmean(scores), pstdev(scores)
    return [(score - mean) / deviation if deviation else 0.0 for score in scores]
