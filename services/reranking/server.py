"""Wires the reranking service and runs it."""

import asyncio
import os
from collections.abc import Sequence

from sabueso.embedding.v1 import embedding_pb2
from sabueso.reranking.v1 import reranking_pb2 as pb
from sabueso.reranking.v1 import reranking_pb2_grpc as rpc
from services.reranking.clients import EmbeddingClient
from services.reranking.config import Settings
from services.reranking.cross_encoder import SETTING, CrossEncoderScorer, Load
from services.reranking.queued import QueuedScorer
from services.reranking.ranking import Ranking
from services.reranking.remote_scorer import NAME as REMOTE
from services.reranking.remote_scorer import CohereApi, RemoteScorer, RerankApi, TeiApi
from services.reranking.scorer import LocalScorer, MaxSimScorer, OverlapScorer, Scored, Scorer
from services.reranking.service import RerankingService
from services.runtime.channels import connect
from services.runtime.errors import DependencyFailed, Overloaded
from services.runtime.model_server import ModelServer
from services.runtime.onnx_models import CHARACTERS_PER_TOKEN, locate, short_name
from services.runtime.server import Served, run

_APIS: dict[str, RerankApi] = {"tei": TeiApi(), "cohere": CohereApi()}
_RETRY_SECONDS = 1.0


def build(settings: Settings) -> Served:
    """Loads the scorer. Raises ModelNotFound when its model is not there."""
    channel = connect(settings.embedding_address, embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"])
    embedder = EmbeddingClient(channel, settings.embedding_timeout_seconds)
    scorer = _make_scorer(settings, embedder)
    ranking = Ranking(scorer)

    async def warm_up() -> None:
        # Late interaction has nothing to load, and must not wait for the embedding service.
        while not scorer.reads_token_vectors:
            try:
                await ranking.rank(Scored("warm-up"), [Scored("warm-up")], 0)
                return
            except (DependencyFailed, Overloaded):  # a server that is asked by URL may start after us
                await asyncio.sleep(_RETRY_SECONDS)

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
    if scheme in _APIS:
        key = settings.remote_api_key.get_secret_value()
        return RemoteScorer(
            ModelServer(name, name=REMOTE, api_key=key, timeout_seconds=settings.remote_timeout_seconds),
            _APIS[scheme],
            model=settings.remote_model,
            max_characters=CHARACTERS_PER_TOKEN * settings.max_tokens,
            max_waiting_candidates=settings.max_waiting_candidates,
        )
    return QueuedScorer(
        _make_local(scheme, name, settings, embedder), max_waiting_candidates=settings.max_waiting_candidates
    )


def _make_local(scheme: str, name: str, settings: Settings, embedder: EmbeddingClient) -> LocalScorer:
    if scheme == "maxsim":
        return MaxSimScorer(embedder)
    if scheme == "overlap":
        return OverlapScorer()
    # The tokenizer would otherwise start a thread a core, beside the model's.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    load = Load(settings.threads, settings.parallel_runs, settings.max_batch_items, settings.max_batch_tokens)
    return CrossEncoderScorer(locate(name, SETTING), name=short_name(name), max_tokens=settings.max_tokens, load=load)


def main() -> None:
    """Serves until SIGTERM; status 78 when the model is not there."""
    settings = Settings.read()

    async def make() -> Sequence[Served]:
        return [build(settings)]

    run("reranking", settings, make)


if __name__ == "__main__":
    main()
