"""What retrieval asks of a vector store, and the things that are kept in one."""

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Protocol

from services.runtime.context import ALL_LABELS

NEVER = datetime.fromtimestamp(0, UTC)
# Candidates that each leg of a search contributes at least.
LEG_LIMIT = 30
# Chunks written in one step: an engine call holds the interpreter for a few milliseconds, not more.
WRITE_BATCH = 64


@dataclass(frozen=True)
class Reader:
    """Who reads or writes: a tenant, and the labels that open documents besides those that are open to all of it."""

    tenant: str
    labels: tuple[str, ...] = ()

    @property
    def sees_all(self) -> bool:
        """Whether no document of the tenant is closed to it."""
        return ALL_LABELS in self.labels

    def may_read(self, labels: Sequence[str]) -> bool:
        """Whether a document with these labels is open to it."""
        return self.sees_all or not labels or not set(labels).isdisjoint(self.labels)


@dataclass(frozen=True)
class SparseTerms:
    """Weights by term; both lists have the same length, each index comes once."""

    indices: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class TokenMatrix:
    """One vector per token: row-major little-endian float16, `2 * dimensions` bytes a token."""

    dimensions: int
    values: bytes


@dataclass(frozen=True)
class QueryVectors:
    """A query as the embedding service sees it. Vectors of different models do not compare."""

    model: str
    dense: Sequence[float]
    sparse: SparseTerms
    tokens: TokenMatrix | None


@dataclass(frozen=True)
class SuspiciousSpan:
    """`text[start:end]` of a chunk seems to give orders to a model. `kind` and `score`, 0 to 1, are the scan's."""

    start: int
    end: int
    score: float
    kind: str


@dataclass(frozen=True)
class Scan:
    """What the scan at ingestion said of the text that is read: which detector (`version`), and the worst score.

    A score of 0 stands for all below 0.4; no version: it was not scanned.
    """

    version: str = ""
    score: float = 0.0


UNSCANNED = Scan()


@dataclass(frozen=True)
class NewChunk:
    """A piece of a document to be stored. `page` counts from 1; 0 means none.

    `context` was embedded before the text; `parent_text` is what is read in its place, empty for the text itself.
    """

    text: str
    dense: Sequence[float]
    sparse: SparseTerms
    tokens: TokenMatrix | None = None
    page: int = 0
    section: str = ""
    context: str = ""
    parent_text: str = ""
    suspicious: tuple[SuspiciousSpan, ...] = ()
    scan: Scan = UNSCANNED


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
    labels: tuple[str, ...] = ()
    content_hash: str = ""
    content_sha256: str = ""
    page_count: int = 0
    learned_sparse: bool = False
    chunk_count: int = 0
    update_time: datetime = NEVER

    def says_the_same_as(self, other: "Document") -> bool:
        """True when storing one over the other would change nothing. Never true without a content hash."""
        return self.content_hash != "" and self._described() == other._described()

    def _described(self) -> tuple[object, ...]:
        header = (self.document_id, self.collection, self.embedding_model, self.title, self.source, self.language)
        rest = (dict(self.metadata), set(self.labels), self.content_hash, self.content_sha256, self.page_count)
        return (*header, *rest, self.learned_sparse)


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
    context: str = ""
    parent_text: str = ""
    suspicious: tuple[SuspiciousSpan, ...] = ()
    scan: Scan = UNSCANNED

    @property
    def chunk_id(self) -> str:
        """Stable id within the tenant; `#` cannot occur in a document's id."""
        return f"{self.document_id}#{self.position}"


@dataclass(frozen=True)
class Hit:
    """A candidate. `dense` (cosine) and `sparse` are exact for every candidate of a leg that took part, else 0.

    `place` is the store's own word for where its token vectors are. `vector` is there only when it was asked for.
    """

    chunk: StoredChunk
    dense: float = 0.0
    sparse: float = 0.0
    place: str = ""
    vector: Sequence[float] = ()


class Mode(Enum):
    """How passages are looked for: by meaning, by words, or both."""

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
    """What is looked for, in collections whose vectors are of `model`.

    Each leg contributes its best `limit` chunks at least; there may be up to twice as many candidates.
    """

    mode: Mode
    model: str
    dense: Sequence[float]
    sparse: SparseTerms
    limit: int = LEG_LIMIT
    filter: Filter = ANY
    with_vectors: bool = False


class Strategy(Enum):
    """Ways to cut a document."""

    STRUCTURE = "structure"
    FIXED = "fixed"
    SENTENCES = "sentences"
    RECURSIVE = "recursive"
    SEMANTIC = "semantic"
    CODE = "code"


@dataclass(frozen=True)
class Chunking:
    """How documents are cut, in tokens of the embedding model. 0, and None for the overlap: ingestion's default."""

    strategy: Strategy = Strategy.STRUCTURE
    max_tokens: int = 0
    min_tokens: int = 0
    overlap_tokens: int | None = None
    parent_tokens: int = 0


class Quantization(Enum):
    """Compression of vectors for the search."""

    NONE = "none"
    SCALAR = "scalar"
    BINARY = "binary"
    PRODUCT = "product"


@dataclass(frozen=True)
class Index:
    """How vectors are indexed. Collections with the same model and index share one physical place."""

    hnsw_m: int = 16
    hnsw_ef_construct: int = 128
    hnsw_ef: int = 128
    quantization: Quantization = Quantization.NONE
    oversampling: float = 2.0
    rescore: bool = True


