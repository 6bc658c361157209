"""Store on a Qdrant server, for several replicas of this service.

    <prefix>registry            a point for each collection and document, and for what is to be deleted
    <prefix>chunks-<model>-…    one for each placement; a point for each passage: dense, sparse and token vectors

As in the embedded store, a document's points are written under a new generation, one change of its point in the
registry makes them current, and only then are the old ones deleted. An edition is all of a collection's vectors of one
model and index; one change of the collection's point ends a migration. Every change is bound to the state in which the
point was read (cells.py): of two replicas one is first, and the other one looks again.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic

import numpy as np
from qdrant_client import AsyncQdrantClient

from services.retrieval import late_interaction, payload
from services.retrieval.qdrant.cells import Cells
from services.retrieval.qdrant.collections import QdrantCollections
from services.retrieval.qdrant.documents import QdrantDocuments
from services.retrieval.qdrant.loose import Generations, Loose
from services.retrieval.qdrant.migrations import QdrantMigrations
from services.retrieval.qdrant.places import Places
from services.retrieval.qdrant.points import Points
from services.retrieval.qdrant.rows import Target, Version
from services.retrieval.qdrant.search import QdrantSearch
from services.retrieval.store import (
    ALL_LABELS,
    Collection,
    Distribution,
    Document,
    Hit,
    Migration,
    MigrationState,
    NewChunk,
    Query,
    Reader,
    Stored,
    StoredChunk,
    TokenMatrix,
)
from services.runtime.errors import DependencyFailed, NotFound

# A note of an upload is renewed after this time, long before others take it for abandoned.
_RENEW_AFTER_SECONDS = 600
_SWEEP_EVERY_SECONDS = 3600


@dataclass
class _Upload:
    """A generation that is being written; `may_count` from when it is committed."""

    generation: str
    loose: Generations
    may_count: bool = False


class QdrantStore:
    """Keeps everything in the server: any replica can answer any call."""

    def __init__(
        self,
        client: AsyncQdrantClient,
        *,
        prefix: str = "sabueso-",
        payload_indexes: bool = True,
        defaults: Distribution | None = None,
    ) -> None:
        """`prefix` begins the names of the server's collections.

        `payload_indexes`: False for the client's memory mode, which has no indexes of any kind. `defaults`: for what
        does not say of itself how it is distributed, and for the registry.
        """
        self._client = client
        self._swept = monotonic()
        self._places = Places(client, prefix, indexed=payload_indexes, defaults=defaults)
        cells = Cells(self._places)
        self._loose = Loose(self._places, cells)
        self._points = Points(self._places)
        self._collections = QdrantCollections(self._places, cells, self._loose)
        self._documents = QdrantDocuments(cells, self._loose, self._collections)
        self._migrations = QdrantMigrations(cells, self._loose, self._collections, self._documents)
        self._search = QdrantSearch(self._places, self._collections, self._documents)

    async def open(self) -> None:
        """Raises UnusableServer when the server is too old, of another format or lacks a payload index."""
        await self._places.open()
        await self._collections.replicate_all()
        await self._loose.sweep()
        self._swept = monotonic()

    async def close(self) -> None:
        await self._client.close()

    async def search(self, reader: Reader, query: Query) -> list[Hit]:
        return await self._search.search(reader, query)

    async def late_scores(
        self, reader: Reader, model: str, hits: Sequence[Hit], tokens: TokenMatrix
    ) -> Sequence[float | None]:
        by_place: dict[str, list[str]] = {}
        for hit in hits:
            name, _, id = hit.place.rpartition("/")
            if name:
                by_place.setdefault(name, []).append(id)
        answers = await asyncio.gather(
            *(self._points.similarities(reader, name, ids, tokens) for name, ids in by_place.items())
        )
        best = {id: row for answer in answers for id, row in answer.items()}
        if not best:
            return [None] * len(hits)
        averages = late_interaction.averaged(np.array(list(best.values()), np.float32))
        scores = dict(zip(best, averages, strict=True))
        return [scores.get(hit.place.rpartition("/")[2]) for hit in hits]

    async def models(self, reader: Reader, collections: Sequence[str]) -> dict[str, str]:
        known = await self._collections.rows(reader.tenant, collections)
        return {name: row.settings.model for name, row in known.items() if not collections or name in collections}

    async def languages(self, reader: Reader, collections: Sequence[str]) -> list[str]:
        return await self._collections.languages(reader, collections)

    async def put_document(self, reader: Reader, document: Document, chunks: AsyncIterable[NewChunk]) -> Stored:
        target = await self._documents.check(reader, document)
        before = await self._find(reader, document.document_id)
        if before is not None and before.says_the_same_as(document):
            await payload.count(chunks)
            return Stored(before.chunk_count, replaced=False)
        async with self._upload(reader.tenant, document.document_id, target) as upload:
            total = await self._write(upload, document, target, chunks)
            final = replace(document, chunk_count=total, update_time=datetime.now(UTC))
            upload.may_count = True
            replaced = await self._documents.commit(reader, final, upload.generation, target)
        await self._sweep_if_due()
        return Stored(total, replaced)

    async def _find(self, reader: Reader, document_id: str) -> Document | None:
        with contextlib.suppress(NotFound):
            return await self.get_document(reader, document_id)
        return None

    @contextlib.asynccontextmanager
    async def _upload(self, tenant: str, document_id: str, target: Target) -> AsyncGenerator[_Upload]:
        """A new generation to write. When that fails its points are deleted, unless it may count by now."""
        generation = payload.new_generation()
        upload = _Upload(generation, Generations(tenant, document_id, [Version(generation, target.placement, 0)]))
        await self._loose.note(upload.loose)
        try:
            yield upload
        except BaseException as error:
            # Without an answer a change may have been made, or be made yet: a later sweep looks.
            if not (upload.may_count and isinstance(error, DependencyFailed | asyncio.CancelledError)):
                await asyncio.shield(self._loose.delete_or_leave(upload.loose))
            raise

    async def _write(self, upload: _Upload, document: Document, target: Target, chunks: AsyncIterable[NewChunk]) -> int:
        total = 0
        noted = monotonic()
        tenant = upload.loose.tenant
        async for count in self._points.write(tenant, document, upload.generation, target, chunks):
            total += count
            if monotonic() - noted > _RENEW_AFTER_SECONDS:
                noted = monotonic()
                await self._loose.note(upload.loose)
        return total

    async def _sweep_if_due(self) -> None:
        if monotonic() - self._swept > _SWEEP_EVERY_SECONDS:
            self._swept = monotonic()
            with contextlib.suppress(DependencyFailed):
                await self._loose.sweep()

    async def delete_document(self, reader: Reader, document_id: str) -> int:
        return await self._documents.delete(reader, document_id)

    async def get_document(self, reader: Reader, document_id: str) -> Document:
        _, document, _ = await self._documents.seen(reader, document_id)
        return document

    async def list_documents(self, reader: Reader, collection: str, after: str, limit: int) -> list[Document]:
        return await self._documents.page(reader, collection, after, limit)

    async def get_chunks(self, reader: Reader, document_id: str) -> list[StoredChunk]:
        _, chunks = await self._read(reader, document_id)
        return chunks

    async def _read(self, reader: Reader, document_id: str) -> tuple[Document, list[StoredChunk]]:
        while True:
            _, document, version = await self._documents.seen(reader, document_id)
            chunks = await self._points.read(reader.tenant, version)
            if len(chunks) == version.chunk_count:
                return document, chunks
            # It was replaced or deleted while we read: the registry says which.
            _, _, again = await self._documents.seen(reader, document_id)
            if again == version:
                raise DependencyFailed("The vector store lacks passages of the document.", dependency="qdrant")

    async def put_collection(self, reader: Reader, collection: Collection) -> Collection:
        return await self._collections.put(reader, collection)

    async def delete_collection(self, reader: Reader, name: str) -> int:
        return await self._collections.delete(reader, name)

    async def list_collections(self, reader: Reader) -> list[Collection]:
        rows = await self._collections.rows(reader.tenant)
        return list(await asyncio.gather(*(self._collections.described(reader, row) for row in rows.values())))

    async def migrations(self) -> list[tuple[str, Collection]]:
        return await self._migrations.running()

    async def begin_migration(self, tenant: str, name: str, migration: Migration) -> Collection:
        return await self._migrations.begin(tenant, name, migration)

    async def next_unmigrated(self, tenant: str, name: str) -> tuple[Document, list[StoredChunk]] | None:
        while (document_id := await self._migrations.next_document(tenant, name)) is not None:
            with contextlib.suppress(NotFound):  # deleted meanwhile
                return await self._read(Reader(tenant, (ALL_LABELS,)), document_id)
        return None

    async def put_second_version(self, tenant: str, document: Document, chunks: Sequence[NewChunk]) -> None:
        target = await self._migrations.target(tenant, document)
        if target is None:
            return
        where = target.placement
        second = replace(document, embedding_model=where.model, learned_sparse=where.learned_sparse)
        async with self._upload(tenant, document.document_id, target) as upload:
            total = await self._write(upload, second, target, payload.each(chunks))
            upload.may_count = True
            await self._migrations.commit(tenant, document, Version(upload.generation, where, total), target)

    async def end_migration(self, tenant: str, name: str, state: MigrationState, reason: str = "") -> bool:
        return await self._migrations.end(tenant, name, state, reason)
