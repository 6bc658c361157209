"""The services around as `document.py` wants them. Converts their failures into ours."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from collections.abc import Set as AbstractSet

from grpc import aio

from sabueso.embedding.v1 import embedding_pb2 as embedding_pb
from sabueso.embedding.v1 import embedding_pb2_grpc as embedding_rpc
from sabueso.retrieval.v1 import retrieval_pb2 as retrieval_pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc as retrieval_rpc
from sabueso.tool_cache.v1 import tool_cache_pb2 as cache_pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc as cache_rpc
from services.ingestion.cutting.chunking import Chunk, Chunking, Strategy
from services.ingestion.document import Collection, Description, Model, StoredDocument
from services.runtime import errors

log = logging.getLogger(__name__)

EMBEDDING = embedding_pb.DESCRIPTOR.services_by_name["EmbeddingService"]
RETRIEVAL = retrieval_pb.DESCRIPTOR.services_by_name["RetrievalService"]
TOOL_CACHE = cache_pb.DESCRIPTOR.services_by_name["ToolCacheService"]

_MOST_COUNTED, _MOST_EMBEDDED = 4096, 32
_MOST_CHARACTERS = 2_000_000
_SHORT_SECONDS = 10
# A document is ready whether or not the cache hears of it.
_FORGET_SECONDS = 2
_EMBED_SECONDS = 120
_STORE_SECONDS = 600


def _understood(error: aio.AioRpcError, service: str) -> Exception:
    """What to raise: an error of ours, or the very error where the called service has a bug."""
    return errors.from_rpc(error, service) or error


class EmbeddingClient:
    """Embedder over gRPC."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stub = embedding_rpc.EmbeddingServiceStub(channel)

    async def describe(self) -> Model:
        """See Embedder."""
        try:
            answer = await self._stub.Describe(embedding_pb.DescribeRequest(), timeout=_SHORT_SECONDS)
        except aio.AioRpcError as error:
            raise _understood(error, "embedding") from error
        return Model(answer.model, answer.max_tokens, answer.token_vectors, answer.learned_sparse)

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See Embedder."""
        counts: list[int] = []
        for batch in _batches(texts, _MOST_COUNTED):
            try:
                request = embedding_pb.CountTokensRequest(texts=batch)
                answer = await self._stub.CountTokens(request, timeout=_EMBED_SECONDS)
            except aio.AioRpcError as error:
                raise _understood(error, "embedding") from error
            counts += answer.token_counts
        return counts

    async def embed(self, texts: Sequence[str], language: str, *, token_vectors: bool) -> list[bytes]:
        """See Embedder."""
        request = embedding_pb.EmbedRequest(
            texts=texts,
            input_type=embedding_pb.INPUT_TYPE_DOCUMENT,
            language=language,
            with_sparse=True,
            with_token_vectors=token_vectors,
        )
        answer = await self._embed(request)
        if truncated := sum(embedding.truncated for embedding in answer.embeddings):
            log.warning("passages were longer than the model's window", extra={"chunk_count": truncated})
        return [embedding.SerializeToString() for embedding in answer.embeddings]

    async def embed_dense(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """See Embedder."""
        vectors: list[Sequence[float]] = []
        for batch in _batches(texts, _MOST_EMBEDDED):
            request = embedding_pb.EmbedRequest(texts=batch, input_type=embedding_pb.INPUT_TYPE_DOCUMENT)
            vectors += [embedding.dense for embedding in (await self._embed(request)).embeddings]
        return vectors

    async def _embed(self, request: embedding_pb.EmbedRequest) -> embedding_pb.EmbedResponse:
        try:
            return await self._stub.Embed(request, timeout=_EMBED_SECONDS)
        except aio.AioRpcError as error:
            raise _understood(error, "embedding") from error


class EmbeddingClients:
    """Embedders over gRPC: one service or several, with a model each."""

    def __init__(self, clients: Sequence[EmbeddingClient]) -> None:
        """The first is the default one."""
        self._clients = clients

    async def embedder_for(self, model: str) -> EmbeddingClient:
        """See Embedders."""
        served: list[str] = []
        lost: errors.ServiceError | None = None
        for client in self._clients:
            if not model:
                return client
            try:
                described = await client.describe()
            except (errors.DependencyFailed, errors.Overloaded, errors.DeadlineExceeded) as error:
                lost = error
                continue
            if described.name == model:
                return client
            served.append(described.name)
        if lost is not None:  # it may be the very one
            raise lost
        known = ", ".join(f"`{name}`" for name in served)
        raise errors.ModelMismatch(
            f"The collection's vectors come from the model `{model}`, and the embedding service has {known}; migrate"
            " the collection (`sabueso collections migrate`), or serve its model, too.",
            model=model,
        )


def _batches(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == most or characters + len(text) > _MOST_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


class RetrievalClient:
    """Index over gRPC."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stub = retrieval_rpc.RetrievalServiceStub(channel)

    async def collections(self) -> dict[str, Collection]:
        """See Index."""
        try:
            request = retrieval_pb.ListCollectionsRequest()
            answer = await self._stub.ListCollections(request, timeout=_SHORT_SECONDS)
        except aio.AioRpcError as error:
            raise _understood(error, "retrieval") from error
        return {one.name: _collection(one) for one in answer.collections}

    async def stored(self, document_id: str) -> StoredDocument | None:
        """See Index."""
        try:
            request = retrieval_pb.GetDocumentRequest(document_id=document_id)
            document = (await self._stub.GetDocument(request, timeout=_SHORT_SECONDS)).document
        except aio.AioRpcError as error:
            known = _understood(error, "retrieval")
            if isinstance(known, errors.NotFound):
                return None
            raise known from error
        return StoredDocument(
            document.content_hash, document.title, document.chunk_count, document.page_count, document.collection
        )

    async def put(self, document: Description, chunks: Iterator[tuple[Chunk, bytes]]) -> int:
        """See Index."""
        try:
            answer = await self._stub.Upsert(_upsert(document, chunks), timeout=_STORE_SECONDS)
        except aio.AioRpcError as error:
            raise _understood(error, "retrieval") from error
        return answer.chunk_count


