"""Store in this process's memory: exact search, nothing kept. For tests and try-outs."""

import math
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from services.retrieval import late_interaction, payload, refusals, token_codec
from services.retrieval.placement import placement
from services.retrieval.store import (
    ALL_LABELS,
    NEVER,
    Collection,
    Document,
    Filter,
    Hit,
    Migration,
    MigrationState,
    Mode,
    NewChunk,
    Query,
    Reader,
    SparseTerms,
    Stored,
    StoredChunk,
    TokenMatrix,
)


@dataclass(frozen=True)
class _Kept:
    """A version of a document."""

    document: Document
    chunks: Sequence[NewChunk]


class MemoryStore:
    """Compares every chunk. Scores as the others do: cosine, BM25 with IDF among the tenant's chunks of one place."""

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str], _Kept] = {}
        self._second: dict[tuple[str, str], _Kept] = {}
        self._collections: dict[tuple[str, str], Collection] = {}

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def search(self, reader: Reader, query: Query) -> list[Hit]:
        self._require(reader.tenant, query.filter.collections)
        places: dict[str, list[_Kept]] = {}
        for (tenant, _), kept in self._documents.items():
            document = kept.document
            if tenant == reader.tenant and document.embedding_model == query.model:
                index = self._collections[tenant, document.collection].index
                name = placement(query.model, index, document.learned_sparse).name
                places.setdefault(name, []).append(kept)
        return [hit for corpus in places.values() for hit in _search(reader, query, corpus)]

    async def late_scores(
        self, reader: Reader, model: str, hits: Sequence[Hit], tokens: TokenMatrix
    ) -> Sequence[float | None]:
        packed: list[bytes | None] = []
        for hit in hits:
            kept = self._documents.get((reader.tenant, hit.chunk.document_id))
            position = hit.chunk.position
            is_there = kept is not None and reader.may_read(kept.document.labels) and hit.place == _place(kept)
            matrix = kept.chunks[position].tokens if kept is not None and is_there else None
            packed.append(token_codec.pack(matrix) if matrix else None)
        return late_interaction.late_scores(tokens, packed)

    async def models(self, reader: Reader, collections: Sequence[str]) -> dict[str, str]:
        self._require(reader.tenant, collections)
        known = {name: one.model for (tenant, name), one in self._collections.items() if tenant == reader.tenant}
        return {name: model for name, model in known.items() if not collections or name in collections}

    async def languages(self, reader: Reader, collections: Sequence[str]) -> list[str]:
        documents = self._open_documents(reader)
        return sorted({d.language for d in documents if not collections or d.collection in collections})

    async def put_document(self, reader: Reader, document: Document, chunks: AsyncIterable[NewChunk]) -> Stored:
        self._check(reader, document)
        key = (reader.tenant, document.document_id)
        before = self._documents.get(key)
        if before is not None and before.document.says_the_same_as(document):
            await payload.count(chunks)
            return Stored(len(before.chunks), replaced=False)
        arrived = await self._arrived(document.embedding_model, chunks)
        self._check(reader, document)
        before = self._documents.get(key)
        final = replace(document, chunk_count=len(arrived), update_time=datetime.now(UTC))
        self._documents[key] = _Kept(final, arrived)
        self._second.pop(key, None)
        where = (reader.tenant, document.collection)
        self._collections[where] = replace(self._collections[where], model=document.embedding_model)
        return Stored(len(arrived), replaced=before is not None)

    def _check(self, reader: Reader, document: Document) -> None:
        refusals.check_labels(reader, document)
        self._require(reader.tenant, [document.collection])
        known = self._collections[reader.tenant, document.collection]
        if known.model != document.embedding_model and self._of(reader.tenant, known.name):
            raise refusals.other_model(known.name, known.model, document.embedding_model)
        before = self._documents.get((reader.tenant, document.document_id))
        if before is not None and not reader.may_read(before.document.labels):
            raise refusals.closed_document(document.document_id)

    async def _arrived(self, model: str, chunks: AsyncIterable[NewChunk]) -> list[NewChunk]:
        known = (kept for kept in [*self._documents.values(), *self._second.values()] if kept.chunks)
        dimensions = next((len(k.chunks[0].dense) for k in known if k.document.embedding_model == model), 0)
        return [chunk async for batch in payload.batches(chunks, model, dimensions) for chunk in batch]

    async def delete_document(self, reader: Reader, document_id: str) -> int:
        count = len(self._kept(reader, document_id).chunks)
        self._remove(reader.tenant, [document_id])
        return count

    def _remove(self, tenant: str, document_ids: Iterable[str]) -> None:
        for document_id in document_ids:
            self._documents.pop((tenant, document_id), None)
            self._second.pop((tenant, document_id), None)

    async def get_document(self, reader: Reader, document_id: str) -> Document:
        return self._kept(reader, document_id).document

    async def list_documents(self, reader: Reader, collection: str, after: str, limit: int) -> list[Document]:
        documents = self._open_documents(reader)
        wanted = [d for d in documents if d.document_id > after and collection in ("", d.collection)]
        return sorted(wanted, key=lambda d: d.document_id)[:limit]

    async def get_chunks(self, reader: Reader, document_id: str) -> list[StoredChunk]:
        return _stored_chunks(self._kept(reader, document_id))

    async def put_collection(self, reader: Reader, collection: Collection) -> Collection:
        key = (reader.tenant, collection.name)
        known = self._collections.get(key)
        if known is not None:
            held = len(self._of(reader.tenant, collection.name))
            refusals.check_index(replace(known, document_count=held), collection.index)
        kept = {"model": known.model, "migration": known.migration} if known else {"model": "", "migration": None}
        self._collections[key] = replace(collection, **kept)
        return self._collection(reader, collection.name)

    async def delete_collection(self, reader: Reader, name: str) -> int:
        self._require(reader.tenant, [name])
        documents = self._of(reader.tenant, name)
        if any(not reader.may_read(document.labels) for document in documents):
            raise refusals.closed_collection(name)
        self._remove(reader.tenant, [document.document_id for document in documents])
        del self._collections[reader.tenant, name]
        return len(documents)

    async def list_collections(self, reader: Reader) -> list[Collection]:
        return [self._collection(reader, name) for tenant, name in sorted(self._collections) if tenant == reader.tenant]

    def _collection(self, reader: Reader, name: str) -> Collection:
        known = self._collections[reader.tenant, name]
        mine = [document for document in self._open_documents(reader) if document.collection == name]
        latest = max((document.update_time for document in mine), default=NEVER)
        migration = known.migration
        if migration is not None and migration.state is MigrationState.RUNNING:
            everything = self._of(reader.tenant, name)
            done = len(everything) - len(self._unmigrated(reader.tenant, name))
            migration = replace(migration, done_count=done, total_count=len(everything))
        return replace(known, migration=migration, document_count=len(mine), update_time=latest)

    async def migrations(self) -> list[tuple[str, Collection]]:
        running = [key for key in self._collections if self._running(*key)]
        return [(tenant, self._collection(Reader(tenant, (ALL_LABELS,)), name)) for tenant, name in running]

    async def begin_migration(self, tenant: str, name: str, migration: Migration) -> Collection:
        self._require(tenant, [name])
        self._forget_second(tenant, name)
        started = replace(migration, state=MigrationState.RUNNING, reason="")
        self._collections[tenant, name] = replace(self._collections[tenant, name], migration=started)
        return self._collection(Reader(tenant, (ALL_LABELS,)), name)

    async def next_unmigrated(self, tenant: str, name: str) -> tuple[Document, list[StoredChunk]] | None:
        self._require(tenant, [name])
        waiting = self._unmigrated(tenant, name) if self._running(tenant, name) else []
        if not waiting:
            return None
        kept = self._documents[tenant, min(waiting)]
        return kept.document, _stored_chunks(kept)

    async def put_second_version(self, tenant: str, document: Document, chunks: Sequence[NewChunk]) -> None:
        key = (tenant, document.document_id)
        kept, migration = self._documents.get(key), self._running(tenant, document.collection)
        if kept is None or kept.document != document or migration is None:
            return
        arrived = await self._arrived(migration.model, payload.each(chunks))
        second = replace(
            document,
            embedding_model=migration.model,
            learned_sparse=migration.learned_sparse,
            chunk_count=len(chunks),
        )
        self._second[key] = _Kept(second, arrived)

    async def end_migration(self, tenant: str, name: str, state: MigrationState, reason: str = "") -> bool:
        self._require(tenant, [name])
        if self._running(tenant, name) is None:
            return False
        known = self._collection(Reader(tenant, (ALL_LABELS,)), name)
        if state is MigrationState.DONE:
            if self._unmigrated(tenant, name):
                return False
            for document in self._of(tenant, name):
                key = (tenant, document.document_id)
                self._documents[key] = self._second[key]
        ended = replace(known.migration, state=state, reason=reason) if known.migration else None
        if ended and state is MigrationState.DONE:
            known = replace(known, model=ended.model, index=ended.index)
        self._collections[tenant, name] = replace(known, migration=ended)
        self._forget_second(tenant, name)
        return True

    def _running(self, tenant: str, name: str) -> Migration | None:
        known = self._collections.get((tenant, name))
        migration = known.migration if known else None
        return migration if migration and migration.state is MigrationState.RUNNING else None

    def _unmigrated(self, tenant: str, name: str) -> list[str]:
        documents = self._of(tenant, name)
        return [d.document_id for d in documents if (tenant, d.document_id) not in self._second]

    def _forget_second(self, tenant: str, name: str) -> None:
        for document in self._of(tenant, name):
            self._second.pop((tenant, document.document_id), None)

    def _of(self, tenant: str, name: str) -> list[Document]:
        mine = [kept.document for (owner, _), kept in self._documents.items() if owner == tenant]
        return [document for document in mine if document.collection == name]

    def _open_documents(self, reader: Reader) -> list[Document]:
        mine = [kept.document for (tenant, _), kept in self._documents.items() if tenant == reader.tenant]
        return [document for document in mine if reader.may_read(document.labels)]

    def _kept(self, reader: Reader, document_id: str) -> _Kept:
        kept = self._documents.get((reader.tenant, document_id))
        if kept is None or not reader.may_read(kept.document.labels):
            raise refusals.no_document(document_id)
        return kept

    def _require(self, tenant: str, names: Sequence[str]) -> None:
        for name in names:
            if (tenant, name) not in self._collections:
                raise refusals.no_collection(name)