@dataclass(frozen=True)
class Distribution:
    """How a server of several nodes spreads a collection; 0 and None: as the service has it for all.

    `replication_factor` and `write_consistency_factor` may change at any time, the rest by a migration only. Stores
    of one node take no notice.
    """

    shard_number: int = 0
    replication_factor: int = 0
    write_consistency_factor: int = 0
    on_disk: bool | None = None


class MigrationState(Enum):
    """How far a migration is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Migration:
    """The change of a collection's model and index. Documents get a second version; the last step switches to it."""

    state: MigrationState
    model: str
    index: Index
    learned_sparse: bool = False
    done_count: int = 0
    total_count: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Collection:
    """A named set of documents of one tenant, all with vectors of one model. `model` is empty while it has none.

    `distribution`: as wished; None where nobody has said, and in a change: as it was. `differs` says in a sentence what
    of the wish is not in force, and what to do.
    """

    name: str
    description: str = ""
    language: str = ""
    chunking: Chunking = Chunking()
    index: Index = Index()
    distribution: Distribution | None = None
    differs: str = ""
    model: str = ""
    migration: Migration | None = None
    document_count: int = 0
    update_time: datetime = NEVER


@dataclass(frozen=True)
class Stored:
    """What an upsert did."""

    chunk_count: int
    replaced: bool


class Store(Protocol):
    """Keeps chunks per tenant. Every method takes the reader first: no call can forget it.

    Readers see a document either as it was or as it is, never a mixture. A document whose labels are closed to the
    reader is not there for it: not found, not listed, not counted among what it may delete. All methods raise
    DependencyFailed when the store does not answer.
    """

    async def open(self) -> None:
        """Makes the store ready; finishes what a crash left half done."""
        ...

    async def close(self) -> None:
        """Keeps what is unwritten and lets go."""
        ...

    async def search(self, reader: Reader, query: Query) -> list[Hit]:
        """All candidates, in no order that means anything. Raises NotFound for an unknown collection.

        Documents of collections with another model than the query's take no part.
        """
        ...

    async def late_scores(
        self, reader: Reader, model: str, hits: Sequence[Hit], tokens: TokenMatrix
    ) -> Sequence[float | None]:
        """Late interaction of the query's `tokens` with each of the `hits` of one search; None for one without.

        The average over the query's tokens of the best cosine similarity among the chunk's, each token weighted by how
        much it tells the hits apart: see late_interaction.py.
        """
        ...

    async def models(self, reader: Reader, collections: Sequence[str]) -> dict[str, str]:
        """The model of each of these collections (none: of all), empty where there is none yet. Raises NotFound."""
        ...

    async def languages(self, reader: Reader, collections: Sequence[str]) -> list[str]:
        """Languages of the documents in these collections (none: in all), in order; the unknown one is empty."""
        ...

    async def put_document(self, reader: Reader, document: Document, chunks: AsyncIterable[NewChunk]) -> Stored:
        """Stores a document, replacing the one of the same id as a whole.

        Raises NotFound (collection), ModelMismatch (the collection has documents of another model) and NotPermitted
        (the document that is there is closed to the reader, or it would close the new one to itself).
        """
        ...

    async def delete_document(self, reader: Reader, document_id: str) -> int:
        """Deletes a document; the number of chunks that went. Raises NotFound."""
        ...

    async def get_document(self, reader: Reader, document_id: str) -> Document:
        """Raises NotFound."""
        ...

    async def list_documents(self, reader: Reader, collection: str, after: str, limit: int) -> list[Document]:
        """At most `limit` documents with an id above `after`, by id. Empty `collection`: of all."""
        ...

    async def get_chunks(self, reader: Reader, document_id: str) -> list[StoredChunk]:
        """The chunks in reading order. Raises NotFound."""
        ...

    async def put_collection(self, reader: Reader, collection: Collection) -> Collection:
        """Creates the collection or changes its settings.

        Model, migration and counts of `collection` are ignored. Raises InvalidField for another graph or compression
        when there are documents: those need a migration.
        """
        ...

    async def delete_collection(self, reader: Reader, name: str) -> int:
        """Deletes the collection with its documents; their number.

        Raises NotFound, and NotPermitted when documents in it are closed to the reader.
        """
        ...

    async def list_collections(self, reader: Reader) -> list[Collection]:
        """By name. Counts are of the documents that are open to the reader."""
        ...

    async def migrations(self) -> list[tuple[str, Collection]]:
        """Tenant and collection of every migration that is running: taken up again after a restart."""
        ...

    async def begin_migration(self, tenant: str, name: str, migration: Migration) -> Collection:
        """Notes that it runs. One that ran before begins anew, its second versions are deleted. Raises NotFound."""
        ...

    async def next_unmigrated(self, tenant: str, name: str) -> tuple[Document, list[StoredChunk]] | None:
        """A document, as it is now, that has no up-to-date second version yet; None when all have."""
        ...

    async def put_second_version(self, tenant: str, document: Document, chunks: Sequence[NewChunk]) -> None:
        """Stores the second version of `document`, as `next_unmigrated` gave it; counts it as done.

        Nothing happens when the document was replaced or deleted meanwhile.
        """
        ...

    async def end_migration(self, tenant: str, name: str, state: MigrationState, reason: str = "") -> bool:
        """DONE switches readers over in one step, or answers False when a document is without second version again.

        Another state deletes the second versions. False when no migration is running.
        """
        ...
