"""A real retrieval server with real clients; embedding and reranking are small servers that hash words."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc import aio
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.reranking.v1 import reranking_pb2, reranking_pb2_grpc
from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc
from sabueso.type.v1 import vectors_pb2
from services.embedding.config import Settings as EmbeddingSettings
from services.embedding.server import build as build_embedding
from services.retrieval.clients import EMBEDDING, RERANKING
from services.retrieval.config import Settings
from services.retrieval.edge.store import EdgeStore, FolderInUse
from services.retrieval.server import build
from services.retrieval.store import Collection, Document, Mode, NewChunk, Query, Reader, SparseTerms
from services.runtime import errors
from services.runtime.channels import connect
from services.runtime.server import Served
from services.runtime.testing import SECRET, act_as, listening, running

WIDTH = 32
ROOT = Path(__file__).parents[2]
ACME = Reader("acme")


def words(text):
    return re.findall(r"[\w-]+", text.lower())


def word_vector(word):
    vector = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(WIDTH)
    return vector / np.linalg.norm(vector)


def dense(text):
    total = sum((word_vector(word) for word in words(text)), np.full(WIDTH, 0.01))
    return (total / np.linalg.norm(total)).tolist()


def sparse(text, *languages):
    """`es` stems by cutting a plural s, to tell the languages apart."""
    cut = [word.removesuffix("s") if one == "es" else word for one in languages for word in words(text)]
    found = sorted({zlib.crc32(word.encode()) for word in cut})
    return vectors_pb2.SparseVector(indices=found, values=[1.0] * len(found))


def token_vectors(text):
    rows = np.stack([word_vector(word) for word in words(text)]).astype("<f2")
    return vectors_pb2.TokenVectors(dimensions=WIDTH, values=rows.tobytes())


class HashEmbedding(embedding_pb2_grpc.EmbeddingServiceServicer):
    """Hashes words. Another `model` has other vectors."""

    def __init__(self, model="hash-1"):
        self.model = model
        self.requests = []

    async def Describe(self, request, context):
        return embedding_pb2.DescribeResponse(model=self.model, dimensions=WIDTH, max_tokens=512, token_vectors=True)

    async def Embed(self, request, context):
        self.requests.append(request)
        embeddings = [
            embedding_pb2.Embedding(
                dense=dense(text) if self.model == "hash-1" else dense(text)[::-1],
                sparse=sparse(text, request.language, *request.other_languages),
                token_vectors=token_vectors(text) if request.with_token_vectors else None,
            )
            for text in request.texts
        ]
        return embedding_pb2.EmbedResponse(embeddings=embeddings, model=self.model)


class WordReranking(reranking_pb2_grpc.RerankingServiceServicer):
    """Counts shared words, as a cross-encoder would score texts; `delay_seconds` makes it slow."""

    def __init__(self):
        self.delay_seconds = 0.0
        self.requests = []

    async def Rerank(self, request, context):
        self.requests.append(request)
        await asyncio.sleep(self.delay_seconds)
        counts = [len(set(words(request.query)) & set(words(one.text))) for one in request.candidates]
        scores = [reranking_pb2.Score(index=index, score=count) for index, count in enumerate(counts)]
        scores.sort(key=lambda one: -one.score)
        return reranking_pb2.RerankResponse(scores=scores, model="words")


def served_embedding(servicer):
    return Served(servicer, embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server, EMBEDDING)


def served_reranking(servicer):
    return Served(servicer, reranking_pb2_grpc.add_RerankingServiceServicer_to_server, RERANKING)


class Bench:
    """The three services and a stub of the one that is tested."""

    def __init__(self, stub, embedding, reranking, reranking_port):
        self.stub = stub
        self.embedding = embedding
        self.reranking = reranking
        self.reranking_port = reranking_port


@asynccontextmanager
async def retrieval(folder, *, embedding=None, more_embedding="", **settings):
    embedding, reranking = embedding or HashEmbedding(), WordReranking()
    async with (
        listening(served_embedding(embedding)) as embedding_address,
        listening(served_reranking(reranking)) as reranking_address,
    ):
        chosen = Settings(
            identity_secret=SECRET,
            **{
                "embedding_address": embedding_address + more_embedding,
                "reranking_address": reranking_address,
                "vector_store": f"edge:{folder}",
                **settings,
            },
        )
        async with running(build(chosen)) as channel:
            yield Bench(retrieval_pb2_grpc.RetrievalServiceStub(channel), embedding, reranking, reranking_address)


@pytest.fixture
async def bench(tmp_path):
    act_as("acme")
    async with retrieval(tmp_path / "vectors") as bench:
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
        yield bench


def upload(document_id, texts, **fields):
    header = {"collection": "docs", "embedding_model": "hash-1", "content_hash": "", **fields}
    yield pb.UpsertRequest(document=pb.DocumentHeader(document_id=document_id, **header))
    for page, text in enumerate(texts, start=1):
        chunk = pb.Chunk(
            text=text,
            page=page,
            section="A > B",
            dense=dense(text),
            sparse=sparse(text, header.get("language", "")),
            token_vectors=token_vectors(text),
        )
        yield pb.UpsertRequest(chunk=chunk)


async def refused(call, kind):
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    error = errors.from_rpc(caught.value, "retrieval")
    assert isinstance(error, kind), caught.value
    return error


async def test_a_stored_document_is_found_reranked_and_described(bench):
    texts = ["late delivery costs two percent a month", "prices follow the consumer index", "holiday calendar"]
    stored = await bench.stub.Upsert(upload("CT-1.pdf", texts, title="Contract", source="CT-1.pdf", language="en"))
    assert (stored.chunk_count, stored.replaced) == (3, False)
    found = await bench.stub.Search(pb.SearchRequest(query="late delivery", top_k=2))
    first = found.passages[0]
    assert len(found.passages) == 2
    assert (first.document_id, first.chunk_id, first.page, first.section) == ("CT-1.pdf", "CT-1.pdf#0", 1, "A > B")
    assert (first.title, first.language, first.text) == ("Contract", "en", texts[0])
    assert first.score > found.passages[1].score
    assert first.scores.rerank == pytest.approx(1.0, abs=0.01)
    assert first.scores.dense > 0.5
    assert first.scores.sparse > 0
    assert first.scores.fused > 0
    assert set(found.stages) == {"embed", "search", "rerank"}
    assert all(found.stages[stage].ToNanoseconds() > 0 for stage in found.stages)
    assert not found.degraded


async def test_a_query_is_embedded_once_and_no_text_leaves_the_store(bench):
    await bench.stub.Upsert(upload("d", ["late delivery", "other words"], language="en"))
    await bench.stub.Search(pb.SearchRequest(query="late delivery"))
    (asked,) = bench.embedding.requests
    assert (asked.input_type, asked.language) == (embedding_pb2.INPUT_TYPE_QUERY, "en")
    assert asked.with_token_vectors
    assert not bench.reranking.requests


@pytest.fixture
async def with_service(tmp_path):
    act_as("acme")
    async with retrieval(tmp_path, rerank="service") as bench:
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
        await bench.stub.Upsert(upload("d", ["late delivery", "other words"]))
        yield bench


async def test_a_reranking_service_gets_texts(with_service):
    bench = with_service
    found = await bench.stub.Search(pb.SearchRequest(query="late delivery"))
    assert found.passages[0].scores.rerank == 2
    assert {c.text for c in bench.reranking.requests[0].candidates} == {"late delivery", "other words"}
    assert not bench.embedding.requests[0].with_token_vectors


async def test_each_document_is_searched_with_words_stemmed_in_its_language(bench):
    await bench.stub.Upsert(upload("es", ["penalizaciones y contratos"], language="es"))
    await bench.stub.Upsert(upload("en", ["contratos penalties"], language="en"))
    bench.embedding.requests.clear()
    found = await bench.stub.Search(pb.SearchRequest(query="contratos", mode=pb.SEARCH_MODE_SPARSE))
    assert {p.document_id for p in found.passages} == {"es", "en"}
    assert [{r.language, *r.other_languages} for r in bench.embedding.requests] == [{"es", "en"}]
    bench.embedding.requests.clear()
    await bench.stub.Search(pb.SearchRequest(query="qué contratos hay con la UE"))
    assert [(r.language, list(r.other_languages)) for r in bench.embedding.requests] == [("es", [])]


async def test_another_tenant_finds_nothing(bench):
    await bench.stub.Upsert(upload("d", ["late delivery"]))
    act_as("rival")
    for mode in pb.SearchMode.values():
        assert not (await bench.stub.Search(pb.SearchRequest(query="late delivery", mode=mode))).passages
    await refused(bench.stub.Search(pb.SearchRequest(query="x", collections=["docs"])), errors.NotFound)
    await refused(bench.stub.GetChunks(pb.GetChunksRequest(document_id="d")), errors.NotFound)
    await refused(bench.stub.DeleteDocument(pb.DeleteDocumentRequest(document_id="d")), errors.NotFound)
    assert not (await bench.stub.ListDocuments(pb.ListDocumentsRequest())).documents
    assert not (await bench.stub.ListCollections(pb.ListCollectionsRequest())).collections


async def test_without_a_reranker_the_answer_says_so_and_is_still_there(tmp_path):
    act_as("acme")
    async with retrieval(tmp_path, rerank="service", reranking_address="127.0.0.1:1") as bench:
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
        await bench.stub.Upsert(upload("d", ["late delivery", "other words"]))
        for _ in range(2):
            found = await bench.stub.Search(pb.SearchRequest(query="late delivery"))
            assert found.passages[0].text == "late delivery"
            assert found.passages[0].scores.rerank == 0
            assert len(found.degraded) == 1
            assert found.degraded[0] in ("reranking", "reranking skipped")


async def test_a_slow_reranker_is_not_waited_for_and_used_again_when_it_is_fast(with_service):
    bench = with_service
    bench.reranking.delay_seconds = 30
    found = await bench.stub.Search(pb.SearchRequest(query="late delivery"), timeout=5)
    assert list(found.degraded) == ["reranking skipped"]
    assert len(found.passages) == 2
    bench.reranking.delay_seconds = 0
    deadline = time.monotonic() + 5
    while (await bench.stub.Search(pb.SearchRequest(query="late delivery"))).degraded:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def test_leaving_the_reranker_out_is_no_degradation(bench):
    await bench.stub.Upsert(upload("d", ["late delivery"]))
    found = await bench.stub.Search(pb.SearchRequest(query="late delivery", skip_rerank=True))
    assert not found.degraded
    assert set(found.stages) == {"embed", "search"}
    assert not bench.reranking.requests


async def test_without_embedding_a_search_fails_and_names_it(tmp_path):
    act_as("acme")
    async with retrieval(tmp_path, embedding_address="127.0.0.1:1") as bench:
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
        await bench.stub.Upsert(upload("d", ["text"]))
        error = await refused(bench.stub.Search(pb.SearchRequest(query="x"), timeout=5), errors.DependencyFailed)
        assert error.metadata["dependency"] == "embedding"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"query": "  "}, "query"),
        ({"query": "x" * 4097}, "query"),
        ({"query": "x", "top_k": 101}, "top_k"),
        ({"query": "x", "top_k": -1}, "top_k"),
        ({"query": "x", "mode": 9}, "mode"),
        ({"query": "x", "collections": ["Docs"]}, "collections"),
        ({"query": "x", "filter": pb.Filter(conditions=[pb.Condition(key="year")])}, "filter.conditions"),
        ({"query": "x", "filter": pb.Filter(language="spanish")}, "filter.language"),
        ({"query": "x", "fusion": 9}, "fusion"),
        ({"query": "x", "score_threshold": float("nan")}, "score_threshold"),
        ({"query": "x", "diversity": 1.5}, "diversity"),
        ({"query": "x", "max_per_document": -1}, "max_per_document"),
    ],
)
async def test_a_malformed_search_is_refused_by_field(bench, fields, field):
    error = await refused(bench.stub.Search(pb.SearchRequest(**fields)), errors.InvalidField)
    assert error.metadata["field"] == field


@pytest.mark.parametrize(
    ("chunk", "field"),
    [
        ({"text": " "}, "chunk.text"),
        ({"dense": []}, "chunk.dense"),
        ({"dense": [0.0] * WIDTH}, "chunk.dense"),
        ({"dense": [float("nan")] * WIDTH}, "chunk.dense"),
        ({"dense": [1.0]}, "chunk.dense"),
        ({"sparse": vectors_pb2.SparseVector(indices=[1, 1], values=[1, 1])}, "chunk.sparse"),
        ({"sparse": vectors_pb2.SparseVector(indices=[1], values=[])}, "chunk.sparse"),
        ({"sparse": vectors_pb2.SparseVector(indices=[-1], values=[1])}, "chunk.sparse"),
        ({"token_vectors": vectors_pb2.TokenVectors(dimensions=4, values=b"123")}, "chunk.token_vectors"),
        ({"page": -1}, "chunk.page"),
    ],
)
async def test_a_malformed_chunk_is_refused_and_nothing_is_stored(bench, chunk, field):
    await bench.stub.Upsert(upload("good", ["text"]))
    good = {"text": "t", "dense": dense("t"), "sparse": sparse("t")}
    header = pb.DocumentHeader(document_id="d", collection="docs", embedding_model="hash-1")
    requests = [pb.UpsertRequest(document=header)]
    requests += [pb.UpsertRequest(chunk=pb.Chunk(**good)), pb.UpsertRequest(chunk=pb.Chunk(**{**good, **chunk}))]
    error = await refused(bench.stub.Upsert(iter(requests)), errors.InvalidField)
    assert error.metadata["field"] == field
    listed = await bench.stub.ListDocuments(pb.ListDocumentsRequest())
    assert [one.document_id for one in listed.documents] == ["good"]


@pytest.mark.parametrize(
    ("header", "field"),
    [
        ({"document_id": ""}, "document_id"),
        ({"document_id": "a b"}, "document_id"),
        ({"document_id": "a#1"}, "document_id"),
        ({"document_id": "x" * 201}, "document_id"),
        ({"collection": ""}, "document.collection"),
        ({"language": "Español"}, "document.language"),
        ({"embedding_model": ""}, "document.embedding_model"),
        ({"metadata": {f"k{n}": "v" for n in range(51)}}, "document.metadata"),
        ({"metadata": {"": "v"}}, "document.metadata"),
        ({"labels": ["*"]}, "document.labels"),
        ({"labels": [""]}, "document.labels"),
        ({"labels": [f"l{n}" for n in range(51)]}, "document.labels"),
    ],
)
async def test_a_malformed_header_is_refused_by_field(bench, header, field):
    fields = {"document_id": "d", "collection": "docs", "embedding_model": "hash-1", **header}
    request = pb.UpsertRequest(document=pb.DocumentHeader(**fields))
    error = await refused(bench.stub.Upsert(iter([request])), errors.InvalidField)
    assert error.metadata["field"] == field


async def test_an_upload_must_begin_with_its_header_and_have_one_only(bench):
    chunks = list(upload("d", ["text"]))
    assert (await refused(bench.stub.Upsert(iter(chunks[1:])), errors.InvalidField)).metadata["field"] == "document"
    assert (await refused(bench.stub.Upsert(iter([])), errors.InvalidField)).metadata["field"] == "document"
    twice = [chunks[0], chunks[0]]
    assert (await refused(bench.stub.Upsert(iter(twice)), errors.InvalidField)).metadata["field"] == "chunk"


async def test_an_upload_whose_caller_goes_away_leaves_the_old_document(bench):
    await bench.stub.Upsert(upload("d", ["old text"]))
    sent = asyncio.Event()

    async def endless():
        for request in upload("d", ["new text"] * 200):
            yield request
        sent.set()
        await asyncio.sleep(60)

    call = bench.stub.Upsert(endless())
    await asyncio.wait_for(sent.wait(), 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    read = await bench.stub.GetChunks(pb.GetChunksRequest(document_id="d"))
    assert [p.text for p in read.passages] == ["old text"]
    stored = await bench.stub.Upsert(upload("d", ["third text"]))
    assert stored.replaced
    found = await bench.stub.Search(pb.SearchRequest(query="text", top_k=100))
    assert [p.text for p in found.passages] == ["third text"]


async def test_documents_and_collections_can_be_looked_through(bench):
    for n in range(5):
        await bench.stub.Upsert(upload(f"d{n}", ["text"] * (n + 1), metadata={"year": "2025"}, content_hash=f"h{n}"))
    page = await bench.stub.ListDocuments(pb.ListDocumentsRequest(page_size=3))
    rest = await bench.stub.ListDocuments(pb.ListDocumentsRequest(page_size=3, page_token=page.next_page_token))
    assert [d.document_id for d in [*page.documents, *rest.documents]] == [f"d{n}" for n in range(5)]
    assert not rest.next_page_token
    last = rest.documents[-1]
    assert (last.chunk_count, last.content_hash, dict(last.metadata)) == (5, "h4", {"year": "2025"})
    assert abs(last.update_time.seconds - time.time()) < 60
    error = await refused(bench.stub.ListDocuments(pb.ListDocumentsRequest(page_token="ñ")), errors.InvalidField)
    assert error.metadata["field"] == "page_token"
    listed = await bench.stub.ListCollections(pb.ListCollectionsRequest())
    assert [(c.name, c.document_count) for c in listed.collections] == [("docs", 5)]
    assert (await bench.stub.DeleteDocument(pb.DeleteDocumentRequest(document_id="d1"))).chunk_count == 2
    assert (await bench.stub.DeleteCollection(pb.DeleteCollectionRequest(name="docs"))).document_count == 4
    await refused(bench.stub.Search(pb.SearchRequest(query="text", collections=["docs"])), errors.NotFound)


async def test_collections_of_the_tenants_files_are_there(tmp_path):
    folder = tmp_path / "tenants"
    folder.mkdir()
    (folder / "acme.yaml").write_text("id: acme\ncollections:\n  contracts: {description: Contracts, language: es}\n")
    act_as("acme")
    async with retrieval(tmp_path / "vectors", tenants_dir=str(folder)) as bench:
        listed = await bench.stub.ListCollections(pb.ListCollectionsRequest())
        assert [(c.name, c.description, c.language) for c in listed.collections] == [("contracts", "Contracts", "es")]
        (folder / "acme.yaml").write_text("id: acme\ncollections:\n  contracts: {}\n  invoices: {}\n")
        deadline = time.monotonic() + 10
        while len((await bench.stub.ListCollections(pb.ListCollectionsRequest())).collections) < 2:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def test_data_survives_a_restart(tmp_path):
    act_as("acme")
    async with retrieval(tmp_path) as bench:
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
        await bench.stub.Upsert(upload("d", ["late delivery"]))
    async with retrieval(tmp_path) as bench:
        found = await bench.stub.Search(pb.SearchRequest(query="late delivery", collections=["docs"]))
        assert [p.text for p in found.passages] == ["late delivery"]
        assert found.passages[0].scores.rerank == pytest.approx(1.0, abs=0.01)


WRITER = """
import asyncio, os, signal, sys
from pathlib import Path
from services.retrieval.edge.store import EdgeStore
from services.retrieval.store import Collection, Document, NewChunk, Reader, SparseTerms

