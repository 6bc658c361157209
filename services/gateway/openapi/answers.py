"""Answers of the endpoints besides the agent's, as the API's description shows them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

Json = dict[str, Any]


class ErrorDetails(BaseModel):
    """OpenAI's error object."""

    message: str
    type: str = Field(description="The kind of error, such as `invalid_request_error`.")
    param: str | None = Field(description="The field that is wrong.")
    code: str | None = Field(description="Stable: programs may decide by it.")


class Error(BaseModel):
    """Why a request was not answered."""

    error: ErrorDetails


class Model(BaseModel):
    """A model that the key may call."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """Exactly what the key may call."""

    object: Literal["list"]
    data: list[Model]


class TokenUsage(BaseModel):
    """Tokens."""

    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    """The vector of a text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str = Field(description="Numbers, or base64 of 32-bit floats, little-endian.")


class EmbeddingList(BaseModel):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: TokenUsage


class Ranked(BaseModel):
    """A document by its place in the request."""

    index: int
    relevance_score: float
    document: dict[str, str] | None = None


class Ranking(BaseModel):
    """Documents, best first."""

    object: Literal["list"]
    model: str
    results: list[Ranked]
    usage: TokenUsage


class Scores(BaseModel):
    """Where a passage's score comes from."""

    dense: float
    sparse: float
    fused: float
    rerank: float


class Passage(BaseModel):
    """A piece of a document."""

    document_id: str
    chunk_id: str
    score: float
    text: str
    matched_text: str | None = None
    title: str
    source: str
    page: int | None
    section: str
    language: str
    collection: str
    position: int
    metadata: dict[str, str]
    scores: Scores


class Routed(BaseModel):
    """A collection that was considered."""

    name: str
    score: float
    chosen: bool


class Found(BaseModel):
    """Passages by descending score, the milliseconds of each stage, and services that were skipped."""

    results: list[Passage]
    stages: dict[str, float]
    degraded: list[str]
    routed: list[Routed] | None = None


class Accepted(BaseModel):
    """A document that is being taken in; its status is at GET /v1/documents/{document_id}."""

    document_id: str
    job_id: str
    status: str
    collection: str
    filename: str
    truncated: bool | None = None


class Refused(BaseModel):
    """A file that was not taken."""

    filename: str
    status: Literal["refused"]
    error: ErrorDetails


class AcceptedList(BaseModel):
    """One entry a file."""

    object: Literal["list"]
    data: list[Accepted | Refused]


class Document(BaseModel):
    """A document, how far it is, and what is stored of it."""

    id: str
    document_id: str
    object: Literal["document"]
    collection: str
    status: Literal["queued", "parsing", "embedding", "ready", "failed", "cancelled"]
    reason: str | None
    job_id: str | None
    title: str
    source: str
    language: str
    metadata: dict[str, str]
    chunk_count: int
    page_count: int | None
    total_chunk_count: int | None
    warnings: list[str]
    labels: list[str]
    content_sha256: str | None
    embedding_model: str | None
    created_at: str | None
    updated_at: str | None
    degraded: list[str] | None = None


class Page(BaseModel):
    """A page of a list; `after` asks for the next one."""

    object: Literal["list"]
    has_more: bool
    after: str | None


class DocumentList(Page):
    """Documents by id."""

    data: list[Document]
    degraded: list[str]


class ChunkList(Page):
    """The passages of a document in reading order."""

    document: Document
    data: list[Passage]


class DocumentDeleted(BaseModel):
    """What went away."""

    id: str
    document_id: str
    object: Literal["document"]
    deleted: Literal[True]
    chunk_count: int


class Collection(BaseModel):
    """A set of documents, how they are cut and indexed."""

    name: str
    object: Literal["collection"]
    description: str
    language: str
    document_count: int
    embedding_model: str | None
    chunking: Json
    index: Json
    migration: Json | None
    differs: str | None


class CollectionList(Page):
    """Collections by name."""

    data: list[Collection]


class CollectionDeleted(BaseModel):
    """What went away."""

    name: str
    object: Literal["collection"]
    deleted: Literal[True]
    document_count: int


class FeedbackAnswer(BaseModel):
    """The answer that was judged."""

    strategy: str
    finish: str
    trace_id: str | None


class FeedbackKept(BaseModel):
    """What a person said of an answer."""

    id: str
    object: Literal["feedback"]
    created_at: int
    answer_id: str
    score: float
    rating: Literal["up", "down"] | None
    comment: str
    tags: list[str]
    metadata: dict[str, str]
    user: str | None
    key: str
    answer: FeedbackAnswer


class FeedbackList(Page):
    """Feedback, oldest first."""

    data: list[FeedbackKept]


class Meter(BaseModel):
    """A limit, and what is used of it; all null where there is none."""

    limit: int | None
    used: int | None
    remaining: int | None
    reset_seconds: float | None


class Meters(BaseModel):
    """The limits of one tenant, key or model."""

    requests_per_minute: Meter
    tokens_per_minute: Meter
    daily_tokens: Meter
    concurrent_requests: Meter


class LimitUse(Meters):
    """The limits of a tenant, of the key and of single models, and what is used of them. This request is counted in."""

    object: Literal["usage"]
    tenant: str
    key: str
    scopes: list[str]
    exact: bool = Field(description="False while limits are counted in this process alone.")
    limits: Json = Field(description="As the tenant's file has them.")
    key_limits: Meters
    models: dict[str, Meters]


class Health(BaseModel):
    """Whether the process runs."""

    status: Literal["ok"]


class Ready(BaseModel):
    """Whether new requests should come here, and the state of what is behind."""

    status: Literal["ok", "degraded", "not ready", "draining"]
    services: dict[str, str] | None = None
    pools: dict[str, str] | None = Field(default=None, description="Those of models.")
    limits: Literal["ok", "degraded"] | None = None
