"""An embedding service in front of the real one that remembers vectors: every stage asks for the same ones again."""

import hashlib
from collections.abc import Sequence
from typing import Any

from grpc import aio

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.evaluation.retrieval.vector_cache import VectorCache


class RememberingEmbedding(rpc.EmbeddingServiceServicer):
    """Dense and token vectors from the cache, or else from the real service, whose errors pass through.

    Sparse weights are made anew each time, by an embedding service whose model costs nothing: it is they that change
    from one measurement to the next.
    """

    def __init__(self, real: aio.Channel, words: aio.Channel, cache: VectorCache, model: str) -> None:
        """`words`: where sparse weights are from. `model`: what the real service's `Describe` calls it."""
        self._real = rpc.EmbeddingServiceStub(real)
        self._words = rpc.EmbeddingServiceStub(words)
        self._cache = cache
        self._model = model
        self.asked_count = 0
        self.found_count = 0

    async def Embed(self, request: pb.EmbedRequest, context: Any) -> pb.EmbedResponse:
        """See EmbeddingService."""
        embeddings = await self._vectors(request)
        if request.with_sparse:
            only_words = pb.EmbedRequest()
            only_words.CopyFrom(request)
            only_words.with_token_vectors = False
            weighed = await self._words.Embed(only_words)
            for embedding, one in zip(embeddings, weighed.embeddings, strict=True):
                embedding.sparse.CopyFrom(one.sparse)
        return pb.EmbedResponse(embeddings=embeddings, model=self._model)

    async def CountTokens(self, request: pb.CountTokensRequest, context: Any) -> pb.CountTokensResponse:
        """See EmbeddingService."""
        return await self._real.CountTokens(request)

    async def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeResponse:
        """See EmbeddingService."""
        return await self._real.Describe(request)

    async def _vectors(self, request: pb.EmbedRequest) -> Sequence[pb.Embedding]:
        how = bytes([request.input_type, request.with_token_vectors])
        keys = [hashlib.sha256(how + text.encode()).digest() for text in request.texts]
        known = [self._cache.get(key) for key in keys]
        missing = [at for at, value in enumerate(known) if value is None]
        self.asked_count += len(keys)
        self.found_count += len(keys) - len(missing)
        fresh: dict[int, pb.Embedding] = {}
        if missing or not keys:
            answer = await self._real.Embed(
                pb.EmbedRequest(
                    texts=[request.texts[at] for at in missing],
                    input_type=request.input_type,
                    with_token_vectors=request.with_token_vectors,
                )
            )
            fresh = dict(zip(missing, answer.embeddings, strict=True))
            self._cache.put([(keys[at], one.SerializeToString()) for at, one in fresh.items()])
        return [fresh[at] if value is None else pb.Embedding.FromString(value) for at, value in enumerate(known)]
