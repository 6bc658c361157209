"""Puts the retrieval service together and runs it."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from qdrant_client import AsyncQdrantClient

from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from services.retrieval.clients import EMBEDDING, RERANKING, EmbeddingClient, EmbeddingClients, RerankingClient
from services.retrieval.config import Settings
from services.retrieval.declared import DeclaredCollections
from services.retrieval.edge.store import EdgeStore
from services.retrieval.memory_store import MemoryStore
from services.retrieval.migration import Migrator
from services.retrieval.qdrant.store import QdrantStore
from services.retrieval.routing import Router
from services.retrieval.search import Searcher
from services.retrieval.service import RetrievalServicer
from services.retrieval.store import ALL_LABELS, Distribution, Store
from services.runtime import context, server
from services.runtime.channels import connect
from services.runtime.context import CallContext, Identity
from services.runtime.identity import Signer
from services.runtime.tenants import TenantDirectory

DESCRIPTOR = retrieval_pb2.DESCRIPTOR.services_by_name["RetrievalService"]


def choose_store(settings: Settings) -> Store:
    """The store that `vector_store` names."""
    kind, _, where = settings.vector_store.partition(":")
    match kind:
        case "edge":
            return EdgeStore(Path(where), index_after_chunks=settings.index_after_chunks)
        case "qdrant":
            client = AsyncQdrantClient(
                url=where,
                prefer_grpc=True,
                api_key=settings.qdrant_api_key.get_secret_value() or None,
                timeout=max(1, round(settings.store_timeout_seconds)),
                # The server's version is looked up over the network at construction otherwise.
                check_compatibility=False,
            )
            defaults = Distribution(
                settings.qdrant_shard_number,
                settings.qdrant_replication_factor,
                settings.qdrant_write_consistency_factor,
                settings.qdrant_on_disk or None,
            )
            return QdrantStore(client, defaults=defaults)
        case _:
            return MemoryStore()


def build(settings: Settings) -> server.Served:
    """The servicer with its store and its clients."""
    store = choose_store(settings)
    channels = [connect(address.strip(), EMBEDDING) for address in settings.embedding_address.split(",")]
    embedders = [EmbeddingClient(channel) for channel in channels]
    channels.append(connect(settings.reranking_address, RERANKING))
    searcher = Searcher(
        store,
        EmbeddingClients(embedders),
        RerankingClient(channels[-1]) if settings.rerank == "service" else None,
        router=Router(embedders[0]),
        fusion=settings.fusion,
        candidates=settings.rerank_candidates,
        rerank_seconds=settings.rerank_timeout_seconds,
    )
    migrator = Migrator(store, embedders[0], _acting(Signer(settings.identity_secret.get_secret_value())))
    tenants = TenantDirectory(Path(settings.tenants_dir)) if settings.tenants_dir else None
    declared = DeclaredCollections(store, tenants)

    async def warm_up() -> None:
        await store.open()
        await declared.start()
        await migrator.start()

    async def close() -> None:
        await migrator.close()
        await declared.stop()
        await asyncio.gather(*(channel.close() for channel in channels))
        await store.close()

    servicer = RetrievalServicer(store, searcher, migrator, max_document_chunks=settings.max_document_chunks)
    add = retrieval_pb2_grpc.add_RetrievalServiceServicer_to_server
    return server.Served(servicer, add, DESCRIPTOR, warm_up=warm_up, close=close)


def _acting(signer: Signer) -> Callable[[str], None]:
    """Acts for a tenant in the background."""

    def act_for(tenant: str) -> None:
        identity = Identity(tenant, "migration", labels=(ALL_LABELS,))
        context.enter(CallContext(identity, signer.sign(identity)))

    return act_for


def main() -> None:
    """Runs the service until it is told to stop."""
    settings = Settings.read()

    async def make() -> Sequence[server.Served]:
        return [build(settings)]

    server.run("retrieval", settings, make)


if __name__ == "__main__":
    main()
