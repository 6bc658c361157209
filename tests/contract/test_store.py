"""One class, run on every store: in memory, embedded engine, Qdrant client (and a server when QDRANT_URL is set)."""

import asyncio
import math
import os
import re
import uuid
import zlib

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient

from services.retrieval.edge_store import EdgeStore
from services.retrieval.memory_store import MemoryStore
from services.retrieval.qdrant_store import QdrantStore
from services.retrieval.store import (
    Collection,
    Condition,
    Document,
    Filter,
    Mode,
    NewChunk,
    Query,
    SparseTerms,
    TokenMatrix,
)
from services.runtime.errors import InvalidField, NotFound

KINDS = ["memory", "edge", "qdrant-memory", *(["qdrant-server"] if os.environ.get("QDRANT_URL") else [])]
MODEL = f"hash-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=KINDS)
async def store(request, tmp_path):
    match request.param:
        case "memory":
            store = MemoryStore()
        case "edge":
            store = EdgeStore(tmp_path / "vectors")
        case "qdrant-memory":
            store = QdrantStore(AsyncQdrantClient(":memory:"), payload_indexes=False)
        case _:
            store = QdrantStore(AsyncQdrantClient(url=os.environ["QDRANT_URL"], prefer_grpc=True))
    await store.open()
    yield store
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


def document(document_id, collection="docs", **fields):
    return Document(document_id=document_id, collection=collection, embedding_model=MODEL, **fields)


async def stream(chunks):
    for one in chunks:
        yield one


def query(text, mode=Mode.HYBRID, limit=10, with_tokens=False, **conditions):
    return Query(mode, MODEL, direction(text), terms(text, 1.0), limit, Filter(**conditions), with_tokens)


async def put(store, tenant, document_, *texts):
    return await store.put_document(tenant, document_, stream([chunk(text) for text in texts]))


def tenants():
    """Names that no other test has: a server keeps its data between tests."""
    return f"a{uuid.uuid4().hex[:8]}", f"b{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def tenant(store):
    name = tenants()[0]
    await store.put_collection(name, Collection("docs"))
    return name


def ids(hits):
    return [hit.chunk.document_id for hit in hits]