def _search(reader: Reader, query: Query, corpus: Sequence[_Kept]) -> list[Hit]:
    """The candidates of one place: the best of each leg."""
    learned = corpus[0].document.learned_sparse
    weights = _weights(query.sparse, [] if learned else [chunk.sparse for kept in corpus for chunk in kept.chunks])
    hits: list[Hit] = []
    for kept in corpus:
        if not reader.may_read(kept.document.labels) or not _matches(kept.document, query.filter):
            continue
        for stored, chunk in zip(_stored_chunks(kept), kept.chunks, strict=True):
            unit = _unit(chunk.dense)
            dense = float(_unit(query.dense) @ unit) if query.mode is not Mode.SPARSE else 0.0
            sparse = _dot(weights, chunk.sparse) if query.mode is not Mode.DENSE else 0.0
            vector = unit.tolist() if query.with_vectors else ()
            hits.append(Hit(stored, dense, sparse, _place(kept), vector))
    by_meaning = [] if query.mode is Mode.SPARSE else sorted(hits, key=lambda h: (-h.dense, h.chunk.chunk_id))
    by_words = sorted((h for h in hits if h.sparse), key=lambda h: (-h.sparse, h.chunk.chunk_id))
    best = {h.chunk.chunk_id: h for leg in (by_meaning, by_words) for h in leg[: query.limit]}
    return list(best.values())


