"""Runs an embedding model in ONNX Runtime, in one worker thread with a known number of threads below it."""

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
from numpy.typing import NDArray

from services.embedding.batched import Vectors
from services.embedding.encoder import BrokenModel, Floats, unit_rows
from services.embedding.window import Window

# Its classes come from a compiled module without types.
_ort = cast(Any, onnxruntime)

# In this order: the smaller model first, where a folder holds several.
_MODEL_FILES = ("model_int8.onnx", "model_quantized.onnx", "model.onnx")
_FOLDERS = (".", "onnx")


class ModelNotFound(Exception):
    """There is no usable model under that name; the message says what is missing."""


def locate(name: str) -> Path:
    """The folder of a model: a directory, or a hub id such as `intfloat/multilingual-e5-small`, downloaded once.

    Of a hub the model in 32 bit is taken, `@revision` after the id pins it; HF_HOME and HF_HUB_OFFLINE apply. Raises
    ModelNotFound.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if name.startswith((".", "/")) or name.count("/") != 1:
        raise ModelNotFound(f"{name} is not a folder; `make setup` makes the default model")
    repository, _, revision = name.partition("@")
    files = ["tokenizer.json", *(f"{prefix}model.onnx{suffix}" for prefix in ("", "onnx/") for suffix in ("", "_data"))]
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=files))
    except Exception as error:  # many kinds, of several libraries: offline, no such model, no permission
        raise ModelNotFound(
            f"{name} is neither a folder nor a model that the hub gives ({type(error).__name__})"
        ) from None


def model_file(folder: Path) -> Path:
    """The model's graph in `folder` or its `onnx` folder. Raises ModelNotFound, also without a tokenizer."""
    if not (folder / "tokenizer.json").is_file():
        raise ModelNotFound(f"{folder} holds no tokenizer.json")
    for name in _MODEL_FILES:
        for place in _FOLDERS:
            if (folder / place / name).is_file():
                return folder / place / name
    raise ModelNotFound(f"{folder} holds none of {', '.join(_MODEL_FILES)}")


class OnnxModel:
    """A BERT-like model whose graph answers `token_embeddings` and `sentence_embedding`, or `last_hidden_state`.

    The latter is averaged over the tokens, as e5 and most multilingual models want it.
    """

    has_token_vectors = True

    def __init__(self, name: str, path: Path, threads: int) -> None:
        """`threads` work on one run; several runs wait for each other."""
        options = _ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = _ort.ExecutionMode.ORT_SEQUENTIAL
        # Threads that spin while they wait would take the processor from the other services of a machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = _ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._inputs: set[str] = {one.name for one in self._session.get_inputs()}
        outputs: list[str] = [one.name for one in self._session.get_outputs()]
        self._pooled = "sentence_embedding" in outputs
        self._tokens = next((one for one in ("token_embeddings", "last_hidden_state") if one in outputs), outputs[0])
        self.name = f"{name}@{_revision(path)}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onnx")

    @classmethod
    def load(cls, name: str, threads: int) -> tuple["OnnxModel", Path]:
        """The model and its folder, by directory or hub id. Raises ModelNotFound."""
        folder = locate(name)
        return cls(Path(name).name.partition("@")[0], model_file(folder), threads), folder

    async def run(self, windows: Sequence[Window], *, token_vectors: bool) -> list[Vectors]:
        """One run for all windows, padded to the longest."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, windows, token_vectors)

    async def warm_up(self) -> None:
        """Nothing to do: the encoder's first run is the warm-up."""

    async def close(self) -> None:
        """Lets the running batch finish."""
        await asyncio.to_thread(self._thread.shutdown)

    def _run(self, windows: Sequence[Window], token_vectors: bool) -> list[Vectors]:
        shape = len(windows), max(len(window.ids) for window in windows)
        ids, mask, types = (np.zeros(shape, np.int64) for _ in range(3))
        for row, window in enumerate(windows):
            ids[row, : len(window.ids)] = window.ids
            types[row, : len(window.ids)] = window.type_ids
            mask[row, : len(window.ids)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        wanted = ["sentence_embedding"] if self._pooled else []
        if token_vectors or not self._pooled:
            wanted.append(self._tokens)
        answers = self._session.run(wanted, {name: feed[name] for name in feed if name in self._inputs})
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


def _revision(path: Path) -> str:
    """First 12 digits of the SHA-256 of the file: two models of one name do not compare either."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]
