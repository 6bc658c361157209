"""The same tests on every store: in memory, embedded engine, Qdrant server."""

import asyncio
import contextlib
import dataclasses
import math
import os
import re
import uuid
import zlib

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient

from services.retrieval.edge.store import EdgeStore
from services.retrieval.memory_store import MemoryStore
from services.retrieval.qdrant.store import QdrantStore
from services.retrieval.store import (
    Collection,
    Condition,
    Document,
    Filter,
    Index,
    Migration,
    MigrationState,
    Mode,
    NewChunk,
    Quantization,
    Query,
    Reader,
    Scan,
    SparseTerms,
    SuspiciousSpan,
    TokenMatrix,
)
from services.runtime.errors import InvalidField, ModelMismatch, NotFound, NotPermitted
from tests.contract import qdrant_loopback

# On the client's memory mode directly and through gRPC, and on the server at QDRANT_URL, if it is set.
QDRANT_KINDS = ["qdrant-memory", "qdrant-loopback", *(["qdrant-server"] if "QDRANT_URL" in os.environ else [])]
KINDS = ["memory", "edge", *QDRANT_KINDS]
MODEL = f"hash-{uuid.uuid4().hex[:8]}"
NEXT_MODEL = f"next-{MODEL}"


@pytest.fixture(params=KINDS)
async def store(request, tmp_path):
    match request.param:
        case "memory":
            store = MemoryStore()
        case "edge":
            store = EdgeStore(tmp_path / "vectors")
        case kind:
            async with qdrant_store(kind) as store:
                yield store
            return
    await store.open()
    yield store
    await store.close()


@contextlib.asynccontextmanager
async def qdrant_store(kind):
    """A store on a server that holds nothing else of its name."""
    async with contextlib.AsyncExitStack() as stack:
        match kind:
            case "qdrant-memory":
                client = AsyncQdrantClient(":memory:")
            case "qdrant-loopback":
                client = (await stack.enter_async_context(qdrant_loopback.running())).connect()
            case _:
                client = AsyncQdrantClient(url=os.environ["QDRANT_URL"], prefer_grpc=True, timeout=30)
        prefix = f"test-{uuid.uuid4().hex[:8]}-"
        store = QdrantStore(client, prefix=prefix, payload_indexes=kind != "qdrant-memory")
        await store.open()
        try:
            yield store
        finally:
            for one in (await client.get_collections()).collections:
                if one.name.startswith(prefix):
                    await client.delete_collection(one.name)
            await store.close()


def terms(text, weight=None):
    words = [zlib.crc32(word.encode()) for word in re.findall(r"[\w-]+", text.lower())]
    return SparseTerms(sorted(set(words)), [weight or 1.5 for _ in set(words)])


def direction(text):
    """A vector that is near to those of texts with the same words."""
    total = np.full(32, 0.01)
    for word in re.findall(r"[\w-]+", text.lower()):
        total += np.random.default_rng(zlib.crc32(word.encode())).standard_normal(32)
    return (total / np.linalg.norm(total)).tolist()


def chunk(text, **fields):
    return NewChunk(text=text, dense=direction(text), sparse=terms(text), **fields)


def document(document_id, collection="docs", embedding_model=MODEL, **fields):
    return Document(document_id=document_id, collection=collection, embedding_model=embedding_model, **fields)


async def stream(chunks):
    for one in chunks:
        yield one


def query(text, mode=Mode.HYBRID, limit=10, model=MODEL, with_vectors=False, **conditions):
    return Query(mode, model, direction(text), terms(text, 1.0), limit, Filter(**conditions), with_vectors)


async def put(store, reader, document_, *texts):
    return await store.put_document(reader, document_, stream([chunk(text) for text in texts]))


def readers():
    """Of tenants that no other test has: a server keeps its data between tests."""
    return Reader(f"a{uuid.uuid4().hex[:8]}"), Reader(f"b{uuid.uuid4().hex[:8]}")


@pytest.fixture
async def reader(store):
    found = readers()[0]
    await store.put_collection(found, Collection("docs"))
    return found


def bm25(wanted, texts):
    """Brute force: the chunks' weights (1.5) times Qdrant's smoothed IDF."""
    held = [set(text.split()) for text in texts]
    scores = np.zeros(len(texts))
    for word in set(wanted.split()):
        there = np.array([word in one for one in held])
        scores += there * 1.5 * math.log(1 + (len(texts) - there.sum() + 0.5) / (there.sum() + 0.5))
    return scores


def late_averages(asked, held):
    """The best cosine similarity of each of the query's tokens, on full vectors, averaged by its deviation."""
    rows = [m.astype(float) / np.linalg.norm(m.astype(float), axis=1, keepdims=True) for m in (asked, *held)]
    best = np.array([(rows[0] @ other.T).max(axis=1) for other in rows[1:]])
    return np.average(best, axis=1, weights=best.std(axis=0))


def ids(hits):
    """Documents of candidates, which come in no order."""
    return sorted(hit.chunk.document_id for hit in hits)


def best(hits, leg):
    """Documents by descending score of a leg; ties by chunk."""
    return [h.chunk.document_id for h in sorted(hits, key=lambda h: (-getattr(h, leg), h.chunk.chunk_id))]


