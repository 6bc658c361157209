"""Answers on their way to evaluation: a bounded queue and a few senders. What has no room is dropped and counted."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from services.orchestrator.sampling.anonymous import anonymous
from services.orchestrator.sampling.finished_answer import FinishedAnswer
from services.orchestrator.sampling.metrics import OFFERED
from services.runtime import tasks
from services.runtime.errors import Overloaded, ServiceError

log = logging.getLogger(__name__)

_SECONDS = 5.0


class Evaluation(Protocol):
    """Where answers are measured."""

    async def offer(self, answer: FinishedAnswer, timeout_seconds: float) -> None:
        """Offers it. Raises ServiceError."""
        ...

    async def close(self) -> None:
        """Lets go."""
        ...


class Outbox:
    """Sends what is put into it, in tasks of its own."""

    def __init__(
        self,
        evaluation: Evaluation,
        act_for: Callable[[str], None],
        *,
        most_waiting: int = 64,
        senders: int = 2,
        timeout_seconds: float = _SECONDS,
    ) -> None:
        """`act_for` makes a tenant, and nobody in it, the one for whom a sender calls. Needs a running event loop."""
        self._evaluation = evaluation
        self._act_for = act_for
        self._timeout_seconds = timeout_seconds
        self._waiting: asyncio.Queue[tuple[str, bool, FinishedAnswer]] = asyncio.Queue(most_waiting)
        self._senders = [asyncio.create_task(self._send_all()) for _ in range(senders)]

    def put(self, tenant: str, answer: FinishedAnswer, *, anonymise: bool) -> None:
        """Takes an answer, or drops it where there is no room. Never waits, never raises."""
        try:
            self._waiting.put_nowait((tenant, anonymise, answer))
        except asyncio.QueueFull:
            OFFERED.labels("dropped").inc()

    async def close(self) -> None:
        """Ends the senders; what still waits is lost."""
        await tasks.end(*self._senders)
        await self._evaluation.close()

    async def _send_all(self) -> None:
        while True:
            tenant, anonymise, answer = await self._waiting.get()
            try:
                if anonymise:
                    answer = await asyncio.to_thread(anonymous, answer)
                self._act_for(tenant)
                async with asyncio.timeout(2 * self._timeout_seconds):
                    await self._evaluation.offer(answer, self._timeout_seconds)
                outcome = "sent"
            except Overloaded:
                outcome = "refused"
            except (ServiceError, TimeoutError):
                outcome = "lost"
            except Exception as error:
                # A sender that dies would be noticed by nobody; the text of the error may quote an answer.
                log.error("an answer could not be offered", extra={"reason": type(error).__name__})
                outcome = "lost"
            OFFERED.labels(outcome).inc()
