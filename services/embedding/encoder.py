"""What an encoder is: texts in, dense and token vectors out. Holds the fake that needs no model, too."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
HalfFloats = NDArray[np.float16]


class Kind(Enum):
    """What a text is for: retrieval models encode the two differently."""

    QUERY = "query"
    DOCUMENT = "document"


class BrokenModel(RuntimeError):
    """The model answered values that are not finite, or of an unexpected shape; the message names the model."""


@dataclass(frozen=True)
class Embedded:
    """Vectors of one text.

    `dense` has unit length. `token_vectors` is [tokens, dimensions], each row of unit length, without prefix and
    special tokens: those are the same in every text, so in late interaction they would match whatever the text says.
    `token_count` includes them. `truncated`: the tail of the text was not seen.
    """

    dense: Floats
    token_vectors: HalfFloats | None
    token_count: int
    truncated: bool


class Encoder(Protocol):
    """Turns texts into vectors. Texts are not empty; answers come in the order of the texts."""

    @property
    def model(self) -> str:
        """Name and revision: vectors of different models do not compare."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of the vectors; known after `warm_up`."""
        ...

    @property
    def max_tokens(self) -> int:
        """Longest text in tokens, prefix and special tokens included."""
        ...

    @property
    def has_token_vectors(self) -> bool:
        """Whether `embed` can give token vectors."""
        ...

    async def embed(self, texts: Sequence[str], kind: Kind, *, token_vectors: bool) -> list[Embedded]:
        """Raises Overloaded when the queue is full, BrokenModel and DependencyFailed."""
        ...

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without prefix and special tokens."""
        ...

    async def warm_up(self) -> None:
        """Returns when the first text can be encoded at full speed."""
        ...

    async def close(self) -> None:
        """Stops; whoever waits is cancelled."""
        ...


def unit_rows(vectors: Floats) -> Floats:
    """The same rows with unit length."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


class HashEncoder:
    """Hashes words to vectors: texts that share words are near. Deterministic, instant, needs no model."""

    _WORD = re.compile(r"\w+|[^\w\s]")
    has_token_vectors = True
    # Prefix and two special tokens, as real models have.
    _AROUND = 3

    def __init__(self, dimensions: int, max_tokens: int = 512) -> None:
        self.dimensions = dimensions
        self.max_tokens = max_tokens
        self.model = f"hash-{dimensions}"
        self._vector = lru_cache(maxsize=16384)(self._hashed)

    async def embed(self, texts: Sequence[str], kind: Kind, *, token_vectors: bool) -> list[Embedded]:
        """Mean of the words' vectors, and a little of the kind's."""
        return [self._one(text, kind, token_vectors) for text in texts]

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Words and punctuation marks."""
        return [len(self._words(text)) for text in texts]

    async def warm_up(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    def _one(self, text: str, kind: Kind, token_vectors: bool) -> Embedded:
        words = self._words(text)
        seen = words[: self.max_tokens - self._AROUND] or [""]
        rows = np.stack([self._vector(word) for word in seen])
        dense = unit_rows(rows.mean(axis=0) + 0.05 * self._vector(f"<{kind.value}>"))
        return Embedded(
            dense.astype(np.float32),
            rows.astype(np.float16) if token_vectors else None,
            len(seen) + self._AROUND,
            len(words) > len(seen),
        )

    def _words(self, text: str) -> list[str]:
        # A fold by character: "contratación" and "contratacion" are one word.
        plain = unicodedata.normalize("NFKD", text).casefold()
        return self._WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))

    def _hashed(self, word: str) -> Floats:
        seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())
        return unit_rows(np.random.default_rng(seed).standard_normal(self.dimensions).astype(np.float32))
