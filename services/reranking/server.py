"""Wires the reranking service and runs it."""

import os
from collections.abc import Sequence

from sabueso.embedding.v1 import embedding_pb2
from sabueso.reranking.v1 import reranking_pb2 as pb
from sabueso.reranking.v1 import reranking_pb2_grpc as rpc
from services.reranking.clients import EmbeddingClient
from services.reranking.config import Settings
from services.reranking.cross_encoder import SETTING, CrossEncoderScorer
from services.reranking.ranking import Ranking
from services.reranking.scorer import MaxSimScorer, OverlapScorer, Scored, Scorer
from services.reranking.service import RerankingService
from services.runtime.channels import connect
from services.runtime.onnx_models import locate, short_name
from services.runtime.server import Served, run


def build(settings: Settings) -> Served:
    """Loads the scorer. Raises ModelNotFound when its model is not there."""
    channel = connect(settings.embedding_address, embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"])
    embedder = EmbeddingClient(channel, settings.embedding_timeout_seconds)
    scorer = _make_scorer(settings, embedder)
    ranking = Ranking(scorer, max_waiting_candidates=settings.max_waiting_candidates)

    async def warm_up() -> None:
        # Late interaction has nothing to load, and must not wait for the embedding service.
        if not scorer.reads_token_vectors:
            await ranking.rank(Scored("warm-up"), [Scored("warm-up")], 0)

    async def close() -> None:
        await ranking.close()
        await channel.close()

    return Served(
        RerankingService(ranking),
        rpc.add_RerankingServiceServicer_to_server,
        pb.DESCRIPTOR.services_by_name["RerankingService"],
        warm_up=warm_up,
        close=close,
    )


def _make_scorer(settings: Settings, embedder: EmbeddingClient) -> Scorer:
    scheme, _, name = settings.reranking_model.partition(":")
    if scheme == "maxsim":
        return MaxSimScorer(embedder)
    if scheme == "overlap":
        return OverlapScorer()
    # The tokenizer would otherwise start a thread a core, beside the model's.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return CrossEncoderScorer(
        locate(name, SETTING),
        name=short_name(name),
        threads=settings.threads,
        max_tokens=settings.max_tokens,
        batch_items=settings.max_batch_items,
    )


def main() -> None:
    """Serves until SIGTERM; status 78 when the model is not there."""
    settings = Settings.read()

    async def make() -> Sequence[Served]:
        return [build(settings)]

    run("reranking", settings, make)


if __name__ == "__main__":
    main()
