"""Translates between protobuf and the jobs."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePath
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from sabueso.ingestion.v1 import ingestion_pb2 as pb
from sabueso.ingestion.v1 import ingestion_pb2_grpc as rpc
from services.ingestion.document import Index
from services.ingestion.jobs import Job, JobStore, QueueFull, Submission
from services.ingestion.parsers.formats import clean
from services.ingestion.spool import Spool, SpoolFull, TooLarge
from services.runtime import context as calls
from services.runtime.errors import DeadlineExceeded, InvalidField, LimitExceeded, NotFound, NotPermitted, Overloaded

log = logging.getLogger(__name__)

# Opens every document.
ALL_LABELS = "*"

_JOB_ID = re.compile(r"job_[0-9a-f]{24}")
_DOCUMENT_ID = re.compile(r"[A-Za-z0-9._:/-]{1,200}")
_COLLECTION = re.compile(r"[a-z0-9_-]{1,64}")
_MOST_METADATA = 50
_LONGEST = {"filename": 500, "content_type": 200, "title": 500, "source": 2000}
_LONGEST_KEY, _LONGEST_VALUE = 100, 1000
_MOST_LABELS, _LONGEST_LABEL = 50, 100
_LARGEST_PART_BYTES = 2**20
# A sender that says nothing for this long has gone.
_SILENCE_SECONDS = 60
# A job that is being stored cannot be cancelled: how long to wait until it is, and between looks at it.
_STORING_SECONDS, _LOOK_SECONDS = 20, 0.05


class IngestionService(rpc.IngestionServiceServicer):
    """Accepts documents and tells how far they are."""

    def __init__(
        self, jobs: JobStore, spool: Spool, index: Index, *, max_document_bytes: int, notify: Callable[[], None]
    ) -> None:
        """`notify` wakes a worker."""
        self._jobs = jobs
        self._spool = spool
        self._index = index
        self._max_document_bytes = max_document_bytes
        self._notify = notify

    async def Submit(self, request_iterator: AsyncIterator[pb.SubmitRequest], context: Any) -> pb.SubmitResponse:
        parts = _Parts(aiter(request_iterator))
        header = await parts.header()
        submission = _checked(header)
        collections = await self._index.collections()
        if header.collection not in collections:
            known = ", ".join(f"`{name}`" for name in sorted(collections)) or "none"
            raise NotFound(f"There is no collection `{header.collection}`; existing are: {known}.")
        earlier = await self._waiting(submission)
        try:
            await self._jobs.check_room(submission.tenant)
            await self._spool.check_room()
            stored = await self._spool.put(submission.job_id, parts.content())
            if stored.size_bytes == 0:
                raise InvalidField("`content` is empty.", field="content")
            job = await self._jobs.add(_completed(submission, stored.sha256, collections[header.collection].language))
        except QueueFull as full:
            self._spool.drop(submission.job_id)
            whose, setting = ("of yours ", "_PER_TENANT") if full.of_tenant else ("", "")
            raise _refused(f"Too many documents {whose}are waiting", f"SABUESO_MAX_QUEUED_JOBS{setting}") from None
        except SpoolFull:
            raise _refused("The documents that wait take up all the room", "SABUESO_SPOOL_MAX_BYTES") from None
        except TooLarge:
            raise InvalidField(
                f"`content` is larger than {self._max_document_bytes} bytes (SABUESO_MAX_DOCUMENT_BYTES); split it up.",
                field="content",
            ) from None
        except InvalidField:
            self._spool.drop(submission.job_id)
            raise
        # Where adding failed otherwise the files stay: the job may have been stored all the same.
        self._notify()
        if earlier is not None:
            await self._drop_superseded(earlier)
        log.info("job accepted", extra={"job_id": job.job_id, "size_bytes": stored.size_bytes})
        return pb.SubmitResponse(job=_to_proto(job))

    async def _waiting(self, submission: Submission) -> Job | None:
        """The document's waiting job, which a newer one puts an end to.

        Raises NotPermitted for an unfinished one that the caller may not see.
        """
        for job in await self._jobs.newest(submission.tenant, submission.document_id):
            if job.is_open and not _is_open_to_caller(job):
                raise NotPermitted(f"The document `{submission.document_id}` is closed to you.", rule="labels")
            if job.status == "QUEUED":
                return job
        return None

    async def _drop_superseded(self, earlier: Job) -> None:
        """No worker drops the files of a job that was never begun."""
        now = await self._jobs.get(earlier.submission.tenant, earlier.job_id)
        if now is not None and now.status == "CANCELLED":
            await asyncio.to_thread(self._spool.drop, now.job_id)

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:
        return pb.GetJobResponse(job=_to_proto(await self._job(request.job_id)))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        if request.document_id:
            _check_document_id(request.document_id)
        jobs = await self._jobs.newest(calls.tenant(), request.document_id)
        return pb.ListJobsResponse(jobs=map(_to_proto, filter(_is_open_to_caller, jobs)))

    async def CancelJob(self, request: pb.CancelJobRequest, context: Any) -> pb.CancelJobResponse:
        before = await self._job(request.job_id)
        job = await self._cancelled(before)
        if before.status == "QUEUED" and job.status == "CANCELLED":
            await asyncio.to_thread(self._spool.drop, job.job_id)
        return pb.CancelJobResponse(job=_to_proto(job))

    async def _job(self, job_id: str) -> Job:
        """The caller's job. Raises InvalidField and NotFound."""
        if not job_id:
            raise InvalidField("`job_id` is empty.", field="job_id")
        job = await self._jobs.get(calls.tenant(), job_id) if _JOB_ID.fullmatch(job_id) else None
        if job is None or not _is_open_to_caller(job):
            raise NotFound(f"There is no job `{job_id[:40]}`.")
        return job

    async def _cancelled(self, job: Job) -> Job:
        """The job when nothing is done for it any more. Waits while it is being stored: then it is READY."""
        deadline = time.monotonic() + _STORING_SECONDS
        while True:
            now = await self._jobs.cancel(job.submission.tenant, job.job_id)
            if now is None:
                raise NotFound(f"There is no job `{job.job_id}`.")
            if not now.is_open:
                return now
            if time.monotonic() > deadline:
                raise Overloaded("The document is being stored; try again.", retry_after=timedelta(seconds=5))
            await asyncio.sleep(_LOOK_SECONDS)


