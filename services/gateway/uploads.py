"""POST /v1/documents: files in a form, or text or a URL in JSON, handed over to ingestion."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse

from sabueso.ingestion.v1 import ingestion_pb2 as pb
from sabueso.web_tool.v1 import web_tool_pb2 as web
from services.gateway.admission import caller_of
from services.gateway.clients import CALL_SECONDS, SUBMIT_SECONDS, Clients, answer_of
from services.gateway.errors import ApiError, Failure, failure_of
from services.runtime.errors import ServiceError

_PIECE_BYTES = 256 * 1024
_MAX_FILES = 100
_MAX_PAGE_CHARS = 200_000

STATUSES = {
    pb.JOB_STATUS_QUEUED: "queued",
    pb.JOB_STATUS_PARSING: "parsing",
    pb.JOB_STATUS_EMBEDDING: "embedding",
    pb.JOB_STATUS_READY: "ready",
    pb.JOB_STATUS_FAILED: "failed",
    pb.JOB_STATUS_CANCELLED: "cancelled",
}


class Described(BaseModel):
    """What is said of a document besides its content."""

    model_config = ConfigDict(extra="forbid")

    collection: str = Field(min_length=1)
    document_id: str = ""
    title: str = ""
    language: str = ""
    metadata: dict[str, str] = {}
    labels: list[str] = Field(default=[], max_length=50, description="Who may read it; none: all of the tenant.")

    @field_validator("labels", mode="before")
    @classmethod
    def _listed(cls, value: JsonValue) -> JsonValue:
        """In a form labels are separated by commas, or a JSON list."""
        if not isinstance(value, str):
            return value
        if not value.lstrip().startswith("["):
            return [one.strip() for one in value.split(",") if one.strip()]
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("it is not valid JSON") from None

    @field_validator("metadata", mode="before")
    @classmethod
    def _flat(cls, value: JsonValue) -> JsonValue:
        """Metadata holds texts; numbers and truth values are written as JSON writes them."""
        if isinstance(value, str):  # of a form
            try:
                value = json.loads(value) if value else {}
            except ValueError:
                raise ValueError("it is not valid JSON") from None
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        if any(isinstance(one, dict | list) or one is None for one in value.values()):
            raise ValueError("values are texts, numbers or truth values, not lists, objects or null")
        return {key: one if isinstance(one, str) else json.dumps(one) for key, one in value.items()}


class DocumentRequest(Described):
    """A document as JSON: its text, or where to read it."""

    text: str | None = Field(default=None, min_length=1)
    url: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> "DocumentRequest":
        if (self.text is None) == (self.url is None):
            raise ValueError("send either `text` or `url`")
        return self


class _Content(Protocol):
    async def read(self, size: int = -1) -> bytes: ...


@dataclass
class _Bytes:
    """Content that is in memory already."""

    left: bytes

    async def read(self, size: int = -1) -> bytes:
        piece, self.left = self.left[:size], self.left[size:]
        return piece


@dataclass(frozen=True)
class _Document:
    described: Described
    content: _Content
    filename: str
    content_type: str
    source: str = ""
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


class Uploads:
    """The endpoint."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def create(self, request: Request) -> JSONResponse:
        """Takes one document, or several files of one form; 202 once they are safe with ingestion."""
        caller_of(request).require("documents")
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type == "multipart/form-data":
            return await self._from_form(request)
        if media_type == "application/json":
            return JSONResponse(await self._submit(await self._from_json(await request.body())), 202)
        message = "Send `multipart/form-data` with files, or `application/json` with `text` or `url`."
        raise ApiError(415, message, code="unsupported_media_type")

    async def _from_form(self, request: Request) -> JSONResponse:
        async with request.form(max_files=_MAX_FILES, max_fields=20) as form:
            files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
            if not files:
                raise ApiError(400, "file: the form holds no file.", code="invalid_field", param="file")
            described = Described.model_validate(_fields(form))
            if len(files) > 1 and (described.document_id or described.title):
                param = "document_id" if described.document_id else "title"
                raise ApiError(400, f"{param}: it cannot be that of several files.", code="invalid_field", param=param)
            documents = [_Document(described, file, file.filename or "", file.content_type or "") for file in files]
            if len(documents) == 1:
                return JSONResponse(await self._submit(documents[0]), 202)
            return await self._submit_all(documents)

    async def _submit_all(self, documents: list[_Document]) -> JSONResponse:
        """One entry a file, in order; a file that is refused carries its own error."""
        entries: list[dict[str, Any]] = []
        failures: list[Failure] = []
        for document in documents:
            try:
                entries.append(await self._submit(document))
            except ServiceError as error:
                failures.append(failure_of(error))
                entries.append({"filename": document.filename, "status": "refused", **failures[-1].body()})
        if len(failures) == len(documents):
            return failures[0].response()
        return JSONResponse({"object": "list", "data": entries}, 202)

    async def _from_json(self, body: bytes) -> _Document:
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            raise ApiError(400, "The body is not valid JSON.", code="invalid_json") from None
        asked = DocumentRequest.model_validate(fields)
        if asked.text is not None:
            return _Document(asked, _Bytes(asked.text.encode()), f"{asked.title or 'text'}.txt", "text/plain")
        return await self._from_page(asked, asked.url or "")

    async def _from_page(self, asked: DocumentRequest, url: str) -> _Document:
        request = web.FetchRequest(url=url, max_chars=_MAX_PAGE_CHARS, for_ingestion=True)
        call = self._clients.web_tool.Fetch(request, timeout=CALL_SECONDS)
        page = await answer_of("web_tool", call)
        if page.status_code >= 400:
            message = f"url: the page answered with status {page.status_code}."
            raise ApiError(400, message, code="page_not_read", param="url")
        if not page.content and not page.text:
            raise ApiError(400, "url: the page holds no text.", code="page_not_read", param="url")
        titled = asked if asked.title else asked.model_copy(update={"title": page.title})
        name = urlsplit(page.final_url).path.rpartition("/")[2] or "page"
        extra = {"truncated": True} if page.truncated else {}
        if page.content:
            return _Document(titled, _Bytes(page.content), name, page.content_type, page.final_url, extra)
        return _Document(titled, _Bytes(page.text.encode()), f"{name}.txt", "text/plain", page.final_url, extra)

    async def _submit(self, document: _Document) -> dict[str, Any]:
        call = self._clients.ingestion.Submit(_messages(document), timeout=SUBMIT_SECONDS)
        job = (await answer_of("ingestion", call)).job
        accepted = {"document_id": job.document_id, "job_id": job.job_id, "status": STATUSES.get(job.status, "queued")}
        return {**accepted, "collection": job.collection, "filename": document.filename, **document.extra}


def _fields(form: FormData) -> dict[str, Any]:
    """The form's fields that are no files. Raises ApiError when one is given twice."""
    fields: dict[str, Any] = {}
    for name, value in form.multi_items():
        if isinstance(value, str):
            if name in fields:
                raise ApiError(400, f"{name}: given twice.", code="invalid_field", param=name)
            fields[name] = value
    return fields


async def _messages(document: _Document) -> AsyncIterator[pb.SubmitRequest]:
    described = document.described
    yield pb.SubmitRequest(
        header=pb.SubmitHeader(
            collection=described.collection,
            document_id=described.document_id,
            filename=document.filename,
            content_type=document.content_type,
            title=described.title,
            language=described.language,
            metadata=described.metadata,
            source=document.source,
            labels=described.labels,
        )
    )
    while piece := await document.content.read(_PIECE_BYTES):
        yield pb.SubmitRequest(content=piece)