class TestStore:
    async def test_no_method_shows_what_another_tenant_has(self, store):
        one, other = readers()
        for who in (one, other):
            await store.put_collection(who, Collection("docs"))
            tokens = TokenMatrix(4, np.ones((3, 4), "<f2").tobytes())
            chunks = [chunk(f"secret of {who.tenant}", tokens=tokens), chunk("more text", tokens=tokens)]
            await store.put_document(who, document("same", title=who.tenant, language=who.tenant[0]), stream(chunks))
        for mode in Mode:
            hits = await store.search(one, query("secret", mode))
            assert hits
            assert {hit.chunk.title for hit in hits} == {one.tenant}
        for filters in ({"document_ids": ["same"]}, {"collections": ["docs"]}):
            assert {h.chunk.title for h in await store.search(one, query("secret", **filters))} == {one.tenant}
        assert {c.title for c in await store.get_chunks(one, "same")} == {one.tenant}
        assert (await store.get_document(one, "same")).title == one.tenant
        assert [d.title for d in await store.list_documents(one, "docs", "", 10)] == [one.tenant]
        assert [c.document_count for c in await store.list_collections(one)] == [1]
        assert await store.languages(one, []) == ["a"]
        foreign = await store.search(other, query("secret"))
        scores = await store.late_scores(one, MODEL, foreign, TokenMatrix(4, np.ones((2, 4), "<f2").tobytes()))
        assert set(scores) == {None}

        await store.put_collection(other, Collection("theirs"))
        for names in (["theirs"], ["docs", "theirs"]):
            with pytest.raises(NotFound, match="`theirs`"):
                await store.models(one, names)
            with pytest.raises(NotFound, match="`theirs`"):
                await store.search(one, query("secret", collections=names))
        with pytest.raises(NotFound):
            await store.delete_collection(one, "theirs")
        await store.delete_document(other, "same")
        assert len(await store.get_chunks(one, "same")) == 2
        assert await store.search(other, query("secret")) == []
        assert await store.list_documents(other, "", "", 10) == []
        assert await store.delete_collection(other, "docs") == 0
        assert len(await store.search(one, query("secret"))) == 2

    async def test_rare_words_count_more_than_common_ones(self, store, reader):
        for n in range(20):
            word = "zirconium" if n == 7 else f"filler{n}"
            await put(store, reader, document(f"d{n:02}"), f"service {word}")
        hits = await store.search(reader, query("service zirconium", Mode.SPARSE, limit=20))
        scores = sorted((hit.sparse for hit in hits), reverse=True)
        assert best(hits, "sparse")[0] == "d07"
        assert scores[0] > 5 * scores[1]

    async def test_word_frequencies_are_those_of_the_tenant_alone(self, store, reader):
        other = readers()[1]
        await store.put_collection(other, Collection("docs"))
        await put(store, reader, document("a"), "alpha beta")
        await put(store, reader, document("b"), "alpha gamma")
        before = (await store.search(reader, query("beta", Mode.SPARSE)))[0].sparse
        await put(store, other, document("x"), *["beta beta2"] * 5)
        after = (await store.search(reader, query("beta", Mode.SPARSE)))[0].sparse
        assert after == pytest.approx(before, rel=1e-5)
        assert before == pytest.approx(1.5 * math.log(1 + (2 - 1 + 0.5) / (1 + 0.5)), rel=1e-4)

    async def test_an_exact_code_comes_first(self, store, reader):
        for code in ("ERR-4032", "ERR-4023", "ERR-403", "ERR-4033"):
            await put(store, reader, document(code), f"the pump stops with {code} when hot")
        for code in ("ERR-4032", "ERR-403"):
            assert best(await store.search(reader, query(code)), "sparse")[0] == code

    async def test_scores_of_both_legs_are_exact_for_every_candidate(self, store, reader):
        rng = np.random.default_rng(7)
        words = [f"w{n}" for n in range(40)]
        texts = [" ".join(rng.choice(words, 6)) + f" n{n}" for n in range(150)]
        await store.put_document(reader, document("d"), stream([chunk(text) for text in texts]))
        wanted = "w1 w2 w3 w39"
        hits = await store.search(reader, query(wanted, limit=5, with_vectors=True))
        assert 5 <= len(hits) <= 10
        dense = np.array([direction(text) for text in texts]) @ np.array(direction(wanted))
        sparse = bm25(wanted, texts)
        expected = set(np.argsort(-dense)[:5])
        assert expected <= {hit.chunk.position for hit in hits}
        assert sorted((h.sparse for h in hits), reverse=True)[:5] == pytest.approx(sorted(sparse)[:-6:-1], rel=1e-4)
        for hit in hits:
            assert hit.dense == pytest.approx(dense[hit.chunk.position], abs=1e-4)
            assert hit.sparse == pytest.approx(sparse[hit.chunk.position], rel=1e-4)
            assert list(hit.vector) == pytest.approx(direction(hit.chunk.text), abs=1e-5)
        (alone,) = [h for h in await store.search(reader, query(wanted, limit=1, mode=Mode.DENSE))]
        assert (alone.sparse, tuple(alone.vector)) == (0.0, ())

    async def test_a_passage_far_from_the_words_meaning_is_found_by_its_code(self, store, reader):
        far = dataclasses.replace(chunk("pump ERR-4032"), dense=[-x for x in direction("ERR-4032")])
        near = [chunk(f"filler{n} text") for n in range(80)]
        await store.put_document(reader, document("d"), stream([*near, far]))
        hits = await store.search(reader, query("ERR-4032", limit=50))
        (found,) = [hit for hit in hits if hit.sparse]
        assert found.chunk.position == 80
        assert found.dense == pytest.approx(float(np.dot(far.dense, direction("ERR-4032"))), abs=1e-4)
        assert len(hits) == 51

    async def test_ties_are_all_found_and_found_again(self, store, reader):
        for n in range(12):
            await put(store, reader, document(f"d{n:02}"), "the very same text")
        for mode in Mode:
            hits = await store.search(reader, query("same text", mode, limit=20))
            assert ids(hits) == [f"d{n:02}" for n in range(12)]
            assert len({(hit.dense, hit.sparse) for hit in hits}) == 1
            few = [set(ids(await store.search(reader, query("same text", mode, limit=5)))) for _ in range(5)]
            assert all(one == few[0] and len(one) >= 5 for one in few)

    async def test_a_query_without_known_words_is_searched_by_meaning(self, store, reader):
        await put(store, reader, document("a"), "late delivery penalty")
        wanted = Query(Mode.HYBRID, MODEL, direction("late delivery"), SparseTerms([], []), 5)
        assert ids(await store.search(reader, wanted)) == ["a"]
        silent = Query(Mode.SPARSE, MODEL, direction("late delivery"), SparseTerms([], []), 5)
        assert await store.search(reader, silent) == []

    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            ({"collections": ["docs"]}, {"es", "en"}),
            ({"collections": ["docs", "law"]}, {"es", "en", "law"}),
            ({"document_ids": ["en", "law"]}, {"en", "law"}),
            ({"language": "es"}, {"es"}),
            ({"conditions": [Condition("year", ["2024", "2025"])]}, {"es", "en"}),
            ({"conditions": [Condition("year", ["2025"]), Condition("a.b[0]", ['x "y"'])]}, {"en"}),
            ({"conditions": [Condition("year", ["20"])]}, set()),
        ],
    )
    async def test_filters_hold_in_every_mode(self, store, reader, conditions, expected):
        await store.put_collection(reader, Collection("law"))
        quoted = {"year": "2025", "a.b[0]": 'x "y"'}
        await put(store, reader, document("es", language="es", metadata={"year": "2024"}), "common words")
        await put(store, reader, document("en", language="en", metadata=quoted), "common words")
        await put(store, reader, document("law", "law"), "common words")
        for mode in Mode:
            assert set(ids(await store.search(reader, query("common words", mode, **conditions)))) == expected

    async def test_an_unknown_collection_is_named(self, store, reader):
        with pytest.raises(NotFound, match="`nowhere`"):
            await store.search(reader, query("x", collections=["nowhere"]))
        with pytest.raises(NotFound, match="`nowhere`"):
            await put(store, reader, document("d", "nowhere"), "text")

    async def test_the_same_document_again_changes_nothing(self, store, reader):
        one = document("d", content_hash="h1", title="Title", metadata={"k": "v"})
        first = await put(store, reader, one, "one", "two")
        stored = await store.get_document(reader, "d")
        again = await put(store, reader, one, "one", "two")
        assert (first.replaced, again.replaced) == (False, False)
        assert (first.chunk_count, again.chunk_count) == (2, 2)
        assert await store.get_document(reader, "d") == stored
        assert len(await store.search(reader, query("one two"))) == 2

    async def test_a_document_is_replaced_as_a_whole(self, store, reader):
        await put(store, reader, document("d", content_hash="1"), "old one", "old two", "old three")
        result = await put(store, reader, document("d", content_hash="2", title="New"), "new one")
        assert result.replaced
        chunks = await store.get_chunks(reader, "d")
        assert [(c.text, c.title, c.chunk_id) for c in chunks] == [("new one", "New", "d#0")]
        hits = await store.search(reader, query("old one two three"))
        assert [hit.chunk.text for hit in hits] == ["new one"]

    async def test_a_changed_header_is_stored_though_the_content_is_the_same(self, store, reader):
        await put(store, reader, document("d", content_hash="1", metadata={"year": "2024"}), "text")
        assert (await put(store, reader, document("d", content_hash="1", metadata={"year": "2025"}), "text")).replaced
        wanted = query("text", conditions=[Condition("year", ["2025"])])
        assert ids(await store.search(reader, wanted)) == ["d"]

    async def test_a_document_moves_to_another_collection(self, store, reader):
        await store.put_collection(reader, Collection("law"))
        await put(store, reader, document("d"), "text")
        await put(store, reader, document("d", "law"), "text")
        assert await store.search(reader, query("text", collections=["docs"])) == []
        assert ids(await store.search(reader, query("text", collections=["law"]))) == ["d"]
        assert [c.document_count for c in await store.list_collections(reader)] == [0, 1]

    async def test_readers_see_the_old_document_until_the_new_one_is_complete(self, store, reader):
        await put(store, reader, document("d"), *[f"word old{n}" for n in range(5)])
        seen = []

        async def slowly():
            for n in range(150):
                if n in (70, 140):
                    seen.append([hit.chunk.text for hit in await store.search(reader, query("word"))])
                yield chunk(f"word new{n}")

        await store.put_document(reader, document("d"), slowly())
        assert [sorted(one) for one in seen] == [[f"word old{n}" for n in range(5)]] * 2
        hits = await store.search(reader, query("word", limit=200))
        assert len(hits) == 150
        assert all("new" in hit.chunk.text for hit in hits)

    async def test_readers_never_see_a_mixture(self, store, reader):
        await put(store, reader, document("d"), *[f"word v0 n{n}" for n in range(4)])
        writing = True

        async def read():
            while writing:
                found = {hit.chunk.text.split()[1] for hit in await store.search(reader, query("word", limit=20))}
                assert len(found) == 1
                await asyncio.sleep(0)

        reading = asyncio.ensure_future(read())
        for version in range(1, 6):
            await put(store, reader, document("d"), *[f"word v{version} n{n}" for n in range(4)])
        writing = False
        await reading

    async def test_a_broken_upload_leaves_the_old_document(self, store, reader):
        await put(store, reader, document("d"), "old")

        async def broken():
            for n in range(100):
                yield chunk(f"new {n}")
            raise InvalidField("bad chunk", field="chunk")

        with pytest.raises(InvalidField):
            await store.put_document(reader, document("d"), broken())
        assert [c.text for c in await store.get_chunks(reader, "d")] == ["old"]
        assert [h.chunk.text for h in await store.search(reader, query("new", limit=100))] == ["old"]

    async def test_vectors_of_another_length_are_refused(self, store, reader):
        await put(store, reader, document("a"), "text")
        short = NewChunk("text", [1.0, 0.0], SparseTerms([1], [1.0]))
        with pytest.raises(InvalidField, match="2 values"):
            await store.put_document(reader, document("b"), stream([short]))
        assert ids(await store.search(reader, query("text"))) == ["a"]

    async def test_documents_of_another_model_are_not_compared(self, store, reader):
        await put(store, reader, document("a"), "text")
        foreign = Query(Mode.HYBRID, "another-model", [1.0] * 32, terms("text"), 5)
        assert await store.search(reader, foreign) == []

    async def test_a_deleted_document_is_gone(self, store, reader):
        await put(store, reader, document("d"), "one", "two")
        assert await store.delete_document(reader, "d") == 2
        assert await store.search(reader, query("one")) == []
        for missing in (store.get_chunks, store.get_document, store.delete_document):
            with pytest.raises(NotFound, match="`d`"):
                await missing(reader, "d")

    async def test_chunks_come_in_reading_order(self, store, reader):
        chunks = [chunk(f"text {n}", page=n // 10 + 1, section=f"S > {n}") for n in range(300)]
        await store.put_document(reader, document("d", source="a.pdf", language="es"), stream(chunks))
        read = await store.get_chunks(reader, "d")
        assert [c.text for c in read] == [c.text for c in chunks]
        assert [c.position for c in read] == list(range(300))
        assert (read[299].page, read[299].section, read[299].source, read[299].language) == (
            30,
            "S > 299",
            "a.pdf",
            "es",
        )

    async def test_a_document_without_chunks_can_be_stored(self, store, reader):
        assert (await put(store, reader, document("empty"))).chunk_count == 0
        assert await store.get_chunks(reader, "empty") == []
        assert await store.delete_document(reader, "empty") == 0

    async def test_documents_are_listed_in_pages(self, store, reader):
        await store.put_collection(reader, Collection("law"))
        for n in (3, 1, 2, 5, 4):
            await put(store, reader, document(f"d{n}", "law" if n == 2 else "docs", title=f"T{n}"), "text")
        first = await store.list_documents(reader, "", "", 2)
        rest = await store.list_documents(reader, "", first[-1].document_id, 10)
        assert [d.document_id for d in first + rest] == ["d1", "d2", "d3", "d4", "d5"]
        assert [d.title for d in await store.list_documents(reader, "law", "", 10)] == ["T2"]
        assert first[0].chunk_count == 1
        assert first[0].update_time.timestamp() > 0

    async def test_a_collection_goes_with_its_documents(self, store, reader):
        await store.put_collection(reader, Collection("law"))
        await put(store, reader, document("a"), "text")
        await put(store, reader, document("b", "law"), "text")
        assert await store.delete_collection(reader, "law") == 1
        assert ids(await store.search(reader, query("text"))) == ["a"]
        assert [c.name for c in await store.list_collections(reader)] == ["docs"]
        with pytest.raises(NotFound, match="`law`"):
            await store.delete_collection(reader, "law")

    async def test_a_collections_description_can_be_changed(self, store, reader):
        await put(store, reader, document("a"), "text")
        changed = await store.put_collection(reader, Collection("docs", "All contracts", "es"))
        (stored,) = await store.list_documents(reader, "", "", 10)
        assert changed == Collection(
            "docs", "All contracts", "es", model=MODEL, document_count=1, update_time=stored.update_time
        )
        assert await store.list_collections(reader) == [changed]

    async def test_a_collection_says_when_it_last_changed(self, store, reader):
        (empty,) = await store.list_collections(reader)
        await put(store, reader, document("a", content_hash="1"), "text")
        (first,) = await store.list_collections(reader)
        await asyncio.sleep(0.01)
        await put(store, reader, document("a", content_hash="2"), "other text")
        (second,) = await store.list_collections(reader)
        assert empty.update_time < first.update_time < second.update_time
        assert second.document_count == 1

    async def test_languages_are_those_of_the_documents(self, store, reader):
        await store.put_collection(reader, Collection("law"))
        await put(store, reader, document("a", language="es"), "text")
        await put(store, reader, document("b", "law", language="en"), "text")
        await put(store, reader, document("c", "law"), "text")
        assert await store.languages(reader, []) == ["", "en", "es"]
        assert await store.languages(reader, ["docs"]) == ["es"]

    async def test_late_scores_are_those_of_the_full_vectors(self, store, reader):
        rng = np.random.default_rng(1)
        matrices = [rng.standard_normal((3 + n, 64)).astype("<f2") for n in range(5)]
        chunks = [chunk(f"text n{n}", tokens=TokenMatrix(64, m.tobytes())) for n, m in enumerate(matrices)]
        await store.put_document(reader, document("d"), stream([*chunks, chunk("text without")]))
        asked = rng.standard_normal((4, 64)).astype("<f2")
        hits = await store.search(reader, query("text"))
        scores = await store.late_scores(reader, MODEL, hits, TokenMatrix(64, asked.tobytes()))
        assert len(scores) == len(hits) == 6
        expected = late_averages(asked, matrices)
        for hit, score in zip(hits, scores, strict=True):
            if hit.chunk.position == 5:
                assert score is None
            else:
                assert score == pytest.approx(expected[hit.chunk.position], abs=0.03)
        assert list(await store.late_scores(reader, MODEL, [], TokenMatrix(64, asked.tobytes()))) == []
        other = await store.late_scores(reader, MODEL, hits, TokenMatrix(32, asked.tobytes()))
        assert set(other) == {None}

    async def test_a_document_that_was_replaced_since_the_search_has_no_late_scores(self, store, reader):
        tokens = TokenMatrix(4, np.ones((3, 4), "<f2").tobytes())
        await store.put_document(reader, document("d"), stream([chunk("text", tokens=tokens)]))
        hits = await store.search(reader, query("text"))
        assert list(await store.late_scores(reader, MODEL, hits, tokens)) == [pytest.approx(1.0, abs=0.01)]
        await store.put_document(reader, document("d", title="New"), stream([chunk("other", tokens=tokens)]))
        assert list(await store.late_scores(reader, MODEL, hits, tokens)) == [None]

    async def test_a_shorter_version_leaves_nothing_of_the_longer_one(self, store, reader):
        await put(store, reader, document("d", content_hash="1"), *[f"word n{n}" for n in range(10)])
        await put(store, reader, document("d", content_hash="2"), *[f"word m{n}" for n in range(4)])
        assert (await store.get_document(reader, "d")).chunk_count == 4
        assert len(await store.search(reader, query("word", limit=100))) == 4
        assert await store.delete_document(reader, "d") == 4
        assert await store.search(reader, query("word", limit=100)) == []

    async def test_what_is_read_in_its_place_and_what_was_embedded_before_it_are_kept(self, store, reader):
        marks = (SuspiciousSpan(0, 4, 0.9, "order"),)
        described = chunk(
            "text", context="Title > Part", parent_text="more of the text", suspicious=marks, scan=Scan("a1", 0.5)
        )
        await store.put_document(reader, document("d"), stream([described]))
        (read,) = await store.get_chunks(reader, "d")
        (hit,) = await store.search(reader, query("text"))
        assert (read.context, read.parent_text) == ("Title > Part", "more of the text")
        assert read.suspicious == marks
        assert read.scan == Scan("a1", 0.5)
        assert hit.chunk == read

    async def test_everything_that_is_said_of_a_document_is_kept(self, store, reader):
        said = document(
            "d",
            title="T",
            source="a.pdf",
            language="es",
            metadata={"k": "v"},
            content_hash="h",
            content_sha256="ab",
            page_count=7,
        )
        await put(store, reader, said, "text")
        read = await store.get_document(reader, "d")
        assert read == dataclasses.replace(said, chunk_count=1, update_time=read.update_time)

    async def test_the_same_document_stored_by_two_at_once_is_there_once(self, store, reader):
        await asyncio.gather(*(put(store, reader, document("d"), f"word v{n} a", f"word v{n} b") for n in range(4)))
        chunks = await store.get_chunks(reader, "d")
        assert len(chunks) == 2
        assert len({c.text.split()[1] for c in chunks}) == 1
        assert len(await store.search(reader, query("word"))) == 2


class TestLabels:
    """Documents that are closed to some readers of their tenant."""

    @pytest.fixture
    async def people(self, store, reader):
        """One who holds all labels, one of HR, and one without any; with a document for each."""
        everyone = dataclasses.replace(reader, labels=("*",))
        staff = dataclasses.replace(reader, labels=("hr", "eu"))
        tokens = TokenMatrix(4, np.ones((3, 4), "<f2").tobytes())
        for name, labels in (("open", ()), ("hr", ("hr", "board")), ("board", ("board",))):
            closed = document(name, labels=labels, title=f"Title of {name}", language=name[:2])
            await store.put_document(everyone, closed, stream([chunk(f"salary list {name}", tokens=tokens)]))
        return everyone, staff, reader

    async def test_only_documents_that_are_open_to_the_reader_are_found(self, store, people):
        for who, expected in zip(people, (["board", "hr", "open"], ["hr", "open"], ["open"]), strict=True):
            for mode in Mode:
                assert ids(await store.search(who, query("salary list board", mode))) == expected
            named = query("salary list", document_ids=["board", "hr", "open"], collections=["docs"])
            assert ids(await store.search(who, named)) == expected

    async def test_closed_documents_are_not_there_in_any_method(self, store, people):
        _, staff, plain = people
        for who, expected in ((staff, ["hr", "open"]), (plain, ["open"])):
            assert [d.document_id for d in await store.list_documents(who, "", "", 10)] == expected
            assert [d.document_id for d in await store.list_documents(who, "docs", "", 1)] == expected[:1]
            assert [c.document_count for c in await store.list_collections(who)] == [len(expected)]
            assert await store.languages(who, []) == [name[:2] for name in expected]
            assert await store.languages(who, ["docs"]) == [name[:2] for name in expected]
            for method in (store.get_document, store.get_chunks, store.delete_document):
                with pytest.raises(NotFound) as error:
                    await method(who, "board")
                assert "Title" not in error.value.message

    async def test_closed_documents_get_no_late_scores(self, store, people):
        everyone, _, plain = people
        tokens = TokenMatrix(4, np.ones((2, 4), "<f2").tobytes())
        hits = await store.search(everyone, query("salary"))
        scores = await store.late_scores(plain, MODEL, hits, tokens)
        assert {h.chunk.document_id for h, s in zip(hits, scores, strict=True) if s is not None} == {"open"}

    async def test_a_document_that_is_closed_to_the_writer_is_not_replaced(self, store, people):
        everyone, _, plain = people
        with pytest.raises(NotPermitted) as error:
            await put(store, plain, document("board", title="Mine"), "other")
        assert "Title" not in error.value.message
        assert (await store.get_document(everyone, "board")).title == "Title of board"

    async def test_a_writer_must_hold_the_labels_that_it_puts_on_a_document(self, store, people):
        everyone, staff, _ = people
        with pytest.raises(NotPermitted, match=r"`board`, `law`"):
            await put(store, staff, document("new", labels=("law", "hr", "board")), "text")
        await put(store, staff, document("new", labels=("hr", "eu")), "text")
        assert (await store.get_document(staff, "new")).labels == ("hr", "eu")
        with pytest.raises(InvalidField, match="labels"):
            await put(store, everyone, document("all", labels=("*",)), "text")

    async def test_new_labels_hold_at_once_and_are_a_change(self, store, people):
        everyone, staff, plain = people
        one = document("d", content_hash="1")
        await put(store, everyone, one, "salary list d")
        assert "d" in ids(await store.search(plain, query("salary")))
        assert (await put(store, everyone, dataclasses.replace(one, labels=("hr",)), "salary list d")).replaced
        assert "d" not in ids(await store.search(plain, query("salary")))
        assert "d" in ids(await store.search(staff, query("salary")))

    async def test_a_collection_with_closed_documents_is_not_deleted(self, store, people):
        everyone, staff, _ = people
        with pytest.raises(NotPermitted):
            await store.delete_collection(staff, "docs")
        assert [c.document_count for c in await store.list_collections(everyone)] == [3]
        assert await store.delete_collection(everyone, "docs") == 3


class TestModels:
    """Collections of several models and kinds of index."""

    async def test_a_collection_takes_the_model_of_its_first_document(self, store, reader):
        assert await store.models(reader, ["docs"]) == {"docs": ""}
        await put(store, reader, document("d"), "text")
        assert await store.models(reader, []) == {"docs": MODEL}
        await store.delete_document(reader, "d")
        await put(store, reader, document("d", embedding_model=NEXT_MODEL), "text")
        assert await store.models(reader, ["docs"]) == {"docs": NEXT_MODEL}
        with pytest.raises(NotFound, match="`nowhere`"):
            await store.models(reader, ["docs", "nowhere"])

    async def test_documents_of_another_model_are_refused_with_the_way_out(self, store, reader):
        await put(store, reader, document("d"), "text")
        with pytest.raises(ModelMismatch) as error:
            await put(store, reader, document("e", embedding_model=NEXT_MODEL), "text")
        for word in (MODEL, NEXT_MODEL, "sabueso collections migrate docs"):
            assert word in error.value.message
        assert error.value.metadata == {"collection": "docs", "model": MODEL}

    async def test_a_search_sees_the_collections_of_its_model(self, store, reader):
        await store.put_collection(reader, Collection("law"))
        await put(store, reader, document("a"), "text")
        await put(store, reader, document("b", "law", embedding_model=NEXT_MODEL), "text")
        assert ids(await store.search(reader, query("text"))) == ["a"]
        assert ids(await store.search(reader, query("text", model=NEXT_MODEL))) == ["b"]
        assert await store.search(reader, query("text", collections=["law"])) == []

    @pytest.mark.parametrize("quantization", list(Quantization))
    @pytest.mark.parametrize("rescore", [True, False])
    async def test_every_index_gives_exact_scores(self, store, reader, quantization, rescore):
        index = Index(8, 32, 64, quantization, 3.0, rescore)
        await store.put_collection(reader, Collection("indexed", index=index))
        texts = [f"word n{n}" for n in range(50)]
        await store.put_document(reader, document("d", "indexed"), stream([chunk(text) for text in texts]))
        hits = await store.search(reader, query("word n7", limit=10, collections=["indexed"]))
        assert best(hits, "dense")[0] == "d"
        for hit in hits:
            expected = float(np.dot(direction("word n7"), direction(hit.chunk.text)))
            assert hit.dense == pytest.approx(expected, abs=1e-4)
        assert (await store.list_collections(reader))[-1].index == index

    async def test_collections_of_several_indexes_are_searched_together(self, store, reader):
        index = Index(hnsw_m=8, quantization=Quantization.SCALAR)
        await store.put_collection(reader, Collection("small", index=index))
        await put(store, reader, document("a"), "late delivery")
        await put(store, reader, document("b", "small"), "late delivery")
        for filters in ({}, {"collections": ["docs", "small"]}):
            hits = await store.search(reader, query("late delivery", **filters))
            assert ids(hits) == ["a", "b"]
            assert all(h.dense == pytest.approx(1, abs=1e-4) and h.sparse for h in hits)

    async def test_the_index_of_a_collection_with_documents_stays(self, store, reader):
        other = Collection("docs", index=Index(hnsw_m=32))
        assert (await store.put_collection(reader, other)).index.hnsw_m == 32
        await put(store, reader, document("d"), "text")
        assert (await store.put_collection(reader, dataclasses.replace(other, language="es"))).language == "es"
        with pytest.raises(InvalidField, match="migrate docs"):
            await store.put_collection(reader, Collection("docs"))
        wider = Index(hnsw_m=32, hnsw_ef=256, oversampling=4.0, rescore=False)
        assert (await store.put_collection(reader, Collection("docs", index=wider))).index == wider
        assert ids(await store.search(reader, query("text"))) == ["d"]

    async def test_learned_weights_are_not_multiplied_by_frequencies(self, store, reader):
        await put(store, reader, document("a", learned_sparse=True), "common rare")
        await put(store, reader, document("b", learned_sparse=True), "common")
        found = {h.chunk.document_id: h.sparse for h in await store.search(reader, query("common rare", Mode.SPARSE))}
        assert found == {"a": pytest.approx(3.0), "b": pytest.approx(1.5)}


class TestMigration:
    """A collection gets another model while it is searched and written."""

    MIGRATION = Migration(MigrationState.RUNNING, NEXT_MODEL, Index(hnsw_m=8))

    async def migrate(self, store, reader, model=NEXT_MODEL):
        """As the service does it; how many documents were done."""
        count = 0
        while (found := await store.next_unmigrated(reader.tenant, "docs")) is not None:
            known, chunks = found
            assert known.collection == "docs"
            await store.put_second_version(reader.tenant, known, [chunk(c.text, page=c.page) for c in chunks])
            count += 1
        return count

    @pytest.fixture
    async def filled(self, store, reader):
        for n in range(5):
            await put(store, reader, document(f"d{n}", title=f"T{n}"), f"word n{n}", f"text n{n}")
        await store.put_collection(reader, Collection("law"))
        await put(store, reader, document("other", "law"), "word of law")
        return reader

    async def test_readers_see_the_old_vectors_until_the_switch(self, store, filled):
        begun = await store.begin_migration(filled.tenant, "docs", self.MIGRATION)
        assert (begun.migration.done_count, begun.migration.total_count, begun.model) == (0, 5, MODEL)
        assert [(tenant, c.name) for tenant, c in await store.migrations() if tenant == filled.tenant] == [
            (filled.tenant, "docs")
        ]
        for n in range(5):
            known, chunks = await store.next_unmigrated(filled.tenant, "docs")
            assert [c.text.split()[0] for c in chunks] == ["word", "text"]
            await store.put_second_version(filled.tenant, known, [chunk(c.text) for c in chunks])
            docs = (await store.list_collections(filled))[0]
            assert (docs.migration.done_count, docs.migration.total_count) == (n + 1, 5)
            everything = sorted(["d0", "d1", "d2", "d3", "d4"] * 2 + ["other"])
            assert ids(await store.search(filled, query("word", limit=20))) == everything
            assert await store.search(filled, query("word", model=NEXT_MODEL)) == []
            assert await store.search(filled, query("word", model=NEXT_MODEL, collections=["docs"])) == []
        assert await store.next_unmigrated(filled.tenant, "docs") is None
        assert await store.end_migration(filled.tenant, "docs", MigrationState.DONE)

        assert ids(await store.search(filled, query("word"))) == ["other"]
        assert len(await store.search(filled, query("word", model=NEXT_MODEL))) == 10
        assert await store.models(filled, []) == {"docs": NEXT_MODEL, "law": MODEL}
        docs = (await store.list_collections(filled))[0]
        assert (docs.index, docs.migration.state) == (self.MIGRATION.index, MigrationState.DONE)
        assert (docs.migration.done_count, docs.migration.total_count) == (5, 5)
        read = await store.get_document(filled, "d3")
        assert (read.embedding_model, read.title, read.chunk_count) == (NEXT_MODEL, "T3", 2)
        assert [c.text for c in await store.get_chunks(filled, "d3")] == ["word n3", "text n3"]
        assert [m for m in await store.migrations() if m[0] == filled.tenant] == []
        await put(store, filled, document("d9", embedding_model=NEXT_MODEL), "word n9")
        with pytest.raises(ModelMismatch):
            await put(store, filled, document("d8"), "word n8")

    async def test_documents_that_change_meanwhile_are_done_again(self, store, filled):
        await store.begin_migration(filled.tenant, "docs", self.MIGRATION)
        assert await self.migrate(store, filled) == 5
        await put(store, filled, document("d1", title="Changed"), "word changed")
        await put(store, filled, document("d7"), "word new")
        await store.delete_document(filled, "d2")
        assert not await store.end_migration(filled.tenant, "docs", MigrationState.DONE)
        assert await self.migrate(store, filled) == 2
        assert await store.end_migration(filled.tenant, "docs", MigrationState.DONE)
        hits = await store.search(filled, query("word", model=NEXT_MODEL, limit=50))
        assert set(ids(hits)) == {"d0", "d1", "d3", "d4", "d7"}
        assert [h.chunk.text for h in hits if h.chunk.document_id == "d1"] == ["word changed"]

    async def test_a_second_version_of_what_was_replaced_or_deleted_is_dropped(self, store, filled):
        await store.begin_migration(filled.tenant, "docs", self.MIGRATION)
        known, _ = await store.next_unmigrated(filled.tenant, "docs")
        await put(store, filled, document(known.document_id, title="Changed"), "word changed")
        await store.put_second_version(filled.tenant, known, [chunk("word stale")])
        gone = await store.get_document(filled, "d4" if known.document_id != "d4" else "d3")
        await store.delete_document(filled, gone.document_id)
        await store.put_second_version(filled.tenant, gone, [chunk("word gone")])
        assert await self.migrate(store, filled) == 4
        assert await store.end_migration(filled.tenant, "docs", MigrationState.DONE)
        texts = [h.chunk.text for h in await store.search(filled, query("word", model=NEXT_MODEL, limit=50))]
        assert "word stale" not in texts
        assert "word gone" not in texts
        assert "word changed" in texts

    async def test_a_document_that_moves_away_is_not_migrated(self, store, filled):
        await store.begin_migration(filled.tenant, "docs", self.MIGRATION)
        await put(store, filled, document("d0", "law"), "word moved")
        assert await self.migrate(store, filled) == 4
        assert await store.end_migration(filled.tenant, "docs", MigrationState.DONE)
        assert ids(await store.search(filled, query("word"))) == ["d0", "other"]

    @pytest.mark.parametrize("state", [MigrationState.FAILED, MigrationState.CANCELLED])
    async def test_a_migration_that_is_given_up_changes_nothing(self, store, filled, state):
        await store.begin_migration(filled.tenant, "docs", self.MIGRATION)
        known, chunks = await store.next_unmigrated(filled.tenant, "docs")
        await store.put_second_version(filled.tenant, known, [chunk(c.text) for c in chunks])
        assert await store.end_migration(filled.tenant, "docs", state, "no room")
        docs = (await store.list_collections(filled))[0]
        assert (docs.migration.state, docs.migration.reason, docs.model) == (state, "no room", MODEL)
        assert await store.search(filled, query("word", model=NEXT_MODEL)) == []
        assert len(await store.search(filled, query("word", collections=["docs"]))) == 10
        assert not await store.end_migration(filled.tenant, "docs", MigrationState.DONE)
        await store.put_second_version(filled.tenant, known, [chunk("late")])
        assert await store.next_unmigrated(filled.tenant, "docs") is None

    async def test_a_migration_can_begin_anew_with_another_model(self, store, filled):
        await store.begin_migration(filled.tenant, "docs", self.MIGRATION)
        await self.migrate(store, filled)
        third = dataclasses.replace(self.MIGRATION, model=f"third-{MODEL}", learned_sparse=True)
        begun = await store.begin_migration(filled.tenant, "docs", third)
        assert begun.migration.done_count == 0
        assert await self.migrate(store, filled) == 5
        assert await store.end_migration(filled.tenant, "docs", MigrationState.DONE)
        assert await store.search(filled, query("word", model=NEXT_MODEL)) == []
        assert len(await store.search(filled, query("word", model=third.model))) == 10
        assert (await store.get_document(filled, "d0")).learned_sparse

    async def test_the_same_model_and_index_may_be_migrated_to(self, store, filled):
        before = await store.search(filled, query("word n2", collections=["docs"]))
        again = Migration(MigrationState.RUNNING, MODEL, Index())
        await store.begin_migration(filled.tenant, "docs", again)
        assert await self.migrate(store, filled) == 5
        during = await store.search(filled, query("word n2", collections=["docs"]))
        assert await store.end_migration(filled.tenant, "docs", MigrationState.DONE)
        after = await store.search(filled, query("word n2", collections=["docs"]))
        for hits in (during, after):
            assert ids(hits) == ids(before)
            assert {h.chunk.chunk_id: pytest.approx(h.sparse, rel=1e-4) for h in hits} == {
                h.chunk.chunk_id: h.sparse for h in before
            }

    async def test_an_empty_collection_switches_at_once(self, store, reader):
        await store.begin_migration(reader.tenant, "docs", self.MIGRATION)
        assert await store.next_unmigrated(reader.tenant, "docs") is None
        assert await store.end_migration(reader.tenant, "docs", MigrationState.DONE)
        assert await store.models(reader, ["docs"]) == {"docs": NEXT_MODEL}
        for method in (store.begin_migration, store.end_migration):
            with pytest.raises(NotFound, match="`nowhere`"):
                await method(
                    reader.tenant, "nowhere", self.MIGRATION if method == store.begin_migration else MigrationState.DONE
                )

    async def test_labels_hold_through_a_migration(self, store, filled):
        everyone = dataclasses.replace(filled, labels=("*",))
        await put(store, everyone, document("closed", labels=("hr",)), "word closed")
        await store.begin_migration(filled.tenant, "docs", self.MIGRATION)
        assert await self.migrate(store, filled) == 6
        assert await store.end_migration(filled.tenant, "docs", MigrationState.DONE)
        wanted = query("word", model=NEXT_MODEL, limit=50)
        assert "closed" not in ids(await store.search(filled, wanted))
        assert "closed" in ids(await store.search(everyone, wanted))
        assert (await store.list_collections(filled))[0].document_count == 5

    async def test_searches_and_writes_go_on_all_the_while(self, store, filled):
        await store.begin_migration(filled.tenant, "docs", self.MIGRATION)
        running = True

        async def read():
            while running:
                found = ids(await store.search(filled, query("word", collections=["docs"], limit=50)))
                switched = (await store.models(filled, ["docs"]))["docs"] == NEXT_MODEL
                assert switched or {"d0", "d1", "d2", "d3", "d4"} <= set(found)
                await asyncio.sleep(0)

        async def write():
            for n in range(4):
                await put(store, filled, document(f"d{n}", content_hash=str(n)), f"word again n{n}")
                await asyncio.sleep(0.01)

        reading = asyncio.ensure_future(read())
        writing = asyncio.ensure_future(write())
        while not writing.done():
            await self.migrate(store, filled)
            await asyncio.sleep(0.01)
        await writing
        while not await store.end_migration(filled.tenant, "docs", MigrationState.DONE):
            await self.migrate(store, filled)
        running = False
        await reading
        hits = await store.search(filled, query("word", model=NEXT_MODEL, limit=50))
        assert {h.chunk.text for h in hits} == {*(f"word again n{n}" for n in range(4)), "word n4", "text n4"}
