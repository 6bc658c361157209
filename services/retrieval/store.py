"""What retrieval asks of a vector store, and the things that are kept in one."""

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Protocol

NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class SparseTerms:
    """BM25 weights by term; both lists have the same length, each index comes once."""

    indices: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class TokenMatrix:
    """One vector per token: row-major little-endian float16, `2 * dimensions` bytes a token."""

    dimensions: int
    values: bytes


@dataclass(frozen=True)
class NewChunk:
    """A piece of a document to be stored. `page` counts from 1; 0 means none."""

    text: str
    dense: Sequence[float]
    sparse: SparseTerms
    tokens: TokenMatrix | None = None
    page: int = 0
    section: str = ""


@dataclass(frozen=True)
class Document:
    """A document without its text."""

    document_id: str
    collection: str
    embedding_model: str
    title: str = ""
    source: str = ""
    language: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    content_hash: str = ""
    chunk_count: int = 0
    update_time: datetime = NEVER

    def says_the_same_as(self, other: "Document") -> bool:
        """True when storing one over the other would change nothing. Never true without a content hash."""
        return self.content_hash != "" and self._described() == other._described()

    def _described(self) -> tuple[object, ...]:
        header = (self.document_id, self.collection, self.embedding_model, self.title, self.source, self.language)
        return (*header, dict(self.metadata), self.content_hash)


@dataclass(frozen=True)
class StoredChunk:
    """A piece of a document as it is read and cited."""

    document_id: str
    position: int
    text: str
    collection: str
    title: str = ""
    source: str = ""
    page: int = 0
    section: str = ""
    language: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def chunk_id(self) -> str:
        """Stable id within the tenant; `#` cannot occur in a document's id."""
        return f"{self.document_id}#{self.position}"


@dataclass(frozen=True)
class Hit:
    """A chunk that was found. Scores are 0 where a stage did not see it."""

    chunk: StoredChunk
    dense: float = 0.0
    sparse: float = 0.0
    fused: float = 0.0
    tokens: TokenMatrix | None = None


class Mode(Enum):
    """How passages are looked for: by meaning, by words, or both and fused."""

    DENSE = "dense"
    SPARSE = "sparse"
    HYBRID = "hybrid"


@dataclass(frozen=True)
class Condition:
    """A metadata field must equal one of the values."""

    key: str
    any_of: Sequence[str]


@dataclass(frozen=True)
class Filter:
    """Conditions that every chunk must meet; empty parts mean any."""

    collections: Sequence[str] = ()
    document_ids: Sequence[str] = ()
    language: str = ""
    conditions: Sequence[Condition] = ()


ANY = Filter()


@dataclass(frozen=True)
class Query:
    """What is looked for. Only chunks with vectors of `model` are compared."""

    mode: Mode
    model: str
    dense: Sequence[float]
    sparse: SparseTerms
    limit: int
    filter: Filter = ANY
    with_tokens: bool = False


@dataclass(frozen=True)
class Collection:
    """A named set of documents of one tenant."""

    name: str
    description: str = ""
    language: str = ""
    document_count: int = 0
    update_time: datetime = NEVER


@dataclass(frozen=True)
class Stored:
    """What an upsert did."""

    chunk_count: int
    replaced: bool


# Standard constant of reciprocal rank fusion (Cormack, Clarke, Büttcher: SIGIR 2009).
RRF_K = 60
# Candidates of each leg that take part in the fusion.
LEG_LIMIT = 50
# Chunks written in one step: an engine call holds the interpreter for a few milliseconds, not more.
WRITE_BATCH = 64


class Store(Protocol):
    """Keeps chunks per tenant. Every method takes the tenant first: no call can forget it.

    Readers see a document either as it was or as it is, never a mixture. All methods raise DependencyFailed when the
    store does not answer.
    """

    async def open(self) -> None:
        """Makes the store ready; finishes what a crash left half done."""
        ...

    async def close(self) -> None:
        """Keeps what is unwritten and lets go."""
        ...

    async def search(self, tenant: str, query: Query) -> list[Hit]:
        """The best chunks, by descending fused score. Raises NotFound for an unknown collection."""
        ...

    async def languages(self, tenant: str, collections: Sequence[str]) -> list[str]:
        """Languages of the documents in these collections (none: in all), in order; the unknown one is empty."""
        ...

    async def put_document(self, tenant: str, document: Document, chunks: AsyncIterable[NewChunk]) -> Stored:
        """Stores a document, replacing the one of the same id as a whole. Raises NotFound (collection)."""
        ...

    async def delete_document(self, tenant: str, document_id: str) -> int:
        """Deletes a document; the number of chunks that went. Raises NotFound."""
        ...

    async def get_document(self, tenant: str, document_id: str) -> Document:
        """Raises NotFound."""
        ...

    async def list_documents(self, tenant: str, collection: str, after: str, limit: int) -> list[Document]:
        """At most `limit` documents with an id above `after`, by id. Empty `collection`: of all."""
        ...

    async def get_chunks(self, tenant: str, document_id: str) -> list[StoredChunk]:
        """The chunks in reading order. Raises NotFound."""
        ...

    async def put_collection(self, tenant: str, collection: Collection) -> Collection:
        """Creates the collection or changes its description and language."""
        ...

    async def delete_collection(self, tenant: str, name: str) -> int:
        """Deletes the collection with its documents; their number. Raises NotFound."""
        ...

    async def list_collections(self, tenant: str) -> list[Collection]:
        """By name."""
        ...
