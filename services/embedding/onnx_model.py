"""Runs an embedding model in ONNX Runtime, in worker threads with a known number of threads below each."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.embedding.batched import Vectors
from services.embedding.encoder import BrokenModel, Floats, unit_rows
from services.embedding.window import Window
from services.runtime.onnx_models import OnnxGraph, locate, model_file, short_name

_SETTING = "SABUESO_EMBEDDING_MODEL"


class OnnxModel:
    """A BERT-like model whose graph answers `token_embeddings` and `sentence_embedding`, or `last_hidden_state`.

    The latter is averaged over the tokens, as e5 and most multilingual models want it.
    """

    has_token_vectors = True

    def __init__(self, name: str, path: Path, *, threads: int, parallel_runs: int) -> None:
        """`threads` work on one run; `parallel_runs` go on at a time, twice as many where both kinds of text wait."""
        self._graph = OnnxGraph(path, threads)
        outputs = self._graph.outputs
        self._pooled = "sentence_embedding" in outputs
        self._tokens = next((one for one in ("token_embeddings", "last_hidden_state") if one in outputs), outputs[0])
        self.name = f"{name}@{self._graph.revision}"
        # Enough for all runs of both kinds: none waits in here, where there is no order and no limit.
        self._threads = ThreadPoolExecutor(2 * parallel_runs, thread_name_prefix="onnx")

    @property
    def texts_per_run(self) -> int:
        """How many texts are best run together: on a processor a batch is no faster than its texts one by one."""
        return 32 if self._graph.on_gpu and not self._graph.alone else 1

    @classmethod
    def load(cls, name: str, *, threads: int, parallel_runs: int) -> tuple["OnnxModel", Path]:
        """The model and its folder, by directory or hub id. Raises ModelNotFound."""
        folder = locate(name, _SETTING)
        path = model_file(folder, _SETTING)
        return cls(short_name(name), path, threads=threads, parallel_runs=parallel_runs), folder

    async def run(self, windows: Sequence[Window], *, token_vectors: bool, deadline: float | None) -> list[Vectors]:
        """One run for all windows, padded to the longest; one a window where neighbours would change the vectors."""
        batches = [[window] for window in windows] if self._graph.alone else [windows]
        loop = asyncio.get_running_loop()
        answers = [await loop.run_in_executor(self._threads, self._run, batch, token_vectors) for batch in batches]
        return [vectors for answer in answers for vectors in answer]

    async def warm_up(self) -> None:
        """Nothing to do: the encoder's first run is the warm-up."""

    async def close(self) -> None:
        """Lets the running batch finish."""
        await asyncio.to_thread(self._threads.shutdown)

    def _run(self, windows: Sequence[Window], token_vectors: bool) -> list[Vectors]:
        wanted = ["sentence_embedding"] if self._pooled else []
        if token_vectors or not self._pooled:
            wanted.append(self._tokens)
        answers, mask = self._graph.run([(window.ids, window.type_ids) for window in windows], wanted)
        tokens = np.asarray(answers[-1], np.float32)
        dense = np.asarray(answers[0], np.float32) if self._pooled else _mean(tokens, mask)
        if len(dense) != len(windows):
            raise BrokenModel(f"the model {self.name} answered {len(dense)} vectors for {len(windows)} texts")
        dense = unit_rows(dense)
        return [
            Vectors(dense[row], unit_rows(tokens[row, window.own]).astype(np.float16) if token_vectors else None)
            for row, window in enumerate(windows)
        ]


def _mean(tokens: Floats, mask: NDArray[np.int64]) -> Floats:
    weights = mask[:, :, None].astype(np.float32)
    return (tokens * weights).sum(axis=1) / weights.sum(axis=1)
