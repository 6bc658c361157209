"""The jobs: what was accepted, how far it is, and whose turn it is. Outlives the process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Status = Literal["QUEUED", "PARSING", "EMBEDDING", "READY", "FAILED", "CANCELLED"]

SUPERSEDED = "A newer version of the document was submitted."
MOST_LISTED = 1000
# How soon a job is looked at again that waits for an older one of its document to be stored.
WAIT_FOR_STORING_SECONDS = 0.1


@dataclass(frozen=True)
class Submission:
    """What was asked for. Never changes.

    `labels` say who may read the document, `caller_labels` what the sender may read: its job may do no more.
    """

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
    labels: tuple[str, ...] = ()
    caller_labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """A submission and how far it is. Times are seconds since 1970. `total_chunk_count` is 0 until it is known."""

    submission: Submission
    status: Status = "QUEUED"
    reason: str = ""
    title: str = ""
    chunk_count: int = 0
    total_chunk_count: int = 0
    page_count: int = 0
    warnings: tuple[str, ...] = ()
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

    @property
    def is_storing(self) -> bool:
        """Whether all vectors are made. What follows is the switch to the new document, which nothing can stop."""
        return self.status == "EMBEDDING" and 0 < self.total_chunk_count == self.chunk_count


@dataclass(frozen=True)
class Backlog:
    """What is still to be done, of all tenants. `oldest_seconds`: since the oldest of them was submitted; 0: none."""

    job_count: int
    oldest_seconds: float


class QueueFull(Exception):
    """No more unfinished jobs are accepted now: of all tenants, or of this one whose share is used up."""

    def __init__(self, *, of_tenant: bool) -> None:
        super().__init__("the tenant's share of the queue is full" if of_tenant else "the queue is full")
        self.of_tenant = of_tenant


class JobStore(Protocol):
    """Jobs of all tenants. Whoever was served longest ago comes first; first come, first served within a tenant.

    A worker holds a job by a lease: when it dies without a word, the lease ends and another takes the job up again.
    A job that is storing can be neither cancelled nor overtaken by a newer one of its document: what it leaves in the
    index is then always known.
    """

    async def check_room(self, tenant: str) -> None:
        """Raises QueueFull."""
        ...

    async def add(self, submission: Submission) -> Job:
        """Queues a job; an unfinished one for the same document is cancelled. Raises QueueFull.

        When this returns, the job outlives a crash of the store as far as the store can promise it at all.
        """
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
        """The job, cancelled if it had not finished or had failed, and unchanged while it is storing.

        None when the tenant has no such job.
        """
        ...

    async def recover(self, owner: str) -> int:
        """Gives back what `owner` held before it was restarted. The number of jobs."""
        ...

    async def open_ids(self) -> set[str]:
        """Ids of all unfinished jobs."""
        ...

    async def backlog(self) -> Backlog:
        """How many jobs are unfinished, and for how long the oldest of them."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...
