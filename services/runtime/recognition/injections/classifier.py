"""A text classifier in ONNX that judges injections, such as a fine-tuned DeBERTa or BERT; optional."""

import json
import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from services.runtime.onnx_models import CHARACTERS_PER_TOKEN, ModelNotFound, OnnxGraph, locate, model_file, tokenizable
from services.runtime.settings import WrongSetting

SETTING = "SABUESO_INJECTION_MODEL"
_SCHEME = "onnx:"
_MAX_TOKENS = 512
# How published models call the class, in small letters.
_NAMES = ("injection", "jailbreak", "malicious", "unsafe", "label_1")


class OnnxClassifier:
    """Judges texts by a graph whose one output is a logit a class. Threads may share it."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        """`folder` holds the graph, tokenizer.json, and config.json unless the last class is the one.

        Raises ModelNotFound.
        """
        try:
            import tokenizers
        except ImportError:
            raise ModelNotFound("this image holds no ONNX runtime; install the group `classifier`", SETTING) from None
        path = model_file(folder, SETTING)
        self._graph = OnnxGraph(path, threads)
        self._tokenizer = cast(Any, tokenizers).Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_MAX_TOKENS)
        self._tokenizer.no_padding()
        self._class = _class_of(folder)
        self._lock = threading.Lock()

    def score(self, text: str) -> float:
        """The probability of the class, 0 to 1. Beyond 512 tokens a text is cut."""
        encoded = self._tokenizer.encode(tokenizable(text)[: _MAX_TOKENS * CHARACTERS_PER_TOKEN])
        if not encoded.ids:
            return 0.0
        with self._lock:
            outputs, _ = self._graph.run([(encoded.ids, encoded.type_ids)], self._graph.outputs[:1])
        logits = [float(one) for one in cast(Sequence[Any], outputs[0][0])]
        if len(logits) == 1:
            return 1 / (1 + math.exp(-max(-60.0, min(60.0, logits[0]))))
        shares = [math.exp(one - max(logits)) for one in logits]
        return shares[self._class] / sum(shares)


def _class_of(folder: Path) -> int:
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return -1
    labels = cast(Mapping[str, str], config.get("id2label") or {})
    return next((int(at) for name in _NAMES for at, label in labels.items() if str(label).lower() == name), -1)


def classifier_of(setting: str) -> OnnxClassifier | None:
    """The classifier that `onnx:<folder or hub id>` names; None where nothing is named. Raises WrongSetting."""
    if not setting:
        return None
    if not setting.startswith(_SCHEME):
        raise WrongSetting(f"{setting} is not `onnx:<folder or hub id>`", SETTING)
    return OnnxClassifier(locate(setting.removeprefix(_SCHEME), SETTING))
