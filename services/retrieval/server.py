"""Puts the retrieval service together and runs it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from qdrant_client import AsyncQdrantClient

from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from services.retrieval.clients import EMBEDDING, RERANKING, EmbeddingClient, RerankingClient
from services.retrieval.config import Settings
from services.retrieval.declared import DeclaredCollections
from services.retrieval.edge_store import EdgeStore
from services.retrieval.memory_store import MemoryStore
from services.retrieval.qdrant_store import QdrantStore
from services.retrieval.search import Searcher
from services.retrieval.service import RetrievalServicer
from services.retrieval.store import Store
from services.runtime import server
from services.runtime.channels import connect
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
            return QdrantStore(client)
        case _:
            return MemoryStore()


def build(settings: Settings) -> server.Served:
    """The servicer with its store and its clients."""
    store = choose_store(settings)
    embedding = connect(settings.embedding_address, EMBEDDING)
    reranking = connect(settings.reranking_address, RERANKING)
    searcher = Searcher(
        store,
        EmbeddingClient(embedding),
        RerankingClient(reranking),
        candidates=settings.rerank_candidates,
        rerank_seconds=settings.rerank_timeout_seconds,
    )
    tenants = TenantDirectory(Path(settings.tenants_dir)) if settings.tenants_dir else None
    declared = DeclaredCollections(store, tenants)

    async def warm_up() -> None:
        await store.open()
        await declared.start()

    async def close() -> None:
        await declared.stop()
        await asyncio.gather(embedding.close(), reranking.close())
        await store.close()

    servicer = RetrievalServicer(store, searcher, max_document_chunks=settings.max_document_chunks)
    add = retrieval_pb2_grpc.add_RetrievalServiceServicer_to_server
    return server.Served(servicer, add, DESCRIPTOR, warm_up=warm_up, close=close)


def main() -> None:
    """Runs the service until it is told to stop."""
    settings = Settings.read()

    async def make() -> Sequence[server.Served]:
        return [build(settings)]

    server.run("retrieval", settings, make)


if __name__ == "__main__":
    main()
