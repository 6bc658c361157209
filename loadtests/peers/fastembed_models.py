"""fastembed with our graphs in 32 bit: `-m … FOLDER THREADS`, where `bi` and `cross` have model.onnx and tokenizer."""

from pathlib import Path

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from fastembed.rerank.cross_encoder import TextCrossEncoder

from loadtests.peers.serving import Task, arguments, serve

_NAME, _DIMENSIONS = "bench/e5-small", 384


def tasks(folder: Path, threads: int) -> dict[str, Task]:
    """`embed` of texts, `rerank` of a query and texts."""
    TextEmbedding.add_custom_model(
        model=_NAME,
        pooling=PoolingType.DISABLED,
        normalization=True,
        sources=ModelSource(hf=_NAME),
        dim=_DIMENSIONS,
        model_file="model.onnx",
        output_name="sentence_embedding",
    )
    TextCrossEncoder.add_custom_model(model=_NAME, sources=ModelSource(hf=_NAME), model_file="model.onnx")
    encoder = TextEmbedding(_NAME, threads=threads, specific_model_path=str(folder / "bi"))
    cross = TextCrossEncoder(_NAME, threads=threads, specific_model_path=str(folder / "cross"))
    return {
        "embed": lambda texts: np.stack(list(encoder.embed(texts, batch_size=32))),
        "rerank": lambda asked: list(cross.rerank(asked[0], asked[1], batch_size=32)),
    }


if __name__ == "__main__":
    serve(tasks(Path(arguments()[0]), int(arguments()[1])))
