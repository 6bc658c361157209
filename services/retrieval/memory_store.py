"""Store in this process's memory: exact search, nothing kept. For tests and try-outs."""

import math
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from services.retrieval import payload
from services.retrieval.store import (
    LEG_LIMIT,
    NEVER,
    RRF_K,
    Collection,
    Document,
    Filter,
    Hit,
    Mode,
    NewChunk,
    Query,
    SparseTerms,
    Stored,
    StoredChunk,
)
from services.runtime.errors import InvalidField


@dataclass(frozen=True)
class _Kept:
    document: Document
    chunks: Sequence[NewChunk]


class MemoryStore:
    """Compares every chunk. Ranks as the others do: cosine, BM25 with IDF among the tenant's chunks, RRF."""

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str], _Kept] = {}
        self._collections: dict[tuple[str, str], Collection] = {}
        self._dimensions: dict[str, int] = {}

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def search(self, tenant: str, query: Query) -> list[Hit]:
        for name in query.filter.collections:
            self._require_collection(tenant, name)
        mine = [k for (t, _), k in self._documents.items() if t == tenant and k.document.embedding_model == query.model]
        corpus = [chunk for kept in mine for chunk in kept.chunks]
        weights = _with_idf(query.sparse, [chunk.sparse for chunk in corpus])
        hits: list[Hit] = []
        for kept in mine:
            if not _matches(kept.document, query.filter):
                continue
            for position, chunk in enumerate(kept.chunks):
                dense = _cosine(query.dense, chunk.dense) if query.mode is not Mode.SPARSE else 0.0
                sparse = _dot(weights, chunk.sparse) if query.mode is not Mode.DENSE else 0.0
                tokens = chunk.tokens if query.with_tokens else None
                hits.append(Hit(_stored(kept.document, chunk, position), dense, sparse, 0.0, tokens))
        return _fused(hits, query.mode, query.limit)

    async def languages(self, tenant: str, collections: Sequence[str]) -> list[str]:
        documents = [k.document for (t, _), k in self._documents.items() if t == tenant]
        return sorted({d.language for d in documents if not collections or d.collection in collections})

    async def put_document(self, tenant: str, document: Document, chunks: AsyncIterable[NewChunk]) -> Stored:
        self._require_collection(tenant, document.collection)
        before = self._documents.get((tenant, document.document_id))
        if before is not None and before.document.says_the_same_as(document):
            await payload.count(chunks)
            return Stored(len(before.chunks), replaced=False)
        known = self._dimensions.get(document.embedding_model, 0)
        arrived = [chunk async for batch in payload.batches(chunks, known) for chunk in batch]
        self._require_collection(tenant, document.collection)
        if arrived:
            dimensions = self._dimensions.setdefault(document.embedding_model, len(arrived[0].dense))
            if dimensions != len(arrived[0].dense):
                raise InvalidField(f"`chunk.dense` must have {dimensions} values.", field="chunk.dense")
        final = replace(document, chunk_count=len(arrived), update_time=datetime.now(UTC))
        self._documents[tenant, document.document_id] = _Kept(final, arrived)
        return Stored(len(arrived), replaced=before is not None)

    async def delete_document(self, tenant: str, document_id: str) -> int:
        kept = self._documents.pop((tenant, document_id), None)
        if kept is None:
            raise payload.no_document(document_id)
        return len(kept.chunks)

    async def get_document(self, tenant: str, document_id: str) -> Document:
        return self._kept(tenant, document_id).document

    async def list_documents(self, tenant: str, collection: str, after: str, limit: int) -> list[Document]:
        documents = [k.document for (t, _), k in self._documents.items() if t == tenant]
        wanted = [d for d in documents if d.document_id > after and collection in ("", d.collection)]
        return sorted(wanted, key=lambda d: d.document_id)[:limit]

    async def get_chunks(self, tenant: str, document_id: str) -> list[StoredChunk]:
        kept = self._kept(tenant, document_id)
        return [_stored(kept.document, chunk, position) for position, chunk in enumerate(kept.chunks)]

    async def put_collection(self, tenant: str, collection: Collection) -> Collection:
        self._collections[tenant, collection.name] = collection
        return next(c for c in await self.list_collections(tenant) if c.name == collection.name)

    async def delete_collection(self, tenant: str, name: str) -> int:
        self._require_collection(tenant, name)
        del self._collections[tenant, name]
        gone = [key for key, k in self._documents.items() if key[0] == tenant and k.document.collection == name]
        for key in gone:
            del self._documents[key]
        return len(gone)

    async def list_collections(self, tenant: str) -> list[Collection]:
        documents = [kept.document for (owner, _), kept in self._documents.items() if owner == tenant]
        found: list[Collection] = []
        for (owner, name), collection in sorted(self._collections.items()):
            if owner == tenant:
                mine = [document for document in documents if document.collection == name]
                latest = max((document.update_time for document in mine), default=NEVER)
                found.append(replace(collection, document_count=len(mine), update_time=latest))
        return found

    def _kept(self, tenant: str, document_id: str) -> _Kept:
        kept = self._documents.get((tenant, document_id))
        if kept is None:
            raise payload.no_document(document_id)
        return kept

    def _require_collection(self, tenant: str, name: str) -> None:
        if (tenant, name) not in self._collections:
            raise payload.no_collection(name)