ACME = Reader("acme")

async def chunks(text, count, hang=False):
    for n in range(count):
        yield NewChunk(f"{text} {n}", [1.0, float(n)], SparseTerms([1, 2 + n], [1.0, 1.0]))
    if hang:
        print("acknowledged", flush=True)
        await asyncio.sleep(60)

async def main():
    store = EdgeStore(Path(sys.argv[1]))
    await store.open()
    await store.put_collection(ACME, Collection("docs"))
    await store.put_document(ACME, Document("done", "docs", "m"), chunks("done", 100))
    await store.put_document(ACME, Document("replaced", "docs", "m"), chunks("old", 100))
    await store.put_document(ACME, Document("deleted", "docs", "m"), chunks("gone", 100))
    await store.delete_document(ACME, "deleted")
    await store.put_document(ACME, Document("replaced", "docs", "m"), chunks("new", 130, hang=True))

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_a_kill_and_half_an_upload_does_not_show(tmp_path):
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(tmp_path), cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert await asyncio.wait_for(writer.stdout.readline(), 30) == b"acknowledged\n"
        with pytest.raises(FolderInUse, match="in use by another process"):
            await EdgeStore(tmp_path).open()
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        await writer.wait()
    store = EdgeStore(tmp_path)
    await store.open()
    assert [d.document_id for d in await store.list_documents(ACME, "", "", 10)] == ["done", "replaced"]
    assert [c.text for c in await store.get_chunks(ACME, "replaced")] == [f"old {n}" for n in range(100)]
    hits = await store.search(ACME, Query(Mode.HYBRID, "m", [1.0, 1.0], SparseTerms([1], [1.0]), 400))
    assert {hit.chunk.text.split()[0] for hit in hits} == {"done", "old"}
    assert len(hits) == 200
    await store.close()


