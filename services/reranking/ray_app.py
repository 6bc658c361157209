"""The reranking service as an application of Ray Serve (k8s/ray/reranking.yaml)."""

from typing import Any

from services.reranking.config import Settings
from services.reranking.server import build
from services.runtime.ray_serving import Replica, deployment
from services.runtime.server import Served
from services.runtime.settings import ServerSettings


class Reranking(Replica):
    """The methods of the proto, by name."""

    service = "reranking"

    def make(self) -> tuple[ServerSettings, Served]:
        """Loads the scorer."""
        settings = Settings.read()
        return settings, build(settings)

    async def Rerank(self, request: Any, grpc_context: Any) -> Any:
        """As RerankingService has it."""
        return await self.answer("Rerank", request, grpc_context)

    async def Describe(self, request: Any, grpc_context: Any) -> Any:
        """As RerankingService has it."""
        return await self.answer("Describe", request, grpc_context)


app = deployment(Reranking).bind()