def _matches(document: Document, wanted: Filter) -> bool:
    return (
        (not wanted.collections or document.collection in wanted.collections)
        and (not wanted.document_ids or document.document_id in wanted.document_ids)
        and wanted.language in ("", document.language)
        and all(document.metadata.get(c.key) in c.any_of for c in wanted.conditions)
    )


def _stored(document: Document, chunk: NewChunk, position: int) -> StoredChunk:
    return StoredChunk(
        document_id=document.document_id,
        position=position,
        text=chunk.text,
        collection=document.collection,
        title=document.title,
        source=document.source,
        page=chunk.page,
        section=chunk.section,
        language=document.language,
        metadata=document.metadata,
    )


def _fused(hits: list[Hit], mode: Mode, limit: int) -> list[Hit]:
    by_meaning = [] if mode is Mode.SPARSE else sorted(hits, key=lambda h: -h.dense)[: max(LEG_LIMIT, limit)]
    by_words = sorted((h for h in hits if h.sparse > 0), key=lambda h: -h.sparse)[: max(LEG_LIMIT, limit)]
    if mode is Mode.HYBRID and by_words:
        fused: dict[str, float] = {}
        for leg in (by_meaning, by_words):
            for rank, hit in enumerate(leg):
                # Qdrant counts ranks from 0.
                fused[hit.chunk.chunk_id] = fused.get(hit.chunk.chunk_id, 0.0) + 1 / (RRF_K + rank)
        found = [replace(h, fused=fused[h.chunk.chunk_id]) for h in hits if h.chunk.chunk_id in fused]
    elif mode is Mode.SPARSE:
        found = [replace(h, fused=h.sparse) for h in by_words]
    else:
        found = [replace(h, fused=h.dense) for h in by_meaning]
    return sorted(found, key=lambda h: -h.fused)[:limit]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    a, b = np.asarray(one, np.float32), np.asarray(other, np.float32)
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else 0.0


def _with_idf(terms: SparseTerms, corpus: Iterable[SparseTerms]) -> dict[int, float]:
    """Query weights times the smoothed IDF that Qdrant uses: ln(1 + (n - df + 0.5) / (df + 0.5))."""
    indexed = [set(one.indices) for one in corpus]
    weights: dict[int, float] = {}
    for index, value in zip(terms.indices, terms.values, strict=True):
        frequency = sum(index in one for one in indexed)
        weights[index] = value * math.log(1 + (len(indexed) - frequency + 0.5) / (frequency + 0.5))
    return weights


def _dot(weights: dict[int, float], terms: SparseTerms) -> float:
    return sum(weights.get(index, 0.0) * value for index, value in zip(terms.indices, terms.values, strict=True))
