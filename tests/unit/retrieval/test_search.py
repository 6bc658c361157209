"""The search's own decisions, with a store in memory and vectors made by hand."""

import asyncio

import numpy as np
import pytest

from services.retrieval.memory_store import MemoryStore
from services.retrieval.ranking import Fusion
from services.retrieval.routing import Router
from services.retrieval.search import Request, Searcher
from services.retrieval.store import (
    Collection,
    Document,
    Filter,
    Mode,
    NewChunk,
    QueryVectors,
    Reader,
    SparseTerms,
    TokenMatrix,
)
from services.runtime.errors import DependencyFailed, ModelMismatch, NotFound, Overloaded

ACME = Reader("acme", ("*",))


class FixedEmbedder:
    """Always the same vectors."""

    def __init__(self, model="m"):
        self.model = model
        self.asked = []

    async def languages(self):
        return ()

    async def embed_query(self, text, languages, *, with_tokens):
        self.asked.append((list(languages), with_tokens))
        return QueryVectors(self.model, [1.0, 0.0], SparseTerms([1], [1.0]), rows([1, 0]) if with_tokens else None)


class Served:
    """Embedders by the name of their model."""

    def __init__(self, *embedders):
        self._embedders = {one.model: one for one in embedders}

    async def by_model(self):
        return self._embedders


class ListedReranker:
    """Scores by a table of texts; fails or waits on demand."""

    def __init__(self, scores=None, error=None, seconds=0.0):
        self._scores = scores or {}
        self.error = error
        self.seconds = seconds
        self.seen = []

    async def scores(self, query, hits):
        self.seen.append([hit.chunk.text for hit in hits])
        await asyncio.sleep(self.seconds)
        if self.error:
            raise self.error
        return [self._scores.get(hit.chunk.text, 0.0) for hit in hits]


def rows(*vectors):
    return TokenMatrix(len(vectors[0]), np.array(vectors, "<f2").tobytes())


async def put(store, document, chunks, reader=ACME):
    async def stream():
        for chunk in chunks:
            yield chunk

    return await store.put_document(reader, document, stream())


async def searcher(reranker=None, texts=("a", "b", "c"), **options):
    store = MemoryStore()
    await store.put_collection(ACME, Collection("docs"))
    chunks = [NewChunk(text, [1.0, n / 10], SparseTerms([1], [1.0])) for n, text in enumerate(texts)]
    await put(store, Document("d", "docs", "m", language="es"), chunks)
    embedder = FixedEmbedder()
    return Searcher(store, Served(embedder), reranker, rerank_seconds=0.05, **options), embedder, store


async def texts(search, reader=ACME, query="query", **fields):
    result = await search.search(reader, Request(query, **fields))
    return [one.hit.chunk.text for one in result.passages], result


async def test_the_reranker_can_lift_a_candidate_beyond_top_k():
    search, _, _ = await searcher(ListedReranker({"b": 5.0}))
    found, result = await texts(search, top_k=1)
    assert found == ["b"]
    assert result.passages[0].rerank == 5.0
    assert (await texts(search, top_k=1, rerank=False))[0] == ["a"]


async def test_only_the_candidates_are_reranked_unless_more_are_wanted():
    reranker = ListedReranker()
    search, _, _ = await searcher(reranker, [f"t{n}" for n in range(9)], candidates=4)
    await texts(search, top_k=2)
    found, _ = await texts(search, top_k=7)
    assert [len(one) for one in reranker.seen] == [4, 7]
    assert len(found) == 7


async def test_what_is_not_reranked_comes_after_what_is_and_keeps_its_order():
    search, _, _ = await searcher(ListedReranker({"t1": -9.0}), [f"t{n}" for n in range(6)], candidates=2)
    result = await search.search(ACME, Request("query", top_k=2))
    assert [one.hit.chunk.text for one in result.passages] == ["t0", "t1"]


