"""Joins the work of several callers into batches: bounded queue, token budget, callers who have gone are dropped.

After the queue of text-embeddings-inference: refuse before any work is done, fill by cost and not only by count.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from services.runtime import tasks
from services.runtime.errors import Overloaded

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class _Waiting(Generic[Item, Result]):
    item: Item
    cost: int
    future: "asyncio.Future[Result]"


class Batcher(Generic[Item, Result]):
    """Runs `work` on batches of items, as many batches at a time as are allowed."""

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_batch_cost: int,
        max_batch_items: int,
        max_waiting_cost: int,
        parallel_batches: int = 1,
    ) -> None:
        """`work` answers in the order of its batch. Costs are in the caller's unit, such as tokens.

        `work` runs outside of any call: it sees the identity and the deadline of none of its callers.
        """
        self._work = work
        self._max_batch_cost = max_batch_cost
        self._max_batch_items = max_batch_items
        self._max_waiting_cost = max_waiting_cost
        self._queue: deque[_Waiting[Item, Result]] = deque()
        self._waiting_cost = 0
        self._arrived = asyncio.Event()
        self._parallel_batches = parallel_batches
        self._runners: list[asyncio.Task[None]] = []

    @property
    def waiting_cost(self) -> int:
        """Cost of what waits, for metrics."""
        return self._waiting_cost

    async def submit(self, items: Sequence[tuple[Item, int]]) -> list[Result]:
        """Results of (item, cost) pairs, in order. Raises Overloaded, before any work, when the queue is full."""
        total = sum(cost for _, cost in items)
        if self._queue and self._waiting_cost + total > self._max_waiting_cost:
            raise Overloaded("The queue is full.", retry_after=timedelta(seconds=1))
        self._start()
        loop = asyncio.get_running_loop()
        waiting = [_Waiting[Item, Result](item, cost, loop.create_future()) for item, cost in items]
        self._queue.extend(waiting)
        self._waiting_cost += total
        self._arrived.set()
        try:
            return list(await asyncio.gather(*(one.future for one in waiting)))
        finally:
            for one in waiting:
                one.future.cancel()

    async def close(self) -> None:
        """Stops; whoever waits is cancelled."""
        await tasks.end(*self._runners)
        for one in self._queue:
            one.future.cancel()

    def _start(self) -> None:
        self._runners = [runner for runner in self._runners if not runner.done()]
        while len(self._runners) < self._parallel_batches:
            # An empty context: the runner would otherwise act for whoever happened to call first.
            self._runners.append(asyncio.create_task(self._run(), context=contextvars.Context()))

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            if not batch:
                self._arrived.clear()
                continue
            try:
                results = await self._work([one.item for one in batch])
            except asyncio.CancelledError:
                for one in batch:
                    one.future.cancel()
                raise
            except Exception as error:
                for one in batch:
                    if not one.future.done():
                        one.future.set_exception(error)
                continue
            for one, result in zip(batch, results, strict=True):
                if not one.future.done():
                    one.future.set_result(result)

    def _next_batch(self) -> list[_Waiting[Item, Result]]:
        batch: list[_Waiting[Item, Result]] = []
        cost = 0
        while self._queue and len(batch) < self._max_batch_items:
            first = self._queue[0]
            if batch and cost + first.cost > self._max_batch_cost:
                break
            self._queue.popleft()
            self._waiting_cost -= first.cost
            if first.future.done():  # its caller has gone
                continue
            batch.append(first)
            cost += first.cost
        return batch