class TestStore:
    async def test_a_tenant_never_sees_what_another_has(self, store):
        one, other = tenants()
        for name in (one, other):
            await store.put_collection(name, Collection("docs"))
            await put(store, name, document("same", title=name), f"secret of {name}", "more text")
        for mode in Mode:
            hits = await store.search(one, query("secret", mode))
            assert hits
            assert {hit.chunk.title for hit in hits} == {one}
        await store.delete_document(other, "same")
        assert len(await store.get_chunks(one, "same")) == 2
        assert await store.search(other, query("secret")) == []
        assert await store.list_documents(other, "", "", 10) == []

    async def test_rare_words_count_more_than_common_ones(self, store, tenant):
        for n in range(20):
            word = "zirconium" if n == 7 else f"filler{n}"
            await put(store, tenant, document(f"d{n:02}"), f"service {word}")
        hits = await store.search(tenant, query("service zirconium", Mode.SPARSE, limit=20))
        assert hits[0].chunk.document_id == "d07"
        assert hits[0].sparse > 5 * hits[1].sparse
        assert (await store.search(tenant, query("service zirconium")))[0].chunk.document_id == "d07"

    async def test_word_frequencies_are_those_of_the_tenant_alone(self, store, tenant):
        other = tenants()[1]
        await store.put_collection(other, Collection("docs"))
        await put(store, tenant, document("a"), "alpha beta")
        await put(store, tenant, document("b"), "alpha gamma")
        before = (await store.search(tenant, query("beta", Mode.SPARSE)))[0].sparse
        await put(store, other, document("x"), *["beta beta2"] * 5)
        after = (await store.search(tenant, query("beta", Mode.SPARSE)))[0].sparse
        assert after == pytest.approx(before, rel=1e-5)
        assert before == pytest.approx(1.5 * math.log(1 + (2 - 1 + 0.5) / (1 + 0.5)), rel=1e-4)

    async def test_an_exact_code_comes_first(self, store, tenant):
        for code in ("ERR-4032", "ERR-4023", "ERR-403", "ERR-4033"):
            await put(store, tenant, document(code), f"the pump stops with {code} when hot")
        for code in ("ERR-4032", "ERR-403"):
            assert ids(await store.search(tenant, query(code)))[0] == code

    async def test_hybrid_fuses_both_legs_and_says_what_each_found(self, store, tenant):
        await put(store, tenant, document("both"), "late delivery penalty")
        await put(store, tenant, document("other"), "holiday calendar")
        hits = await store.search(tenant, query("late delivery penalty"))
        assert ids(hits) == ["both", "other"]
        assert hits[0].dense == pytest.approx(1.0, abs=1e-3)
        assert hits[0].sparse > 0
        assert hits[1].sparse == 0
        assert hits[0].fused == pytest.approx(2 / 60, rel=0.05)

    async def test_a_query_without_known_words_is_searched_by_meaning(self, store, tenant):
        await put(store, tenant, document("a"), "late delivery penalty")
        wanted = Query(Mode.HYBRID, MODEL, direction("late delivery"), SparseTerms([], []), 5)
        assert ids(await store.search(tenant, wanted)) == ["a"]
        silent = Query(Mode.SPARSE, MODEL, direction("late delivery"), SparseTerms([], []), 5)
        assert await store.search(tenant, silent) == []

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
    @pytest.mark.parametrize("mode", list(Mode))
    async def test_filters_hold_in_every_mode(self, store, tenant, mode, conditions, expected):
        await store.put_collection(tenant, Collection("law"))
        await put(store, tenant, document("es", language="es", metadata={"year": "2024"}), "common words")
        await put(
            store, tenant, document("en", language="en", metadata={"year": "2025", "a.b[0]": 'x "y"'}), "common words"
        )
        await put(store, tenant, document("law", "law"), "common words")
        assert set(ids(await store.search(tenant, query("common words", mode, **conditions)))) == expected

    async def test_an_unknown_collection_is_named(self, store, tenant):
        with pytest.raises(NotFound, match="`nowhere`"):
            await store.search(tenant, query("x", collections=["nowhere"]))
        with pytest.raises(NotFound, match="`nowhere`"):
            await put(store, tenant, document("d", "nowhere"), "text")

    async def test_the_same_document_again_changes_nothing(self, store, tenant):
        one = document("d", content_hash="h1", title="Title", metadata={"k": "v"})
        first = await put(store, tenant, one, "one", "two")
        stored = await store.get_document(tenant, "d")
        again = await put(store, tenant, one, "one", "two")
        assert (first.replaced, again.replaced) == (False, False)
        assert (first.chunk_count, again.chunk_count) == (2, 2)
        assert await store.get_document(tenant, "d") == stored
        assert len(await store.search(tenant, query("one two"))) == 2

    async def test_a_document_is_replaced_as_a_whole(self, store, tenant):
        await put(store, tenant, document("d", content_hash="1"), "old one", "old two", "old three")
        result = await put(store, tenant, document("d", content_hash="2", title="New"), "new one")
        assert result.replaced
        chunks = await store.get_chunks(tenant, "d")
        assert [(c.text, c.title, c.chunk_id) for c in chunks] == [("new one", "New", "d#0")]
        hits = await store.search(tenant, query("old one two three"))
        assert [hit.chunk.text for hit in hits] == ["new one"]

    async def test_a_changed_header_is_stored_though_the_content_is_the_same(self, store, tenant):
        await put(store, tenant, document("d", content_hash="1", metadata={"year": "2024"}), "text")
        assert (await put(store, tenant, document("d", content_hash="1", metadata={"year": "2025"}), "text")).replaced
        wanted = query("text", conditions=[Condition("year", ["2025"])])
        assert ids(await store.search(tenant, wanted)) == ["d"]

    async def test_a_document_moves_to_another_collection(self, store, tenant):
        await store.put_collection(tenant, Collection("law"))
        await put(store, tenant, document("d"), "text")
        await put(store, tenant, document("d", "law"), "text")
        assert await store.search(tenant, query("text", collections=["docs"])) == []
        assert ids(await store.search(tenant, query("text", collections=["law"]))) == ["d"]
        assert [c.document_count for c in await store.list_collections(tenant)] == [0, 1]

    async def test_readers_see_the_old_document_until_the_new_one_is_complete(self, store, tenant):
        await put(store, tenant, document("d"), *[f"word old{n}" for n in range(5)])
        seen = []

        async def slowly():
            for n in range(150):
                if n in (70, 140):
                    seen.append([hit.chunk.text for hit in await store.search(tenant, query("word"))])
                yield chunk(f"word new{n}")

        await store.put_document(tenant, document("d"), slowly())
        assert [sorted(one) for one in seen] == [[f"word old{n}" for n in range(5)]] * 2
        hits = await store.search(tenant, query("word", limit=100))
        assert len(hits) == 100
        assert all("new" in hit.chunk.text for hit in hits)

    async def test_readers_never_see_a_mixture(self, store, tenant):
        await put(store, tenant, document("d"), *[f"word v0 n{n}" for n in range(4)])
        writing = True

        async def read():
            while writing:
                found = {hit.chunk.text.split()[1] for hit in await store.search(tenant, query("word", limit=20))}
                assert len(found) == 1
                await asyncio.sleep(0)

        reading = asyncio.ensure_future(read())
        for version in range(1, 6):
            await put(store, tenant, document("d"), *[f"word v{version} n{n}" for n in range(4)])
        writing = False
        await reading

    async def test_a_broken_upload_leaves_the_old_document(self, store, tenant):
        await put(store, tenant, document("d"), "old")

        async def broken():
            for n in range(100):
                yield chunk(f"new {n}")
            raise InvalidField("bad chunk", field="chunk")

        with pytest.raises(InvalidField):
            await store.put_document(tenant, document("d"), broken())
        assert [c.text for c in await store.get_chunks(tenant, "d")] == ["old"]
        assert [h.chunk.text for h in await store.search(tenant, query("new", limit=100))] == ["old"]

    async def test_vectors_of_another_length_are_refused(self, store, tenant):
        await put(store, tenant, document("a"), "text")
        short = NewChunk("text", [1.0, 0.0], SparseTerms([1], [1.0]))
        with pytest.raises(InvalidField, match="2 values"):
            await store.put_document(tenant, document("b"), stream([short]))
        assert ids(await store.search(tenant, query("text"))) == ["a"]

    async def test_documents_of_another_model_are_not_compared(self, store, tenant):
        await put(store, tenant, document("a"), "text")
        foreign = Query(Mode.HYBRID, "another-model", [1.0] * 32, terms("text"), 5)
        assert await store.search(tenant, foreign) == []

    async def test_a_deleted_document_is_gone(self, store, tenant):
        await put(store, tenant, document("d"), "one", "two")
        assert await store.delete_document(tenant, "d") == 2
        assert await store.search(tenant, query("one")) == []
        for missing in (store.get_chunks, store.get_document, store.delete_document):
            with pytest.raises(NotFound, match="`d`"):
                await missing(tenant, "d")

    async def test_chunks_come_in_reading_order(self, store, tenant):
        chunks = [chunk(f"text {n}", page=n // 10 + 1, section=f"S > {n}") for n in range(300)]
        await store.put_document(tenant, document("d", source="a.pdf", language="es"), stream(chunks))
        read = await store.get_chunks(tenant, "d")
        assert [c.text for c in read] == [c.text for c in chunks]
        assert [c.position for c in read] == list(range(300))
        assert (read[299].page, read[299].section, read[299].source, read[299].language) == (
            30,
            "S > 299",
            "a.pdf",
            "es",
        )

    async def test_a_document_without_chunks_can_be_stored(self, store, tenant):
        assert (await put(store, tenant, document("empty"))).chunk_count == 0
        assert await store.get_chunks(tenant, "empty") == []
        assert await store.delete_document(tenant, "empty") == 0

    async def test_documents_are_listed_in_pages(self, store, tenant):
        await store.put_collection(tenant, Collection("law"))
        for n in (3, 1, 2, 5, 4):
            await put(store, tenant, document(f"d{n}", "law" if n == 2 else "docs", title=f"T{n}"), "text")
        first = await store.list_documents(tenant, "", "", 2)
        rest = await store.list_documents(tenant, "", first[-1].document_id, 10)
        assert [d.document_id for d in first + rest] == ["d1", "d2", "d3", "d4", "d5"]
        assert [d.title for d in await store.list_documents(tenant, "law", "", 10)] == ["T2"]
        assert first[0].chunk_count == 1
        assert first[0].update_time.timestamp() > 0

    async def test_a_collection_goes_with_its_documents(self, store, tenant):
        await store.put_collection(tenant, Collection("law"))
        await put(store, tenant, document("a"), "text")
        await put(store, tenant, document("b", "law"), "text")
        assert await store.delete_collection(tenant, "law") == 1
        assert ids(await store.search(tenant, query("text"))) == ["a"]
        assert [c.name for c in await store.list_collections(tenant)] == ["docs"]
        with pytest.raises(NotFound, match="`law`"):
            await store.delete_collection(tenant, "law")

    async def test_a_collections_description_can_be_changed(self, store, tenant):
        await put(store, tenant, document("a"), "text")
        changed = await store.put_collection(tenant, Collection("docs", "All contracts", "es"))
        (stored,) = await store.list_documents(tenant, "", "", 10)
        assert changed == Collection("docs", "All contracts", "es", 1, stored.update_time)
        assert await store.list_collections(tenant) == [changed]

    async def test_a_collection_says_when_it_last_changed(self, store, tenant):
        (empty,) = await store.list_collections(tenant)
        await put(store, tenant, document("a", content_hash="1"), "text")
        (first,) = await store.list_collections(tenant)
        await asyncio.sleep(0.01)
        await put(store, tenant, document("a", content_hash="2"), "other text")
        (second,) = await store.list_collections(tenant)
        assert empty.update_time < first.update_time < second.update_time
        assert second.document_count == 1

    async def test_languages_are_those_of_the_documents(self, store, tenant):
        await store.put_collection(tenant, Collection("law"))
        await put(store, tenant, document("a", language="es"), "text")
        await put(store, tenant, document("b", "law", language="en"), "text")
        await put(store, tenant, document("c", "law"), "text")
        assert await store.languages(tenant, []) == ["", "en", "es"]
        assert await store.languages(tenant, ["docs"]) == ["es"]

    async def test_token_vectors_come_back_as_they_were_and_only_when_asked_for(self, store, tenant):
        values = [np.random.default_rng(n).standard_normal((3 + n, 8)).astype("<f2").tobytes() for n in range(3)]
        chunks = [chunk(f"text n{n}", tokens=TokenMatrix(8, v)) for n, v in enumerate(values)]
        await store.put_document(tenant, document("d"), stream([*chunks, chunk("text without")]))
        hits = await store.search(tenant, query("text", with_tokens=True))
        found = {hit.chunk.position: hit.tokens for hit in hits}
        assert [found[n] for n in range(3)] == [TokenMatrix(8, v) for v in values]
        assert found[3] is None
        assert all(hit.tokens is None for hit in await store.search(tenant, query("text")))

    async def test_the_same_document_stored_by_two_at_once_is_there_once(self, store, tenant):
        await asyncio.gather(*(put(store, tenant, document("d"), f"word v{n} a", f"word v{n} b") for n in range(4)))
        chunks = await store.get_chunks(tenant, "d")
        assert len(chunks) == 2
        assert len({c.text.split()[1] for c in chunks}) == 1
        assert len(await store.search(tenant, query("word"))) == 2