@pytest.mark.parametrize("error", [DependencyFailed("gone", dependency="reranking"), Overloaded("busy")])
async def test_a_lost_reranker_degrades_and_is_left_alone_for_a_moment(error):
    reranker = ListedReranker(error=error)
    search, _, _ = await searcher(reranker)
    for _ in range(3):
        found, result = await texts(search)
        assert found == ["a", "b", "c"]
        assert result.degraded == ["reranking"]
    assert len(reranker.seen) == 1


async def test_a_reranker_whose_time_runs_out_is_skipped():
    search, _, _ = await searcher(ListedReranker(seconds=5))
    found, result = await texts(search)
    assert found == ["a", "b", "c"]
    assert result.degraded == ["reranking skipped"]


async def test_a_bug_of_the_reranker_is_not_hidden():
    search, _, _ = await searcher(ListedReranker(error=RuntimeError("bug")))
    with pytest.raises(RuntimeError, match="bug"):
        await texts(search)


async def test_cancelling_passes_through():
    search, _, _ = await searcher(ListedReranker(seconds=5))
    waiting = asyncio.ensure_future(texts(search))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_late_interaction_needs_no_reranker():
    store = MemoryStore()
    await store.put_collection(ACME, Collection("docs"))
    chunks = [
        NewChunk("far", [1.0, 0.1], SparseTerms([1], [1.0]), rows([0, 1], [0.1, 1])),
        NewChunk("near", [1.0, 0.12], SparseTerms([1], [1.0]), rows([0, 1], [1, 0])),
        NewChunk("none", [1.0, 0.13], SparseTerms([1], [1.0])),
    ]
    await put(store, Document("d", "docs", "m"), chunks)
    embedder = FixedEmbedder()
    search = Searcher(store, Served(embedder), None)
    found, result = await texts(search)
    assert found[0] == "near"
    assert result.passages[0].rerank == pytest.approx(1.0, abs=0.01)
    assert embedder.asked == [([""], True)]
    assert sorted(result.stage_seconds) == ["embed", "rerank", "search"]
    assert (await texts(search, rerank=False))[0][0] == "far"


async def test_a_language_filter_decides_how_the_query_is_stemmed():
    search, embedder, _ = await searcher(ListedReranker())
    await texts(search)
    await texts(search, mode=Mode.DENSE, filter=Filter(language="en"))
    assert [languages for languages, _ in embedder.asked] == [["es"], ["en"]]


async def test_nothing_found_asks_no_reranker():
    reranker = ListedReranker()
    search, _, _ = await searcher(reranker, texts=())
    found, result = await texts(search)
    assert (found, reranker.seen, result.degraded) == ([], [], [])


async def test_a_collection_that_is_not_there_is_named_before_anything_is_embedded():
    search, embedder, _ = await searcher(ListedReranker())
    with pytest.raises(NotFound, match="nothing"):
        await texts(search, filter=Filter(collections=["nothing"]))
    assert embedder.asked == []


async def test_collections_of_two_models_are_searched_with_each_ones_own_vectors():
    search, first, store = await searcher()
    await store.put_collection(ACME, Collection("old"))
    await put(store, Document("o", "old", "old-model"), [NewChunk("o", [1.0, 0.0], SparseTerms([1], [1.0]))])
    second = FixedEmbedder("old-model")
    search = Searcher(store, Served(first, second), None)
    found, _ = await texts(search, rerank=False)
    assert sorted(found) == ["a", "b", "c", "o"]
    assert (len(first.asked), len(second.asked)) == (1, 1)
    assert (await texts(search, rerank=False, filter=Filter(collections=["old"])))[0] == ["o"]
    assert len(first.asked) == 1


async def test_a_model_that_nobody_serves_is_refused_with_a_way_out():
    search, _, store = await searcher()
    await store.put_collection(ACME, Collection("old"))
    await put(store, Document("o", "old", "old-model"), [NewChunk("o", [1.0, 0.0], SparseTerms([1], [1.0]))])
    with pytest.raises(ModelMismatch, match=r"`old`.*`old-model`.*`m`.*collections migrate old"):
        await texts(search)
    assert (await texts(search, filter=Filter(collections=["docs"])))[0] == ["a", "b", "c"]