async def test_the_index_is_rebuilt_in_the_background_while_writes_go_on(tmp_path):
    rng = np.random.default_rng(0)
    store = EdgeStore(tmp_path, index_after_chunks=1_000)
    await store.open()
    await store.put_collection(ACME, Collection("docs"))

    async def chunks(name, count):
        for n in range(count):
            yield NewChunk(f"{name} {n}", rng.standard_normal(64).tolist(), SparseTerms([n], [1.0]))

    async def put(name, count):
        await store.put_document(ACME, Document(name, "docs", "m"), chunks(name, count))

    async def texts(name):
        return [c.text for c in await store.get_chunks(ACME, name)]

    await put("big", 1_200)
    before = {folder.name for folder in (tmp_path / "shards").iterdir()}
    await put("late", 10)
    await put("short", 10)
    await store.delete_document(ACME, "short")
    deadline = time.monotonic() + 60
    while {folder.name for folder in (tmp_path / "shards").iterdir()} & before:
        assert time.monotonic() < deadline
        hits = await store.search(ACME, Query(Mode.SPARSE, "m", [], SparseTerms([1_100], [1.0]), 5))
        assert [hit.chunk.text for hit in hits] == ["big 1100"]
        await asyncio.sleep(0.02)
    await put("later", 10)
    assert await texts("late") == [f"late {n}" for n in range(10)]
    assert len(await texts("big")) == 1_200
    hits = await store.search(ACME, Query(Mode.SPARSE, "m", [], SparseTerms([5], [1.0]), 10))
    assert {hit.chunk.text for hit in hits} == {"big 5", "late 5", "later 5"}
    await store.close()
    again = EdgeStore(tmp_path)
    await again.open()
    assert len(await again.get_chunks(ACME, "later")) == 10
    assert len(list((tmp_path / "shards").iterdir())) == 1
    await again.close()


