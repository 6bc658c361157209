"""gRPC clients of the services that retrieval calls: embedding, of one model or several, and reranking."""

import time
from collections.abc import Mapping, Sequence

from grpc import aio

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.reranking.v1 import reranking_pb2, reranking_pb2_grpc
from services.retrieval.migration import ServedModel
from services.retrieval.store import Hit, NewChunk, QueryVectors, SparseTerms, StoredChunk, TokenMatrix
from services.runtime.errors import DependencyFailed, InvalidField, ServiceError, from_rpc

EMBEDDING = embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"]
RERANKING = reranking_pb2.DESCRIPTOR.services_by_name["RerankingService"]

_MOST_TEXTS = 256
# What an embedding service says of itself is asked again after so long: another model may be behind the address.
_DESCRIBED_SECONDS = 10.0
_DESCRIBE_SECONDS, _EMBED_SECONDS = 2.0, 120.0


def _explained(error: aio.AioRpcError, service: str) -> ServiceError:
    return from_rpc(error, service) or DependencyFailed(f"{service} failed.", dependency=service)


class EmbeddingClient:
    """One embedding service."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stub = embedding_pb2_grpc.EmbeddingServiceStub(channel)
        self._described: embedding_pb2.DescribeResponse | None = None
        self._described_until = 0.0

    async def describe(self) -> embedding_pb2.DescribeResponse:
        """Its model; remembered for some seconds, and longer while it does not answer."""
        if self._described is None or time.monotonic() >= self._described_until:
            try:
                self._described = await self._stub.Describe(embedding_pb2.DescribeRequest(), timeout=_DESCRIBE_SECONDS)
            except aio.AioRpcError as error:
                if self._described is None:
                    raise _explained(error, "embedding") from error
            self._described_until = time.monotonic() + _DESCRIBED_SECONDS
        return self._described

    async def languages(self) -> Sequence[str]:
        """See Embedder."""
        return (await self.describe()).languages

    async def served(self) -> ServedModel:
        """See PassageEmbedder."""
        described = await self.describe()
        return ServedModel(described.model, described.learned_sparse)

    async def embed_query(self, text: str, languages: Sequence[str], *, with_tokens: bool) -> QueryVectors:
        """See Embedder."""
        language, *others = languages
        request = embedding_pb2.EmbedRequest(
            texts=[text],
            input_type=embedding_pb2.INPUT_TYPE_QUERY,
            language=language,
            other_languages=others,
            with_sparse=True,
            with_token_vectors=with_tokens,
        )
        response = await self._embed(request)
        found = response.embeddings[0]
        sparse = SparseTerms(found.sparse.indices, found.sparse.values)
        return QueryVectors(response.model, found.dense, sparse, _tokens(found) if with_tokens else None)

    async def model(self) -> str:
        """See TextEmbedder."""
        return (await self.describe()).model

    async def query_vector(self, text: str) -> Sequence[float]:
        """See TextEmbedder."""
        request = embedding_pb2.EmbedRequest(texts=[text], input_type=embedding_pb2.INPUT_TYPE_QUERY)
        return (await self._embed(request)).embeddings[0].dense

    async def document_vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See TextEmbedder."""
        vectors: list[Sequence[float]] = []
        for start in range(0, len(texts), _MOST_TEXTS):
            batch = texts[start : start + _MOST_TEXTS]
            request = embedding_pb2.EmbedRequest(texts=batch, input_type=embedding_pb2.INPUT_TYPE_DOCUMENT)
            vectors += [one.dense for one in (await self._embed(request)).embeddings]
        return vectors

    async def embed_passages(self, chunks: Sequence[StoredChunk], language: str) -> list[NewChunk]:
        """See PassageEmbedder."""
        described = await self.describe()
        request = embedding_pb2.EmbedRequest(
            texts=[f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text for chunk in chunks],
            input_type=embedding_pb2.INPUT_TYPE_DOCUMENT,
            language=language,
            with_sparse=True,
            with_token_vectors=described.token_vectors,
        )
        response = await self._embed(request)
        return [
            NewChunk(
                chunk.text,
                list(found.dense),
                SparseTerms(list(found.sparse.indices), list(found.sparse.values)),
                _tokens(found),
                chunk.page,
                chunk.section,
                chunk.context,
                chunk.parent_text,
                chunk.suspicious,
                chunk.scan,
            )
            for chunk, found in zip(chunks, response.embeddings, strict=True)
        ]

    async def _embed(self, request: embedding_pb2.EmbedRequest) -> embedding_pb2.EmbedResponse:
        try:
            response = await self._stub.Embed(request, timeout=_EMBED_SECONDS)
        except aio.AioRpcError as error:
            self._described_until = 0.0
            raise _explained(error, "embedding") from error
        if len(response.embeddings) != len(request.texts):
            raise DependencyFailed("embedding did not answer with one vector a text.", dependency="embedding")
        return response


def _tokens(embedding: embedding_pb2.Embedding) -> TokenMatrix | None:
    found = embedding.token_vectors
    return TokenMatrix(found.dimensions, found.values) if found.values else None


class EmbeddingClients:
    """The embedding services of an installation; the first one embeds what is new."""

    def __init__(self, clients: Sequence[EmbeddingClient]) -> None:
        self._clients = clients

    async def by_model(self) -> Mapping[str, EmbeddingClient]:
        """See Embedders. A service that does not answer is left out while another one does."""
        found: dict[str, EmbeddingClient] = {}
        failure: ServiceError | None = None
        for client in self._clients:
            try:
                described = await client.describe()
            except ServiceError as error:
                failure = error
                continue
            found.setdefault(described.model, client)
        if not found and failure is not None:
            raise failure
        return found


class RerankingClient:
    """Scores texts by the reranking service."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stub = reranking_pb2_grpc.RerankingServiceStub(channel)

    async def scores(self, query: str, hits: Sequence[Hit]) -> Sequence[float]:
        """See Reranker."""
        candidates = [reranking_pb2.Candidate(text=hit.chunk.text) for hit in hits]
        try:
            response = await self._stub.Rerank(reranking_pb2.RerankRequest(query=query, candidates=candidates))
        except aio.AioRpcError as error:
            raise _explained(error, "reranking") from error
        scores = {one.index: one.score for one in response.scores}
        if sorted(scores) != list(range(len(hits))):
            raise InvalidField("reranking did not score every candidate.", field="scores")
        return [scores[at] for at in range(len(hits))]
