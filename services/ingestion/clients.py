"""The embedding and retrieval services as `document.py` wants them. Converts their failures into ours."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence

from grpc import aio

from sabueso.embedding.v1 import embedding_pb2 as embedding_pb
from sabueso.embedding.v1 import embedding_pb2_grpc as embedding_rpc
from sabueso.retrieval.v1 import retrieval_pb2 as retrieval_pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc as retrieval_rpc
from services.ingestion.chunking import Chunk
from services.ingestion.document import Description, Model, StoredDocument
from services.runtime import errors

log = logging.getLogger(__name__)

EMBEDDING = embedding_pb.DESCRIPTOR.services_by_name["EmbeddingService"]
RETRIEVAL = retrieval_pb.DESCRIPTOR.services_by_name["RetrievalService"]

_MOST_COUNTED = 4096
_MOST_CHARACTERS = 2_000_000
_SHORT_SECONDS = 10
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
        return Model(answer.model, answer.max_tokens, answer.token_vectors)

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See Embedder."""
        counts: list[int] = []
        for batch in _batches(texts):
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
        try:
            answer = await self._stub.Embed(request, timeout=_EMBED_SECONDS)
        except aio.AioRpcError as error:
            raise _understood(error, "embedding") from error
        return [embedding.SerializeToString() for embedding in answer.embeddings]


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == _MOST_COUNTED or characters + len(text) > _MOST_CHARACTERS):
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

    async def collections(self) -> dict[str, str]:
        """See Index."""
        try:
            request = retrieval_pb.ListCollectionsRequest()
            answer = await self._stub.ListCollections(request, timeout=_SHORT_SECONDS)
        except aio.AioRpcError as error:
            raise _understood(error, "retrieval") from error
        return {collection.name: collection.language for collection in answer.collections}

    async def stored(self, document_id: str) -> StoredDocument | None:
        """See Index. None also for a document that is too long for one message: then it is stored anew."""
        try:
            request = retrieval_pb.GetChunksRequest(document_id=document_id)
            answer = await self._stub.GetChunks(request, timeout=_EMBED_SECONDS)
        except aio.AioRpcError as error:
            known = _understood(error, "retrieval")
            if isinstance(known, errors.NotFound) or known is error:
                return None
            raise known from error
        pages = max((passage.page for passage in answer.passages), default=0)
        document = answer.document
        return StoredDocument(document.content_hash, document.title, document.chunk_count, pages)

    async def put(self, document: Description, chunks: Iterator[tuple[Chunk, bytes]]) -> int:
        """See Index."""
        try:
            answer = await self._stub.Upsert(_upsert(document, chunks), timeout=_STORE_SECONDS)
        except aio.AioRpcError as error:
            raise _understood(error, "retrieval") from error
        return answer.chunk_count


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
            )
        )
        if number % 64 == 63:
            await asyncio.sleep(0)  # others get a turn in a long document
