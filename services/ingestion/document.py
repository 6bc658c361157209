"""One document on its way: parse, cut, embed, store. Knows other services only by the protocols here."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Protocol

from services.ingestion import metrics
from services.ingestion.cutting import strategies
from services.ingestion.cutting.chunking import Chunk, Chunking, Sizes, Tools
from services.ingestion.fingerprints import content_key, cut_mark, document_mark
from services.ingestion.jobs import Job, Submission
from services.ingestion.parsed import Parsed, Unreadable
from services.ingestion.parsing import Parser
from services.ingestion.reading import below_title, language_of, title_of
from services.ingestion.spool import Spool
from services.ingestion.suspicion import Screening
from services.runtime.errors import InvalidField, ModelMismatch, NotFound

_BATCH_TEXTS = 32


@dataclass(frozen=True)
class Model:
    """The embedding model. `window_tokens` includes prefix and special tokens.

    `learned_sparse`: its sparse weights need no frequencies of the collection.
    """

    name: str
    window_tokens: int
    token_vectors: bool
    learned_sparse: bool = False


@dataclass(frozen=True)
class Collection:
    """What a collection asks of its documents. `model` is that of its vectors, empty while it has none."""

    language: str = ""
    chunking: Chunking = field(default_factory=Chunking)
    model: str = ""


@dataclass(frozen=True)
class Description:
    """What is said once about a document when it is stored."""

    document_id: str
    collection: str
    title: str
    source: str
    language: str
    metadata: dict[str, str]
    fingerprint: str
    model: str
    labels: tuple[str, ...] = ()
    content_sha256: str = ""
    page_count: int = 0
    learned_sparse: bool = False


@dataclass(frozen=True)
class StoredDocument:
    """A document as it is stored now."""

    fingerprint: str
    title: str
    chunk_count: int
    page_count: int
    collection: str = ""


class Embedder(Protocol):
    """Counts tokens and makes vectors. All raise the errors of services/runtime."""

    async def describe(self) -> Model:
        """The model that is loaded."""
        ...

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, any number of texts; prefix and special tokens not counted."""
        ...

    async def embed(self, texts: Sequence[str], language: str, *, token_vectors: bool) -> list[bytes]:
        """Vectors of each text, encoded; at most 32 texts."""
        ...

    async def embed_dense(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Dense vectors alone, of unit length; any number of texts."""
        ...


class Embedders(Protocol):
    """The embedding services that there are: collections may have different models."""

    async def embedder_for(self, model: str) -> Embedder:
        """The service that serves `model` (as `Model.name`); empty: the default one. Raises ModelMismatch."""
        ...


class VectorCache(Protocol):
    """Vectors of texts that were embedded before. A lost entry costs time only: no method ever raises."""

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """What `Embedder.embed` gave for each key, or None. Keys are SHA-256 in hex."""
        ...

    async def put(self, pairs: Sequence[tuple[str, bytes]]) -> None:
        """Remembers vectors by key."""
        ...


class Index(Protocol):
    """Where passages are kept. All raise the errors of services/runtime."""

    async def collections(self) -> dict[str, Collection]:
        """The tenant's collections by name."""
        ...

    async def stored(self, document_id: str) -> StoredDocument | None:
        """The document as stored, without its passages, or None."""
        ...

    async def put(self, document: Description, chunks: Iterator[tuple[Chunk, bytes]]) -> int:
        """Stores or replaces a document as a whole; the number of its chunks. Raises ModelMismatch."""
        ...


class ResultCache(Protocol):
    """Answers that were made from documents before."""

    async def forget(self, collections: AbstractSet[str]) -> None:
        """Forgets those that may have been made from one of the collections. Never raises: they age out anyway."""
        ...


class NoResultCache:
    """A ResultCache where there is none."""

    async def forget(self, collections: AbstractSet[str]) -> None:
        """Nothing to do."""


class Stopped(Exception):
    """The job is no longer ours: it was cancelled, or another worker has it."""


Progress = Callable[[Job], Awaitable[None]]


@dataclass(frozen=True)
class _Plan:
    """How a document is to be made, as its collection wants it now. `mark` changes with whatever changes the result."""

    collection: Collection
    embedder: Embedder
    model: Model
    sizes: Sizes
    mark: str


@dataclass(frozen=True)
class Pipeline:
    """Takes a document from file to index. `sizes` are those of collections that set none.

    `token_vector_chunks`: longer documents are stored without token vectors. `max_document_chunks`: what retrieval
    takes; a longer document fails before it is embedded. `results` forget what was answered before it was stored.
    `screening` looks for text that gives orders to a model.
    """

    parser: Parser
    spool: Spool
    embedders: Embedders
    index: Index
    cache: VectorCache
    sizes: Sizes
    token_vector_chunks: int
    max_document_chunks: int = 20_000
    results: ResultCache = field(default_factory=NoResultCache)
    screening: Screening = field(default_factory=Screening)

    async def run(self, job: Job, progress: Progress) -> Job:
        """The job in its final state READY. Calls `progress` at each step, which raises Stopped to end it.

        Raises Unreadable, and the errors of services/runtime.
        """
        collection = await self._collection(job.submission)
        try:
            return await self._run(job, collection, progress)
        except ModelMismatch:
            now = await self._collection(job.submission)
            if now.model == collection.model:
                raise
            # It moved to another model while this document was made for the old one.
            return await self._run(job, now, progress)

    async def _collection(self, submission: Submission) -> Collection:
        """As it is now: it may have changed since the document was sent."""
        collection = (await self.index.collections()).get(submission.collection)
        if collection is None:
            raise NotFound(f"There is no collection `{submission.collection}` any more.")
        return collection

    async def _run(self, job: Job, collection: Collection, progress: Progress) -> Job:
        submission = job.submission
        plan = await self._plan(submission, collection)
        stored = await self.index.stored(submission.document_id)
        if stored is not None and stored.fingerprint == plan.mark:
            job = replace(job, title=stored.title, page_count=stored.page_count, total_chunk_count=stored.chunk_count)
            return replace(job, status="READY", reason="", chunk_count=stored.chunk_count)
        job = replace(job, status="PARSING", chunk_count=0, total_chunk_count=0)
        await progress(job)
        parsed = await self._parse(submission)
        title = title_of(submission, parsed)
        job = replace(job, title=title, page_count=parsed.page_count, warnings=parsed.warnings)
        chunks = await self._cut(submission, parsed, title, plan)
        suspicion = await self.screening.screened(submission.tenant, chunks, parsed.hidden)
        chunks = list(suspicion.chunks)
        warnings = (*parsed.warnings, *filter(None, [suspicion.warning]))
        job = replace(job, status="EMBEDDING", total_chunk_count=len(chunks), warnings=warnings)
        await progress(job)
        language = await asyncio.to_thread(language_of, submission, parsed)
        mark = await asyncio.to_thread(cut_mark, plan.mark, chunks)
        with metrics.STAGE_SECONDS.labels("embed").time():
            job = await self._embed(job, chunks, mark, language, plan, progress)
        description = _description(submission, parsed, title, language, plan)
        description.metadata.update(suspicion.metadata)
        with metrics.STAGE_SECONDS.labels("store").time():
            vectors = self.spool.vectors(submission.job_id, mark).read()
            count = await self.index.put(description, zip(chunks, vectors, strict=True))
        await self.results.forget({submission.collection, stored.collection if stored else ""} - {""})
        metrics.CHUNKS.inc(count)
        return replace(job, status="READY", reason="", chunk_count=count, total_chunk_count=count)

    async def _plan(self, submission: Submission, collection: Collection) -> _Plan:
        try:
            sizes = collection.chunking.sizes(self.sizes)
        except ValueError as error:
            raise InvalidField(f"Chunking of `{submission.collection}`: {error}", field="chunking") from error
        embedder = await self.embedders.embedder_for(collection.model)
        model = await embedder.describe()
        made_by = [model.name, model.window_tokens, model.token_vectors, self.token_vector_chunks]
        if self.screening.policy_of(submission.tenant).injection == "block":  # what was let in before is looked at anew
            made_by.append("screened")
        mark = document_mark(submission, made_by, collection.chunking.strategy, sizes)
        return _Plan(collection, embedder, model, sizes, mark)

    async def _parse(self, submission: Submission) -> Parsed:
        path = self.spool.content(submission.job_id)
        if not path.exists():
            raise Unreadable("The stored file is gone; send the document again.")
        with metrics.STAGE_SECONDS.labels("parse").time():
            return await self.parser.parse(path, submission.filename, submission.content_type)

    async def _cut(self, submission: Submission, parsed: Parsed, title: str, plan: _Plan) -> list[Chunk]:
        # An id in the place of a title would only blur the vectors.
        title = "" if title == submission.document_id else title
        tools = Tools(plan.embedder.count_tokens, plan.embedder.embed_dense, plan.model.window_tokens)
        with metrics.STAGE_SECONDS.labels("cut").time():
            strategy = plan.collection.chunking.strategy
            chunks = await strategies.cut(below_title(parsed), title, strategy, plan.sizes, tools)
        if not chunks:
            raise Unreadable("The file holds no text.")
        if len(chunks) > self.max_document_chunks:
            most = f"at most {self.max_document_chunks} are stored of one document"
            raise Unreadable(f"The document would be cut into {len(chunks)} passages, and {most}; split it up.")
        return chunks

    async def _embed(
        self, job: Job, chunks: list[Chunk], mark: str, language: str, plan: _Plan, progress: Progress
    ) -> Job:
        """Fills the spool's vector file, going on where an earlier attempt stopped."""
        token_vectors = plan.model.token_vectors and len(chunks) <= self.token_vector_chunks
        made_by = [job.submission.tenant, plan.model.name, language, token_vectors]
        file = await asyncio.to_thread(self.spool.vectors, job.job_id, mark)
        if file.count == len(chunks):
            job = replace(job, chunk_count=file.count)
            await progress(job)
        while file.count < len(chunks):
            batch = chunks[file.count : file.count + _BATCH_TEXTS]
            texts = {content_key(made_by, chunk.embedded): chunk.embedded for chunk in batch}
            vectors = await self._vectors(texts, language, plan.embedder, token_vectors=token_vectors)
            records = [vectors[content_key(made_by, chunk.embedded)] for chunk in batch]
            await asyncio.to_thread(file.append, records)
            job = replace(job, chunk_count=file.count)
            await progress(job)
        return job

    async def _vectors(
        self, texts: dict[str, str], language: str, embedder: Embedder, *, token_vectors: bool
    ) -> dict[str, bytes]:
        """By key. Only texts that were not embedded before go to the model."""
        known = dict(zip(texts, await self.cache.get(list(texts)), strict=True))
        vectors = {key: vector for key, vector in known.items() if vector is not None}
        if missing := [key for key in texts if key not in vectors]:
            made = await embedder.embed([texts[key] for key in missing], language, token_vectors=token_vectors)
            new = list(zip(missing, made, strict=True))
            await self.cache.put(new)
            vectors.update(new)
        return vectors


def _description(submission: Submission, parsed: Parsed, title: str, language: str, plan: _Plan) -> Description:
    return Description(
        submission.document_id,
        submission.collection,
        title,
        submission.source or submission.filename,
        language,
        dict(submission.metadata),
        plan.mark,
        plan.model.name,
        submission.labels,
        submission.content_sha256,
        parsed.page_count,
        plan.model.learned_sparse,
    )
