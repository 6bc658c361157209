"""What makes vectors of questions, so that two can be compared."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float64]


class EmbedderFailed(Exception):
    """There are no vectors."""


class Embedder(Protocol):
    """Embeds questions."""

    async def embed(self, texts: Sequence[str], language: str) -> Vectors:
        """One row a text, in order, of any length. All are of `language`, ISO 639-1. Raises EmbedderFailed."""
        ...


class ScriptedEmbedder:
    """Vectors by a table of texts; a text that is not there has none."""

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self._vectors = vectors

    @classmethod
    def by_cosine(cls, text: str, cosines: Mapping[str, float]) -> "ScriptedEmbedder":
        """Vectors in the plane whose cosines with that of `text` are `cosines`."""
        others = {each: (cosine, math.sqrt(1 - cosine**2)) for each, cosine in cosines.items()}
        return cls({text: (1.0, 0.0), **others})

    async def embed(self, texts: Sequence[str], language: str) -> Vectors:
        """See Embedder."""
        try:
            return np.array([self._vectors[text] for text in texts], dtype=np.float64)
        except KeyError:
            raise EmbedderFailed("the script has no vector for one of the texts") from None


def cosines(vectors: Vectors, one: Vectors) -> Vectors:
    """Of each row with `one`. Raises EmbedderFailed where a vector has no direction or is no number."""
    return directions(vectors) @ directions(one[np.newaxis])[0]


def directions(vectors: Vectors) -> Vectors:
    """Rows of length 1. Raises EmbedderFailed where a vector has no direction or is no number."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbedderFailed("a vector has no direction")
    return vectors / lengths