def _matches(document: Document, wanted: Filter) -> bool:
    return (
        (not wanted.collections or document.collection in wanted.collections)
        and (not wanted.document_ids or document.document_id in wanted.document_ids)
        and wanted.language in ("", document.language)
        and all(document.metadata.get(c.key) in c.any_of for c in wanted.conditions)
    )


def _place(kept: _Kept) -> str:
    return kept.document.update_time.isoformat()


def _stored_chunks(kept: _Kept) -> list[StoredChunk]:
    return [
        payload.chunk_of(payload.chunk_payload("", "", "", kept.document, chunk, position))
        for position, chunk in enumerate(kept.chunks)
    ]


def _unit(vector: Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    values = np.asarray(vector, np.float32)
    length = np.float32(np.linalg.norm(values))
    return values / length if length else values


def _weights(terms: SparseTerms, corpus: Sequence[SparseTerms]) -> dict[int, float]:
    """Query weights, times Qdrant's smoothed IDF, ln(1 + (n - df + 0.5) / (df + 0.5)), where there is a corpus."""
    indexed = [set(one.indices) for one in corpus]
    weights = dict(zip(terms.indices, terms.values, strict=True))
    for index in weights if indexed else ():
        frequency = sum(index in one for one in indexed)
        weights[index] *= math.log(1 + (len(indexed) - frequency + 0.5) / (frequency + 0.5))
    return weights


def _dot(weights: dict[int, float], terms: SparseTerms) -> float:
    return sum(weights.get(index, 0.0) * value for index, value in zip(terms.indices, terms.values, strict=True))
