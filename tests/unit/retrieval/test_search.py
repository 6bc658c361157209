"""The search's own decisions, with a store in memory and vectors made by hand."""

import asyncio

import pytest

from services.retrieval.memory_store import MemoryStore
from services.retrieval.search import QueryVectors, Request, Searcher
from services.retrieval.store import Collection, Document, Filter, Mode, NewChunk, SparseTerms, TokenMatrix
from services.runtime.errors import DependencyFailed, Overloaded


class FixedEmbedder:
    """Always the same vectors."""

    def __init__(self):
        self.languages = []

    async def embed_query(self, text, languages, *, with_tokens):
        self.languages.append(list(languages))
        return QueryVectors("m", [1.0, 0.0], SparseTerms([1], [1.0]), TokenMatrix(2, b"1234") if with_tokens else None)


class ListedReranker:
    """Scores by a table of texts; fails or waits on demand."""

    def __init__(self, scores=None, error=None, seconds=0.0):
        self._scores = scores or {}
        self.error = error
        self.seconds = seconds
        self.seen = []

    async def reads_tokens(self):
        return True

    async def scores(self, query, tokens, hits):
        self.seen.append([hit.chunk.text for hit in hits])
        await asyncio.sleep(self.seconds)
        if self.error:
            raise self.error
        return [self._scores.get(hit.chunk.text, 0.0) for hit in hits]


async def searcher(reranker, texts=("a", "b", "c"), candidates=20):
    store = MemoryStore()
    await store.put_collection("acme", Collection("docs"))

    async def chunks():
        for n, text in enumerate(texts):
            yield NewChunk(text, [1.0, n / 10], SparseTerms([1], [1.0]))

    await store.put_document("acme", Document("d", "docs", "m", language="es"), chunks())
    embedder = FixedEmbedder()
    return Searcher(store, embedder, reranker, candidates=candidates, rerank_seconds=0.05), embedder


async def texts(search, **fields):
    result = await search.search("acme", Request("query", **fields))
    return [one.hit.chunk.text for one in result.passages], result


async def test_the_reranker_can_lift_a_candidate_beyond_top_k():
    search, _ = await searcher(ListedReranker({"b": 5.0}))
    found, result = await texts(search, top_k=1)
    assert found == ["b"]
    assert result.passages[0].rerank == 5.0
    assert (await texts(search, top_k=1, rerank=False))[0] == ["a"]


async def test_only_the_candidates_are_reranked_unless_more_are_wanted():
    reranker = ListedReranker()
    search, _ = await searcher(reranker, [f"t{n}" for n in range(9)], candidates=4)
    await texts(search, top_k=2)
    await texts(search, top_k=7)
    assert [len(one) for one in reranker.seen] == [4, 7]


@pytest.mark.parametrize(
    "reranker",
    [
        ListedReranker(error=DependencyFailed("gone", dependency="reranking")),
        ListedReranker(error=Overloaded("busy")),
        ListedReranker(seconds=5),
    ],
)
async def test_a_lost_reranker_degrades_and_is_left_alone_for_a_moment(reranker):
    search, _ = await searcher(reranker)
    for _ in range(3):
        found, result = await texts(search)
        assert found == ["a", "b", "c"]
        assert result.degraded == ["reranking"]
    assert len(reranker.seen) == 1


async def test_a_bug_of_the_reranker_is_not_hidden():
    search, _ = await searcher(ListedReranker(error=RuntimeError("bug")))
    with pytest.raises(RuntimeError, match="bug"):
        await texts(search)


async def test_cancelling_passes_through():
    search, _ = await searcher(ListedReranker(seconds=5))
    waiting = asyncio.ensure_future(texts(search))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_language_filter_decides_how_the_query_is_stemmed():
    search, embedder = await searcher(ListedReranker())
    await texts(search)
    await search.search("acme", Request("query", mode=Mode.DENSE, filter=Filter(language="en")))
    assert embedder.languages == [["es"], ["en"]]


async def test_nothing_found_asks_no_reranker():
    reranker = ListedReranker()
    search, _ = await searcher(reranker, texts=())
    found, result = await texts(search)
    assert (found, reranker.seen, result.degraded) == ([], [], [])
