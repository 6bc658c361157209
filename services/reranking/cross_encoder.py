"""Scores query and text together with a cross-encoder in ONNX Runtime."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Encoding, Tokenizer

from services.reranking.scorer import BrokenModel, Floats, Scored

# Its classes come from a compiled module without types.
_ort = cast(Any, onnxruntime)

# In this order: the smaller model first, where a folder holds several.
_MODEL_FILES = ("model_int8.onnx", "model_quantized.onnx", "model.onnx")
_FOLDERS = (".", "onnx")
# No text of 512 tokens is longer, but for runs of one sign.
_CHARACTERS_PER_TOKEN = 64


class ModelNotFound(Exception):
    """There is no usable model under that name; the message says what is missing."""


def locate(name: str) -> Path:
    """The folder of a model: a directory, or a hub id such as `BAAI/bge-reranker-base`, downloaded once.

    Of a hub the model in 32 bit is taken, `@revision` after the id pins it; HF_HOME and HF_HUB_OFFLINE apply. Raises
    ModelNotFound.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if name.startswith((".", "/")) or name.count("/") != 1:
        raise ModelNotFound(f"{name} is not a folder")
    repository, _, revision = name.partition("@")
    files = ["tokenizer.json", *(f"{prefix}model.onnx{suffix}" for prefix in ("", "onnx/") for suffix in ("", "_data"))]
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=files))
    except Exception as error:  # many kinds, of several libraries: offline, no such model, no permission
        raise ModelNotFound(f"{name} is neither a folder nor on the hub ({type(error).__name__})") from None


def _model_file(folder: Path) -> Path:
    if not (folder / "tokenizer.json").is_file():
        raise ModelNotFound(f"{folder} holds no tokenizer.json")
    for name in _MODEL_FILES:
        for place in _FOLDERS:
            if (folder / place / name).is_file():
                return folder / place / name
    raise ModelNotFound(f"{folder} holds none of {', '.join(_MODEL_FILES)}")


class CrossEncoderScorer:
    """A sequence classifier over pairs, such as bge-reranker or ms-marco-MiniLM; its logit is the score."""

    reads_token_vectors = False

    def __init__(self, folder: Path, *, name: str, threads: int, max_tokens: int, batch_items: int) -> None:
        """`threads` work on one run of at most `batch_items` pairs of `max_tokens`.

        `name` becomes part of `model`. Raises ModelNotFound when the folder holds no graph or no tokenizer.
        """
        path = _model_file(folder)
        options = _ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = _ort.ExecutionMode.ORT_SEQUENTIAL
        # Threads that spin while they wait would take the processor from the other services of a machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = _ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._inputs: set[str] = {one.name for one in self._session.get_inputs()}
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        # The longer of the two is cut first: a long query does not push the text out.
        self._tokenizer.enable_truncation(  # pyright: ignore[reportUnknownMemberType]
            max_tokens, strategy="longest_first"
        )
        self._characters = _CHARACTERS_PER_TOKEN * max_tokens
        self._batch_items = batch_items
        with path.open("rb") as file:
            self.model = f"{name}@{hashlib.file_digest(file, 'sha256').hexdigest()[:12]}"

    async def prepare(self, query: Scored, candidates: Sequence[Scored]) -> tuple[Scored, Sequence[Scored]]:
        """Nothing to fetch: it reads texts."""
        return query, candidates

    def score(self, query: Scored, candidates: Sequence[Scored]) -> Floats:
        """Logits; of a classifier with two labels, how far the second is above the first."""
        asked = _clean(query.text)
        texts = [_clean(candidate.text[: self._characters]) for candidate in candidates]
        pairs = [self._tokenizer.encode(asked, text) for text in texts]
        # Pairs of like length go through the model together: less padding.
        order = sorted(range(len(pairs)), key=lambda n: len(pairs[n].ids))
        scores = np.empty(len(pairs), np.float32)
        for start in range(0, len(order), self._batch_items):
            batch = order[start : start + self._batch_items]
            scores[batch] = self._run([pairs[n] for n in batch])
        return scores

    def _run(self, pairs: Sequence[Encoding]) -> Floats:
        shape = len(pairs), max(len(pair.ids) for pair in pairs)
        ids, mask, types = (np.zeros(shape, np.int64) for _ in range(3))
        for row, pair in enumerate(pairs):
            ids[row, : len(pair.ids)] = pair.ids
            types[row, : len(pair.ids)] = pair.type_ids
            mask[row, : len(pair.ids)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        answer = self._session.run(None, {name: feed[name] for name in feed if name in self._inputs})[0]
        logits = np.asarray(answer, np.float32).reshape(len(pairs), -1)
        if logits.shape[1] > 2:
            raise BrokenModel(f"the model {self.model} has {logits.shape[1]} labels: it is not a reranker")
        return logits[:, -1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]


def _clean(text: str) -> str:
    """Without NUL and lone surrogates, on which tokenizers fail."""
    return text.encode("utf-8", "ignore").decode().replace("\0", " ")