async def test_a_request_without_identity_is_refused(bench):
    with pytest.raises(aio.AioRpcError) as caught:
        await bench.stub.Search(pb.SearchRequest(query="x"), metadata=(("x-sabueso-identity", "forged"),))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_documents_can_be_closed_to_those_without_a_label(bench):
    act_as("acme", labels=["hr", "board", "audit"])
    await bench.stub.Upsert(upload("open", ["salary policy for all"]))
    await bench.stub.Upsert(upload("hr", ["salary list of all staff"], labels=["hr"]))
    await bench.stub.Upsert(upload("board", ["salary of the board"], labels=["board", "audit"]))

    async def seen():
        found = await bench.stub.Search(pb.SearchRequest(query="salary", top_k=100))
        listed = await bench.stub.ListDocuments(pb.ListDocumentsRequest())
        ids = {one.document_id for one in listed.documents}
        assert {one.document_id for one in found.passages} == ids
        return ids

    assert await seen() == {"open", "hr", "board"}
    for labels, ids in ((["hr"], {"open", "hr"}), (["audit"], {"open", "board"}), (["*"], {"open", "hr", "board"})):
        act_as("acme", labels=labels)
        assert await seen() == ids
    act_as("acme")
    assert await seen() == {"open"}
    for call in (
        bench.stub.GetDocument(pb.GetDocumentRequest(document_id="hr")),
        bench.stub.GetChunks(pb.GetChunksRequest(document_id="hr")),
        bench.stub.DeleteDocument(pb.DeleteDocumentRequest(document_id="hr")),
    ):
        await refused(call, errors.NotFound)
    await refused(bench.stub.Upsert(upload("hr", ["mine now"])), errors.NotPermitted)
    await refused(bench.stub.Upsert(upload("new", ["x"], labels=["hr"])), errors.NotPermitted)
    await refused(bench.stub.DeleteCollection(pb.DeleteCollectionRequest(name="docs")), errors.NotPermitted)


