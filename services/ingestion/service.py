"""Translates between protobuf and the jobs."""

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePath
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from sabueso.ingestion.v1 import ingestion_pb2 as pb
from sabueso.ingestion.v1 import ingestion_pb2_grpc as rpc
from services.ingestion.document import Index
from services.ingestion.formats import clean
from services.ingestion.jobs import Job, JobStore, QueueFull, Submission
from services.ingestion.spool import Spool, TooLarge
from services.runtime import context as calls
from services.runtime.errors import DeadlineExceeded, InvalidField, LimitExceeded, NotFound

log = logging.getLogger(__name__)

_DOCUMENT_ID = re.compile(r"[A-Za-z0-9._:/-]{1,200}")
_COLLECTION = re.compile(r"[a-z0-9_-]{1,64}")
_MOST_METADATA = 50
_LONGEST = {"filename": 500, "content_type": 200, "title": 500, "source": 2000}
_LONGEST_KEY, _LONGEST_VALUE = 100, 1000
_LARGEST_PART_BYTES = 2**20
# A sender that says nothing for this long has gone.
_SILENCE_SECONDS = 60


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
        languages = await self._index.collections()
        if header.collection not in languages:
            known = ", ".join(f"`{name}`" for name in sorted(languages)) or "none"
            raise NotFound(f"There is no collection `{header.collection}`; existing are: {known}.")
        try:
            await self._jobs.check_room()
            stored = await self._spool.put(submission.job_id, parts.content())
            if stored.size_bytes == 0:
                raise InvalidField("`content` is empty.", field="content")
            job = await self._jobs.add(_completed(submission, stored.sha256, languages[header.collection]))
        except QueueFull:
            self._spool.drop(submission.job_id)
            raise LimitExceeded(
                "Too many documents are waiting; try again later.",
                retry_after=timedelta(seconds=10),
                setting="SABUESO_MAX_QUEUED_JOBS",
            ) from None
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
        log.info("job accepted", extra={"job_id": job.job_id, "size_bytes": stored.size_bytes})
        return pb.SubmitResponse(job=_to_proto(job))

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:
        job = await self._jobs.get(calls.tenant(), _job_id(request.job_id))
        if job is None:
            raise _no_job(request.job_id)
        return pb.GetJobResponse(job=_to_proto(job))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        if request.document_id:
            _check_document_id(request.document_id)
        jobs = await self._jobs.newest(calls.tenant(), request.document_id)
        return pb.ListJobsResponse(jobs=map(_to_proto, jobs))

    async def CancelJob(self, request: pb.CancelJobRequest, context: Any) -> pb.CancelJobResponse:
        job_id = _job_id(request.job_id)
        before = await self._jobs.get(calls.tenant(), job_id)
        job = await self._jobs.cancel(calls.tenant(), job_id)
        if job is None:
            raise _no_job(request.job_id)
        if before is not None and before.status == "QUEUED" and job.status == "CANCELLED":
            await asyncio.to_thread(self._spool.drop, job_id)
        return pb.CancelJobResponse(job=_to_proto(job))


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
    )


def _completed(submission: Submission, sha256: str, collection_language: str) -> Submission:
    return replace(submission, content_sha256=sha256, collection_language=collection_language)


def _check_document_id(document_id: str) -> None:
    if not _DOCUMENT_ID.fullmatch(document_id):
        raise InvalidField(
            "`document_id` must be 1 to 200 characters of letters, digits and -_.:/", field="document_id"
        )


def _job_id(job_id: str) -> str:
    if not job_id:
        raise InvalidField("`job_id` is empty.", field="job_id")
    if not re.fullmatch(r"job_[0-9a-f]{24}", job_id):
        raise _no_job(job_id)
    return job_id


def _no_job(job_id: str) -> NotFound:
    return NotFound(f"There is no job `{job_id[:40]}`.")


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
    )


def _timestamp(seconds: float) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromMicroseconds(int(seconds * 1_000_000))
    return timestamp
