"""The first half of the ingestion service's pipeline: a file becomes passages; its vectors are left to be made.

The pipeline is the service's own, run as it is. What stands in for the model's vectors and for the index only notes
what would be asked of them: nothing of reading, cutting, screening and naming is decided here.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from services.ingestion.bulk import files
from services.ingestion.bulk.corpus import Outcome, Source, Target
from services.ingestion.cutting.chunking import Chunk
from services.ingestion.document import (
    Collection,
    Description,
    Embedder,
    Embedders,
    Index,
    Model,
    Pipeline,
    StoredDocument,
)
from services.ingestion.jobs import Job

# What the pipeline gets for a vector.
_PLAIN, _WITH_TOKEN_VECTORS = b"plain", b"token vectors"


@dataclass(frozen=True)
class Prepared:
    """A document without its vectors. `token_vectors`: whether its passages get them."""

    source: Source
    sha256: str
    description: Description
    chunks: Sequence[Chunk]
    token_vectors: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _DeferringEmbedder:
    """An Embedder that counts, and puts the embedding itself off."""

    real: Embedder

    async def describe(self) -> Model:
        return await self.real.describe()

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return await self.real.count_tokens(texts)

    async def embed(self, texts: Sequence[str], language: str, *, token_vectors: bool) -> list[bytes]:
        return [_WITH_TOKEN_VECTORS if token_vectors else _PLAIN] * len(texts)

    async def embed_dense(self, texts: Sequence[str]) -> list[Sequence[float]]:
        return await self.real.embed_dense(texts)  # where vectors say where to cut


@dataclass(frozen=True)
class DeferringEmbedders:
    """Embedders that put the embedding off."""

    real: Embedders

    async def embedder_for(self, model: str) -> Embedder:
        """See Embedders."""
        return _DeferringEmbedder(await self.real.embedder_for(model))


@dataclass
class _NotingIndex:
    """An Index that tells what there is, and notes what would be stored."""

    real: Index
    description: Description | None = None
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    token_vectors: bool = False

    async def collections(self) -> dict[str, Collection]:
        return await self.real.collections()

    async def stored(self, document_id: str) -> StoredDocument | None:
        return await self.real.stored(document_id)

    async def put(self, document: Description, chunks: Iterator[tuple[Chunk, bytes]]) -> int:
        for chunk, said in chunks:
            self.chunks.append(chunk)
            self.token_vectors = said == _WITH_TOKEN_VECTORS
        self.description = document
        return len(self.chunks)


@dataclass(frozen=True)
class Preparation:
    """Makes passages of files. `pipeline` has DeferringEmbedders, no results to forget, and forgets its vectors.

    `act` makes the current task a caller of the tenant, anew each time: tokens expire.
    """

    pipeline: Pipeline
    target: Target
    max_document_bytes: int
    act: Callable[[], None]

    async def prepare(self, source: Source) -> Prepared | Outcome:
        """Passages, or what became of the file when there is nothing left to do.

        Raises Unreadable, and the errors of services/runtime.
        """
        self.act()
        content = await asyncio.to_thread(files.read, source, self.max_document_bytes)
        job_id = f"bulk_{secrets.token_hex(12)}"
        spool = self.pipeline.spool
        stored = await spool.put(job_id, _whole(content))
        if not stored.size_bytes:
            spool.drop(job_id)
            return Outcome(source.document_id, source.uri, "empty", "The file is empty.", stored.sha256, source.stamp)
        del content
        try:
            return await self._prepare(source, stored.sha256, job_id)
        finally:
            await asyncio.to_thread(spool.drop, job_id)

    async def _prepare(self, source: Source, sha256: str, job_id: str) -> Prepared | Outcome:
        index = _NotingIndex(self.pipeline.index)
        language = await collection_language(self.pipeline.index, self.target.collection)
        job = Job(self.target.submission(source, sha256, language, job_id))
        done = await replace(self.pipeline, index=index).run(job, self._keep)
        if index.description is None:
            about = source.document_id, source.uri
            return Outcome(*about, "unchanged", "", sha256, source.stamp, done.chunk_count)
        return Prepared(source, sha256, index.description, index.chunks, index.token_vectors, done.warnings)

    async def _keep(self, job: Job) -> None:
        self.act()


async def collection_language(index: Index, name: str) -> str:
    """Empty where the collection has none. A collection that is not there is the pipeline's to complain of."""
    collection = (await index.collections()).get(name)
    return collection.language if collection else ""


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content
