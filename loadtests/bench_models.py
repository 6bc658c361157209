"""Embedding and reranking beside sentence-transformers, fastembed and Infinity, with the same weights and threads.

Ours in int8, as the services run it, and in 32 bit, as the peers run theirs; all without a network in between. What a
peer spends on its pipe does not count: it takes its own time.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from loadtests.measuring import NotMeasured
from loadtests.model_files import DEFAULT, onnx_models, torch_models
from loadtests.peers import environments
from loadtests.peers.worker import Worker, worker
from loadtests.side_by_side import Run, Times, Took, figures_beside, take_turns
from services.embedding.batched import BatchedEncoder, QueueLimits
from services.embedding.encoder import Kind
from services.embedding.onnx_model import OnnxModel
from services.embedding.window import Windower
from services.reranking.cross_encoder import CrossEncoderScorer, Load
from services.reranking.scorer import Scored

_CORES, _MAX_TOKENS = 2, 512
_TEXTS = 8
_LEAST_COSINE = 0.98  # of int8 and 32 bit
_INT8, _FP32 = "sabueso int8", "sabueso"
# Module, environment, and where its models come from.
_PEERS: dict[str, tuple[str, str, Callable[[], Path]]] = {
    "sentence-transformers": ("sentence_transformers_models", "models", torch_models),
    "fastembed": ("fastembed_models", "models", lambda: onnx_models() / "fp32"),
    "Infinity": ("infinity_models", "infinity", torch_models),
}
_QUERY = "¿Qué condiciones especiales se repiten en los contratos con proveedores de la UE?"
_SENTENCES = (
    "La penalización por demora en la entrega es del 2 % mensual según la cláusula 8.3 del contrato marco.",
    "El proveedor responde de los daños directos hasta el importe anual de los servicios contratados.",
    "Cualquiera de las partes puede resolver el contrato con un preaviso escrito de noventa días naturales.",
    "Los datos personales se tratan solo por cuenta del responsable y dentro de la Unión Europea.",
    "Las facturas se pagan a sesenta días desde su recepción, salvo reserva escrita del comprador.",
    "La garantía cubre doce meses desde la puesta en marcha, mano de obra y desplazamiento incluidos.",
)


def documents(count: int) -> list[str]:
    """Texts of about 150 tokens, none like another."""
    dice = np.random.default_rng(7)
    orders: list[list[int]] = [dice.permutation(len(_SENTENCES)).tolist() for _ in range(count)]
    return [f"Contrato CT-2025-{n:04d}. " + " ".join(_SENTENCES[at] for at in own) for n, own in enumerate(orders)]


async def side_by_side() -> list[dict[str, Any]]:
    """Embedding, then reranking."""
    async with _peers() as peers:
        if not peers:
            raise NotMeasured("no peer could be started; the reasons stand above")
        return [*await _embedding(peers), *await _reranking(peers)]


async def _embedding(peers: Mapping[str, Worker]) -> list[dict[str, Any]]:
    """Eight documents of 150 tokens at once; one query."""
    texts, query = documents(_TEXTS), f"query: {_QUERY}"
    prefixed = [f"passage: {text}" for text in texts]
    async with (
        _encoder(DEFAULT / "model_int8.onnx") as int8,
        _encoder(onnx_models() / "fp32/bi/model.onnx") as fp32,
    ):
        await _expect_the_same(int8, fp32, peers, texts, prefixed)
        ours = {_INT8: int8, _FP32: fp32}
        whole: dict[str, Run] = {name: _ours(one, texts, Kind.DOCUMENT) for name, one in ours.items()}
        whole |= {name: _theirs(peer, "embed", prefixed) for name, peer in peers.items()}
        single: dict[str, Run] = {name: _ours(one, [_QUERY], Kind.QUERY) for name, one in ours.items()}
        single |= {name: _theirs(peer, "embed", [query]) for name, peer in peers.items()}
        found = _figures("document_embedding", await take_turns(whole, rounds=25, seconds=18, in_process=True))
        found += _figures("query_embedding_beside", await take_turns(single, rounds=80, seconds=8, in_process=True))
    return found


async def _reranking(peers: Mapping[str, Worker]) -> list[dict[str, Any]]:
    """A query and eight passages of 150 tokens through a cross-encoder of the default model's size."""
    texts, load = documents(_TEXTS), Load(threads=1, parallel_runs=_CORES)
    runs: dict[str, Run] = {}
    for name, kind in ((_INT8, "int8"), (_FP32, "fp32")):
        folder = onnx_models() / kind / "cross"
        runs[name] = _scored(CrossEncoderScorer(folder, name="bench", max_tokens=_MAX_TOKENS, load=load), texts)
    runs |= {name: _theirs(peer, "rerank", [_QUERY, texts]) for name, peer in peers.items()}
    return _figures("cross_encoder", await take_turns(runs, rounds=25, seconds=18, in_process=True))


