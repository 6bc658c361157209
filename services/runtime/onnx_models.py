"""Finds ONNX models of text and runs their graphs. For embedding and reranking; no other image holds what it loads."""

import hashlib
import logging
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from services.runtime.settings import WrongSetting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]

log = logging.getLogger(__name__)

# No text of 512 tokens is longer than this many characters a token, but for runs of one sign; beyond, a tokenizer would
# read megabytes in order to throw them away.
CHARACTERS_PER_TOKEN = 64
# In this order: the smaller model first, where a folder holds several.
_MODEL_FILES = ("model_int8.onnx", "model_quantized.onnx", "model.onnx")
_FOLDERS = (".", "onnx")
_GPU, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
# Operators that quantise their input while they run, with one scale for the whole batch (ONNX and ONNX Runtime).
_QUANTISING = (b"DynamicQuantizeLinear", b"DynamicQuantizeMatMul")


class ModelNotFound(WrongSetting):
    """There is no usable model under that name; the message says what is missing."""


def locate(name: str, setting: str) -> Path:
    """The folder of a model: a directory, or a hub id such as `intfloat/multilingual-e5-small`, downloaded once.

    Of a hub the model in 32 bit is taken, `@revision` after the id pins it; HF_HOME and HF_HUB_OFFLINE apply. Raises
    ModelNotFound, with `setting` as what names the model.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if name.startswith((".", "/")) or name.count("/") != 1:
        raise ModelNotFound(f"{name} is not a folder; `make setup` makes the default embedding model", setting)
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]

    repository, _, revision = name.partition("@")
    files = ["tokenizer.json", *(f"{prefix}model.onnx{suffix}" for prefix in ("", "onnx/") for suffix in ("", "_data"))]
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=files))
    except Exception as error:  # many kinds, of several libraries: offline, no such model, no permission
        kind = type(error).__name__
        raise ModelNotFound(f"{name} is neither a folder nor a model that the hub gives ({kind})", setting) from None


def model_file(folder: Path, setting: str) -> Path:
    """The model's graph in `folder` or its `onnx` folder. Raises ModelNotFound, also without a tokenizer."""
    if not (folder / "tokenizer.json").is_file():
        raise ModelNotFound(f"{folder} holds no tokenizer.json", setting)
    for name in _MODEL_FILES:
        for place in _FOLDERS:
            if (folder / place / name).is_file():
                return folder / place / name
    raise ModelNotFound(f"{folder} holds none of {', '.join(_MODEL_FILES)}", setting)


def short_name(name: str) -> str:
    """The model's own part of a folder's path or a hub id."""
    return Path(name).name.partition("@")[0]


def tokenizable(text: str) -> str:
    """Without NUL and lone surrogates, on which tokenizers fail."""
    return text.encode("utf-8", "ignore").decode().replace("\0", " ")


def choose_providers(available: Sequence[str]) -> list[str]:
    """Where a graph runs, by what ONNX Runtime offers: on a CUDA device, with the processor for the rest of it.

    onnxruntime-gpu offers CUDA; TensorRT is left out, it compiles for minutes at each new length of text.
    """
    return [provider for provider in (_GPU, _CPU) if provider in available]


class OnnxGraph:
    """A BERT-like graph over token ids.

    `outputs` are the names of what it answers; `revision` is of the file's content: two models of one name do not
    compare either. `on_gpu`: it runs on a CUDA device. `alone`: texts must run one at a time, since the graph is
    quantised while it runs, by the batch: a text's answer would depend on its neighbours (cosine 0.995, measured).
    """

    def __init__(self, path: Path, threads: int) -> None:
        """`threads` work on one run."""
        import onnxruntime

        ort = cast(Any, onnxruntime)  # its classes come from a compiled module without types
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        # Threads that spin while they wait would take the processor from the other services of a machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(
            str(path), options, providers=choose_providers(ort.get_available_providers())
        )
        providers: list[str] = self._session.get_providers()
        # Asked of the session: a device that is offered may still fail to start, and the processor then takes over.
        self.on_gpu = _GPU in providers
        log.info("model loaded", extra={"model": path.parent.name, "providers": providers, "threads": threads})
        self._inputs: set[str] = {one.name for one in self._session.get_inputs()}
        self.outputs: list[str] = [one.name for one in self._session.get_outputs()]
        with path.open("rb") as file:
            self.revision = hashlib.file_digest(file, "sha256").hexdigest()[:12]
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                self.alone = any(content.find(operator) >= 0 for operator in _QUANTISING)

    def run(
        self, rows: Sequence[tuple[Sequence[int], Sequence[int]]], wanted: Sequence[str] | None = None
    ) -> "tuple[Sequence[Any], Numbers]":
        """Answers the `wanted` outputs, or all, and which places are real.

        `rows` are (ids, type ids) of each text; they are padded to the longest.
        """
        import numpy as np

        shape = len(rows), max(len(ids) for ids, _ in rows)
        ids, mask, types = (np.zeros(shape, np.int64) for _ in range(3))
        for at, (row_ids, row_types) in enumerate(rows):
            ids[at, : len(row_ids)] = row_ids
            types[at, : len(row_ids)] = row_types
            mask[at, : len(row_ids)] = 1
        feed: Mapping[str, Numbers] = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        return self._session.run(wanted, {name: feed[name] for name in feed if name in self._inputs}), mask
