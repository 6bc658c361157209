"""Takes sampled answers, measures them one after another, and tells whoever wants to know."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.evaluation.judge.judge import Judge
from services.evaluation.metrics.catalogue import ONLINE, named, score_all
from services.evaluation.metrics.embedder import Embedder, EmbedderFailed
from services.evaluation.metrics.metric import Metric
from services.evaluation.online.drift import Windows
from services.evaluation.online.drift_watch import DriftWatch
from services.evaluation.online.feedback import Feedback, Join
from services.evaluation.online.gauges import OFFERS, STORED, Gauges
from services.evaluation.online.offered import Offered
from services.evaluation.online.references import MemoryReferences, ReferenceStore
from services.evaluation.online.store import ScoreStore
from services.evaluation.score import Score, Status
from services.runtime import tasks
from services.runtime.errors import InvalidField, Overloaded, ServiceError

log = logging.getLogger(__name__)

_FORGET_SECONDS = 3_600.0
_MOST_REMEMBERED = 10_000
ONLINE_NAMES = tuple(metric.name for metric in ONLINE)


class Traces(Protocol):
    """Where scores are shown beside the trace of an answer."""

    async def send(self, offered: Offered, scores: Sequence[Score], judge: str) -> None:
        """Attaches them. Never raises."""
        ...

    async def close(self) -> None:
        """Lets go."""
        ...


@dataclass(frozen=True)
class Measuring:
    """What measures an answer. Without a judge or an embedder what takes one is missing, and says so."""

    judge: Judge | None = None
    embedder: Embedder | None = None
    seconds: float = 300

    async def scores(self, offered: Offered) -> list[Score]:
        """One a metric wanted."""
        metrics = named(offered.metrics)
        try:
            async with asyncio.timeout(self.seconds):
                return await score_all(metrics, offered.answered, None, self.judge, self.embedder)
        except TimeoutError:
            return [_late(metric) for metric in metrics]

    async def vector(self, offered: Offered) -> NDArray[np.float64] | None:
        """Of the question; None where it cannot be had."""
        if self.embedder is None:
            return None
        answered = offered.answered
        try:
            async with asyncio.timeout(self.seconds):
                return (await self.embedder.embed([answered.question], answered.language))[0]
        except (EmbedderFailed, TimeoutError):
            return None


class Offers:
    """A bounded queue and its workers. `open` and `close` as all parts of the service have them."""

    def __init__(
        self,
        measuring: Measuring,
        store: ScoreStore,
        act_for: Callable[[str], None],
        *,
        traces: Traces | None = None,
        gauges: Gauges | None = None,
        windows: Windows | None = None,
        references: ReferenceStore | None = None,
        most_waiting: int = 256,
        workers: int = 2,
        retention_days: int = 90,
        feedback: Feedback | None = None,
        feedback_seconds: float = 600,
    ) -> None:
        """`feedback` is joined every `feedback_seconds`.

        `act_for` makes a tenant, and nobody in it, the one for whom a worker calls other services.
        """
        self._measuring = measuring
        self._store = store
        self._act_for = act_for
        self._traces = traces
        self._gauges = gauges or Gauges()
        self._drift = DriftWatch(windows or Windows(), references or MemoryReferences())
        self._waiting: asyncio.Queue[Offered] = asyncio.Queue(most_waiting)
        self._worker_count = workers
        self._retention_days = retention_days
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._joining = Join(feedback, store, self._gauges) if feedback is not None else None
        self._feedback_seconds = feedback_seconds
        self._running: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Begins to work. Raises DependencyFailed where the store is lost."""
        await self._store.open()
        await self._drift.open()
        self._running = [asyncio.create_task(self._work()) for _ in range(self._worker_count)]
        self._running.append(asyncio.create_task(self._forget()))
        if self._joining is not None:
            self._running.append(asyncio.create_task(self._join_feedback(self._joining)))

    async def close(self) -> None:
        """Stops; what waits is lost: it was a sample."""
        await tasks.end(*self._running)
        if self._traces is not None:
            await self._traces.close()
        if self._joining is not None:
            await self._joining.close()
        await self._drift.close()
        await self._store.close()

    async def offer(self, offered: Offered) -> None:
        """Takes an answer, to be measured later. Raises InvalidField (a metric) and Overloaded (the queue is full)."""
        if unknown := sorted(set(offered.metrics) - set(ONLINE_NAMES)):
            raise InvalidField(
                f"{', '.join(unknown)}: not measured of live traffic; there are {', '.join(ONLINE_NAMES)}.",
                field="metrics",
            )
        key = offered.answered.tenant, offered.answered.answer_id
        if key in self._seen:
            OFFERS.labels("repeated").inc()
            return
        try:
            self._waiting.put_nowait(offered)
        except asyncio.QueueFull:
            OFFERS.labels("refused").inc()
            raise Overloaded("Too many answers wait to be measured.", retry_after=timedelta(minutes=1)) from None
        OFFERS.labels("accepted").inc()
        self._seen[key] = None
        while len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)

    async def join(self) -> None:
        """Waits until all that was taken is measured."""
        await self._waiting.join()

    async def _work(self) -> None:
        while True:
            offered = await self._waiting.get()
            try:
                await self._measure(offered)
            except Exception as error:
                # A worker that dies would be noticed by nobody; the text of the error may quote an answer.
                OFFERS.labels("failed").inc()
                log.error("an answer could not be measured", extra={"reason": type(error).__name__})
            finally:
                self._waiting.task_done()

    async def _measure(self, offered: Offered) -> None:
        tenant = offered.answered.tenant
        self._act_for(tenant)
        self._gauges.saw(offered)
        vector = await self._measuring.vector(offered)
        for verdict in await self._drift.add(tenant, offered.answered, vector):
            self._gauges.compared(tenant, verdict)
            if verdict.is_drift:
                log.warning("traffic has changed", extra={"tenant": tenant, "kind": verdict.kind})
        scores = await self._measuring.scores(offered)
        self._gauges.scored(offered, scores)
        judge = self._measuring.judge.name if self._measuring.judge else ""
        try:
            await self._store.put(offered, scores, judge)
            STORED.labels("written").inc()
        except ServiceError:
            STORED.labels("lost").inc()
        if self._traces is not None:
            await self._traces.send(offered, scores, judge)

    async def _join_feedback(self, joining: Join) -> None:
        while True:
            try:
                await joining.join()
            except Exception as error:
                log.error("feedback could not be joined", extra={"reason": type(error).__name__})
            await asyncio.sleep(self._feedback_seconds)

    async def _forget(self) -> None:
        while True:
            try:
                await self._store.forget(self._retention_days)
            except ServiceError as error:
                log.warning("old scores are not deleted", extra={"reason": error.message})
            await asyncio.sleep(_FORGET_SECONDS)


def _late(metric: Metric) -> Score:
    return Score(metric.name, None, Status.JUDGE_FAILED, "the time for measuring it is over")
