"""What turns questions into vectors, as the router wants it. Holds the fake that needs no model, too."""

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
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


class RememberedVectors:
    """A QueryEncoder that asks another one for what it has not been asked for lately.

    The sentences of passages that many answers cite, and questions that many ask, cost a model's run once. Of texts
    only a digest is kept.
    """

    def __init__(self, encoder: QueryEncoder, most: int = 8_192) -> None:
        """Keeps the vectors of the last `most` texts, all of one model: about 1.5 kB each with 384 dimensions."""
        self._encoder = encoder
        self._most = most
        self._model = ""
        self._vectors: OrderedDict[bytes, Floats] = OrderedDict()

    async def encode(self, texts: Sequence[str], seconds: float) -> Encoded:
        """See QueryEncoder."""
        keys = [hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest() for text in texts]
        model, known = self._model, {key: self._vectors[key] for key in keys if key in self._vectors}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            encoded = await self._encoder.encode(list(missing.values()), seconds)
            if known and encoded.model != model:  # the others are of another model
                missing = dict(zip(keys, texts, strict=True))
                encoded = await self._encoder.encode(list(missing.values()), seconds)
            known |= dict(zip(missing, encoded.vectors, strict=True))
            model = encoded.model
        self._keep(model, known)
        return Encoded(model, np.stack([known[key] for key in keys]))

    def _keep(self, model: str, known: Mapping[bytes, Floats]) -> None:
        if model != self._model:
            self._model = model
            self._vectors.clear()
        self._vectors.update(known)
        for key in known:
            self._vectors.move_to_end(key)
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)
