"""What turns questions into vectors, as the router wants it. Holds the fake that needs no model, too."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.orchestrator.routing.wording import stems, tokens

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Encoded:
    """`vectors` is [texts, dimensions], each row of unit length. Those of different models do not compare."""

    model: str
    vectors: Floats


class QueryEncoder(Protocol):
    """Encodes questions."""

    async def encode(self, texts: Sequence[str], seconds: float) -> Encoded:
        """At most 256 texts, none empty, within `seconds`. Raises ServiceError."""
        ...


class HashedStems:
    """Hashes the stems of a text's words: texts with the same words are near each other, whatever they mean."""

    def __init__(self, dimensions: int = 256) -> None:
        self._dimensions = dimensions

    async def encode(self, texts: Sequence[str], seconds: float) -> Encoded:
        """See QueryEncoder."""
        vectors = np.zeros((len(texts), self._dimensions), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word, _, _ in tokens(text) or [(text, 0, 0)]:
                for stem in stems(word):
                    row[zlib.crc32(stem.encode()) % self._dimensions] += 1
            row /= max(float(np.linalg.norm(row)), 1e-6)
        return Encoded(f"stems:{self._dimensions}", vectors)
