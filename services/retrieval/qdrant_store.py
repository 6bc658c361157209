"""Store on a Qdrant server, for several replicas of this service.

    chunks-<model>          points with dense and sparse vectors
    chunks-<model>-tokens   token vectors of the same points, as base64: read for the candidates of a rerank only
    registry                one point a collection, a document and a generation; documents decide what readers see

As in the embedded store, a document's points are written under a new generation, one write of its registry point
makes them current, and only then are the old ones deleted. Of two replicas that store the same document at once, the
one that began later wins.
"""

import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from services.retrieval import payload
from services.retrieval import qdrant_requests as asked
from services.retrieval.freshness import ROUNDS, Freshness
from services.retrieval.store import (
    NEVER,
    Collection,
    Document,
    Hit,
    NewChunk,
    Query,
    Stored,
    StoredChunk,
    TokenMatrix,
)
from services.runtime.errors import DependencyFailed, InvalidField

_REGISTRY = "registry"
_PAGE = 1000
# A search looks as wide as the graph was built. Recall@10 against exact search is above 0.98.
_HNSW = models.HnswConfigDiff(m=16, ef_construct=128)
# An upload that has not ended by then never will.
_ABANDONED_AFTER = timedelta(hours=1)


@contextlib.asynccontextmanager
async def _answering() -> AsyncGenerator[None]:
    try:
        yield
    except (ResponseHandlingException, UnexpectedResponse, grpc.RpcError, OSError) as error:
        raise DependencyFailed("The vector store does not answer.", dependency="qdrant") from error


