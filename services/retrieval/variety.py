"""Fewer passages that say the same: maximal marginal relevance, a limit a document, one passage a parent."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from services.retrieval.store import Hit


class Placed(Protocol):
    """A hit with its final score."""

    @property
    def hit(self) -> Hit:
        """The candidate."""
        ...

    @property
    def score(self) -> float:
        """Its final score."""
        ...


One = TypeVar("One", bound=Placed)


def diverse(ranked: Sequence[One], diversity: float, count: int) -> list[One]:
    """At most `count`, in an order that trades relevance against likeness to what comes before.

    Maximal marginal relevance (Carbonell and Goldstein 1998) with lambda = 1 - `diversity`; relevance is scaled to 0…1
    over the candidates, likeness is the cosine of the vectors. Candidates without a vector are like nothing.
    """
    if not ranked:
        return []
    scores = np.array([one.score for one in ranked])
    spread = float(np.ptp(scores))
    relevance = (scores - scores.min()) / spread if spread else np.ones(len(ranked))
    vectors = _unit([one.hit.vector for one in ranked])
    likeness = np.zeros(len(ranked))
    left = list(range(len(ranked)))
    chosen: list[One] = []
    while left and len(chosen) < count:
        worth = (1 - diversity) * relevance[left] - diversity * likeness[left]
        best = left.pop(int(np.argmax(worth)))
        chosen.append(ranked[best])
        likeness = np.maximum(likeness, vectors @ vectors[best])
    return chosen


def _unit(vectors: Sequence[Sequence[float]]) -> np.ndarray:
    width = max((len(vector) for vector in vectors), default=0)
    rows = np.array([vector if len(vector) else [0.0] * width for vector in vectors], np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def first_of_each_parent(ranked: Iterable[One]) -> list[One]:
    """Without passages whose parent was read already: they would say the same text twice."""
    seen: set[Hashable] = set()
    kept: list[One] = []
    for one in ranked:
        chunk = one.hit.chunk
        key = (chunk.document_id, chunk.parent_text)
        if chunk.parent_text and key in seen:
            continue
        seen.add(key)
        kept.append(one)
    return kept


def limited(ranked: Iterable[One], max_per_document: int) -> list[One]:
    """At most so many of one document; 0 means any number."""
    counts: dict[str, int] = {}
    kept: list[One] = []
    for one in ranked:
        document = one.hit.chunk.document_id
        counts[document] = counts.get(document, 0) + 1
        if not max_per_document or counts[document] <= max_per_document:
            kept.append(one)
    return kept