ATTACKS = st.fixed_dictionaries(
    {
        "query": st.sampled_from(["late delivery", "secret", "CT-2025-0091", "clause 8.3"]),
        "mode": st.sampled_from(pb.SearchMode.values()),
        "fusion": st.sampled_from(pb.Fusion.values()),
        "top_k": st.sampled_from([1, 100]),
        "skip_rerank": st.booleans(),
        "route": st.booleans(),
        "diversity": st.sampled_from([0, 0.7]),
        "max_per_document": st.sampled_from([0, 1]),
        "collections": st.sampled_from([[], ["docs"], ["mine"], ["docs", "mine"]]),
        "filter": st.builds(
            pb.Filter,
            document_ids=st.sampled_from([[], ["secret"], ["secret", "own"]]),
            language=st.sampled_from(["", "en", "es"]),
            conditions=st.sampled_from(
                [[], [pb.Condition(key="tenant", any_of=["acme"])], [pb.Condition(key="k", any_of=["v"])]]
            ),
        ),
    }
)


async def test_no_setting_shows_a_passage_of_another_tenant(bench):
    """The other tenant has a collection of the same name, and one more; ids, filters and paging are tried."""
    secret = upload("secret", ["secret late delivery CT-2025-0091", "8.3 secret"], language="en", metadata={"k": "v"})
    await bench.stub.Upsert(secret)
    page = await bench.stub.GetChunks(pb.GetChunksRequest(document_id="secret", page_size=1))
    listed = await bench.stub.ListDocuments(pb.ListDocumentsRequest(page_size=1))
    act_as("rival", labels=["*"])
    for name in ("docs", "mine"):
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name=name, description=name)))
    await bench.stub.Upsert(upload("own", ["own late delivery"], language="en"))

    @given(ATTACKS)
    @hypothesis_settings(max_examples=60, deadline=None, derandomize=True)
    def attack(fields):
        asked.append(pb.SearchRequest(**fields))

    asked = []
    attack()
    for request in asked:
        found = await bench.stub.Search(request)
        assert all("secret" not in one.text and one.document_id == "own" for one in found.passages), request
    for token in ("", page.next_page_token, listed.next_page_token):
        await refused(
            bench.stub.GetChunks(pb.GetChunksRequest(document_id="secret", page_token=page.next_page_token)),
            errors.NotFound,
        )
        more = await bench.stub.ListDocuments(pb.ListDocumentsRequest(page_token=token))
        assert all(one.document_id == "own" for one in more.documents)