class _Parts:
    """The messages of one Submit, in the order that the contract demands."""

    def __init__(self, messages: AsyncIterator[pb.SubmitRequest]) -> None:
        self._messages = messages

    async def header(self) -> pb.SubmitHeader:
        first = await self._next()
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidField("The first message must be the `header`.", field="header")
        return first.header

    async def content(self) -> AsyncIterator[bytes]:
        while (message := await self._next()) is not None:
            if message.WhichOneof("part") != "content":
                raise InvalidField("Only `content` may follow the header.", field="content")
            if len(message.content) > _LARGEST_PART_BYTES:
                raise InvalidField(f"A `content` message holds more than {_LARGEST_PART_BYTES} bytes.", field="content")
            yield message.content

    async def _next(self) -> pb.SubmitRequest | None:
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                return await anext(self._messages)
        except StopAsyncIteration:
            return None
        except TimeoutError:
            raise DeadlineExceeded(f"Nothing was sent for {_SILENCE_SECONDS} s.", stage="upload") from None


def _checked(header: pb.SubmitHeader) -> Submission:
    """The submission that `header` asks for, with a new job id. Raises InvalidField."""
    if not _COLLECTION.fullmatch(header.collection):
        raise InvalidField("`collection` must be 1 to 64 characters of a-z, 0-9, - and _.", field="collection")
    if header.document_id:
        _check_document_id(header.document_id)
    for name, longest in _LONGEST.items():
        if len(getattr(header, name)) > longest:
            raise InvalidField(f"`{name}` is longer than {longest} characters.", field=name)
    if header.language and not re.fullmatch("[a-z]{2}", header.language):
        raise InvalidField("`language` must be two letters (ISO 639-1), such as es, or empty.", field="language")
    if len(header.metadata) > _MOST_METADATA:
        raise InvalidField(f"`metadata` has more than {_MOST_METADATA} fields.", field="metadata")
    for key, value in header.metadata.items():
        if not 1 <= len(key) <= _LONGEST_KEY or len(value) > _LONGEST_VALUE or not key.isprintable():
            raise InvalidField(
                f"`metadata` has names of 1 to {_LONGEST_KEY} characters and values of at most {_LONGEST_VALUE}.",
                field="metadata",
            )
    caller = calls.identity()
    return Submission(
        job_id=f"job_{secrets.token_hex(12)}",
        tenant=caller.tenant,
        principal=caller.principal,
        collection=header.collection,
        document_id=header.document_id or f"doc_{secrets.token_hex(8)}",
        # A folder in the name is the sender's business, and a control character nobody's.
        filename=PurePath(clean(header.filename).replace("\\", "/")).name,
        content_type=clean(header.content_type),
        title=" ".join(clean(header.title).split()),
        language=header.language,
        source=clean(header.source),
        metadata=dict(header.metadata),
        labels=_labels(header, caller),
        caller_labels=caller.labels,
    )


