"""The jobs: what was accepted, how far it is, and whose turn it is. Outlives the process."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

Status = Literal["QUEUED", "PARSING", "EMBEDDING", "READY", "FAILED", "CANCELLED"]

SUPERSEDED = "A newer version of the document was submitted."
MOST_LISTED = 1000


@dataclass(frozen=True)
class Submission:
    """What was asked for. Never changes."""

    job_id: str
    tenant: str
    principal: str
    collection: str
    document_id: str
    filename: str = ""
    content_type: str = ""
    title: str = ""
    language: str = ""
    collection_language: str = ""
    source: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    content_sha256: str = ""


@dataclass(frozen=True)
class Job:
    """A submission and how far it is. Times are seconds since 1970."""

    submission: Submission
    status: Status = "QUEUED"
    reason: str = ""
    title: str = ""
    chunk_count: int = 0
    page_count: int = 0
    attempts: int = 0
    created: float = 0
    updated: float = 0

    @property
    def job_id(self) -> str:
        """Unique."""
        return self.submission.job_id

    @property
    def is_open(self) -> bool:
        """Whether anything is still to be done."""
        return self.status in ("QUEUED", "PARSING", "EMBEDDING")


class QueueFull(Exception):
    """No more unfinished jobs are accepted now."""


class JobStore(Protocol):
    """Jobs of all tenants. Tenants are served in turn, first come first served within each.

    A worker holds a job by a lease: when it dies without a word, the lease ends and another takes the job up again.
    """

    async def check_room(self) -> None:
        """Raises QueueFull."""
        ...

    async def add(self, submission: Submission) -> Job:
        """Queues a job; an unfinished one for the same document is cancelled. Raises QueueFull."""
        ...

    async def get(self, tenant: str, job_id: str) -> Job | None:
        """The tenant's job, or None."""
        ...

    async def newest(self, tenant: str, document_id: str = "") -> list[Job]:
        """The newest job of each document, or of one, newest first; at most 1000."""
        ...

    async def take(self, owner: str) -> Job | None:
        """The job whose turn it is, now leased to `owner` and one attempt older; None when there is nothing to do."""
        ...

    async def keep(self, job: Job, owner: str) -> bool:
        """Stores progress and renews the lease. False when the job is no longer the owner's: it was cancelled."""
        ...

    async def finish(self, job: Job, owner: str) -> bool:
        """Stores the final state. False, and nothing stored, when the job is no longer the owner's."""
        ...

    async def put_back(self, job: Job, owner: str, delay_seconds: float) -> bool:
        """Queues the job again after a while. False when it is no longer the owner's."""
        ...

    async def cancel(self, tenant: str, job_id: str, reason: str = "") -> Job | None:
        """The job, cancelled if it had not finished or had failed; None when the tenant has no such job."""
        ...

    async def recover(self, owner: str) -> int:
        """Gives back what `owner` held before it was restarted. The number of jobs."""
        ...

    async def open_ids(self) -> set[str]:
        """Ids of all unfinished jobs."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...


@dataclass
class _Entry:
    job: Job
    owner: str = ""
    lease_end: float = 0
    due: float = 0


class MemoryJobStore:
    """Keeps jobs in this process only: for tests and try-outs."""

    def __init__(
        self,
        *,
        max_open: int = 1000,
        lease_seconds: float = 30,
        retention_seconds: float = 30 * 86400,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_open = max_open
        self._lease_seconds = lease_seconds
        self._retention_seconds = retention_seconds
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._newest: dict[tuple[str, str], str] = {}
        self._queues: dict[str, deque[str]] = {}
        self._turns: deque[str] = deque()

    async def check_room(self) -> None:
        if len(await self.open_ids()) >= self._max_open:
            raise QueueFull

    async def add(self, submission: Submission) -> Job:
        await self.check_room()
        self._forget_old()
        key = submission.tenant, submission.document_id
        if before := self._newest.get(key):
            await self.cancel(submission.tenant, before, SUPERSEDED)
        now = self._clock()
        job = Job(submission, title=submission.title, created=now, updated=now)
        self._entries[job.job_id] = _Entry(job)
        self._newest.pop(key, None)
        self._newest[key] = job.job_id
        self._enqueue(job)
        return job

    async def get(self, tenant: str, job_id: str) -> Job | None:
        entry = self._entries.get(job_id)
        return entry.job if entry and entry.job.submission.tenant == tenant else None

    async def newest(self, tenant: str, document_id: str = "") -> list[Job]:
        wanted = [job_id for (owner, document), job_id in self._newest.items()
                  if owner == tenant and document_id in ("", document)]  # fmt: skip
        return [self._entries[job_id].job for job_id in reversed(wanted)][:MOST_LISTED]

    async def take(self, owner: str) -> Job | None:
        now = self._clock()
        for entry in self._entries.values():
            if entry.owner and entry.lease_end <= now:
                self._release(entry)
            elif entry.due and entry.due <= now:
                entry.due = 0
                self._enqueue(entry.job)
        if not self._turns:
            return None
        tenant = self._turns.popleft()
        entry = self._entries[self._queues[tenant].popleft()]
        if self._queues[tenant]:
            self._turns.append(tenant)
        entry.owner, entry.lease_end = owner, now + self._lease_seconds
        entry.job = replace(entry.job, attempts=entry.job.attempts + 1)
        return entry.job

    async def keep(self, job: Job, owner: str) -> bool:
        return self._store(job, owner, lease_end=self._clock() + self._lease_seconds) is not None

    async def finish(self, job: Job, owner: str) -> bool:
        entry = self._store(job, owner, lease_end=0)
        if entry is not None:
            entry.owner = ""
        return entry is not None

    async def put_back(self, job: Job, owner: str, delay_seconds: float) -> bool:
        entry = self._store(replace(job, status="QUEUED"), owner, lease_end=0)
        if entry is not None:
            entry.owner, entry.due = "", self._clock() + delay_seconds
        return entry is not None

    async def cancel(self, tenant: str, job_id: str, reason: str = "") -> Job | None:
        entry = self._entries.get(job_id)
        if entry is None or entry.job.submission.tenant != tenant:
            return None
        if entry.job.is_open:
            entry.job = replace(entry.job, status="CANCELLED", reason=reason, updated=self._clock())
            entry.owner, entry.due = "", 0
            queue = self._queues.get(tenant, deque())
            if job_id in queue:
                queue.remove(job_id)
                if not queue:
                    self._turns.remove(tenant)
        elif entry.job.status == "FAILED":
            entry.job = replace(entry.job, status="CANCELLED", updated=self._clock())
        return entry.job

    async def recover(self, owner: str) -> int:
        held = [entry for entry in self._entries.values() if entry.owner == owner]
        for entry in held:
            self._release(entry)
        return len(held)

    async def open_ids(self) -> set[str]:
        return {job_id for job_id, entry in self._entries.items() if entry.job.is_open}

    async def close(self) -> None:
        pass

    def _store(self, job: Job, owner: str, *, lease_end: float) -> _Entry | None:
        entry = self._entries.get(job.job_id)
        if entry is None or entry.owner != owner:
            return None
        entry.job = replace(job, updated=self._clock())
        entry.lease_end = lease_end
        return entry

    def _release(self, entry: _Entry) -> None:
        entry.owner = ""
        entry.job = replace(entry.job, status="QUEUED", updated=self._clock())
        self._enqueue(entry.job)

    def _enqueue(self, job: Job) -> None:
        tenant = job.submission.tenant
        queue = self._queues.setdefault(tenant, deque())
        queue.append(job.job_id)
        if len(queue) == 1:
            self._turns.append(tenant)

    def _forget_old(self) -> None:
        oldest = self._clock() - self._retention_seconds
        for job_id, entry in list(self._entries.items()):
            if not entry.job.is_open and entry.job.updated < oldest:
                del self._entries[job_id]
                key = entry.job.submission.tenant, entry.job.submission.document_id
                if self._newest.get(key) == job_id:
                    del self._newest[key]
