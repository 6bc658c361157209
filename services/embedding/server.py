"""Wires the embedding service and runs it."""

import os
from collections.abc import Sequence

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.embedding.batched import BatchedEncoder, QueueLimits
from services.embedding.config import Settings
from services.embedding.encoder import Encoder, HashEncoder, Kind
from services.embedding.onnx_model import OnnxModel
from services.embedding.remote_model import RemoteModel
from services.embedding.service import EmbeddingService
from services.embedding.window import Windower
from services.runtime.onnx_models import locate
from services.runtime.server import Served, run


def build(settings: Settings) -> Served:
    """Loads the model. Raises ModelNotFound when it is not there."""
    encoder = make_encoder(settings)
    return Served(
        EmbeddingService(encoder),
        rpc.add_EmbeddingServiceServicer_to_server,
        pb.DESCRIPTOR.services_by_name["EmbeddingService"],
        warm_up=encoder.warm_up,
        close=encoder.close,
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
        model, folder = OnnxModel.load(name, settings.threads)
    else:
        key = settings.remote_api_key.get_secret_value()
        model = RemoteModel(name, settings.remote_model, key, settings.remote_timeout_seconds)
        folder = locate(settings.remote_tokenizer, "SABUESO_REMOTE_TOKENIZER")
    limits = QueueLimits(settings.max_batch_items, settings.max_batch_tokens, settings.max_waiting_tokens)
    return BatchedEncoder(model, Windower.load(folder, prefixes, settings.max_tokens), limits)


def main() -> None:
    """Serves until SIGTERM; status 78 when the model is not there."""
    settings = Settings.read()

    async def make() -> Sequence[Served]:
        return [build(settings)]

    run("embedding", settings, make)


if __name__ == "__main__":
    main()
