"""An encoder with a model behind a bounded queue, searches before documents."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from services.embedding import metrics, short_work
from services.embedding.encoder import BrokenModel, Embedded, Floats, HalfFloats, Kind
from services.embedding.window import Window, Windower
from services.runtime.batching import Batcher
from services.runtime.context import current


@dataclass(frozen=True)
class Vectors:
    """What a model says of one window: dense [dimensions], token vectors [own tokens, dimensions] or None.

    `truncated`: the model saw less than the window.
    """

    dense: Floats
    token_vectors: HalfFloats | None
    truncated: bool = False


class Model(Protocol):
    """Turns windows into vectors of unit length."""

    @property
    def name(self) -> str:
        """Name and revision."""
        ...

    @property
    def has_token_vectors(self) -> bool:
        """Whether `run` can give token vectors."""
        ...

    async def run(self, windows: Sequence[Window], *, token_vectors: bool, deadline: float | None) -> list[Vectors]:
        """Vectors in the order of the windows. After `deadline`, of the monotonic clock, nobody waits for them."""
        ...

    async def warm_up(self) -> None:
        """Returns when the model can be run."""
        ...

    async def close(self) -> None:
        """Releases what the model holds."""
        ...


@dataclass(frozen=True)
class QueueLimits:
    """One run of the model takes at most `batch_items` texts and `batch_tokens` tokens.

    `waiting_tokens` may wait in the queue of each kind of text, and `parallel_runs` of each kind go on at a time.
    """

    batch_items: int
    batch_tokens: int
    waiting_tokens: int
    parallel_runs: int = 1


@dataclass(frozen=True)
class _Item:
    window: Window
    token_vectors: bool
    deadline: float | None


class BatchedEncoder:
    """Tokenizes, queues and runs.

    Each kind of text has a queue and runs of its own: a search never waits for documents, however many there are.
    """

    def __init__(self, model: Model, windower: Windower, limits: QueueLimits) -> None:
        self._model = model
        self._windower = windower
        self._dimensions = 0
        self._queues = {kind: self._queue(kind, limits) for kind in Kind}

    @property
    def model(self) -> str:
        """Name and revision of the model."""
        return self._model.name

    @property
    def dimensions(self) -> int:
        """Length of the vectors; 0 before `warm_up`."""
        return self._dimensions

    @property
    def max_tokens(self) -> int:
        """The window, prefix and special tokens included."""
        return self._windower.max_tokens

    @property
    def has_token_vectors(self) -> bool:
        """As the model says."""
        return self._model.has_token_vectors

    async def embed(self, texts: Sequence[str], kind: Kind, *, token_vectors: bool) -> list[Embedded]:
        """Raises Overloaded when the queue of that kind is full, and BrokenModel."""
        windows = await short_work.done(lambda: self._windower.windows(texts, kind), texts)
        # Texts of like length go through the model together: less padding.
        order = sorted(range(len(windows)), key=lambda n: len(windows[n].ids))
        queue = self._queues[kind]
        call = current()
        deadline = call.deadline if call is not None else None
        submitted = queue.submit([(_Item(windows[n], token_vectors, deadline), len(windows[n].ids)) for n in order])
        vectors = dict(zip(order, await submitted, strict=True))
        return [_embedded(vectors[n], window) for n, window in enumerate(windows)]

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens as the model's own tokenizer cuts them."""
        return await asyncio.to_thread(self._windower.count, texts)

    async def warm_up(self) -> None:
        """Runs the model once for each kind, and learns its dimensions."""
        await self._model.warm_up()
        for kind in Kind:
            (embedded,) = await self.embed(["warm-up"], kind, token_vectors=self.has_token_vectors)
            self._dimensions = len(embedded.dense)

    async def close(self) -> None:
        """Stops; whoever waits is cancelled."""
        for queue in self._queues.values():
            await queue.close()
        await self._model.close()

    def _queue(self, kind: Kind, limits: QueueLimits) -> Batcher[_Item, Vectors]:
        queue = Batcher(
            partial(self._work, kind),
            max_batch_cost=limits.batch_tokens,
            max_batch_items=limits.batch_items,
            max_waiting_cost=limits.waiting_tokens,
            parallel_batches=limits.parallel_runs,
        )
        metrics.QUEUE_TOKENS.labels(kind.value).set_function(lambda: queue.waiting_cost)
        return queue

    async def _work(self, kind: Kind, batch: Sequence[_Item]) -> Sequence[Vectors]:
        windows = [item.window for item in batch]
        metrics.BATCH_TEXTS.labels(kind.value).observe(len(batch))
        metrics.BATCH_TOKENS.labels(kind.value).observe(sum(len(window.ids) for window in windows))
        wanted = any(item.token_vectors for item in batch)
        vectors = await self._model.run(windows, token_vectors=wanted, deadline=_latest(batch))
        if not all(_is_finite(one) for one in vectors):
            raise BrokenModel(f"the model {self.model} answered values that are not finite")
        return [
            one if item.token_vectors else replace(one, token_vectors=None)
            for one, item in zip(vectors, batch, strict=True)
        ]


def _latest(batch: Sequence[_Item]) -> float | None:
    latest = max(math.inf if item.deadline is None else item.deadline for item in batch)
    return None if math.isinf(latest) else latest


def _embedded(vectors: Vectors, window: Window) -> Embedded:
    truncated = window.truncated or vectors.truncated
    return Embedded(vectors.dense, vectors.token_vectors, len(window.ids), truncated)


def _is_finite(vectors: Vectors) -> bool:
    tokens = vectors.token_vectors
    return bool(np.isfinite(vectors.dense).all() and (tokens is None or np.isfinite(tokens).all()))
