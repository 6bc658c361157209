"""The embedding service as an application of Ray Serve (k8s/ray/embedding.yaml)."""

from typing import Any

from services.embedding.config import Settings
from services.embedding.server import build
from services.runtime.ray_serving import Replica, deployment
from services.runtime.server import Served
from services.runtime.settings import ServerSettings


class Embedding(Replica):
    """The methods of the proto, by name."""

    service = "embedding"

    def make(self) -> tuple[ServerSettings, Served]:
        """Loads the model."""
        settings = Settings.read()
        return settings, build(settings)

    async def Embed(self, request: Any, grpc_context: Any) -> Any:
        """As EmbeddingService has it."""
        return await self.answer("Embed", request, grpc_context)

    async def CountTokens(self, request: Any, grpc_context: Any) -> Any:
        """As EmbeddingService has it."""
        return await self.answer("CountTokens", request, grpc_context)

    async def Describe(self, request: Any, grpc_context: Any) -> Any:
        """As EmbeddingService has it."""
        return await self.answer("Describe", request, grpc_context)


app = deployment(Embedding).bind()
