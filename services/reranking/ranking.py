"""Puts candidates in order of their scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.reranking.scorer import BrokenModel, Scored, Scorer


@dataclass(frozen=True)
class Ranked:
    """Place of a candidate in the request, its score, and whether its tail was not scored."""

    index: int
    score: float
    truncated: bool


class Ranking:
    """One scorer, and the order that its scores make."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    async def rank(self, query: Scored, candidates: Sequence[Scored], top_n: int) -> list[Ranked]:
        """The best `top_n` candidates (0: all) by descending score, equal ones in the order of the request.

        Negative scores are scores: a logit below 0 is no reason to leave a candidate out. Raises BrokenModel, and what
        the scorer raises.
        """
        scores = await self.scorer.score(query, candidates)
        values = scores.values
        if len(values) != len(candidates) or not np.isfinite(values).all():
            raise BrokenModel(f"the scorer {self.scorer.model} answered scores that are not finite")
        order: list[int] = np.argsort(-values, kind="stable")[: top_n or None].tolist()
        return [Ranked(n, float(values[n]), scores.truncated[n]) for n in order]

    async def close(self) -> None:
        """Closes the scorer."""
        await self.scorer.close()
