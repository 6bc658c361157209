"""Puts candidates in order of their scores, one request after the other, in a worker thread."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from services.reranking.scorer import BrokenModel, Floats, Scored, Scorer
from services.runtime.batching import Batcher

_Job = tuple[Scored, Sequence[Scored]]


@dataclass(frozen=True)
class Ranked:
    """Place of a candidate in the request, and its score."""

    index: int
    score: float


class Ranking:
    """One scorer behind a bounded queue."""

    def __init__(self, scorer: Scorer, *, max_waiting_candidates: int) -> None:
        self.scorer = scorer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scorer")
        self._queue: Batcher[_Job, Floats] = Batcher(
            self._score, max_batch_cost=1, max_batch_items=1, max_waiting_cost=max_waiting_candidates
        )

    async def rank(self, query: Scored, candidates: Sequence[Scored], top_n: int) -> list[Ranked]:
        """The best `top_n` candidates (0: all) by descending score, equal ones in the order of the request.

        Raises Overloaded when the queue is full, CannotScore, BrokenModel, and what fetching vectors raises.
        """
        query, candidates = await self.scorer.prepare(query, candidates)
        (scores,) = await self._queue.submit([((query, candidates), len(candidates))])
        if len(scores) != len(candidates) or not np.isfinite(scores).all():
            raise BrokenModel(f"the scorer {self.scorer.model} answered scores that are not finite")
        order = np.argsort(-scores, kind="stable")[: top_n or None]
        return [Ranked(int(n), float(scores[n])) for n in order]

    async def close(self) -> None:
        """Stops; whoever waits is cancelled."""
        await self._queue.close()
        await asyncio.to_thread(self._thread.shutdown)

    async def _score(self, batch: Sequence[_Job]) -> Sequence[Floats]:
        loop = asyncio.get_running_loop()
        return [
            await loop.run_in_executor(self._thread, self.scorer.score, query, candidates)
            for query, candidates in batch
        ]
