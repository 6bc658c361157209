"""The services behind the gateway: their stubs, and what their failures mean."""

from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio
from grpc_health.v1 import health_pb2_grpc

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.ingestion.v1 import ingestion_pb2, ingestion_pb2_grpc
from sabueso.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from sabueso.reranking.v1 import reranking_pb2, reranking_pb2_grpc
from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from sabueso.web_tool.v1 import web_tool_pb2, web_tool_pb2_grpc
from services.runtime import errors
from services.runtime.channels import connect

Answer = TypeVar("Answer")

# For calls other than the agent's, in seconds: searching and listing, and handing over a document.
CALL_SECONDS, SUBMIT_SECONDS = 30.0, 120.0

DESCRIPTORS: Mapping[str, ServiceDescriptor] = {
    "orchestrator": orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"],
    "retrieval": retrieval_pb2.DESCRIPTOR.services_by_name["RetrievalService"],
    "ingestion": ingestion_pb2.DESCRIPTOR.services_by_name["IngestionService"],
    "embedding": embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"],
    "reranking": reranking_pb2.DESCRIPTOR.services_by_name["RerankingService"],
    "web_tool": web_tool_pb2.DESCRIPTOR.services_by_name["WebToolService"],
    "tool_cache": tool_cache_pb2.DESCRIPTOR.services_by_name["ToolCacheService"],
}


@dataclass(frozen=True)
class Clients:
    """One stub a service, and the health of each. Quoted, because only type checkers know these types."""

    orchestrator: "orchestrator_pb2_grpc.OrchestratorServiceAsyncStub"
    retrieval: "retrieval_pb2_grpc.RetrievalServiceAsyncStub"
    ingestion: "ingestion_pb2_grpc.IngestionServiceAsyncStub"
    embedding: "embedding_pb2_grpc.EmbeddingServiceAsyncStub"
    reranking: "reranking_pb2_grpc.RerankingServiceAsyncStub"
    web_tool: "web_tool_pb2_grpc.WebToolServiceAsyncStub"
    tool_cache: "tool_cache_pb2_grpc.ToolCacheServiceAsyncStub"
    health: Mapping[str, Any]  # of HealthStub, which is typed for blocking channels only


@asynccontextmanager
async def connected(addresses: Mapping[str, str]) -> AsyncGenerator[Clients]:
    """Channels to all services, `{"orchestrator": "host:port", …}`; closed at the end of the block."""
    async with AsyncExitStack() as stack:
        channels: dict[str, aio.Channel] = {}
        for service, descriptor in DESCRIPTORS.items():
            channels[service] = await stack.enter_async_context(connect(addresses[service], descriptor))
        yield Clients(
            orchestrator=orchestrator_pb2_grpc.OrchestratorServiceStub(channels["orchestrator"]),
            retrieval=retrieval_pb2_grpc.RetrievalServiceStub(channels["retrieval"]),
            ingestion=ingestion_pb2_grpc.IngestionServiceStub(channels["ingestion"]),
            embedding=embedding_pb2_grpc.EmbeddingServiceStub(channels["embedding"]),
            reranking=reranking_pb2_grpc.RerankingServiceStub(channels["reranking"]),
            web_tool=web_tool_pb2_grpc.WebToolServiceStub(channels["web_tool"]),
            tool_cache=tool_cache_pb2_grpc.ToolCacheServiceStub(channels["tool_cache"]),
            health={service: health_pb2_grpc.HealthStub(channel) for service, channel in channels.items()},
        )


async def answer_of(service: str, call: Awaitable[Answer]) -> Answer:
    """The call's answer. Raises the ServiceError behind a failure, or AioRpcError where there is none."""
    try:
        return await call
    except aio.AioRpcError as error:
        raise failure_behind(error, service) from None


def failure_behind(error: aio.AioRpcError, service: str) -> Exception:
    """What the called service raised, or what its silence means; else `error` itself."""
    return errors.from_rpc(error, service) or error
