"""/v1/documents: what a tenant has, how far it is, and taking it away."""

import asyncio
from collections.abc import Mapping
from datetime import UTC
from typing import Annotated, Any

from fastapi import Query
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode, aio
from starlette.requests import Request
from starlette.responses import JSONResponse

from sabueso.ingestion.v1 import ingestion_pb2 as ingestion
from sabueso.retrieval.v1 import retrieval_pb2 as retrieval
from services.gateway.admission import caller_of
from services.gateway.clients import CALL_SECONDS, Clients, answer_of
from services.gateway.results_cache import forget_searches
from services.gateway.search import passage_fields
from services.gateway.uploads import STATUSES
from services.runtime import errors

_UNFINISHED = (ingestion.JOB_STATUS_QUEUED, ingestion.JOB_STATUS_PARSING, ingestion.JOB_STATUS_EMBEDDING)
# A job in one of these says more of its document than the store does.
_TELLING = (*_UNFINISHED, ingestion.JOB_STATUS_FAILED)


class Documents:
    """The endpoints of documents, besides the upload."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def list_all(
        self,
        request: Request,
        collection: str = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: str = "",
    ) -> JSONResponse:
        """Documents by id, a page at a time; those that are not ready, or failed, come first on the first page."""
        caller_of(request).require("documents")
        # In this order: a job that ends between the two calls is then in the store.
        jobs, degraded = await self._jobs()
        call = self._clients.retrieval.ListDocuments(
            retrieval.ListDocumentsRequest(collection=collection, page_size=limit, page_token=after),
            timeout=CALL_SECONDS,
        )
        page = await answer_of("retrieval", call)
        telling = {id_: job for id_, job in jobs.items() if job.status in _TELLING}
        stored = {document.document_id: document for document in page.documents}
        first = [] if after else [job for job in telling.values() if collection in ("", job.collection)]
        data = [_fields(job, stored.get(job.document_id)) for job in first]
        data += [_fields(jobs.get(id_), document) for id_, document in stored.items() if id_ not in telling]
        following = page.next_page_token
        return JSONResponse(
            {
                "object": "list",
                "data": data,
                "has_more": bool(following),
                "after": following or None,
                "degraded": degraded,
            }
        )

    async def get_one(self, request: Request, document_id: str) -> JSONResponse:
        """How far a document is, and what is stored of it."""
        caller_of(request).require("documents")
        jobs, degraded = await self._jobs(document_id)
        try:
            document = await self._document(document_id)
        except errors.NotFound:
            document = None
        job = jobs.get(document_id)
        if document is None and (job is None or job.status == ingestion.JOB_STATUS_READY):
            raise errors.NotFound(f"There is no document `{document_id[:200]}`.")
        return JSONResponse({**_fields(job, document), "degraded": degraded})

    async def chunks(
        self,
        request: Request,
        document_id: str,
        limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
        after: str = "",
    ) -> JSONResponse:
        """What was understood of a document: its passages in reading order, a page at a time."""
        caller_of(request).require("documents")
        wanted = retrieval.GetChunksRequest(document_id=document_id, page_size=limit, page_token=after)
        found = await answer_of("retrieval", self._clients.retrieval.GetChunks(wanted, timeout=CALL_SECONDS))
        data = [passage_fields(passage) for passage in found.passages]
        following = found.next_page_token
        return JSONResponse(
            {
                "object": "list",
                "document": _fields(None, found.document),
                "data": data,
                "has_more": bool(following),
                "after": following or None,
            }
        )

    async def delete(self, request: Request, document_id: str) -> JSONResponse:
        """Stops what is still coming in, and deletes; the vectors are gone when this answers."""
        caller_of(request).require("documents")
        stopped = await self._cancel(document_id)
        chunk_count = 0
        try:
            call = self._clients.retrieval.DeleteDocument(
                retrieval.DeleteDocumentRequest(document_id=document_id), timeout=CALL_SECONDS
            )
            chunk_count = (await answer_of("retrieval", call)).chunk_count
            await forget_searches(self._clients)
        except errors.NotFound:
            if not stopped:
                raise
        return JSONResponse(
            {
                "id": document_id,
                "document_id": document_id,
                "object": "document",
                "deleted": True,
                "chunk_count": chunk_count,
            }
        )

    async def _jobs(self, document_id: str = "") -> tuple[Mapping[str, ingestion.Job], list[str]]:
        """The newest job of each document, and the name of ingestion when it cannot say."""
        call = self._clients.ingestion.ListJobs(
            ingestion.ListJobsRequest(document_id=document_id), timeout=CALL_SECONDS
        )
        try:
            listed = await answer_of("ingestion", call)
        except (errors.DependencyFailed, errors.DeadlineExceeded):
            return {}, ["ingestion"]
        newest: dict[str, ingestion.Job] = {}
        for job in listed.jobs:
            newest.setdefault(job.document_id, job)
        return newest, []

    async def _document(self, document_id: str) -> retrieval.Document:
        wanted = retrieval.GetDocumentRequest(document_id=document_id)
        call = self._clients.retrieval.GetDocument(wanted, timeout=CALL_SECONDS)
        return (await answer_of("retrieval", call)).document

    async def _cancel(self, document_id: str) -> bool:
        """Stops the document's unfinished jobs, which would put it back, and puts failed ones away. True when any."""
        call = self._clients.ingestion.ListJobs(
            ingestion.ListJobsRequest(document_id=document_id), timeout=CALL_SECONDS
        )
        jobs = (await answer_of("ingestion", call)).jobs
        telling = [job for job in jobs if job.document_id == document_id and job.status in _TELLING]
        await asyncio.gather(*(self._cancel_one(job.job_id) for job in telling))
        return bool(telling)

    async def _cancel_one(self, job_id: str) -> None:
        try:
            await self._clients.ingestion.CancelJob(ingestion.CancelJobRequest(job_id=job_id), timeout=CALL_SECONDS)
        except aio.AioRpcError as error:
            if error.code() is not StatusCode.NOT_FOUND:  # it has ended and is forgotten
                raise errors.from_rpc(error, "ingestion") or error from None


def _fields(job: ingestion.Job | None, document: retrieval.Document | None) -> dict[str, Any]:
    """A document as callers see it: its newest job says how far it is, the store what there is."""
    telling = job if job is not None and (document is None or job.status in _TELLING) else None
    stored = document or retrieval.Document()
    known = job or ingestion.Job()
    id_ = stored.document_id or known.document_id
    return {
        "id": id_,
        "document_id": id_,
        "object": "document",
        "collection": stored.collection or known.collection,
        "status": STATUSES.get(telling.status, "queued") if telling else "ready",
        "reason": (telling.reason or None) if telling else None,
        "job_id": known.job_id or None,
        "title": stored.title or known.title,
        "source": stored.source or known.source,
        "language": stored.language,
        "metadata": dict(stored.metadata),
        "chunk_count": stored.chunk_count or known.chunk_count,
        "page_count": stored.page_count or known.page_count or None,
        "total_chunk_count": (known.total_chunk_count or None) if telling else None,
        "warnings": list(known.warnings),
        "labels": list(telling.labels if telling else stored.labels),
        "content_sha256": (telling or stored).content_sha256 or None,
        "embedding_model": stored.embedding_model or None,
        "created_at": _time(known.create_time),
        "updated_at": _time(telling.update_time if telling else stored.update_time),
    }


def _time(stamp: Timestamp) -> str | None:
    return stamp.ToDatetime(UTC).isoformat().replace("+00:00", "Z") if stamp.seconds else None
