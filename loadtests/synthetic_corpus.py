"""Chunks without sense but with the shape of real ones, as many as wanted, as arrays: a million fit into memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.retrieval.store import Mode, NewChunk, Query, SparseTerms

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]

MODEL, DIMENSIONS = "synthetic", 384
# Neighbourhoods are as dense in a large corpus as in a small one: more chunks are about more topics.
_CHUNKS_A_TOPIC, _VOCABULARY, _WORDS, _BLOCK = 50, 50_000, 80, 10_000
_TEXT = "Cláusula 8.3. Penalización por retraso en la entrega. " * 12


@dataclass(frozen=True)
class Corpus:
    """Unit vectors, one a row, and the sparse terms of all rows: those of row n at `offsets[n]` to `offsets[n + 1]`."""

    dense: Floats
    terms: Integers
    weights: Floats
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.dense)

    @classmethod
    def of(cls, chunks: Iterable[NewChunk]) -> "Corpus":
        """Of chunks as they are stored."""
        rows = list(chunks)
        dense = np.array([row.dense for row in rows], dtype=np.float32)
        sparse = [row.sparse for row in rows]
        return cls(
            dense / np.linalg.norm(dense, axis=1, keepdims=True),
            np.concatenate([np.array(one.indices, np.int32) for one in sparse]),
            np.concatenate([np.array(one.values, np.float32) for one in sparse]),
            np.cumsum([0, *(len(one.indices) for one in sparse)]),
        )

    def sparse(self, at: int) -> SparseTerms:
        """Of one row."""
        own = slice(self.offsets[at], self.offsets[at + 1])
        return SparseTerms(self.terms[own].tolist(), self.weights[own].tolist())

    def chunks(self, start: int, stop: int) -> Iterator[NewChunk]:
        """Those rows as they are stored."""
        for at in range(start, min(stop, len(self))):
            yield NewChunk(_TEXT, self.dense[at].tolist(), self.sparse(at))

    def queries(self, count: int) -> list[Query]:
        """Each resembles one chunk in its vector, and has six of its words."""
        dice = np.random.default_rng(11)
        found: list[Query] = []
        for at in dice.choice(len(self), count, replace=False):
            vector = self.dense[at] + 0.03 * dice.standard_normal(DIMENSIONS).astype(np.float32)
            terms = dice.choice(np.array(self.sparse(at).indices), 6, replace=False)
            sparse = SparseTerms(terms.tolist(), [1.0] * 6)
            found.append(Query(Mode.HYBRID, MODEL, (vector / np.linalg.norm(vector)).tolist(), sparse))
        return found


def corpus(count: int) -> Corpus:
    """`count` chunks around topics, with the words of a Zipf distribution; the same at every call."""
    dice = np.random.default_rng(7)
    topics = dice.standard_normal((max(1, count // _CHUNKS_A_TOPIC), DIMENSIONS), dtype=np.float32)
    dense = np.empty((count, DIMENSIONS), np.float32)
    terms: list[Integers] = []
    lengths: list[int] = []
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        block = topics[dice.integers(len(topics), size=size)]
        block = block + 0.7 * dice.standard_normal((size, DIMENSIONS), dtype=np.float32)
        dense[start : start + size] = block / np.linalg.norm(block, axis=1, keepdims=True)
        words = np.sort((dice.zipf(1.2, (size, _WORDS)) % _VOCABULARY).astype(np.int32), axis=1)
        once = np.diff(words, axis=1, prepend=-1) != 0
        terms.append(words[once])
        lengths.extend(once.sum(axis=1).tolist())
    weights = dice.uniform(0.5, 2.0, sum(lengths)).astype(np.float32)
    return Corpus(dense, np.concatenate(terms), weights, np.cumsum([0, *lengths]))
