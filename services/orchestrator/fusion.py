"""Joins what several searches found into one list."""

from collections.abc import Sequence

from services.orchestrator.results import Passage

# Cormack, Clarke and Büttcher 2009: Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods.
RRF_K = 60


def fused(lists: Sequence[Sequence[Passage]], top_k: int) -> tuple[Passage, ...]:
    """The best `top_k` passages by reciprocal rank fusion, each once.

    A passage's score is the sum of 1 / (60 + rank) over the lists that hold it. Ties go to the better single rank, then
    to the earlier list, so that the order depends on nothing else.
    """
    scores: dict[tuple[str, str], float] = {}
    best: dict[tuple[str, str], tuple[int, int]] = {}
    passages: dict[tuple[str, str], Passage] = {}
    for place, found in enumerate(lists):
        unique = {(one.document_id, one.chunk_id): one for one in reversed(found)}
        ordered = sorted(unique, key=[(one.document_id, one.chunk_id) for one in found].index)
        for rank, key in enumerate(ordered, 1):
            scores[key] = scores.get(key, 0) + 1 / (RRF_K + rank)
            best[key] = min(best.get(key, (rank, place)), (rank, place))
            passages.setdefault(key, unique[key])
    order = sorted(scores, key=lambda key: (-scores[key], best[key]))
    return tuple(passages[key] for key in order[:top_k])
