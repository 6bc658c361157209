"""A scorer that computes here, behind a bounded queue: one request after the other, in a worker thread."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from services.reranking.scorer import LocalScorer, Scored, Scores
from services.runtime.batching import Batcher

_Job = tuple[Scored, Sequence[Scored]]


class QueuedScorer:
    """Makes a scorer of what computes scores."""

    def __init__(self, local: LocalScorer, *, max_waiting_candidates: int) -> None:
        self._local = local
        self.model = local.model
        self.reads_token_vectors = local.reads_token_vectors
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scorer")
        self._queue: Batcher[_Job, Scores] = Batcher(
            self._compute, max_batch_cost=1, max_batch_items=1, max_waiting_cost=max_waiting_candidates
        )

    async def score(self, query: Scored, candidates: Sequence[Scored]) -> Scores:
        """Raises Overloaded when the queue is full, and what the preparation and the computation raise."""
        query, candidates = await self._local.prepare(query, candidates)
        (scores,) = await self._queue.submit([((query, candidates), len(candidates))])
        return scores

    async def close(self) -> None:
        """Stops; whoever waits is cancelled."""
        await self._queue.close()
        await asyncio.to_thread(self._thread.shutdown)

    async def _compute(self, batch: Sequence[_Job]) -> Sequence[Scores]:
        loop = asyncio.get_running_loop()
        return [
            await loop.run_in_executor(self._thread, self._local.compute, query, candidates)
            for query, candidates in batch
        ]
