"""Takes jobs in turn and sees each to its end: progress, retries, cancellation, restart."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from services.ingestion import metrics
from services.ingestion.document import Pipeline, Stopped
from services.ingestion.jobs import Job, JobStore
from services.ingestion.parsed import Unreadable
from services.ingestion.spool import Spool
from services.runtime import tasks
from services.runtime.errors import (
    DeadlineExceeded,
    DependencyFailed,
    LimitExceeded,
    Overloaded,
    ServiceError,
    Unauthenticated,
)

log = logging.getLogger(__name__)

# A later attempt may go better.
PASSING = (Overloaded, DependencyFailed, DeadlineExceeded, LimitExceeded)
# The signature of a job that waited may have expired; the next attempt brings another.
_PASSING = (*PASSING, Unauthenticated)
_IDLE_SECONDS = 0.5
_SWEEP_SECONDS = 600
_BACKLOG_SECONDS = 15


@dataclass(frozen=True)
class Retry:
    """Attempts of one job, and seconds between them: doubled each time up to the longest.

    An outage of 14 minutes is outlived.
    """

    max_attempts: int = 20
    first_seconds: float = 1
    longest_seconds: float = 60

    def delay_seconds(self, attempt: int) -> float:
        """Time to wait after the attempt of this number, from 1."""
        return min(self.first_seconds * 2 ** (attempt - 1), self.longest_seconds)

    def delay_after(self, attempt: int, error: ServiceError) -> float:
        """The same after `error`, which may ask for more: that counts, up to the longest."""
        asked = error.retry_after.total_seconds() if error.retry_after else 0
        return max(self.delay_seconds(attempt), min(asked, self.longest_seconds))


@dataclass
class _Held:
    """The job as of now, and whether it was found to be no longer ours."""

    job: Job
    lost: bool = False


class Workers:
    """A few workers of one process. `owner` must be the same after a restart, and no other's."""

    def __init__(
        self,
        jobs: JobStore,
        spool: Spool,
        pipeline: Pipeline,
        *,
        owner: str,
        count: int,
        act_for: Callable[[Job], None],
        retry: Retry,
        beat_seconds: float = 1,
    ) -> None:
        """`act_for` makes the current task a caller of the job's tenant, anew each time: tokens expire."""
        self._jobs = jobs
        self._spool = spool
        self._pipeline = pipeline
        self._owner = owner
        self._count = count
        self._act_for = act_for
        self._retry = retry
        self._beat_seconds = beat_seconds
        self._arrived = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    async def start(self) -> None:
        """Takes up what a killed process left, then works until `close`."""
        self._tasks = [asyncio.create_task(self._work(recover=number == 0)) for number in range(self._count)]
        self._tasks += [asyncio.create_task(self._sweep()), asyncio.create_task(self._tell_backlog())]

    def notify(self) -> None:
        """Something was queued: an idle worker looks at once."""
        self._arrived.set()

    async def close(self) -> None:
        """Stops; what is unfinished goes back to the queue."""
        self._closing = True
        await tasks.end(*self._tasks)

    async def _work(self, *, recover: bool) -> None:
        pause = _IDLE_SECONDS
        while not self._closing:
            try:
                if recover:
                    count = await self._jobs.recover(self._owner)
                    recover = False
                    log.info("jobs of the last run taken up again", extra={"job_count": count})
                job = await self._jobs.take(self._owner)
                pause = _IDLE_SECONDS
                if job is not None:
                    # A task of its own: the tenant that it acts for must not leak into the next job.
                    await asyncio.create_task(self._see_through(job))
                    continue
            except DependencyFailed as error:
                log.warning("jobs cannot be reached", extra={"dependency": error.metadata.get("dependency", "")})
                pause = min(2 * pause, 10)
            except Exception:
                log.exception("unexpected error in a worker")
                pause = min(2 * pause, 10)
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`: that of Python 3.11 may swallow a cancellation.
                async with asyncio.timeout(pause):
                    await self._arrived.wait()

    async def _see_through(self, job: Job) -> None:
        if job.attempts > self._retry.max_attempts:
            reason = f"The service stopped {job.attempts - 1} times while it worked on this document."
            await self._end(replace(job, status="FAILED", reason=reason))
            return
        held = _Held(job)

        async def progress(now: Job) -> None:
            held.job = now
            self._act_for(job)
            if not await self._insist(lambda: self._jobs.keep(now, self._owner)):
                raise Stopped

        self._act_for(job)
        running = asyncio.create_task(self._pipeline.run(job, progress))
        beating = asyncio.create_task(self._beat(held, running))
        try:
            await self._end(await running)
        except Stopped:
            await self._let_go(job)
        except asyncio.CancelledError:
            if held.lost:
                await self._let_go(job)
                return
            with contextlib.suppress(ServiceError):
                await self._jobs.put_back(replace(held.job, attempts=job.attempts - 1), self._owner, 0)
            raise
        except Exception as error:
            await self._failed(held.job, error)
        finally:
            beating.cancel()

    async def _failed(self, job: Job, error: Exception) -> None:
        match error:
            case Unreadable():
                reason = str(error)
            case ServiceError() if isinstance(error, _PASSING):
                await self._again(job, error)
                return
            case ServiceError():
                reason = error.message
            case OSError():
                # A full disk or too few file descriptors; whatever is wrong with the file itself is Unreadable.
                log.warning("short of disk or files", extra={"job_id": job.job_id, "cause": type(error).__name__})
                await self._again(job, DependencyFailed("The service is short of disk or files.", dependency="disk"))
                return
            case _:
                log.error("unexpected error in a job", extra={"job_id": job.job_id}, exc_info=error)
                reason = "Internal error; the log tells more."
        await self._end(replace(job, status="FAILED", reason=reason))

    async def _beat(self, held: "_Held", running: "asyncio.Task[Job]") -> None:
        """Keeps the lease during long steps, and ends the work on a job that was cancelled."""
        while True:
            await asyncio.sleep(self._beat_seconds)
            with contextlib.suppress(DependencyFailed):
                if not running.done() and not await self._jobs.keep(held.job, self._owner):
                    held.lost = True
                    running.cancel()
                    return

    async def _again(self, job: Job, error: ServiceError) -> None:
        if job.attempts >= self._retry.max_attempts:
            reason = f"{error.message} Given up after {job.attempts} attempts."
            await self._end(replace(job, status="FAILED", reason=reason))
            return
        dependency = error.metadata.get("dependency") or error.metadata.get("stage") or error.reason.lower()
        metrics.RETRIES.labels(dependency).inc()
        delay = self._retry.delay_after(job.attempts, error)
        reason = f"{error.message} Attempt {job.attempts} of {self._retry.max_attempts}."
        log.warning("job put back", extra={"job_id": job.job_id, "dependency": dependency, "attempt": job.attempts})
        await self._insist(lambda: self._jobs.put_back(replace(job, reason=reason), self._owner, delay))

    async def _end(self, job: Job) -> None:
        if await self._insist(lambda: self._jobs.finish(job, self._owner)):
            metrics.JOBS.labels(job.status).inc()
            log.info("job ended", extra={"job_id": job.job_id, "status": job.status, "chunk_count": job.chunk_count})
            self._spool.drop(job.job_id)
        else:
            await self._let_go(job)

    async def _insist(self, call: Callable[[], Awaitable[bool]]) -> bool:
        """Waits while the job store does not answer: there is nothing else to do then, and no work must be lost."""
        while True:
            try:
                return await call()
            except DependencyFailed:
                log.warning("the job store does not answer")
                await asyncio.sleep(self._beat_seconds)

    async def _let_go(self, job: Job) -> None:
        log.info("job stopped", extra={"job_id": job.job_id})
        now = await self._jobs.get(job.submission.tenant, job.job_id)
        # Where another worker has the job, it needs the files.
        if now is None or not now.is_open:
            self._spool.drop(job.job_id)

    async def _tell_backlog(self) -> None:
        while True:
            try:
                backlog = await self._jobs.backlog()
                metrics.OPEN_JOBS.set(backlog.job_count)
                metrics.OLDEST_SECONDS.set(backlog.oldest_seconds)
            except DependencyFailed:
                log.debug("the backlog cannot be looked at now")
            await asyncio.sleep(_BACKLOG_SECONDS)

    async def _sweep(self) -> None:
        while True:
            try:
                removed = await asyncio.to_thread(self._spool.sweep, await self._jobs.open_ids())
                log.debug("spool swept", extra={"removed_count": removed})
            except (DependencyFailed, OSError):
                log.warning("the spool cannot be swept now")
            await asyncio.sleep(_SWEEP_SECONDS)