async def test_a_search_can_ask_for_variety_a_threshold_and_another_fusion(bench):
    await bench.stub.Upsert(upload("a", ["late delivery", "late delivery again", "late delivery once more"]))
    await bench.stub.Upsert(upload("b", ["late payment", "something else entirely"]))

    async def search(**fields):
        found = await bench.stub.Search(pb.SearchRequest(query="late delivery", **fields))
        return [one.chunk_id for one in found.passages]

    assert (await search(max_per_document=1))[:2] == ["a#0", "b#0"]
    assert (await search(score_threshold=0.99)) == ["a#0"]
    assert (await search(diversity=1.0, top_k=2))[1] == "b#1"
    for fusion in pb.Fusion.values():
        assert (await search(fusion=fusion))[0] == "a#0"


async def test_parents_are_read_and_children_are_shown_as_cut(bench):
    requests = list(upload("d", ["late delivery", "other words"]))
    for one in requests[1:]:
        one.chunk.parent_text = "late delivery and other words"
    await bench.stub.Upsert(iter(requests))
    found = await bench.stub.Search(pb.SearchRequest(query="late delivery"))
    assert [(one.text, one.matched_text) for one in found.passages] == [
        ("late delivery and other words", "late delivery")
    ]
    read = await bench.stub.GetChunks(pb.GetChunksRequest(document_id="d"))
    assert [one.text for one in read.passages] == ["late delivery", "other words"]


