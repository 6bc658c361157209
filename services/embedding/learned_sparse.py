"""Sparse weights from a learned model (SPLADE): a masked language model says which words a text is about."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from services.embedding import short_work, sparse
from services.embedding.encoder import BrokenModel, Kind
from services.embedding.sparse import TermWeights
from services.embedding.window import Window, Windower
from services.runtime.batching import Batcher
from services.runtime.onnx_models import OnnxGraph, locate, model_file, short_name

_SETTING = "SABUESO_SPARSE_MODEL"


class Weigher(Protocol):
    """Gives each text the weights of its terms."""

    @property
    def model(self) -> str:
        """Name and revision of a learned model; empty for BM25, whose terms never change with a model."""
        ...

    async def weigh(self, texts: Sequence[str], kind: Kind, language: str) -> list[TermWeights]:
        """In the order of the texts. Raises UnknownLanguage, Overloaded and BrokenModel."""
        ...

    async def close(self) -> None:
        """Stops; whoever waits is cancelled."""
        ...


class Bm25Weigher:
    """The words of a text, by `sparse`."""

    model = ""

    async def weigh(self, texts: Sequence[str], kind: Kind, language: str) -> list[TermWeights]:
        """Weight 1 for each term of a search, BM25's term frequency for each of a document."""
        weigh = sparse.weigh_query if kind is Kind.QUERY else sparse.weigh_document
        return await short_work.done(lambda: [weigh(text, language) for text in texts], texts)

    async def close(self) -> None:
        """Nothing to do."""


class SpladeWeigher:
    """A masked language model whose graph answers logits [batch, tokens, vocabulary].

    The weight of a term is the largest log(1 + relu(logit)) over the text's tokens (SPLADE-max; Formal et al. 2021,
    "SPLADE v2", section 3.2). The terms are the model's vocabulary, for searches and documents alike.
    """

    def __init__(self, name: str, graph: OnnxGraph, windower: Windower, *, terms: int, waiting_tokens: int) -> None:
        """At most `terms` of a text are kept, the heaviest. `waiting_tokens` may wait; one text runs at a time."""
        self._graph = graph
        self._windower = windower
        self._terms = terms
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="splade")
        self.model = f"{name}@{graph.revision}"
        # One text a run: logits of a batch are [texts, tokens, 30,000] floats.
        self._queue: Batcher[Window, TermWeights] = Batcher(
            self._work, max_batch_cost=1, max_batch_items=1, max_waiting_cost=waiting_tokens
        )

    @classmethod
    def load(cls, name: str, *, threads: int, max_tokens: int, terms: int, waiting_tokens: int) -> "SpladeWeigher":
        """By directory or hub id. Raises ModelNotFound."""
        folder = locate(name, _SETTING)
        graph = OnnxGraph(model_file(folder, _SETTING), threads)
        windower = Windower.load(folder, dict.fromkeys(Kind, ""), max_tokens)
        return cls(short_name(name), graph, windower, terms=terms, waiting_tokens=waiting_tokens)

    async def weigh(self, texts: Sequence[str], kind: Kind, language: str) -> list[TermWeights]:
        """The language is not used: the model knows its own."""
        windows = await asyncio.to_thread(self._windower.windows, texts, kind)
        return await self._queue.submit([(window, len(window.ids)) for window in windows])

    async def close(self) -> None:
        """Lets the running text finish."""
        await self._queue.close()
        await asyncio.to_thread(self._thread.shutdown)

    async def _work(self, batch: Sequence[Window]) -> list[TermWeights]:
        loop = asyncio.get_running_loop()
        return [await loop.run_in_executor(self._thread, self._run, window) for window in batch]

    def _run(self, window: Window) -> TermWeights:
        answers, _ = self._graph.run([(window.ids, window.type_ids)])
        logits = np.asarray(answers[0], np.float32)
        if logits.ndim != 3 or logits.shape[:2] != (1, len(window.ids)):
            raise BrokenModel(f"the model {self.model} answered {list(logits.shape)}: it is no masked language model")
        weights = np.log1p(np.maximum(logits[0].max(axis=0), 0))
        if not np.isfinite(weights).all():
            raise BrokenModel(f"the model {self.model} answered values that are not finite")
        heaviest = np.argsort(-weights, kind="stable")[: self._terms]
        kept = np.sort(heaviest[weights[heaviest] > 0])
        return TermWeights(kept.tolist(), weights[kept].tolist(), window.truncated)
