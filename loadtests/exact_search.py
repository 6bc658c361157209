"""Hybrid search without an index, in numpy: what the store's answers are compared with."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.retrieval.store import LEG_LIMIT, RRF_K, NewChunk, SparseTerms

Array = npt.NDArray[np.float32]


class ExactSearch:
    """Compares a query with every chunk: cosine and BM25 with IDF, fused by reciprocal rank as the store does."""

    def __init__(self, chunks: Sequence[NewChunk]) -> None:
        self._dense = np.array([chunk.dense for chunk in chunks], dtype=np.float32)
        self._dense /= np.linalg.norm(self._dense, axis=1, keepdims=True)
        places: dict[int, tuple[list[int], list[float]]] = {}
        for at, chunk in enumerate(chunks):
            for term, weight in zip(chunk.sparse.indices, chunk.sparse.values, strict=True):
                rows, weights = places.setdefault(term, ([], []))
                rows.append(at)
                weights.append(weight)
        self._postings = {term: (np.array(rows), np.array(weights)) for term, (rows, weights) in places.items()}

    def dense_scores(self, query: Sequence[float]) -> Array:
        """Cosine with every chunk, in their order."""
        vector = np.asarray(query, dtype=np.float32)
        return self._dense @ (vector / np.linalg.norm(vector))

    def fused_scores(self, dense: Sequence[float], sparse: SparseTerms) -> Array:
        """Score of every chunk after fusion; 0 for those in neither leg's best."""
        by_words = np.zeros(len(self._dense))
        for term, weight in zip(sparse.indices, sparse.values, strict=True):
            if term in self._postings:
                rows, weights = self._postings[term]
                idf = np.log1p((len(self._dense) - len(rows) + 0.5) / (len(rows) + 0.5))
                by_words[rows] += weight * idf * weights
        fused = np.zeros(len(self._dense), dtype=np.float32)
        for scores in (self.dense_scores(dense), by_words):
            best = np.argpartition(-scores, LEG_LIMIT)[:LEG_LIMIT]
            best = best[np.argsort(-scores[best])]
            best = best[scores[best] > 0]
            fused[best] += 1 / (RRF_K + np.arange(len(best)))
        return fused


def recall(found: Sequence[int], scores: Array) -> float:
    """Share of the best `len(found)` by `scores` that are among `found`; chunks of equal score stand for each other."""
    worst_of_best = np.sort(scores)[-len(found)]
    return float(np.mean(scores[list(found)] >= worst_of_best - 1e-6))