async def test_passages_come_in_pages(bench):
    await bench.stub.Upsert(upload("d", [f"text {n}" for n in range(25)], content_sha256="ab", page_count=25))
    texts, token = [], ""
    for expected in (10, 10, 5):
        page = await bench.stub.GetChunks(pb.GetChunksRequest(document_id="d", page_size=10, page_token=token))
        assert len(page.passages) == expected
        texts += [one.text for one in page.passages]
        token = page.next_page_token
    assert (texts, token) == ([f"text {n}" for n in range(25)], "")
    document = (await bench.stub.GetDocument(pb.GetDocumentRequest(document_id="d"))).document
    assert (document.chunk_count, document.content_sha256, document.page_count) == (25, "ab", 25)
    assert document.embedding_model == "hash-1"


async def test_a_document_too_long_for_one_message_is_read_in_pages(bench):
    await bench.stub.Upsert(upload("d", [f"{n} " + "x" * 95_000 for n in range(60)]))
    count, token = 0, ""
    while True:
        page = await bench.stub.GetChunks(pb.GetChunksRequest(document_id="d", page_token=token))
        count, token = count + len(page.passages), page.next_page_token
        if not token:
            break
    assert count == 60


async def test_a_collection_keeps_its_settings(bench):
    chunking = pb.Chunking(strategy=pb.CHUNKING_STRATEGY_SENTENCES, max_tokens=200, overlap_tokens=0, parent_tokens=800)
    index = pb.Index(hnsw_m=8, quantization=pb.QUANTIZATION_SCALAR, oversampling=3)
    wanted = pb.Collection(name="c", description="what", chunking=chunking, index=index)
    await bench.stub.PutCollection(pb.PutCollectionRequest(collection=wanted))
    listed = (await bench.stub.ListCollections(pb.ListCollectionsRequest())).collections
    kept = next(one for one in listed if one.name == "c")
    assert kept.chunking == chunking
    assert (kept.index.hnsw_m, kept.index.hnsw_ef, kept.index.quantization) == (8, 128, pb.QUANTIZATION_SCALAR)
    await bench.stub.Upsert(upload("d", ["late delivery"], collection="c"))
    found = await bench.stub.Search(pb.SearchRequest(query="late delivery", collections=["c"]))
    assert [one.text for one in found.passages] == ["late delivery"]
    wanted.index.hnsw_m = 32
    error = await refused(bench.stub.PutCollection(pb.PutCollectionRequest(collection=wanted)), errors.InvalidField)
    assert "migrate" in error.message


@pytest.mark.parametrize(
    ("collection", "field"),
    [
        ({"chunking": pb.Chunking(max_tokens=100, overlap_tokens=100)}, "chunking.overlap_tokens"),
        ({"chunking": pb.Chunking(max_tokens=8)}, "chunking.max_tokens"),
        ({"chunking": pb.Chunking(max_tokens=100, min_tokens=200)}, "chunking.min_tokens"),
        ({"chunking": pb.Chunking(max_tokens=300, parent_tokens=200)}, "chunking.parent_tokens"),
        ({"chunking": pb.Chunking(strategy=99)}, "chunking.strategy"),
        ({"index": pb.Index(hnsw_m=1)}, "index.hnsw_m"),
        ({"index": pb.Index(oversampling=99)}, "index.oversampling"),
        ({"index": pb.Index(quantization=9)}, "index.quantization"),
        ({"language": "Spanish"}, "collection.language"),
        ({"description": "x" * 4001}, "collection.description"),
    ],
)
async def test_a_malformed_collection_is_refused_by_field(bench, collection, field):
    request = pb.PutCollectionRequest(collection=pb.Collection(name="c", **collection))
    error = await refused(bench.stub.PutCollection(request), errors.InvalidField)
    assert error.metadata["field"] == field