async def test_the_threshold_is_the_cosine_or_in_a_sparse_search_bm25():
    search, _, _ = await searcher(texts=[f"t{n}" for n in range(20)])
    _, result = await texts(search, top_k=20, score_threshold=0.9)
    assert 0 < len(result.passages) < 20
    assert all(one.hit.dense >= 0.9 for one in result.passages)
    assert (await texts(search, top_k=20, mode=Mode.SPARSE, score_threshold=1e9))[0] == []


@pytest.mark.parametrize("fusion", Fusion)
async def test_equal_scores_come_in_the_order_of_their_ids(fusion):
    store = MemoryStore()
    await store.put_collection(ACME, Collection("docs"))
    for name in ("c", "a", "b"):
        await put(store, Document(name, "docs", "m"), [NewChunk(name, [1.0, 0.0], SparseTerms([1], [1.0]))])
    search = Searcher(store, Served(FixedEmbedder()), None)
    for _ in range(20):
        assert (await texts(search, fusion=fusion))[0] == ["a", "b", "c"]


async def test_what_is_named_exactly_comes_first():
    search, _, _ = await searcher(texts=[*(f"about ERR-40{n}" for n in range(10, 50)), "about ERR-4099"])
    found, _ = await texts(search, query="what does err 4099 mean", top_k=1)
    assert found == ["about ERR-4099"]


async def test_a_document_can_be_limited_and_a_parent_is_read_once():
    store = MemoryStore()
    await store.put_collection(ACME, Collection("docs"))
    small = [NewChunk(f"s{n}", [1.0, n / 10], SparseTerms([1], [1.0]), parent_text="whole") for n in range(3)]
    await put(store, Document("p", "docs", "m"), small)
    await put(store, Document("q", "docs", "m"), [NewChunk(f"q{n}", [1, n], SparseTerms([], [])) for n in range(3)])
    search = Searcher(store, Served(FixedEmbedder()), None)
    found, result = await texts(search, rerank=False, max_per_document=1)
    assert found == ["s0", "q0"]
    assert result.passages[0].hit.chunk.parent_text == "whole"


async def test_closed_documents_are_not_found():
    search, _, store = await searcher()
    await put(store, Document("h", "docs", "m", labels=("hr",)), [NewChunk("hr", [1.0, 0.0], SparseTerms([1], [9.0]))])
    assert "hr" in (await texts(search))[0]
    assert "hr" in (await texts(search, Reader("acme", ("hr",))))[0]
    assert "hr" not in (await texts(search, Reader("acme", ("sales",))))[0]
    assert "hr" not in (await texts(search, Reader("acme")))[0]


class DescribedEmbedder(FixedEmbedder):
    """Can be asked by a router too."""

    def __init__(self):
        super().__init__()
        self.routed = []

    async def query_vector(self, text):
        self.routed.append(text)
        return [1.0, 0.0]

    async def document_vectors(self, texts):
        return [[1.0, 0.0] if text.startswith("docs") else [0.0, 1.0 - 0.1 * (n % 3)] for n, text in enumerate(texts)]


async def test_a_routed_query_is_embedded_once():
    store, embedder = MemoryStore(), DescribedEmbedder()
    await store.put_collection(ACME, Collection("docs", "what it holds"))
    await put(store, Document("d", "docs", "m", language="es"), [NewChunk("a", [1.0, 0.0], SparseTerms([1], [1.0]))])

    class Asked:
        """The embedder as a router asks it."""

        query_vector, document_vectors = embedder.query_vector, embedder.document_vectors

        async def model(self):
            return "m"

    search = Searcher(store, Served(embedder), None, router=Router(Asked()))
    result = await search.search(ACME, Request("query", route=True))
    assert [one.hit.chunk.text for one in result.passages] == ["a"]
    assert [one.name for one in result.routed if one.chosen] == ["docs"]
    assert (len(embedder.asked), embedder.routed) == (1, [])
    await store.put_collection(ACME, Collection("docs too", "what else it holds"))
    result = await search.search(ACME, Request("query", route=True, filter=Filter(collections=["docs"])))
    assert [one.name for one in result.routed] == ["docs"]
