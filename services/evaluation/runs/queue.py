"""Runs that go on behind a call: one at a time for each tenant, so many waiting, ended when somebody says so."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from services.evaluation.runs.run import Finished
from services.evaluation.runs.store import Run, RunStatus, RunStore, measurements_of
from services.evaluation.runs.variant import Variant
from services.runtime.errors import NotFound, Overloaded, ServiceError

log = logging.getLogger(__name__)
_LONGEST_REASON = 500


@dataclass(frozen=True)
class Request:
    """What is to be run for a tenant."""

    tenant: str
    golden_set: str
    variants: Sequence[Variant] = ()
    metrics: Sequence[str] = ()
    with_baselines: bool = True
    limit: int = 0
    # Irrelevant passages to mix in, for noise sensitivity; 0: it is not measured.
    noise: int = 0
    # Why the test half is read, which is noted with `reader`; empty: the development half.
    reason: str = ""
    reader: str = ""


# (how many answers are there, of how many)
Progress: TypeAlias = Callable[[int, int], None]
# Runs a request under an id; raises what it fails with, ServiceError or ValueError with words for the caller.
Runs: TypeAlias = Callable[[str, Request, Progress], Awaitable[Finished]]


class RunQueue:
    """Takes requests and runs them. Every run's state is in the store, where it outlives this process."""

    def __init__(
        self,
        store: RunStore,
        runs: Runs,
        *,
        max_waiting: int = 4,
        max_seconds: float = 4 * 3600,
        beat_seconds: float = 10,
        finished: Callable[[Run], Awaitable[None]] | None = None,
    ) -> None:
        """`max_waiting`: of one tenant. `beat_seconds`: how often a run shows that it is alive.

        `finished` is told of each run that is over, as it is then.
        """
        self._store = store
        self._runs = runs
        self._max_waiting = max_waiting
        self._max_seconds = max_seconds
        self._beat_seconds = beat_seconds
        self._finished = finished
        self._locks: dict[str, asyncio.Lock] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, int] = {}

    async def put(self, request: Request) -> Run:
        """Accepts a request. Raises Overloaded when too many of the tenant wait, DependencyFailed."""
        lock = self._locks.setdefault(request.tenant, asyncio.Lock())
        waiting = self._waiting.get(request.tenant, 0)
        # One that goes on and has the lock does not wait.
        if waiting > self._max_waiting or (waiting and waiting == self._max_waiting and lock.locked()):
            raise Overloaded(
                f"{waiting} runs wait already; the limit is {self._max_waiting}.", retry_after=timedelta(minutes=1)
            )
        now = datetime.now(UTC)
        run = Run(f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}", request.tenant, request.golden_set, now)
        self._waiting[request.tenant] = waiting + 1
        try:
            await self._store.create(run)
        except BaseException:
            self._waiting[request.tenant] -= 1
            raise
        task = asyncio.create_task(self._work(run, request, lock))
        self._tasks[run.run_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.run_id, None))
        return run

    async def cancel(self, tenant: str, run_id: str) -> Run:
        """Ends a run; the run as it is then. Raises NotFound, DependencyFailed."""
        if await self._store.get(tenant, run_id) is None:
            raise NotFound(f"There is no run `{run_id}`.", run_id=run_id)
        await self._store.set_status(run_id, RunStatus.CANCELLED, "it was cancelled")
        if task := self._tasks.get(run_id):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        run = await self._store.get(tenant, run_id)
        if run is None:
            raise NotFound(f"There is no run `{run_id}`.", run_id=run_id)
        return run

    async def close(self) -> None:
        """Ends all runs; the store says that the service was stopped."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, run: Run, request: Request, lock: asyncio.Lock) -> None:
        is_waiting = True
        beating = asyncio.create_task(self._beat(run))
        try:
            async with lock:
                self._waiting[request.tenant] -= 1
                is_waiting = False
                if await self._store.set_status(run.run_id, RunStatus.RUNNING):
                    await self._run(run, request)
        except asyncio.CancelledError:
            # Whoever cancelled the run has said so before; else the process ends.
            await asyncio.shield(self._end(run, RunStatus.FAILED, "the service was stopped"))
            raise
        except ServiceError as error:
            log.warning("a run lost its store", extra={"run_id": run.run_id, "reason": error.message})
        finally:
            if is_waiting:
                self._waiting[request.tenant] -= 1
            beating.cancel()

    async def _run(self, run: Run, request: Request) -> None:
        progress = _Progress()
        saving = asyncio.create_task(self._save(run, progress))
        try:
            async with asyncio.timeout(self._max_seconds):
                finished = await self._runs(run.run_id, request, progress.set)
            await self._store.set_progress(run.run_id, *_counts(finished))
            manifest = finished.folder.manifest
            facts = {"plan": dict(manifest.plan), "facts": dict(manifest.facts), "scoring": dict(manifest.scoring)}
            await self._store.put_results(run.run_id, facts, measurements_of(finished.summary), finished.scored)
            await self._end(run, RunStatus.DONE, "")
        except TimeoutError:
            await self._end(run, RunStatus.FAILED, f"it took longer than {self._max_seconds:g} s")
        except (ServiceError, ValueError) as error:
            await self._end(run, RunStatus.FAILED, str(error)[:_LONGEST_REASON])
        except Exception as error:
            log.exception("a run failed", extra={"run_id": run.run_id})
            await self._end(run, RunStatus.FAILED, f"unexpected: {type(error).__name__}")
        finally:
            saving.cancel()

    async def _end(self, run: Run, status: RunStatus, reason: str) -> None:
        if await self._store.set_status(run.run_id, status, reason) and self._finished is not None:
            found = await self._store.get(run.tenant, run.run_id)
            await self._finished(found or replace(run, status=status, reason=reason))

    async def _save(self, run: Run, progress: "_Progress") -> None:
        """Writes how far it is, as often as it changes and no more often than a second."""
        while True:
            await progress.changed.wait()
            progress.changed.clear()
            with contextlib.suppress(ServiceError):
                await self._store.set_progress(run.run_id, progress.done, progress.wanted)
            await asyncio.sleep(1)

    async def _beat(self, run: Run) -> None:
        while True:
            await asyncio.sleep(self._beat_seconds)
            with contextlib.suppress(ServiceError):
                await self._store.beat(run.run_id)


class _Progress:
    def __init__(self) -> None:
        self.done = self.wanted = 0
        self.changed = asyncio.Event()

    def set(self, done: int, wanted: int) -> None:
        self.done, self.wanted = done, wanted
        self.changed.set()


def _counts(finished: Finished) -> tuple[int, int]:
    return sum(one.answered is not None for one in finished.records), len(finished.records)
