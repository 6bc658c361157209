"""gRPC clients of the services that retrieval calls: embedding and reranking."""

import asyncio
from collections.abc import Sequence

from grpc import aio

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.reranking.v1 import reranking_pb2, reranking_pb2_grpc
from sabueso.type.v1 import vectors_pb2
from services.retrieval.search import QueryVectors
from services.retrieval.store import Hit, SparseTerms, TokenMatrix
from services.runtime.errors import DependencyFailed, InvalidField, ServiceError, from_rpc

EMBEDDING = embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"]
RERANKING = reranking_pb2.DESCRIPTOR.services_by_name["RerankingService"]


def _explained(error: aio.AioRpcError, service: str) -> ServiceError:
    return from_rpc(error, service) or DependencyFailed(f"{service} failed.", dependency=service)


class EmbeddingClient:
    """Embeds queries."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stub = embedding_pb2_grpc.EmbeddingServiceStub(channel)

    async def embed_query(self, text: str, languages: Sequence[str], *, with_tokens: bool) -> QueryVectors:
        """One call a language; the terms of all of them are looked for."""
        first, *others = await asyncio.gather(
            *(self._embed(text, language, with_tokens and at == 0) for at, language in enumerate(languages))
        )
        weights: dict[int, float] = {}
        for response in (first, *others):
            sparse = response.embeddings[0].sparse
            weights.update(zip(sparse.indices, sparse.values, strict=True))
        found = first.embeddings[0]
        tokens = TokenMatrix(found.token_vectors.dimensions, found.token_vectors.values) if with_tokens else None
        return QueryVectors(first.model, found.dense, SparseTerms(list(weights), list(weights.values())), tokens)

    async def _embed(self, text: str, language: str, with_tokens: bool) -> embedding_pb2.EmbedResponse:
        request = embedding_pb2.EmbedRequest(
            texts=[text],
            input_type=embedding_pb2.INPUT_TYPE_QUERY,
            language=language,
            with_sparse=True,
            with_token_vectors=with_tokens,
        )
        try:
            response = await self._stub.Embed(request)
        except aio.AioRpcError as error:
            raise _explained(error, "embedding") from error
        if len(response.embeddings) != 1:
            raise DependencyFailed("embedding did not answer with one vector a text.", dependency="embedding")
        return response


class RerankingClient:
    """Scores candidates; learns once what the scorer reads, and again after each failure."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stub = reranking_pb2_grpc.RerankingServiceStub(channel)
        self._reads_tokens: bool | None = None

    async def reads_tokens(self) -> bool:
        """Whether the scorer wants token vectors."""
        if self._reads_tokens is None:
            try:
                described = await self._stub.Describe(reranking_pb2.DescribeRequest())
            except aio.AioRpcError as error:
                raise _explained(error, "reranking") from error
            self._reads_tokens = described.reads_token_vectors
        return self._reads_tokens

    async def scores(self, query: str, tokens: TokenMatrix | None, hits: Sequence[Hit]) -> Sequence[float]:
        """One score a hit, in order. A hit without stored token vectors goes as text."""
        request = reranking_pb2.RerankRequest(
            query=query,
            query_token_vectors=_wire(tokens),
            candidates=[
                reranking_pb2.Candidate(text="" if hit.tokens else hit.chunk.text, token_vectors=_wire(hit.tokens))
                for hit in hits
            ],
        )
        try:
            response = await self._stub.Rerank(request)
        except aio.AioRpcError as error:
            # Another scorer may be behind the address when it is back.
            self._reads_tokens = None
            raise _explained(error, "reranking") from error
        scores = {one.index: one.score for one in response.scores}
        if sorted(scores) != list(range(len(hits))):
            raise InvalidField("reranking did not score every candidate.", field="scores")
        return [scores[at] for at in range(len(hits))]


def _wire(tokens: TokenMatrix | None) -> vectors_pb2.TokenVectors | None:
    return vectors_pb2.TokenVectors(dimensions=tokens.dimensions, values=tokens.values) if tokens else None
