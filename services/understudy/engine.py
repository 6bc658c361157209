"""Runs replies on the clock of a latency profile: a bounded number at a time, the others in a bounded queue."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from services.understudy.generation import Generation, Piece
from services.understudy.latency import Profile
from services.understudy.metrics import EngineMetrics

# Pieces due within one tick leave together: a timer for each would cost more than the work.
_TICK_SECONDS = 0.010


class QueueFull(Exception):
    """More requests wait than may."""


class Engine:
    """One served model."""

    def __init__(self, profile: Profile, metrics: EngineMetrics, *, max_running: int, max_waiting: int) -> None:
        self._profile = profile
        self._metrics = metrics
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._places = asyncio.Semaphore(max_running)
        self._running = 0
        self._waiting = 0

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[None]:
        """A place among the running. Raises QueueFull at once when nobody more may wait."""
        if self._places.locked() and self._waiting >= self._max_waiting:
            raise QueueFull
        self._waiting += 1
        self._show()
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
            self._show()
        self._running += 1
        self._show()
        try:
            yield
        finally:
            self._running -= 1
            self._places.release()
            self._show()

    def _show(self) -> None:
        self._metrics.running.set(self._running)
        self._metrics.waiting.set(self._waiting)
        self._metrics.kv_cache_usage.set(self._running / self._max_running)

    async def run(
        self, prompt_tokens: int, turn: int, work: Callable[[], Generation], arrived: float
    ) -> AsyncGenerator[tuple[Generation, list[Piece]]]:
        """Yields the pieces of `work()` when they are due, against one schedule, so that delays do not add up.

        The first yield has none, and comes as soon as the work is done: from then on nothing is refused.
        The time to the first token counts from when the request `arrived`, by the loop's clock, and beyond it by the
        time in the queue: reading the request and the work are part of it. Raises what `work` raises, and QueueFull.
        """
        loop = asyncio.get_running_loop()
        queued = loop.time()
        reason = "abort"
        try:
            async with self._place():
                started = loop.time()
                self._metrics.queue_time.observe(started - queued)
                self._metrics.prompt_tokens.inc(prompt_tokens)
                generation = work()
                yield generation, []
                waited = started - queued
                first_due = arrived + waited + self._profile.time_to_first_token(prompt_tokens, turn)
                await asyncio.sleep(max(0.0, first_due - loop.time()))
                first = loop.time()
                self._metrics.time_to_first_token.observe(first - arrived)
                span = self._profile.decode(generation.tokens, calls_tools=generation.calls_tools, turn=turn)
                async for pieces in self._paced(generation, first_due, span):
                    yield generation, pieces
                self._count(generation, loop.time() - first)
                reason = "length" if generation.finish_reason == "length" else "stop"
        finally:
            self._metrics.finished(reason)
            if reason != "abort":
                self._metrics.e2e_latency.observe(loop.time() - arrived)

    async def _paced(self, generation: Generation, first_due: float, span: float) -> AsyncGenerator[list[Piece]]:
        loop = asyncio.get_running_loop()
        total, done = max(1, generation.tokens), 0
        batch: list[Piece] = []
        for piece in generation.pieces:
            due = first_due + span * done / total
            if batch and due - loop.time() > _TICK_SECONDS:
                yield batch
                self._metrics.generation_tokens.inc(sum(one.tokens for one in batch))
                batch = []
                await asyncio.sleep(due - loop.time())
            batch.append(piece)
            done += piece.tokens
        await asyncio.sleep(max(0.0, first_due + span - loop.time()))
        yield batch
        self._metrics.generation_tokens.inc(sum(one.tokens for one in batch))

    def _count(self, generation: Generation, seconds: float) -> None:
        self._metrics.decode_time.observe(seconds)
        gaps = generation.tokens - 1
        if gaps > 0:
            self._metrics.inter_token_latency.observe(seconds / gaps)
            self._metrics.time_per_output_token.observe(seconds / gaps)
