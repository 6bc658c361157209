"""Hybrid search without an index, in numpy: what the store's answers are compared with."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loadtests.synthetic_corpus import Corpus
from services.retrieval.ranking import Fitness, Fusion, fused
from services.retrieval.store import LEG_LIMIT, Hit, Mode, SparseTerms, StoredChunk

Array = npt.NDArray[np.float32]


class ExactSearch:
    """Compares a query with every chunk: cosine and BM25 with IDF, the legs' best joined as the product does."""

    def __init__(self, corpus: Corpus) -> None:
        self._dense = corpus.dense
        order = np.argsort(corpus.terms, kind="stable")
        self._rows = np.repeat(np.arange(len(corpus), dtype=np.int32), np.diff(corpus.offsets))[order]
        self._weights = corpus.weights[order]
        self._terms = corpus.terms[order]

    def dense_scores(self, query: Sequence[float]) -> Array:
        """Cosine with every chunk, in their order."""
        vector = np.asarray(query, dtype=np.float32)
        return self._dense @ (vector / np.linalg.norm(vector))

    def sparse_scores(self, terms: SparseTerms) -> Array:
        """BM25 of every chunk, in their order."""
        scores = np.zeros(len(self._dense), dtype=np.float32)
        for term, weight in zip(terms.indices, terms.values, strict=True):
            own = slice(*np.searchsorted(self._terms, np.array([term, term + 1], self._terms.dtype)))
            rows = self._rows[own]
            idf = np.log1p((len(self._dense) - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += np.float32(weight * idf) * self._weights[own]
        return scores

    def best(self, dense: Sequence[float], sparse: SparseTerms, count: int) -> list[int]:
        """The best chunks after fusion, by their place."""
        by_meaning, by_words = self.dense_scores(dense), self.sparse_scores(sparse)
        legs = [np.argpartition(-scores, LEG_LIMIT)[:LEG_LIMIT] for scores in (by_meaning, by_words)]
        candidates = sorted({*legs[0].tolist(), *(at for at in legs[1].tolist() if by_words[at] > 0)})
        hits = [Hit(StoredChunk(str(at), 0, "", ""), float(by_meaning[at]), float(by_words[at])) for at in candidates]
        return [int(one) for one in ranked(hits)[:count]]


def ranked(hits: Sequence[Hit]) -> list[str]:
    """Ids of the documents in the order of a hybrid search without reranking."""
    scores = fused(hits, Mode.HYBRID, Fusion.CALIBRATED, Fitness())
    order = sorted(range(len(hits)), key=lambda at: (-scores[at], hits[at].chunk.chunk_id))
    return [hits[at].chunk.document_id for at in order]


def recall(found: Sequence[int], scores: Array) -> float:
    """Share of the best `len(found)` by `scores` that are among `found`; chunks of equal score stand for each other."""
    worst_of_best = np.sort(scores)[-len(found)]
    return float(np.mean(scores[list(found)] >= worst_of_best - 1e-6))
