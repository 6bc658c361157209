"""Where runs are kept: their state, what they came to, the score of every question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol

from services.evaluation.answered import Json
from services.evaluation.runs.record import Scored
from services.evaluation.runs.summary import Summary

ABANDONED = "the service that ran it was stopped"


class RunStatus(StrEnum):
    """How far a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether it changes no more."""
        return self not in (RunStatus.WAITING, RunStatus.RUNNING)


@dataclass(frozen=True)
class Measurement:
    """A mean of one metric over a part of the set; `all` stands for every stratum or language."""

    variant: str
    metric: str
    stratum: str
    language: str
    mean: float | None
    low: float | None
    high: float | None
    scored_count: int
    missing_count: int


@dataclass(frozen=True)
class Run:
    """One evaluation. `done_count` of `wanted_count` answers are there. Times are UTC."""

    run_id: str
    tenant: str
    golden_set: str
    created_at: datetime
    status: RunStatus = RunStatus.WAITING
    reason: str = ""
    done_count: int = 0
    wanted_count: int = 0
    manifest: Mapping[str, Json] = field(default_factory=dict[str, Json])


class RunStore(Protocol):
    """Keeps runs. Raises DependencyFailed where it is lost."""

    async def open(self) -> None:
        """Connects, and makes the schema where it is not there."""
        ...

    async def close(self) -> None:
        """Lets go."""
        ...

    async def create(self, run: Run) -> None:
        """Keeps a new run; its id is unique."""
        ...

    async def set_status(self, run_id: str, status: RunStatus, reason: str = "") -> bool:
        """Changes the state, unless the run is over or unknown; whether it did. A sign of life."""
        ...

    async def set_progress(self, run_id: str, done: int, wanted: int) -> None:
        """Says how far it is. A sign of life."""
        ...

    async def beat(self, run_id: str) -> None:
        """A sign of life of a run, and nothing else."""
        ...

    async def put_results(
        self, run_id: str, manifest: Mapping[str, Json], measurements: Sequence[Measurement], scored: Sequence[Scored]
    ) -> None:
        """Replaces what the run came to, all of it or nothing."""
        ...

    async def get(self, tenant: str, run_id: str) -> Run | None:
        """A run of the tenant."""
        ...

    async def measurements(self, run_id: str) -> list[Measurement]:
        """What it came to, in the order given."""
        ...

    async def scores(self, run_id: str) -> list[tuple[str, str, str, float | None, str]]:
        """(variant, metric, item, value, status), sorted."""
        ...

    async def list_runs(self, tenant: str, limit: int, before: str = "") -> list[Run]:
        """The tenant's runs, newest first; those after the run `before`."""
        ...

    async def latest(self) -> list[Run]:
        """Of every tenant and golden set the newest run that is done or failed."""
        ...

    async def fail_abandoned(self, silent_seconds: float) -> int:
        """Fails runs that gave no sign of life for so long; answers how many."""
        ...


def measurements_of(summary: Summary) -> list[Measurement]:
    """All means of a summary, flat."""
    return [
        Measurement(
            one.variant,
            metric,
            stratum,
            language,
            mean.mean,
            mean.low,
            mean.high,
            mean.scored_count,
            mean.missing_count,
        )
        for one in summary.variants
        for (stratum, language), means in one.parts.items()
        for metric, mean in means.items()
    ]


class MemoryRunStore:
    """Keeps runs in this process; `most` of them."""

    def __init__(self, most: int = 1000) -> None:
        self._most = most
        self._runs: dict[str, Run] = {}
        self._beats: dict[str, datetime] = {}
        self._measurements: dict[str, list[Measurement]] = {}
        self._scores: dict[str, list[tuple[str, str, str, float | None, str]]] = {}

    async def open(self) -> None:
        """See RunStore."""

    async def close(self) -> None:
        """See RunStore."""

    async def create(self, run: Run) -> None:
        """See RunStore."""
        self._runs[run.run_id] = run
        self._beat(run.run_id)
        for old in list(self._runs)[: max(0, len(self._runs) - self._most)]:
            for kept in (self._runs, self._beats, self._measurements, self._scores):
                kept.pop(old, None)

    async def set_status(self, run_id: str, status: RunStatus, reason: str = "") -> bool:
        """See RunStore."""
        run = self._runs.get(run_id)
        if run is None or run.status.is_over:
            return False
        self._runs[run_id] = replace(run, status=status, reason=reason)
        self._beat(run_id)
        return True

    async def set_progress(self, run_id: str, done: int, wanted: int) -> None:
        """See RunStore."""
        if run_id in self._runs:
            self._runs[run_id] = replace(self._runs[run_id], done_count=done, wanted_count=wanted)
            self._beat(run_id)

    async def beat(self, run_id: str) -> None:
        """See RunStore."""
        if run_id in self._runs:
            self._beat(run_id)

    async def put_results(
        self, run_id: str, manifest: Mapping[str, Json], measurements: Sequence[Measurement], scored: Sequence[Scored]
    ) -> None:
        """See RunStore."""
        self._runs[run_id] = replace(self._runs[run_id], manifest=manifest)
        self._measurements[run_id] = list(measurements)
        rows = [(one.variant, one.score.metric, one.item_id, one.score.value, one.score.status.value) for one in scored]
        self._scores[run_id] = sorted(rows, key=lambda row: row[:3])

    async def get(self, tenant: str, run_id: str) -> Run | None:
        """See RunStore."""
        run = self._runs.get(run_id)
        return run if run is not None and run.tenant == tenant else None

    async def measurements(self, run_id: str) -> list[Measurement]:
        """See RunStore."""
        return list(self._measurements.get(run_id, ()))

    async def scores(self, run_id: str) -> list[tuple[str, str, str, float | None, str]]:
        """See RunStore."""
        return list(self._scores.get(run_id, ()))

    async def list_runs(self, tenant: str, limit: int, before: str = "") -> list[Run]:
        """See RunStore."""
        own = sorted((run for run in self._runs.values() if run.tenant == tenant), key=_age, reverse=True)
        if before:
            first = self._runs.get(before)
            own = [run for run in own if first is not None and _age(run) < _age(first)]
        return own[:limit]

    async def latest(self) -> list[Run]:
        """See RunStore."""
        over = [run for run in self._runs.values() if run.status in (RunStatus.DONE, RunStatus.FAILED)]
        newest = {(run.tenant, run.golden_set): run for run in sorted(over, key=_age)}
        return [newest[key] for key in sorted(newest)]

    async def fail_abandoned(self, silent_seconds: float) -> int:
        """See RunStore."""
        line = datetime.now(UTC) - timedelta(seconds=silent_seconds)
        lost = [run for run in self._runs.values() if not run.status.is_over and self._beats[run.run_id] <= line]
        for run in lost:
            self._runs[run.run_id] = replace(run, status=RunStatus.FAILED, reason=ABANDONED)
        return len(lost)

    def _beat(self, run_id: str) -> None:
        self._beats[run_id] = datetime.now(UTC)


def _age(run: Run) -> tuple[datetime, str]:
    return run.created_at, run.run_id
