"""Puts the tool cache together and runs it."""

from collections.abc import Sequence

from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from services.runtime import server
from services.tool_cache.config import Settings
from services.tool_cache.service import ToolCacheServicer
from services.tool_cache.store import MemoryStore, Store
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
    )


def build(settings: Settings) -> server.Served:
    """The servicer with its store."""
    store = choose_store(settings)
    servicer = ToolCacheServicer(store, max_value_bytes=settings.max_value_bytes)
    add = tool_cache_pb2_grpc.add_ToolCacheServiceServicer_to_server
    return server.Served(servicer, add, DESCRIPTOR, warm_up=store.open, close=store.close)


def main() -> None:
    """Runs the service until it is told to stop."""
    settings = Settings.read()

    async def make() -> Sequence[server.Served]:
        return [build(settings)]

    server.run("tool_cache", settings, make)


if __name__ == "__main__":
    main()
