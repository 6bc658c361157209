"""Asks the embedding service for token vectors."""

import asyncio
from collections.abc import Sequence

import numpy as np
from grpc import aio

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.reranking.scorer import TokenVectors
from services.runtime import errors

_SERVICE = "embedding"
# 16 passages of 512 tokens are 6 MB of vectors, well below the limit of a message.
_TEXTS_PER_CALL = 16
_CALLS_AT_ONCE = 2


class EmbeddingClient:
    """Token vectors over gRPC. Raises what the service raised, DependencyFailed and DeadlineExceeded."""

    def __init__(self, channel: aio.Channel, timeout_seconds: float) -> None:
        self._stub: rpc.EmbeddingServiceAsyncStub = rpc.EmbeddingServiceStub(channel)
        self._timeout_seconds = timeout_seconds
        self._free = asyncio.Semaphore(_CALLS_AT_ONCE)

    async def query(self, text: str) -> TokenVectors:
        """Token vectors of a search."""
        (vectors,) = await self._embed([text], pb.INPUT_TYPE_QUERY)
        return vectors

    async def documents(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Token vectors of passages, in order."""
        parts = [texts[start : start + _TEXTS_PER_CALL] for start in range(0, len(texts), _TEXTS_PER_CALL)]
        answers = await asyncio.gather(*(self._bounded(part) for part in parts))
        return [vectors for answer in answers for vectors in answer]

    async def _bounded(self, texts: Sequence[str]) -> list[TokenVectors]:
        async with self._free:
            return await self._embed(texts, pb.INPUT_TYPE_DOCUMENT)

    async def _embed(self, texts: Sequence[str], input_type: "pb.InputType.ValueType") -> list[TokenVectors]:
        request = pb.EmbedRequest(texts=texts, input_type=input_type, with_token_vectors=True)
        try:
            response = await self._stub.Embed(request, timeout=self._timeout_seconds)
        except aio.AioRpcError as error:
            raise _explained(error) from None
        return [
            TokenVectors(
                np.frombuffer(one.token_vectors.values, "<f2").reshape(-1, one.token_vectors.dimensions), one.truncated
            )
            for one in response.embeddings
        ]


def _explained(error: aio.AioRpcError) -> errors.ServiceError:
    known = errors.from_rpc(error, _SERVICE)
    if isinstance(known, errors.InvalidField):
        # Its fields are of another request than our caller's.
        return errors.InvalidField(f"The texts cannot be embedded: {known.message}", field="candidates")
    return known or errors.DependencyFailed("The embedding service failed.", dependency=_SERVICE)