class ToolCacheClient:
    """ResultCache over gRPC."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stub = cache_rpc.ToolCacheServiceStub(channel)

    async def forget(self, collections: AbstractSet[str]) -> None:
        """See ResultCache."""
        # Searches that named no collection are known by the star.
        request = cache_pb.InvalidateRequest(sources=[f"collection:{name}" for name in (*sorted(collections), "*")])
        try:
            await self._stub.Invalidate(request, timeout=_FORGET_SECONDS)
        except aio.AioRpcError as error:
            log.warning("cached searches were not forgotten", extra={"code": error.code().name})


_STRATEGIES: dict[int, Strategy] = {
    retrieval_pb.CHUNKING_STRATEGY_UNSPECIFIED: "structure",
    retrieval_pb.CHUNKING_STRATEGY_STRUCTURE: "structure",
    retrieval_pb.CHUNKING_STRATEGY_FIXED: "fixed",
    retrieval_pb.CHUNKING_STRATEGY_SENTENCES: "sentences",
    retrieval_pb.CHUNKING_STRATEGY_RECURSIVE: "recursive",
    retrieval_pb.CHUNKING_STRATEGY_SEMANTIC: "semantic",
    retrieval_pb.CHUNKING_STRATEGY_CODE: "code",
}


def _collection(collection: retrieval_pb.Collection) -> Collection:
    said = collection.chunking
    chunking = Chunking(
        _STRATEGIES[said.strategy],
        max_tokens=said.max_tokens,
        min_tokens=said.min_tokens,
        overlap_tokens=said.overlap_tokens if said.HasField("overlap_tokens") else None,
        parent_tokens=said.parent_tokens,
    )
    return Collection(collection.language, chunking, collection.embedding_model)


async def _upsert(
    document: Description, chunks: Iterator[tuple[Chunk, bytes]]
) -> AsyncIterator[retrieval_pb.UpsertRequest]:
    yield retrieval_pb.UpsertRequest(
        document=retrieval_pb.DocumentHeader(
            document_id=document.document_id,
            collection=document.collection,
            title=document.title,
            source=document.source,
            language=document.language,
            metadata=document.metadata,
            content_hash=document.fingerprint,
            embedding_model=document.model,
            labels=document.labels,
            content_sha256=document.content_sha256,
            page_count=document.page_count,
            learned_sparse=document.learned_sparse,
        )
    )
    for number, (chunk, vectors) in enumerate(chunks):
        embedding = embedding_pb.Embedding.FromString(vectors)
        yield retrieval_pb.UpsertRequest(
            chunk=retrieval_pb.Chunk(
                text=chunk.text,
                page=chunk.page,
                section=" > ".join(chunk.section),
                dense=embedding.dense,
                sparse=embedding.sparse,
                token_vectors=embedding.token_vectors if embedding.HasField("token_vectors") else None,
                token_count=chunk.token_count,
                context=chunk.context,
                parent_text=chunk.parent_text,
                suspicious_spans=[
                    retrieval_pb.SuspiciousSpan(start=one.start, end=one.end, score=one.score, kind=one.kind)
                    for one in chunk.suspicious
                ],
                scan=retrieval_pb.Scan(version=chunk.scanned_by, score=chunk.scan_score) if chunk.scanned_by else None,
            )
        )
        if number % 64 == 63:
            await asyncio.sleep(0)  # others get a turn in a long document