class QdrantStore:
    """Keeps everything in the server: any replica can answer any call."""

    def __init__(self, client: AsyncQdrantClient, *, payload_indexes: bool = True) -> None:
        """`payload_indexes`: False for the client's own in-memory mode, which has none."""
        self._client = client
        self._payload_indexes = payload_indexes
        self._dimensions: dict[str, int] = {}

    async def open(self) -> None:
        async with _answering():
            if not await self._client.collection_exists(_REGISTRY):
                await self._create(_REGISTRY, {}, {}, ("kind", "document_id", "collection", "language", "generation"))
            await self._sweep_abandoned()

    async def close(self) -> None:
        await self._client.close()

    async def search(self, tenant: str, query: Query) -> list[Hit]:
        async with _answering():
            for name in query.filter.collections:
                await self._require_collection(tenant, name)
            physical = payload.physical_name(query.model)
            if not await self._dimensions_of(physical):
                return []
            freshness = Freshness()
            fresh: list[tuple[str, dict[str, Any], Hit]] = []
            for _ in range(ROUNDS):
                found = await self._query(physical, asked.requests(tenant, query, freshness.excluded))
                met = [(fields["document_id"], fields["generation"]) for _, fields, _ in found]
                current = await self._generations(tenant, freshness.documents(met))
                fresh = [one for one in found if current.get(one[1]["document_id"]) == one[1]["generation"]]
                if freshness.accepts(met, current):
                    break
            if not query.with_tokens:
                return [hit for _, _, hit in fresh]
            tokens = await self._tokens(physical, [id for id, _, _ in fresh])
            return [replace(hit, tokens=tokens.get(id)) for id, _, hit in fresh]

    async def _query(self, physical: str, requests: list[models.QueryRequest]) -> list[tuple[str, dict[str, Any], Hit]]:
        if not requests:
            return []
        answers = await self._client.query_batch_points(physical, requests)
        legs: dict[str, dict[str, float]] = {"dense": {}, "sparse": {}}
        for request, answer in zip(requests, answers, strict=True):
            if request.using:
                legs[request.using] = {str(point.id): point.score for point in answer.points}
        found: list[tuple[str, dict[str, Any], Hit]] = []
        for point in answers[0].points:
            fields, id = point.payload or {}, str(point.id)
            scores = legs["dense"].get(id, 0.0), legs["sparse"].get(id, 0.0), point.score
            found.append((id, fields, Hit(payload.chunk_of(fields), *scores)))
        return found

    async def _tokens(self, physical: str, ids: list[str]) -> dict[str, TokenMatrix]:
        if not ids:
            return {}
        records = await self._client.retrieve(f"{physical}-tokens", ids, with_payload=True)
        return {
            str(record.id): TokenMatrix(record.payload["dimensions"], base64.b64decode(record.payload["values"]))
            for record in records
            if record.payload
        }

    async def languages(self, tenant: str, collections: Sequence[str]) -> list[str]:
        conditions = [asked.equals("kind", "document"), asked.equals(payload.TENANT_FIELD, tenant)]
        if collections:
            conditions.append(asked.any_of("collection", collections))
        async with _answering():
            found = await self._client.facet(_REGISTRY, "language", asked.all_of(conditions), limit=200)
        return sorted(str(hit.value) for hit in found.hits)

    async def put_document(self, tenant: str, document: Document, chunks: AsyncIterable[NewChunk]) -> Stored:
        async with _answering():
            await self._require_collection(tenant, document.collection)
            before = await self._find(tenant, document.document_id)
            if before is not None and before[0].says_the_same_as(document):
                await payload.count(chunks)
                return Stored(before[0].chunk_count, replaced=False)
            generation = payload.new_generation()
            await self._note_generation(tenant, document, generation)
            try:
                total = await self._write_chunks(tenant, document, generation, chunks)
                final = replace(document, chunk_count=total, update_time=datetime.now(UTC))
                await self._commit(tenant, final, generation)
            except BaseException:
                await self._delete_points(document.embedding_model, generation)
                raise
            await self._sweep_document(tenant, document.document_id, generation)
            return Stored(total, replaced=before is not None)

    async def _write_chunks(
        self, tenant: str, document: Document, generation: str, chunks: AsyncIterable[NewChunk]
    ) -> int:
        physical = payload.physical_name(document.embedding_model)
        total = 0
        async for batch in payload.batches(chunks, await self._dimensions_of(physical)):
            await self._require_dimensions(physical, len(batch[0].dense))
            points: list[models.PointStruct] = []
            tokens: list[models.PointStruct] = []
            for position, chunk in enumerate(batch, start=total):
                id = payload.point_id(tenant, document.document_id, generation, str(position))
                fields = payload.chunk_payload(tenant, generation, document, chunk, position)
                sparse = models.SparseVector(indices=list(chunk.sparse.indices), values=list(chunk.sparse.values))
                points.append(
                    models.PointStruct(id=id, vector={"dense": list(chunk.dense), "sparse": sparse}, payload=fields)
                )
                if chunk.tokens is not None:
                    tokens.append(_token_point(id, tenant, generation, chunk.tokens))
            if tokens:
                await self._client.upsert(f"{physical}-tokens", tokens, wait=True)
            await self._client.upsert(physical, points, wait=True)
            total += len(batch)
        return total

    async def _commit(self, tenant: str, document: Document, generation: str) -> None:
        await self._require_collection(tenant, document.collection)
        found = await self._find(tenant, document.document_id)
        if found is not None and found[1] > generation:
            await self._delete_points(document.embedding_model, generation)
            return
        fields = {
            "kind": "document",
            payload.TENANT_FIELD: tenant,
            "generation": generation,
            "document_id": document.document_id,
            "collection": document.collection,
            "embedding_model": document.embedding_model,
            "title": document.title,
            "source": document.source,
            "language": document.language,
            "metadata": dict(document.metadata),
            "content_hash": document.content_hash,
            "chunk_count": document.chunk_count,
            "update_time": document.update_time.isoformat(),
        }
        await self._put("document", tenant, document.document_id, fields)

    async def _note_generation(self, tenant: str, document: Document, generation: str) -> None:
        fields = {
            "kind": "generation",
            payload.TENANT_FIELD: tenant,
            "generation": generation,
            "document_id": document.document_id,
            "embedding_model": document.embedding_model,
            "begin_time": datetime.now(UTC).isoformat(),
        }
        await self._put("generation", tenant, generation, fields)

    async def _put(self, kind: str, tenant: str, name: str, fields: dict[str, Any]) -> None:
        point = models.PointStruct(id=payload.point_id(kind, tenant, name), vector={}, payload=fields)
        await self._client.upsert(_REGISTRY, [point], wait=True)

    async def _delete_points(self, model: str, generation: str) -> None:
        physical = payload.physical_name(model)
        if await self._dimensions_of(physical):
            for name in (physical, f"{physical}-tokens"):
                await self._client.delete(name, asked.all_of([asked.equals("generation", generation)]), wait=True)
        matching = [asked.equals("kind", "generation"), asked.equals("generation", generation)]
        await self._client.delete(_REGISTRY, asked.all_of(matching), wait=True)

    async def _sweep_document(self, tenant: str, document_id: str, before: str) -> None:
        """Deletes the generations of a document that are older than `before`."""
        about = [asked.equals("kind", "generation"), asked.equals(payload.TENANT_FIELD, tenant)]
        async for fields in self._scroll([*about, asked.equals("document_id", document_id)]):
            if fields["generation"] < before:
                await self._delete_points(fields["embedding_model"], fields["generation"])

    async def _sweep_abandoned(self) -> None:
        """Deletes what uploads and deletions left behind when their process died."""
        limit = datetime.now(UTC) - _ABANDONED_AFTER
        async for fields in self._scroll([asked.equals("kind", "generation")]):
            current = await self._find(fields[payload.TENANT_FIELD], fields["document_id"])
            counts = current is not None and current[1] == fields["generation"]
            if not counts and datetime.fromisoformat(fields["begin_time"]) < limit:
                await self._delete_points(fields["embedding_model"], fields["generation"])

    async def delete_document(self, tenant: str, document_id: str) -> int:
        async with _answering():
            document, generation = await self._require(tenant, document_id)
            await self._client.delete(_REGISTRY, [payload.point_id("document", tenant, document_id)], wait=True)
            await self._delete_points(document.embedding_model, generation)
            await self._sweep_document(tenant, document_id, generation)
            return document.chunk_count

    async def get_document(self, tenant: str, document_id: str) -> Document:
        async with _answering():
            return (await self._require(tenant, document_id))[0]

    async def list_documents(self, tenant: str, collection: str, after: str, limit: int) -> list[Document]:
        # Qdrant cannot order by a keyword: the registry's points of a tenant are small, and all of them are read.
        documents = await self._documents(tenant, [asked.equals("collection", collection)] if collection else [])
        return sorted((d for d in documents if d.document_id > after), key=lambda d: d.document_id)[:limit]

    async def get_chunks(self, tenant: str, document_id: str) -> list[StoredChunk]:
        async with _answering():
            document, generation = await self._require(tenant, document_id)
            physical = payload.physical_name(document.embedding_model)
            if not await self._dimensions_of(physical):
                return []
            found = [
                payload.chunk_of(f) async for f in self._scroll([asked.equals("generation", generation)], physical)
            ]
            return sorted(found, key=lambda chunk: chunk.position)

    async def put_collection(self, tenant: str, collection: Collection) -> Collection:
        fields = {
            "kind": "collection",
            payload.TENANT_FIELD: tenant,
            "name": collection.name,
            "description": collection.description,
            "language": collection.language,
        }
        async with _answering():
            await self._put("collection", tenant, collection.name, fields)
        return next(c for c in await self.list_collections(tenant) if c.name == collection.name)

    async def delete_collection(self, tenant: str, name: str) -> int:
        async with _answering():
            await self._require_collection(tenant, name)
            documents = await self._documents(tenant, [asked.equals("collection", name)])
            for document in documents:
                await self.delete_document(tenant, document.document_id)
            await self._client.delete(_REGISTRY, [payload.point_id("collection", tenant, name)], wait=True)
            return len(documents)

    async def list_collections(self, tenant: str) -> list[Collection]:
        async with _answering():
            mine = [asked.equals("kind", "collection"), asked.equals(payload.TENANT_FIELD, tenant)]
            found: list[Collection] = []
            async for fields in self._scroll(mine):
                documents = await self._documents(tenant, [asked.equals("collection", fields["name"])])
                latest = max((document.update_time for document in documents), default=NEVER)
                about = fields["name"], fields["description"], fields["language"]
                found.append(Collection(*about, len(documents), latest))
            return sorted(found, key=lambda c: c.name)

    async def _scroll(self, must: list[models.FieldCondition], name: str = _REGISTRY) -> AsyncGenerator[dict[str, Any]]:
        offset: Any = None
        while True:
            records, offset = await self._client.scroll(name, asked.all_of(must), limit=_PAGE, offset=offset)
            for record in records:
                yield record.payload or {}
            if offset is None:
                return

    async def _documents(self, tenant: str, conditions: list[models.FieldCondition]) -> list[Document]:
        async with _answering():
            mine = [asked.equals("kind", "document"), asked.equals(payload.TENANT_FIELD, tenant), *conditions]
            return [_document(fields) async for fields in self._scroll(mine)]

    async def _find(self, tenant: str, document_id: str) -> tuple[Document, str] | None:
        records = await self._client.retrieve(_REGISTRY, [payload.point_id("document", tenant, document_id)])
        for record in records:
            fields = record.payload or {}
            return _document(fields), fields["generation"]
        return None

    async def _require(self, tenant: str, document_id: str) -> tuple[Document, str]:
        found = await self._find(tenant, document_id)
        if found is None:
            raise payload.no_document(document_id)
        return found

    async def _generations(self, tenant: str, document_ids: Iterable[str]) -> dict[str, str]:
        ids = [payload.point_id("document", tenant, one) for one in document_ids]
        if not ids:
            return {}
        records = await self._client.retrieve(_REGISTRY, ids, with_payload=["document_id", "generation"])
        return {fields["document_id"]: fields["generation"] for r in records if (fields := r.payload or {})}

    async def _require_collection(self, tenant: str, name: str) -> None:
        if not await self._client.retrieve(_REGISTRY, [payload.point_id("collection", tenant, name)]):
            raise payload.no_collection(name)

    async def _dimensions_of(self, physical: str) -> int:
        """Length of the dense vectors, 0 when the physical collection is not there yet."""
        if physical not in self._dimensions:
            if not await self._client.collection_exists(physical):
                return 0
            vectors = (await self._client.get_collection(physical)).config.params.vectors
            self._dimensions[physical] = vectors["dense"].size if isinstance(vectors, dict) else 0
        return self._dimensions[physical]

    async def _require_dimensions(self, physical: str, dimensions: int) -> None:
        if not await self._dimensions_of(physical):
            dense = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
            sparse = models.SparseVectorParams(modifier=models.Modifier.IDF)
            await self._create(f"{physical}-tokens", {}, {}, ("generation",))
            await self._create(physical, {"dense": dense}, {"sparse": sparse}, payload.INDEXED_FIELDS)
        found = await self._dimensions_of(physical)
        if found != dimensions:
            raise InvalidField(
                f"`chunk.dense` has {dimensions} values; vectors of this model have {found}.", field="chunk.dense"
            )

    async def _create(
        self,
        name: str,
        vectors: dict[str, models.VectorParams],
        sparse: dict[str, models.SparseVectorParams],
        indexed: Sequence[str],
    ) -> None:
        if not await self._client.collection_exists(name):
            await self._client.create_collection(
                name, vectors_config=vectors, sparse_vectors_config=sparse, hnsw_config=_HNSW
            )
        if self._payload_indexes:
            keyword = models.KeywordIndexType.KEYWORD
            await self._client.create_payload_index(
                name, payload.TENANT_FIELD, models.KeywordIndexParams(type=keyword, is_tenant=True)
            )
            for field in indexed:
                await self._client.create_payload_index(name, field, models.KeywordIndexParams(type=keyword))


def _document(fields: dict[str, Any]) -> Document:
    names = ("document_id", "collection", "embedding_model", "title", "source", "language", "metadata", "content_hash")
    return Document(
        **{name: fields[name] for name in names},
        chunk_count=fields["chunk_count"],
        update_time=datetime.fromisoformat(fields["update_time"]),
    )


def _token_point(id: str, tenant: str, generation: str, tokens: TokenMatrix) -> models.PointStruct:
    fields = {
        payload.TENANT_FIELD: tenant,
        "generation": generation,
        "dimensions": tokens.dimensions,
        "values": base64.b64encode(tokens.values).decode(),
    }
    return models.PointStruct(id=id, vector={}, payload=fields)
