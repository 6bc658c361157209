"""Puts the product together for measuring: its services as processes, an embedding service that remembers between."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import services
from sabueso.embedding.v1 import embedding_pb2_grpc
from services.evaluation.retrieval.clients import EMBEDDING, EmbeddingClient, RetrievalClient, describe, until_serving
from services.evaluation.retrieval.processes import Processes
from services.evaluation.retrieval.service import RememberingEmbedding
from services.evaluation.retrieval.vector_cache import VectorCache, source_version
from services.runtime import context
from services.runtime.channels import connect
from services.runtime.identity import Identity, Signer
from services.runtime.server import Served, build, set_health

_TENANT = "evaluation"
_SIGNED_SECONDS = 24 * 3600
_START_SECONDS = 120
_WAITING_TOKENS = 1_000_000
# Makes dense vectors of no meaning at no cost. Sparse weights are the same whatever the model is.
_NO_MODEL = "hash:8"
# Files of the embedding service that dense and token vectors do not depend on.
_WITHOUT_VECTORS = frozenset({"languages.py", "learned_sparse.py", "metrics.py", "sparse.py"})
# A busy machine must not change what is measured: nothing is left out for want of time.
_RERANK_SECONDS = 30


@dataclass
class Product:
    """The running product. `model` names its embedding model."""

    model: str
    embedding: EmbeddingClient
    remembering: RememberingEmbedding
    _processes: Processes
    _embedding_address: str
    _reranking_address: str
    started_count: int = field(default=0)

    @asynccontextmanager
    async def empty_retrieval(self) -> AsyncGenerator[RetrievalClient]:
        """A retrieval service with nothing in it: frequencies of words are counted over all that a store holds."""
        self.started_count += 1
        process = self._processes.start(
            "retrieval",
            vector_store=f"edge:{self._processes.folder / f'vectors-{self.started_count}'}",
            embedding_address=self._embedding_address,
            reranking_address=self._reranking_address,
            rerank_timeout_seconds=_RERANK_SECONDS,
        )
        try:
            await until_serving(process, _START_SECONDS)
            client = RetrievalClient(process.address)
            async with client.channel:
                yield client
        finally:
            process.stop()


@asynccontextmanager
async def running(model: str, cache_folder: Path) -> AsyncGenerator[Product]:
    """The product with the embedding model `model` (as in SABUESO_EMBEDDING_MODEL; empty: the default)."""
    with Processes() as processes:
        settings = {"embedding_model": model} if model else {}
        real = processes.start("embedding", max_waiting_tokens=_WAITING_TOKENS, **settings)
        words = processes.start("embedding", embedding_model=_NO_MODEL, max_waiting_tokens=_WAITING_TOKENS)
        signer = Signer(processes.secret)
        _act_as_tenant(signer)
        for process in (real, words):
            await until_serving(process, _START_SECONDS)
        async with connect(real.address) as channel, connect(words.address) as words_channel:
            described = await describe(channel)
            code = source_version(Path(services.__path__[0]) / "embedding", _WITHOUT_VECTORS)
            cache = VectorCache(cache_folder, f"{described.model}\n{code}")
            remembering = RememberingEmbedding(channel, words_channel, cache, described.model)
            async with _listening(remembering, signer) as address:
                reranking = processes.start("reranking", embedding_address=address)
                await until_serving(reranking, _START_SECONDS)
                client = EmbeddingClient(address)
                async with client.channel:
                    yield Product(described.model, client, remembering, processes, address, reranking.address)
            cache.close()


def _act_as_tenant(signer: Signer) -> None:
    identity = Identity(_TENANT, "measurement")
    context.enter(context.CallContext(identity, signer.sign(identity, _SIGNED_SECONDS)))


@asynccontextmanager
async def _listening(servicer: RememberingEmbedding, signer: Signer) -> AsyncGenerator[str]:
    served = Served(servicer, embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server, EMBEDDING)
    server, health = build("evaluation", [served], signer)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await set_health(health, [served], True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
