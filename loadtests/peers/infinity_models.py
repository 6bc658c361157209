"""Infinity's engine with the default model's weights: `-m … FOLDER THREADS`. See bert_files for the folder."""

import asyncio
from pathlib import Path

import torch
from infinity_emb import AsyncEmbeddingEngine, EngineArgs

from loadtests.peers.serving import Task, arguments, serve


def tasks(folder: Path, threads: int) -> dict[str, Task]:
    """`embed` of texts, `rerank` of a query and texts."""
    torch.set_num_threads(threads)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def started(name: str) -> AsyncEmbeddingEngine:
        engine = AsyncEmbeddingEngine.from_args(
            EngineArgs(
                model_name_or_path=str(folder / name),
                engine="torch",
                device="cpu",
                dtype="float32",
                batch_size=32,
                bettertransformer=False,
                model_warmup=False,
                compile=False,
            )
        )
        loop.run_until_complete(engine.astart())
        return engine

    encoder, cross = started("bi"), started("cross")

    def embed(texts: list[str]) -> list[list[float]]:
        vectors, _ = loop.run_until_complete(encoder.embed(sentences=texts))
        return [vector.tolist() for vector in vectors]

    def rerank(asked: tuple[str, list[str]]) -> int:
        scores, _ = loop.run_until_complete(cross.rerank(query=asked[0], docs=asked[1]))
        return len(scores)

    return {"embed": embed, "rerank": rerank}


if __name__ == "__main__":
    serve(tasks(Path(arguments()[0]), int(arguments()[1])))
