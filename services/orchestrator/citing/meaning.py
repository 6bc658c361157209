"""How near the meaning of a sentence is to its sources', by embeddings: for other words and other languages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from services.orchestrator.citing.lexicon import without_denials
from services.orchestrator.citing.source_text import Sentence
from services.orchestrator.routing.encoder import Floats, QueryEncoder

# Sentences that have nothing to do with each other. What their vectors have in common says nothing; how much that is
# differs by model, and nearness is told from there.
_UNRELATED = (
    "The museum opens at ten on Sundays.",
    "Los tomates necesitan mucho sol y poca agua.",
    "Interest is charged on overdue invoices.",
    "El tren a la costa sale del andén cuatro.",
    "The violin was tuned before the concert.",
    "La contraseña caduca a los noventa días.",
)

_MOST_CHARS = 1_500


@dataclass(frozen=True)
class Nearest:
    """The sentence of a source that is nearest; `nearness` is 0 for nothing in common and 1 for the same.

    `listed`: the source's sentences with the nearness of each.
    """

    nearness: float
    sentence: Sentence
    listed: tuple[tuple[Sentence, float], ...] = ()


class Meaning:
    """Compares by one encoder. `most_texts` bounds one comparison."""

    def __init__(self, encoder: QueryEncoder, most_texts: int = 64) -> None:
        self._encoder = encoder
        self._most_texts = most_texts
        self._common: dict[str, float] = {}

    async def nearest(
        self, claims: Sequence[str], sources: Mapping[int, Sequence[Sentence]], seconds: float
    ) -> Sequence[Mapping[int, Nearest]]:
        """For each claim, the nearest sentence of each source by mark. Raises ServiceError.

        Of what is too much for one comparison, the last claims and the last sources are left out.
        """
        asked = list(dict.fromkeys(claims))[: self._most_texts // 2]
        windows = [(mark, one) for mark, listed in sources.items() for one in (*listed, *_together(listed))]
        windows = windows[: self._most_texts - len(asked)]
        if not asked or not windows:
            return [{} for _ in claims]
        fixed = [] if self._common else list(_UNRELATED)
        encoded = await self._encoder.encode([*asked, *(one.text.strip() for _, one in windows), *fixed], seconds)
        common = self._common.get(encoded.model)
        if common is None:
            common = await self._in_common(encoded.model, encoded.vectors[len(asked) + len(windows) :], seconds)
        likeness = encoded.vectors[: len(asked)] @ encoded.vectors[len(asked) : len(asked) + len(windows)].T
        nearness = (likeness - common) / (1 - common)
        rows = {claim: _by_source(nearness[at], windows) for at, claim in enumerate(asked)}
        return [rows.get(claim, {}) for claim in claims]

    async def denials(self, pairs: Sequence[tuple[str, str]], seconds: float) -> Sequence[float]:
        """For two sentences of which one denies: by how much they come nearer without that denial.

        Those that say the contrary come nearer, those that say the same in other words do not. Raises ServiceError.
        Of what is too much for one comparison, the last pairs count as 0.
        """
        most = self._most_texts // 2
        left = [0.0] * max(0, len(pairs) - most)
        pairs = [(" ".join(first.split()), " ".join(second.split())) for first, second in pairs[:most]]
        changed = [(without_denials(first), without_denials(second)) for first, second in pairs]
        texts = list(dict.fromkeys(text for one in (*pairs, *changed) for text in one if text))
        encoded = await self._encoder.encode(texts, seconds)
        common = self._common.get(encoded.model) or await self._in_common(encoded.model, encoded.vectors[:0], seconds)
        vectors = dict(zip(texts, encoded.vectors, strict=True))
        found: list[float] = []
        for (first, second), (mine, its) in zip(pairs, changed, strict=True):
            other = (mine, second) if mine != first else (first, its)
            likeness = vectors[other[0]] @ vectors[other[1]] - vectors[first] @ vectors[second] if all(other) else 0.0
            found.append(float(likeness) / (1 - common))
        return found + left

    async def _in_common(self, model: str, vectors: Floats, seconds: float) -> float:
        """Mean likeness of sentences that have nothing in common, under this model."""
        if not len(vectors):  # the model has changed under us
            vectors = (await self._encoder.encode(_UNRELATED, seconds)).vectors
        likeness = vectors @ vectors.T
        found = float(likeness[np.triu_indices(len(vectors), 1)].mean())
        self._common[model] = min(found, 0.95)
        return self._common[model]


def _together(sentences: Sequence[Sentence]) -> list[Sentence]:
    """All sentences as one, for a claim that sums up several."""
    if len(sentences) < 2:
        return []
    return [
        Sentence(
            " ".join(one.text.strip() for one in sentences)[:_MOST_CHARS],
            tuple(word for one in sentences for word in one.words),
            frozenset(key for one in sentences for key in one.keys),
            whole=True,
        )
    ]


def _by_source(nearness: Floats, windows: Sequence[tuple[int, Sentence]]) -> Mapping[int, Nearest]:
    listed: dict[int, list[tuple[float, Sentence]]] = {}
    for value, (mark, sentence) in zip(nearness, windows, strict=True):
        listed.setdefault(mark, []).append((float(value), sentence))
    found: dict[int, Nearest] = {}
    for mark, sentences in listed.items():
        best, nearest = max(sentences, key=lambda one: one[0])
        found[mark] = Nearest(best, nearest, tuple((one, value) for value, one in sentences if not one.whole))
    return found
