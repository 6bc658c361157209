"""Looks on while a run goes by, and puts the chosen answers into the outbox."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from opentelemetry import trace

from services.orchestrator import named_model
from services.orchestrator.events import Event, Finished, Shown
from services.orchestrator.sampling.choice import is_chosen
from services.orchestrator.sampling.finished_answer import answer_of, kept_part
from services.orchestrator.sampling.outbox import Outbox
from services.orchestrator.task import Task
from services.runtime.tenants import Evaluation, TenantDirectory

log = logging.getLogger(__name__)


class Sample(Protocol):
    """One run as it is looked at."""

    @property
    def task(self) -> Task:
        """What the run has to be given."""
        ...

    def seen(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """The run's events as its caller wants them."""
        ...

    def ended(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """The same events; the last one bears the answer's final id."""
        ...


@dataclass(frozen=True)
class Unsampled:
    """A run that nobody looks at."""

    task: Task

    def seen(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """See Sample."""
        return events

    def ended(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """See Sample."""
        return events


class _Watched:
    """A run of a tenant who wants a share of its answers to be measured."""

    def __init__(self, tenant: str, wanted: Evaluation, task: Task, model: str, outbox: Outbox) -> None:
        self.task = replace(task, include_evidence=True)
        self._tenant, self._wanted, self._model, self._outbox = tenant, wanted, model, outbox
        self._tells_evidence = task.include_evidence
        self._happened: list[Event] = []

    async def seen(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        async with aclosing(events):
            async for event in events:
                if (kept := kept_part(event)) is not None:
                    self._happened.append(kept)
                if self._tells_evidence or not isinstance(event, Shown):
                    yield event

    async def ended(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Finished) and is_chosen(event.answer_id, self._wanted.sample):
                    self._offer(event)
                yield event

    def _offer(self, end: Finished) -> None:
        try:
            answer = replace(
                answer_of(self.task.question, self._happened, end),
                model=self._model,
                trace_id=_trace_id(),
                metrics=self._wanted.metrics,
            )
        except Exception as error:
            # Measuring must not cost an answer, whatever is wrong with it.
            log.error("an answer could not be offered", extra={"reason": type(error).__name__})
            return
        self._outbox.put(self._tenant, answer, anonymise=self._wanted.anonymise)


class Sampler:
    """Decides by the tenants' files."""

    def __init__(self, tenants: TenantDirectory, model: str, outbox: Outbox | None) -> None:
        """`model`: name of the model that answers. Without an outbox nothing is ever looked at."""
        self._tenants = tenants
        self._model = model
        self._outbox = outbox

    def sample(self, tenant_id: str, task: Task) -> Sample:
        """How the run of `task` is looked at."""
        tenant = self._tenants.get(tenant_id)
        if self._outbox is None or tenant is None or not tenant.evaluation.sample:
            return Unsampled(task)
        return _Watched(tenant_id, tenant.evaluation, task, named_model.asked(self._model), self._outbox)

    async def close(self) -> None:
        """Sends nothing more."""
        if self._outbox is not None:
            await self._outbox.close()


def _trace_id() -> str:
    here = trace.get_current_span().get_span_context()
    return format(here.trace_id, "032x") if here.is_valid else ""
