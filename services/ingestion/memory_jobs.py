"""Jobs in this process only: for tests and try-outs."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from services.ingestion.jobs import (
    MOST_LISTED,
    SUPERSEDED,
    WAIT_FOR_STORING_SECONDS,
    Backlog,
    Job,
    QueueFull,
    Submission,
)


@dataclass
class _Entry:
    """`after`: the job of the same document that was storing when this one came."""

    job: Job
    owner: str = ""
    lease_end: float = 0
    due: float = 0
    after: str = ""

    @property
    def is_storing(self) -> bool:
        return self.owner != "" and self.job.is_storing


class MemoryJobStore:
    """Keeps jobs in dictionaries."""

    def __init__(
        self,
        *,
        max_open: int = 1000,
        max_open_per_tenant: int = 1000,
        lease_seconds: float = 30,
        retention_seconds: float = 30 * 86400,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_open = max_open
        self._max_open_per_tenant = max_open_per_tenant
        self._lease_seconds = lease_seconds
        self._retention_seconds = retention_seconds
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._newest: dict[tuple[str, str], str] = {}
        self._queues: dict[str, deque[str]] = {}
        # When each tenant was served last, as a running number.
        self._served: dict[str, int] = {}
        self._ticket = 0

    async def check_room(self, tenant: str) -> None:
        tenants = [entry.job.submission.tenant for entry in self._entries.values() if entry.job.is_open]
        if len(tenants) >= self._max_open:
            raise QueueFull(of_tenant=False)
        if tenants.count(tenant) >= self._max_open_per_tenant:
            raise QueueFull(of_tenant=True)

    async def add(self, submission: Submission) -> Job:
        await self.check_room(submission.tenant)
        self._forget_old()
        key = submission.tenant, submission.document_id
        after = ""
        if before := self._newest.get(key):
            earlier = self._entries[before]
            after = before if earlier.is_storing else earlier.after
            await self.cancel(submission.tenant, before, SUPERSEDED)
        now = self._clock()
        job = Job(submission, title=submission.title, created=now, updated=now)
        self._entries[job.job_id] = _Entry(job, after=after)
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
        for entry in sorted((one for one in self._entries.values() if 0 < one.due <= now), key=lambda one: one.due):
            entry.due = 0
            self._enqueue(entry.job)
        while waiting := [tenant for tenant, queue in self._queues.items() if queue]:
            tenant = min(waiting, key=lambda one: (self._served.get(one, 0), one))
            entry = self._entries[self._queues[tenant].popleft()]
            if entry.after in self._entries and self._entries[entry.after].is_storing:
                entry.due = now + WAIT_FOR_STORING_SECONDS
                continue
            self._ticket += 1
            self._served[tenant] = self._ticket
            entry.owner, entry.lease_end = owner, now + self._lease_seconds
            entry.job = replace(entry.job, attempts=entry.job.attempts + 1)
            return entry.job
        return None

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
        if entry.job.is_open and not entry.is_storing:
            entry.job = replace(entry.job, status="CANCELLED", reason=reason, updated=self._clock())
            entry.owner, entry.due = "", 0
            queue = self._queues.get(tenant, deque())
            if job_id in queue:
                queue.remove(job_id)
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

    async def backlog(self) -> Backlog:
        created = [entry.job.created for entry in self._entries.values() if entry.job.is_open]
        return Backlog(len(created), max(0.0, self._clock() - min(created)) if created else 0)

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
        self._queues.setdefault(job.submission.tenant, deque()).append(job.job_id)

    def _forget_old(self) -> None:
        oldest = self._clock() - self._retention_seconds
        for job_id, entry in list(self._entries.items()):
            if not entry.job.is_open and entry.job.updated < oldest:
                del self._entries[job_id]
                key = entry.job.submission.tenant, entry.job.submission.document_id
                if self._newest.get(key) == job_id:
                    del self._newest[key]
