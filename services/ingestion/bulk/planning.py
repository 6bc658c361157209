"""What a run has left to do, as far as that can be known without reading a file.

Whether a document is up to date is the pipeline's own judgement: it is run with what the index has and the hash that
the ledger remembers, and ends before it would read the file, or does not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from services.ingestion.bulk.clients import DocumentList
from services.ingestion.bulk.corpus import EMPTY_SHA256, Outcome, Source, Target, failed
from services.ingestion.cutting.chunking import Chunk
from services.ingestion.document import (
    Collection,
    Description,
    Embedder,
    Embedders,
    Index,
    Model,
    Pipeline,
    Stopped,
    StoredDocument,
)
from services.ingestion.jobs import Job
from services.runtime.errors import NotFound


@dataclass(frozen=True)
class Plan:
    """`todo` has to be read at least; `done` needs nothing, or can never be done."""

    todo: Sequence[Source]
    done: Sequence[Outcome]


@dataclass(frozen=True)
class _Snapshot:
    """An Index as it was at the start of the run."""

    by_name: dict[str, Collection]
    by_id: dict[str, StoredDocument]

    async def collections(self) -> dict[str, Collection]:
        return self.by_name

    async def stored(self, document_id: str) -> StoredDocument | None:
        return self.by_id.get(document_id)

    async def put(self, document: Description, chunks: Iterator[tuple[Chunk, bytes]]) -> int:
        raise Stopped


@dataclass(frozen=True)
class _Described:
    """An Embedder that was asked once what it is."""

    real: Embedder
    model: Model

    async def describe(self) -> Model:
        return self.model

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return await self.real.count_tokens(texts)

    async def embed(self, texts: Sequence[str], language: str, *, token_vectors: bool) -> list[bytes]:
        return await self.real.embed(texts, language, token_vectors=token_vectors)

    async def embed_dense(self, texts: Sequence[str]) -> list[Sequence[float]]:
        return await self.real.embed_dense(texts)


@dataclass
class _AskedOnce:
    """Embedders that are not asked anew for each document."""

    real: Embedders
    known: dict[str, Embedder] = field(default_factory=dict[str, Embedder])

    async def embedder_for(self, model: str) -> Embedder:
        if model not in self.known:
            embedder = await self.real.embedder_for(model)
            self.known[model] = _Described(embedder, await embedder.describe())
        return self.known[model]


@dataclass(frozen=True)
class Planning:
    """`pipeline` is that of the run."""

    pipeline: Pipeline
    index: Index
    documents: DocumentList
    target: Target

    async def plan(self, sources: Sequence[Source], sha256s: dict[str, str]) -> Plan:
        """`sha256s`: of files that have not changed since, by document id. Raises NotFound for the collection.

        Raises the errors of services/runtime.
        """
        collections = await self.index.collections()
        if self.target.collection not in collections:
            known = ", ".join(f"`{name}`" for name in sorted(collections)) or "none"
            raise NotFound(f"There is no collection `{self.target.collection}`; existing are: {known}.")
        stored = {one.document_id: one.stored async for one in self.documents.documents()}
        snapshot = _Snapshot(collections, stored)
        pipeline = replace(self.pipeline, index=snapshot, embedders=_AskedOnce(self.pipeline.embedders))
        todo: list[Source] = []
        done: list[Outcome] = []
        for source in sources:
            outcome = await self._judged(source, sha256s.get(source.document_id, ""), pipeline, snapshot)
            if outcome is None:
                todo.append(source)
            else:
                done.append(outcome)
        return Plan(todo, done)

    async def _judged(self, source: Source, sha256: str, pipeline: Pipeline, snapshot: _Snapshot) -> Outcome | None:
        there = snapshot.by_id.get(source.document_id)
        if there is not None and there.collection != self.target.collection:
            return failed(
                source,
                f"There is a document `{source.document_id}` in `{there.collection}`; choose another --prefix.",
            )
        about = source.document_id, source.uri
        if sha256 == EMPTY_SHA256:
            return Outcome(*about, "empty", "The file is empty.", sha256, source.stamp)
        if there is None or not sha256:
            return None
        language = snapshot.by_name[self.target.collection].language
        job = Job(self.target.submission(source, sha256, language, "planned"))
        try:
            ready = await pipeline.run(job, _stop)
        except Stopped:
            return None
        return Outcome(*about, "unchanged", "", sha256, source.stamp, ready.chunk_count)


async def _stop(job: Job) -> None:
    raise Stopped
