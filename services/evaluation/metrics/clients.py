"""The embedding service over gRPC, as the metrics want it."""

from collections.abc import Sequence

import numpy as np
from grpc import aio

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.evaluation.metrics.embedder import EmbedderFailed, Vectors
from services.runtime.channels import connect
from services.runtime.errors import from_rpc

_EMBED_SECONDS = 60.0


class EmbeddingClient:
    """An Embedder: both sides of a comparison are questions, so both are embedded as queries."""

    def __init__(self, address: str) -> None:
        self.channel = connect(address, pb.DESCRIPTOR.services_by_name["EmbeddingService"])
        self._stub = rpc.EmbeddingServiceStub(self.channel)

    async def embed(self, texts: Sequence[str], language: str) -> Vectors:
        """See Embedder. At most 256 texts."""
        request = pb.EmbedRequest(texts=texts, input_type=pb.INPUT_TYPE_QUERY)
        try:
            answer = await self._stub.Embed(request, timeout=_EMBED_SECONDS)
        except aio.AioRpcError as error:
            known = from_rpc(error, "embedding")
            raise EmbedderFailed(known.message if known else "embedding failed") from None
        return np.array([one.dense for one in answer.embeddings], dtype=np.float64)
