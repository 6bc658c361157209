"""sentence-transformers with the default model's weights: `-m … FOLDER THREADS`. See bert_files for the folder."""

from pathlib import Path

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

from loadtests.peers.serving import Task, arguments, serve


def tasks(folder: Path, threads: int) -> dict[str, Task]:
    """`embed` of texts, `rerank` of a query and texts."""
    torch.set_num_threads(threads)
    words = Transformer(str(folder / "bi"), max_seq_length=512)
    encoder = SentenceTransformer(modules=[words, Pooling(words.get_embedding_dimension()), Normalize()], device="cpu")
    cross = CrossEncoder(str(folder / "cross"), device="cpu", max_length=512)
    return {
        "embed": lambda texts: encoder.encode(texts, batch_size=32, show_progress_bar=False),
        "rerank": lambda asked: cross.predict([(asked[0], text) for text in asked[1]], show_progress_bar=False),
    }


if __name__ == "__main__":
    serve(tasks(Path(arguments()[0]), int(arguments()[1])))
