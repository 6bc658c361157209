"""Wires the embedding service and runs it."""

import os
from collections.abc import Sequence

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.embedding.batched import BatchedEncoder, QueueLimits
from services.embedding.config import Settings
from services.embedding.encoder import Encoder, HashEncoder, Kind
from services.embedding.languages import known_languages
from services.embedding.learned_sparse import Bm25Weigher, SpladeWeigher, Weigher
from services.embedding.onnx_model import OnnxModel
from services.embedding.remote_model import NAME as REMOTE
from services.embedding.remote_model import RemoteModel
from services.embedding.service import EmbeddingService
from services.embedding.window import Windower
from services.runtime.model_server import ModelServer
from services.runtime.onnx_models import locate
from services.runtime.server import Served, run


def build(settings: Settings) -> Served:
    """Loads the model. Raises ModelNotFound when it is not there."""
    encoder, weigher = make_encoder(settings), make_weigher(settings)
    languages = tuple(filter(None, settings.embedding_languages.split(","))) or known_languages(encoder.model)

    async def close() -> None:
        await encoder.close()
        await weigher.close()

    return Served(
        EmbeddingService(encoder, weigher, languages),
        rpc.add_EmbeddingServiceServicer_to_server,
        pb.DESCRIPTOR.services_by_name["EmbeddingService"],
        warm_up=encoder.warm_up,
        close=close,
    )


def make_encoder(settings: Settings) -> Encoder:
    """The encoder that the settings name."""
    # The tokenizer would otherwise start a thread a core, beside the model's.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    scheme, _, name = settings.embedding_model.partition(":")
    if scheme == "hash":
        return HashEncoder(int(name), settings.max_tokens)
    prefixes = {Kind.QUERY: settings.query_prefix, Kind.DOCUMENT: settings.document_prefix}
    if scheme == "onnx":
        model, folder = OnnxModel.load(name, threads=settings.threads, parallel_runs=settings.parallel_runs)
    else:
        key = settings.remote_api_key.get_secret_value()
        server = ModelServer(name, name=REMOTE, api_key=key, timeout_seconds=settings.remote_timeout_seconds)
        model = RemoteModel(server, settings.remote_model)
        folder = locate(settings.remote_tokenizer, "SABUESO_REMOTE_TOKENIZER")
    limits = QueueLimits(
        settings.max_batch_items or model.texts_per_run,
        # Tokens bound what a device holds at once; a server that is asked by URL bounds itself.
        settings.max_batch_tokens if scheme == "onnx" else settings.max_tokens * model.texts_per_run,
        settings.max_waiting_tokens,
        settings.parallel_runs,
    )
    return BatchedEncoder(model, Windower.load(folder, prefixes, settings.max_tokens), limits)


def make_weigher(settings: Settings) -> Weigher:
    """The sparse model that the settings name."""
    scheme, _, name = settings.sparse_model.partition(":")
    if scheme == "bm25":
        return Bm25Weigher()
    return SpladeWeigher.load(
        name,
        threads=settings.threads,
        max_tokens=settings.max_tokens,
        terms=settings.max_sparse_terms,
        waiting_tokens=settings.max_waiting_tokens,
    )


def main() -> None:
    """Serves until SIGTERM; status 78 when the model is not there."""
    settings = Settings.read()

    async def make() -> Sequence[Served]:
        return [build(settings)]

    run("embedding", settings, make)


if __name__ == "__main__":
    main()
