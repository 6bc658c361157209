"""Hybrid search and late interaction in the embedded store, without the embedding of the query.

The corpus is synthetic: see synthetic_corpus. The peer compares the query with every chunk, in numpy.
"""

import itertools
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from loadtests.exact_search import ExactSearch, ranked, recall
from loadtests.measuring import NotMeasured
from loadtests.search_stores import READER, each, filled
from loadtests.side_by_side import Peer, Run, figures_beside, measure, take_turns
from loadtests.synthetic_corpus import DIMENSIONS, MODEL, corpus
from services.retrieval.edge.store import EdgeStore
from services.retrieval.ranking import Fitness, Fusion, fused
from services.retrieval.store import (
    Collection,
    Document,
    Mode,
    NewChunk,
    Query,
    SparseTerms,
    StoredChunk,
    TokenMatrix,
)

SMALL, LARGE, HUGE = 10_000, 100_000, 1_000_000
_NAMES = {SMALL: "10k", LARGE: "100k", HUGE: "1m"}
_QUERIES, _TOP_K = 100, 10
_PASSAGES, _PASSAGE_TOKENS, _QUERY_TOKENS = 20, 150, 20
_EXACT = "exact search in numpy"


@dataclass(frozen=True)
class _Filled:
    """A corpus in a store, and beside it."""

    store: EdgeStore
    exact: ExactSearch
    queries: Sequence[Query]

    def search(self) -> Run:
        """One search, fused."""
        turn = itertools.cycle(self.queries)

        async def run() -> None:
            ranked(await self.store.search(READER, next(turn)))

        return run

    def compare(self) -> Run:
        """The same by comparing all."""
        turn = itertools.cycle(self.queries)

        async def run() -> None:
            query = next(turn)
            self.exact.best(query.dense, query.sparse, _TOP_K)

        return run


async def hybrid_search() -> list[dict[str, Any]]:
    """Among 10,000 chunks beside the exact search, then late interaction."""
    async with AsyncExitStack() as stack:
        small = await _filled(stack, SMALL)
        figure = await measure(
            "hybrid_search_10k", small.search(), rounds=300, peer=Peer(_EXACT, small.compare()), in_process=True
        )
        recalls = await _recalls(small)
    return [figure.fields(**recalls), await late_interaction()]


async def hybrid_search_growth(sizes: Sequence[int] = (SMALL, LARGE)) -> list[dict[str, Any]]:
    """The same in larger stores, each beside the exact search and beside the smallest, in turn."""
    async with AsyncExitStack() as stack:
        stores = {size: await _filled(stack, size) for size in sizes}
        runs: dict[str, Run] = {}
        for size, one in stores.items():
            runs[_NAMES[size]] = one.search()
            if size != SMALL:
                runs[f"{_EXACT} {_NAMES[size]}"] = one.compare()
        times = await take_turns(runs, rounds=300, seconds=20 * len(sizes), in_process=True)
        recalls = {size: await _recalls(one) for size, one in stores.items()}
    found: list[dict[str, Any]] = []
    for size in sizes[1:]:
        name = _NAMES[size]
        peers = {name: times[name], _EXACT: times[f"{_EXACT} {name}"]}
        [beside] = figures_beside(f"hybrid_search_{name}", peers, name)
        [growth] = figures_beside(f"hybrid_search_growth_{name}", {name: times[name], "10k": times["10k"]}, name)
        found += [beside.fields(**recalls[size]), growth.fields()]
    return found


async def hybrid_search_1m() -> list[dict[str, Any]]:
    """With a million chunks: the store takes 6 GB of disk, and an hour to fill and to index on one core."""
    return await hybrid_search_growth((SMALL, LARGE, HUGE))


async def late_interaction() -> dict[str, Any]:
    """Twenty passages of 150 tokens, read from the store and compared with one of 20; the peer has them in memory."""
    dice = np.random.default_rng(3)
    matrices = [_tokens(dice, _PASSAGE_TOKENS) for _ in range(_QUERIES)]
    wanted = _tokens(dice, _QUERY_TOKENS)
    rows = [np.frombuffer(one.values, "<f2").astype(np.float32).reshape(-1, DIMENSIONS) for one in (wanted, *matrices)]
    passages = [NewChunk("text", row[0].tolist(), SparseTerms([1], [1.0]), tokens=matrix)
                for matrix, row in zip(matrices, rows[1:], strict=True)]  # fmt: skip
    turn, peer_turn = itertools.count(), itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        store = EdgeStore(Path(folder))
        await store.open()
        try:
            await store.put_collection(READER, Collection("tokens"))
            await store.put_document(READER, Document("tokens", "tokens", MODEL), each(passages))
            first = passages[0]
            found = await store.search(READER, Query(Mode.DENSE, MODEL, first.dense, first.sparse, limit=_QUERIES))
            groups = [found[at : at + _PASSAGES] for at in range(0, len(found), _PASSAGES)]

            async def compare() -> None:
                scores = await store.late_scores(READER, MODEL, groups[next(turn) % len(groups)], wanted)
                if len(scores) != _PASSAGES or any(score is None for score in scores):
                    raise NotMeasured("a passage has no token vectors")

            async def in_memory() -> None:
                at = next(peer_turn) * _PASSAGES % _QUERIES
                similarities = rows[0] @ np.concatenate(rows[1 + at : 1 + at + _PASSAGES]).T
                similarities.reshape(_QUERY_TOKENS, _PASSAGES, _PASSAGE_TOKENS).max(axis=2).sum(axis=0)

            figure = await measure(
                "late_interaction_20", compare, rounds=300, peer=Peer("numpy", in_memory), seconds=6, in_process=True
            )
        finally:
            await store.close()
    return figure.fields()


def _tokens(dice: np.random.Generator, count: int) -> TokenMatrix:
    rows = dice.standard_normal((count, DIMENSIONS))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenMatrix(DIMENSIONS, rows.astype("<f2").tobytes())


async def _filled(stack: AsyncExitStack, size: int) -> _Filled:
    chunks = corpus(size)
    store = await stack.enter_async_context(filled(chunks))
    return _Filled(store, ExactSearch(chunks), chunks.queries(_QUERIES))


async def _recalls(one: _Filled) -> dict[str, float]:
    """Recall@10 of the hybrid and of the dense search."""
    hybrid, dense = zip(*[await _recall(one, query) for query in one.queries], strict=True)
    return {
        "recall_at_10": round(float(np.mean(hybrid)), 4),
        "recall_at_10_dense": round(float(np.mean(dense)), 4),
    }


async def _recall(one: _Filled, query: Query) -> tuple[float, float]:
    hits = await one.store.search(READER, query)
    alone = replace(query, mode=Mode.DENSE)
    dense = sorted(await one.store.search(READER, alone), key=lambda hit: -hit.dense)[:_TOP_K]
    best = set(one.exact.best(query.dense, query.sparse, _TOP_K))
    scores = fused(hits, Mode.HYBRID, Fusion.CALIBRATED, Fitness())
    order = sorted(range(len(hits)), key=lambda at: -scores[at])[:_TOP_K]
    found = {_place(hits[at].chunk) for at in order}
    return (
        len(best & found) / _TOP_K,
        recall([_place(hit.chunk) for hit in dense], one.exact.dense_scores(query.dense)),
    )


def _place(chunk: StoredChunk) -> int:
    """A document bears the place of its first chunk as its name."""
    return int(chunk.document_id) + chunk.position
