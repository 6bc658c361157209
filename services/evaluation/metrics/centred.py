"""Vectors without what all questions have in common, so that unrelated questions have a cosine near 0.

Vectors of retrieval models point nearly all the same way: with multilingual-e5-small two unrelated questions have a
mean cosine of 0.75 in English and 0.78 in Spanish, so that no answer is ever below the threshold of relevance. Taking
the mean vector away (Mu, Bhat and Viswanath, "All-but-the-Top", ICLR 2018) undoes it, a mean a language.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from services.evaluation.metrics.embedder import Embedder, Vectors, directions
from services.runtime.yaml_files import parse


@cache
def unrelated_questions() -> Mapping[str, Sequence[str]]:
    """Those of the product, by language."""
    return parse(files("services.evaluation.metrics").joinpath("questions.yaml").read_bytes())


class CentredEmbedder:
    """An Embedder whose vectors lack the mean of questions that have nothing to do with each other."""

    def __init__(self, embedder: Embedder, questions: Mapping[str, Sequence[str]] | None = None) -> None:
        """`questions`: by language; of a language that is not there the means of all of them are taken away."""
        self._embedder = embedder
        self._questions = questions or unrelated_questions()
        self._means: dict[str, Vectors] = {}
        self._learning = asyncio.Lock()

    async def embed(self, texts: Sequence[str], language: str) -> Vectors:
        """See Embedder."""
        vectors = directions(await self._embedder.embed(texts, language))
        return vectors - await self._mean(language)

    async def _mean(self, language: str) -> Vectors:
        async with self._learning:
            if language not in self._means:
                own = self._questions.get(language) or [each for all_of in self._questions.values() for each in all_of]
                vectors = directions(await self._embedder.embed(own, language))
                self._means[language] = vectors.mean(axis=0)
        return self._means[language]