def _labels(header: pb.SubmitHeader, caller: calls.Identity) -> tuple[str, ...]:
    labels = tuple(dict.fromkeys(header.labels))
    if len(labels) > _MOST_LABELS:
        raise InvalidField(f"There are more than {_MOST_LABELS} `labels`.", field="labels")
    for label in labels:
        if not 1 <= len(label) <= _LONGEST_LABEL or not label.isprintable() or label == ALL_LABELS:
            raise InvalidField(
                f"`labels` have 1 to {_LONGEST_LABEL} printable characters, and are not `*`.", field="labels"
            )
    missing = [label for label in labels if label not in caller.labels]
    if missing and ALL_LABELS not in caller.labels:
        named = ", ".join(f"`{label}`" for label in missing[:5])
        raise NotPermitted(
            f"You do not hold the label {named}, so that you may not put it on a document.", rule="labels"
        )
    return labels


def _is_open_to_caller(job: Job) -> bool:
    """Whether the caller may read the document, and so may know what happens to it."""
    labels, held = job.submission.labels, calls.identity().labels
    return not labels or ALL_LABELS in held or not set(labels).isdisjoint(held)


def _refused(message: str, setting: str) -> LimitExceeded:
    return LimitExceeded(f"{message}; try again later.", retry_after=timedelta(seconds=10), setting=setting)


def _completed(submission: Submission, sha256: str, collection_language: str) -> Submission:
    return replace(submission, content_sha256=sha256, collection_language=collection_language)


def _check_document_id(document_id: str) -> None:
    if not _DOCUMENT_ID.fullmatch(document_id):
        raise InvalidField(
            "`document_id` must be 1 to 200 characters of letters, digits and -_.:/", field="document_id"
        )


def _to_proto(job: Job) -> pb.Job:
    submission = job.submission
    return pb.Job(
        job_id=job.job_id,
        document_id=submission.document_id,
        collection=submission.collection,
        status=pb.JobStatus.Value(f"JOB_STATUS_{job.status}"),
        reason=job.reason,
        chunk_count=job.chunk_count,
        page_count=job.page_count,
        create_time=_timestamp(job.created),
        update_time=_timestamp(job.updated),
        title=job.title,
        source=submission.source or submission.filename,
        total_chunk_count=job.total_chunk_count,
        content_sha256=submission.content_sha256,
        warnings=job.warnings,
        labels=submission.labels,
    )


def _timestamp(seconds: float) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromMicroseconds(int(seconds * 1_000_000))
    return timestamp
