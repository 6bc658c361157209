"""The product as the measurement sees it: documents in by Embed and Upsert, questions by Search."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc
from services.evaluation.retrieval.collection import Passage
from services.evaluation.retrieval.processes import Process
from services.evaluation.retrieval.stages import Fusion, Legs, Stage
from services.runtime.channels import connect
from services.runtime.errors import DependencyFailed, from_rpc

EMBEDDING = embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"]
RETRIEVAL = pb.DESCRIPTOR.services_by_name["RetrievalService"]

_MODES = {
    Legs.WORDS: pb.SEARCH_MODE_SPARSE,
    Legs.MEANING: pb.SEARCH_MODE_DENSE,
    Legs.BOTH: pb.SEARCH_MODE_HYBRID,
}
_FUSIONS = {
    Fusion.NONE: pb.FUSION_UNSPECIFIED,
    Fusion.RRF: pb.FUSION_RRF,
    Fusion.DBSF: pb.FUSION_DBSF,
    Fusion.CALIBRATED: pb.FUSION_CALIBRATED,
}
# Of `SearchRequest.query`, in characters.
_LONGEST_QUERY = 4096
_EMBED_TEXTS = 8
_EMBED_SECONDS, _STORE_SECONDS, _SEARCH_SECONDS = 300, 60, 60


async def until_serving(process: Process, seconds: float) -> None:
    """Waits until the process says that it serves. Raises NotStarted, and TimeoutError."""
    deadline = time.monotonic() + seconds
    async with aio.insecure_channel(process.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # typed for blocking channels only
        while time.monotonic() < deadline:
            process.check()
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=1)
            except aio.AioRpcError:
                await asyncio.sleep(0.1)
                continue
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
            await asyncio.sleep(0.1)
    raise TimeoutError(f"{process.service} did not serve within {seconds:.0f} s")


async def describe(channel: aio.Channel) -> embedding_pb2.DescribeResponse:
    """What the embedding service says of its model."""
    return await embedding_pb2_grpc.EmbeddingServiceStub(channel).Describe(embedding_pb2.DescribeRequest())


@dataclass(frozen=True)
class Embedded:
    """A passage's vectors as the embedding service gave them, and whether its end was not read."""

    model: str
    vectors: embedding_pb2.Embedding
    truncated: bool


@dataclass(frozen=True)
class Found:
    """A passage in an answer, with the score of its words."""

    document_id: str
    words_score: float


class EmbeddingClient:
    """Embeds passages as ingestion does: the title before the text, words stemmed in the passage's language."""

    def __init__(self, address: str) -> None:
        self.channel = connect(address, EMBEDDING)
        self._stub = embedding_pb2_grpc.EmbeddingServiceStub(self.channel)

    async def embed(self, passages: Sequence[Passage]) -> list[Embedded]:
        """In the order of `passages`, which are of one language."""
        found: list[Embedded] = []
        for start in range(0, len(passages), _EMBED_TEXTS):
            batch = passages[start : start + _EMBED_TEXTS]
            request = embedding_pb2.EmbedRequest(
                texts=[f"{one.title}\n{one.text}" if one.title else one.text for one in batch],
                input_type=embedding_pb2.INPUT_TYPE_DOCUMENT,
                language=batch[0].language,
                with_sparse=True,
                with_token_vectors=True,
            )
            answer = await self._stub.Embed(request, timeout=_EMBED_SECONDS)
            found += [Embedded(answer.model, one, one.truncated) for one in answer.embeddings]
        return found


class RetrievalClient:
    """Stores passages, one a document, and searches them."""

    def __init__(self, address: str) -> None:
        self.channel = connect(address, RETRIEVAL)
        self._stub = retrieval_pb2_grpc.RetrievalServiceStub(self.channel)

    async def create(self, collection: str, description: str, language: str) -> None:
        """`language` empty: each document says its own."""
        wanted = pb.Collection(name=collection, description=description, language=language)
        await self._stub.PutCollection(pb.PutCollectionRequest(collection=wanted), timeout=_STORE_SECONDS)

    async def put(self, collection: str, document_id: str, passage: Passage, embedded: Embedded) -> None:
        """Stores one passage as a document of its own."""

        async def parts() -> AsyncIterator[pb.UpsertRequest]:
            yield pb.UpsertRequest(
                document=pb.DocumentHeader(
                    document_id=document_id,
                    collection=collection,
                    title=passage.title,
                    source=document_id,
                    language=passage.language,
                    content_hash=document_id,
                    embedding_model=embedded.model,
                )
            )
            vectors = embedded.vectors
            yield pb.UpsertRequest(
                chunk=pb.Chunk(
                    text=passage.text or passage.title,
                    dense=vectors.dense,
                    sparse=vectors.sparse,
                    token_vectors=vectors.token_vectors if vectors.HasField("token_vectors") else None,
                    token_count=vectors.token_count,
                    context=passage.title,
                )
            )

        await self._stub.Upsert(parts(), timeout=_STORE_SECONDS)

    async def search(self, collection: str, question: str, stage: Stage, top_k: int) -> list[Found]:
        """The passages, best first. Raises a ServiceError, also when a part was left out: that is another stage."""
        request = pb.SearchRequest(
            query=question[:_LONGEST_QUERY],
            collections=[collection],
            top_k=top_k,
            mode=_MODES[stage.legs],
            fusion=_FUSIONS[stage.fusion],
            skip_rerank=not stage.rerank,
        )
        try:
            answer = await self._stub.Search(request, timeout=_SEARCH_SECONDS)
        except aio.AioRpcError as error:
            raise from_rpc(error, "retrieval") or DependencyFailed("It has a bug.", dependency="retrieval") from error
        if answer.degraded:
            raise DependencyFailed(f"left out: {', '.join(answer.degraded)}", dependency="retrieval")
        return [Found(one.document_id, one.scores.sparse) for one in answer.passages]
