"""Puts the tool cache together and runs it."""

from collections.abc import Sequence

from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from services.runtime import server
from services.runtime.channels import connect
from services.tool_cache.clients import EMBEDDING, EmbeddingClient
from services.tool_cache.config import Settings
from services.tool_cache.flights import Flights
from services.tool_cache.memory_store import MemoryStore
from services.tool_cache.semantic.index import MemoryIndex
from services.tool_cache.semantic.layer import SemanticLayer
from services.tool_cache.semantic.valkey_index import ValkeyIndex
from services.tool_cache.semantic.verifier import ModelVerifier
from services.tool_cache.semantic_lookup import SemanticLookup
from services.tool_cache.service import ToolCacheServicer
from services.tool_cache.store import Store
from services.tool_cache.valkey_store import ValkeyStore

DESCRIPTOR = tool_cache_pb2.DESCRIPTOR.services_by_name["ToolCacheService"]


def choose_store(settings: Settings) -> Store:
    """The store that `valkey_url` names."""
    if settings.valkey_url == "memory:":
        return MemoryStore()
    return ValkeyStore(
        settings.valkey_url,
        timeout_seconds=settings.valkey_timeout_seconds,
        max_connections=settings.valkey_connections,
        pause_seconds=settings.valkey_pause_seconds,
        max_value_bytes=settings.max_value_bytes,
        max_stored_bytes=settings.max_stored_bytes,
    )


def build_semantic(settings: Settings) -> SemanticLayer:
    """The layer for near-equal calls; nothing is connected before it is needed. Raises WrongSetting."""
    index = (
        MemoryIndex()
        if settings.valkey_url == "memory:"
        else ValkeyIndex(settings.valkey_url, timeout_seconds=settings.valkey_timeout_seconds)
    )
    verifier = None
    if settings.semantic_verifier_url:
        verifier = ModelVerifier(
            settings.semantic_verifier_url,
            settings.semantic_verifier_model,
            api_key=settings.semantic_verifier_api_key.get_secret_value(),
            timeout_seconds=settings.semantic_verifier_timeout_seconds,
        )
    return SemanticLayer(
        index,
        EmbeddingClient(connect(settings.embedding_address, EMBEDDING)),
        verifier,
        time_zone=settings.semantic_time_zone,
        timeout_seconds=settings.semantic_timeout_seconds,
    )


def build(settings: Settings) -> server.Served:
    """The servicer with its store and its semantic layer."""
    store, layer = choose_store(settings), build_semantic(settings)
    flights = Flights(store, lease_seconds=settings.lease_seconds, max_waiting=settings.max_waiting)
    servicer = ToolCacheServicer(store, flights, SemanticLookup(store, layer), max_value_bytes=settings.max_value_bytes)

    async def open_all() -> None:
        await store.open()
        await layer.open()

    async def close_all() -> None:
        await flights.close()
        await layer.close()
        await store.close()

    add = tool_cache_pb2_grpc.add_ToolCacheServiceServicer_to_server
    return server.Served(servicer, add, DESCRIPTOR, warm_up=open_all, close=close_all)


def main() -> None:
    """Runs the service until it is told to stop."""
    settings = Settings.read()

    async def make() -> Sequence[server.Served]:
        return [build(settings)]

    server.run("tool_cache", settings, make)


if __name__ == "__main__":
    main()