def _figures(name: str, times: dict[str, Times]) -> list[dict[str, Any]]:
    """Of each of ours beside each peer, `speed_up` too."""
    found: list[dict[str, Any]] = []
    for ours, figure in ((_INT8, f"{name}_int8"), (_FP32, f"{name}_fp32")):
        others = {peer: values for peer, values in times.items() if peer not in (_INT8, _FP32)}
        beside = figures_beside(figure, {ours: times[ours], **others}, ours)
        found += [one.fields(speed_up=round(1 / one.ratio().value, 2)) for one in beside]
    return found


@asynccontextmanager
async def _encoder(graph: Path) -> AsyncGenerator[BatchedEncoder]:
    """The encoder of the service, without gRPC, as the peers are."""
    model = OnnxModel("bench", graph, threads=1, parallel_runs=_CORES)
    windower = Windower.load(DEFAULT, {Kind.QUERY: "query: ", Kind.DOCUMENT: "passage: "}, _MAX_TOKENS)
    encoder = BatchedEncoder(model, windower, QueueLimits(1, 4096, 131_072, _CORES))
    try:
        yield encoder
    finally:
        await encoder.close()


@asynccontextmanager
async def _peers() -> AsyncGenerator[dict[str, Worker]]:
    """Those that can be had here."""
    async with AsyncExitStack() as stack:
        found: dict[str, Worker] = {}
        for name, (module, environment, models) in _PEERS.items():
            try:
                python, folder = environments.python_of(environment), await asyncio.to_thread(models)
                process = worker(python, f"loadtests.peers.{module}", str(folder), str(_CORES))
                found[name] = await stack.enter_async_context(process)
            except (NotMeasured, OSError) as error:  # a PeerEnded or TimeoutError is one too
                print(f"{name} is left out: {str(error) or type(error).__name__}", file=sys.stderr)
        yield found


def _ours(encoder: BatchedEncoder, texts: Sequence[str], kind: Kind) -> Run:
    async def run() -> None:
        await encoder.embed(texts, kind, token_vectors=False)

    return run


def _scored(scorer: CrossEncoderScorer, texts: Sequence[str]) -> Run:
    candidates = [Scored(text) for text in texts]

    async def run() -> None:
        await asyncio.to_thread(scorer.compute, Scored(_QUERY), candidates)

    return run


def _theirs(peer: Worker, task: str, argument: Any) -> Run:
    async def run() -> Took:
        return (await peer.do(task, argument)).took

    return run


async def _expect_the_same(
    int8: BatchedEncoder, fp32: BatchedEncoder, peers: Mapping[str, Worker], texts: list[str], prefixed: list[str]
) -> None:
    ours = np.stack([one.dense for one in await fp32.embed(texts, Kind.DOCUMENT, token_vectors=False)])
    sides = {_INT8: [one.dense for one in await int8.embed(texts, Kind.DOCUMENT, token_vectors=False)]}
    sides |= {name: (await peer.do("embed", prefixed)).value for name, peer in peers.items()}
    for name, vectors in sides.items():
        cosine = float((ours * np.array(vectors, np.float32)).sum(axis=1).min())
        if cosine < _LEAST_COSINE:
            raise NotMeasured(f"{name} computes something else: cosine {cosine:.3f}")