async def test_routing_chooses_by_descriptions(bench):
    for name, description in (("contracts", "late delivery penalty contract"), ("menus", "soup salad dessert lunch")):
        wanted = pb.Collection(name=name, description=description)
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=wanted))
        await bench.stub.Upsert(upload(f"of-{name}", [description], collection=name))
    await bench.stub.DeleteCollection(pb.DeleteCollectionRequest(name="docs"))
    found = await bench.stub.Search(pb.SearchRequest(query="penalty for late delivery contract", route=True))
    assert {one.name: one.chosen for one in found.routed} == {"contracts": True, "menus": False}
    assert {one.document_id for one in found.passages} == {"of-contracts"}
    assert "route" in found.stages


async def test_a_collection_moves_to_another_model_while_it_is_searched(tmp_path):
    """First one model, then both, then the new one alone."""
    act_as("acme")
    old, new = HashEmbedding("hash-1"), HashEmbedding("hash-2")
    async with listening(served_embedding(old)) as old_address:
        async with retrieval(tmp_path, embedding=old) as bench:
            await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
            for n in range(3):
                await bench.stub.Upsert(upload(f"d{n}", [f"late delivery {n}", "other words"], labels=[]))
        async with retrieval(tmp_path, embedding=new) as bench:
            error = await refused(bench.stub.Search(pb.SearchRequest(query="late delivery")), errors.ModelMismatch)
            assert (error.metadata["collection"], error.metadata["model"]) == ("docs", "hash-1")
            assert "migrate docs" in error.message
        async with retrieval(tmp_path, embedding=new, more_embedding=f",{old_address}") as bench:
            found = await bench.stub.Search(pb.SearchRequest(query="late delivery 1", top_k=1))
            assert found.passages[0].document_id == "d1"
            begun = await bench.stub.MigrateCollection(pb.MigrateCollectionRequest(name="docs"))
            assert begun.collection.migration.total_count == 3
            deadline = time.monotonic() + 20
            while True:
                found = await bench.stub.Search(pb.SearchRequest(query="late delivery 1", top_k=1))
                assert found.passages[0].text == "late delivery 1"
                (collection,) = (await bench.stub.ListCollections(pb.ListCollectionsRequest())).collections
                if collection.migration.state != pb.MIGRATION_STATE_RUNNING:
                    break
                assert time.monotonic() < deadline
            assert collection.migration.state == pb.MIGRATION_STATE_DONE
            assert collection.embedding_model == "hash-2"
            await refused(bench.stub.Upsert(upload("late", ["text"])), errors.ModelMismatch)
            await refused(bench.stub.MigrateCollection(pb.MigrateCollectionRequest(name="docs")), errors.InvalidField)
    async with retrieval(tmp_path, embedding=new) as bench:
        found = await bench.stub.Search(pb.SearchRequest(query="late delivery 2", top_k=1))
        assert found.passages[0].document_id == "d2"
        assert found.passages[0].scores.rerank > 0.9


async def test_the_real_embedding_service_fits(tmp_path):
    act_as("acme")
    hashing = EmbeddingSettings(identity_secret=SECRET, embedding_model="hash:1024")
    async with listening(build_embedding(hashing)) as embedding_address:
        async with (
            connect(embedding_address, EMBEDDING) as channel,
            retrieval(tmp_path, embedding_address=embedding_address) as bench,
        ):
            await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
            texts = [
                "La penalización por retraso es del 2 % mensual",
                "Los precios se revisan por el IPC",
                "CT-2025-0001",
            ]
            embedded = await embedding_pb2_grpc.EmbeddingServiceStub(channel).Embed(
                embedding_pb2.EmbedRequest(
                    texts=texts,
                    input_type=embedding_pb2.INPUT_TYPE_DOCUMENT,
                    language="es",
                    with_sparse=True,
                    with_token_vectors=True,
                )
            )
            header = pb.DocumentHeader(
                document_id="d", collection="docs", language="es", embedding_model=embedded.model
            )
            requests = [pb.UpsertRequest(document=header)]
            for text, one in zip(texts, embedded.embeddings, strict=True):
                chunk = pb.Chunk(text=text, dense=one.dense, sparse=one.sparse, token_vectors=one.token_vectors)
                requests.append(pb.UpsertRequest(chunk=chunk))
            await bench.stub.Upsert(iter(requests))
            for query, expected in (
                ("¿qué penalización por retraso hay?", 0),
                ("revisan los precios", 1),
                ("CT-2025-0001", 2),
            ):
                found = await bench.stub.Search(pb.SearchRequest(query=query))
                assert not found.degraded
                assert found.passages[0].text == texts[expected]
                assert found.passages[0].scores.rerank != 0
