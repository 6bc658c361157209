"""gRPC clients of the services that the tool cache calls: embedding."""

from collections.abc import Sequence

from grpc import aio

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.runtime.errors import DependencyFailed, from_rpc
from services.tool_cache.semantic.layer import TextVector

EMBEDDING = pb.DESCRIPTOR.services_by_name["EmbeddingService"]


class EmbeddingClient:
    """Embeds questions by the embedding service."""

    def __init__(self, channel: aio.Channel, *, timeout_seconds: float = 0.5) -> None:
        """Owns the channel. `timeout_seconds` for one call."""
        self._channel = channel
        self._stub = rpc.EmbeddingServiceStub(channel)
        self._timeout_seconds = timeout_seconds

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """See Embedder."""
        request = pb.EmbedRequest(texts=texts, input_type=pb.INPUT_TYPE_QUERY)
        try:
            response = await self._stub.Embed(request, timeout=self._timeout_seconds)
        except aio.AioRpcError as error:
            failed = DependencyFailed("embedding failed.", dependency="embedding")
            raise from_rpc(error, "embedding") or failed from error
        if len(response.embeddings) != len(texts):
            raise DependencyFailed("embedding did not answer with one vector a text.", dependency="embedding")
        return [TextVector(one.dense, one.truncated) for one in response.embeddings]

    async def close(self) -> None:
        """See Embedder."""
        await self._channel.close()
