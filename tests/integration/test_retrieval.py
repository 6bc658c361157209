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

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.reranking.v1 import reranking_pb2, reranking_pb2_grpc
from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc
from sabueso.type.v1 import vectors_pb2
from services.embedding.config import Settings as EmbeddingSettings
from services.embedding.server import build as build_embedding
from services.reranking.config import Settings as RerankingSettings
from services.reranking.server import build as build_reranking
from services.retrieval.clients import EMBEDDING, RERANKING
from services.retrieval.config import Settings
from services.retrieval.edge_store import EdgeStore, FolderInUse
from services.retrieval.server import build
from services.retrieval.store import Collection, Document, Mode, NewChunk, Query, SparseTerms
from services.runtime import errors
from services.runtime.channels import connect
from services.runtime.server import Served
from services.runtime.testing import SECRET, act_as, listening, running

WIDTH = 32
ROOT = Path(__file__).parents[2]


def words(text):
    return re.findall(r"[\w-]+", text.lower())


def word_vector(word):
    vector = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(WIDTH)
    return vector / np.linalg.norm(vector)


def dense(text):
    total = sum((word_vector(word) for word in words(text)), np.full(WIDTH, 0.01))
    return (total / np.linalg.norm(total)).tolist()


def sparse(text, language=""):
    """`es` stems by cutting a plural s, to tell the languages apart."""
    cut = [word.removesuffix("s") if language == "es" else word for word in words(text)]
    found = sorted({zlib.crc32(word.encode()) for word in cut})
    return vectors_pb2.SparseVector(indices=found, values=[1.0] * len(found))


def token_vectors(text):
    rows = np.stack([word_vector(word) for word in words(text)]).astype("<f2")
    return vectors_pb2.TokenVectors(dimensions=WIDTH, values=rows.tobytes())


class HashEmbedding(embedding_pb2_grpc.EmbeddingServiceServicer):
    def __init__(self):
        self.requests = []

    async def Embed(self, request, context):
        self.requests.append(request)
        embeddings = [
            embedding_pb2.Embedding(
                dense=dense(text),
                sparse=sparse(text, request.language),
                token_vectors=token_vectors(text) if request.with_token_vectors else None,
            )
            for text in request.texts
        ]
        return embedding_pb2.EmbedResponse(embeddings=embeddings, model="hash-1")


class TokenReranking(reranking_pb2_grpc.RerankingServiceServicer):
    """Late interaction over the stored token vectors; `delay_seconds` makes it slow."""

    def __init__(self, reads_tokens=True):
        self.reads_tokens = reads_tokens
        self.delay_seconds = 0.0
        self.requests = []

    async def Describe(self, request, context):
        return reranking_pb2.DescribeResponse(model="maxsim", reads_token_vectors=self.reads_tokens)

    async def Rerank(self, request, context):
        self.requests.append(request)
        await asyncio.sleep(self.delay_seconds)
        scores = []
        query = self.matrix(request.query_token_vectors) if self.reads_tokens else None
        for index, candidate in enumerate(request.candidates):
            if self.reads_tokens:
                score = float((query @ self.matrix(candidate.token_vectors).T).max(axis=1).mean())
            else:
                score = float(len(set(words(request.query)) & set(words(candidate.text))))
            scores.append(reranking_pb2.Score(index=index, score=score))
        scores.sort(key=lambda one: -one.score)
        return reranking_pb2.RerankResponse(scores=scores, model="maxsim")

    @staticmethod
    def matrix(vectors):
        return np.frombuffer(vectors.values, "<f2").reshape(-1, vectors.dimensions).astype(np.float32)


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
async def retrieval(folder, *, reranking=None, **settings):
    embedding, reranking = HashEmbedding(), reranking or TokenReranking()
    async with (
        listening(served_embedding(embedding)) as embedding_address,
        listening(served_reranking(reranking)) as reranking_address,
    ):
        chosen = Settings(
            identity_secret=SECRET,
            **{
                "embedding_address": embedding_address,
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


async def test_a_query_is_embedded_once_and_candidates_go_as_token_vectors(bench):
    await bench.stub.Upsert(upload("d", ["late delivery", "other words"], language="en"))
    await bench.stub.Search(pb.SearchRequest(query="late delivery"))
    assert len(bench.embedding.requests) == 1
    assert bench.embedding.requests[0].input_type == embedding_pb2.INPUT_TYPE_QUERY
    assert bench.embedding.requests[0].language == "en"
    sent = bench.reranking.requests[0]
    assert sent.query_token_vectors == token_vectors("late delivery")
    assert {c.token_vectors.values for c in sent.candidates} == {
        token_vectors(text).values for text in ("late delivery", "other words")
    }
    assert {c.text for c in sent.candidates} == {""}


async def test_a_cross_encoder_gets_texts(tmp_path):
    act_as("acme")
    async with retrieval(tmp_path, reranking=TokenReranking(reads_tokens=False)) as bench:
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
        await bench.stub.Upsert(upload("d", ["late delivery", "other words"]))
        found = await bench.stub.Search(pb.SearchRequest(query="late delivery"))
        assert found.passages[0].scores.rerank == 2
        assert {c.text for c in bench.reranking.requests[0].candidates} == {"late delivery", "other words"}
        assert not bench.embedding.requests[0].with_token_vectors


async def test_each_document_is_searched_with_words_stemmed_in_its_language(bench):
    await bench.stub.Upsert(upload("es", ["penalizaciones y contratos"], language="es"))
    await bench.stub.Upsert(upload("en", ["contratos penalties"], language="en"))
    found = await bench.stub.Search(pb.SearchRequest(query="contratos", mode=pb.SEARCH_MODE_SPARSE))
    assert {p.document_id for p in found.passages} == {"es", "en"}
    bench.embedding.requests.clear()
    await bench.stub.Search(pb.SearchRequest(query="qué contratos hay con la UE"))
    assert [r.language for r in bench.embedding.requests] == ["es"]


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
    async with retrieval(tmp_path, reranking_address="127.0.0.1:1") as bench:
        await bench.stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
        await bench.stub.Upsert(upload("d", ["late delivery", "other words"]))
        for _ in range(2):
            started = time.perf_counter()
            found = await bench.stub.Search(pb.SearchRequest(query="late delivery"))
            assert found.passages[0].text == "late delivery"
            assert found.passages[0].scores.rerank == 0
            assert list(found.degraded) == ["reranking"]
        assert time.perf_counter() - started < 0.3  # the second one does not wait for it again


async def test_a_slow_reranker_is_not_waited_for_and_used_again_when_it_is_fast(bench):
    await bench.stub.Upsert(upload("d", ["late delivery", "other words"]))
    bench.reranking.delay_seconds = 30
    started = time.perf_counter()
    found = await bench.stub.Search(pb.SearchRequest(query="late delivery"))
    assert time.perf_counter() - started < 2
    assert list(found.degraded) == ["reranking"]
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
from services.retrieval.edge_store import EdgeStore
from services.retrieval.store import Collection, Document, NewChunk, SparseTerms

async def chunks(text, count, hang=False):
    for n in range(count):
        yield NewChunk(f"{text} {n}", [1.0, float(n)], SparseTerms([1, 2 + n], [1.0, 1.0]))
    if hang:
        print("acknowledged", flush=True)
        await asyncio.sleep(60)

async def main():
    store = EdgeStore(Path(sys.argv[1]))
    await store.open()
    await store.put_collection("acme", Collection("docs"))
    await store.put_document("acme", Document("done", "docs", "m"), chunks("done", 100))
    await store.put_document("acme", Document("replaced", "docs", "m"), chunks("old", 100))
    await store.put_document("acme", Document("deleted", "docs", "m"), chunks("gone", 100))
    await store.delete_document("acme", "deleted")
    await store.put_document("acme", Document("replaced", "docs", "m"), chunks("new", 130, hang=True))

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
    assert [d.document_id for d in await store.list_documents("acme", "", "", 10)] == ["done", "replaced"]
    assert [c.text for c in await store.get_chunks("acme", "replaced")] == [f"old {n}" for n in range(100)]
    hits = await store.search("acme", Query(Mode.HYBRID, "m", [1.0, 1.0], SparseTerms([1], [1.0]), 400))
    assert {hit.chunk.text.split()[0] for hit in hits} == {"done", "old"}
    assert len(hits) == 200
    await store.close()


async def test_the_index_is_rebuilt_in_the_background_while_writes_go_on(tmp_path):
    rng = np.random.default_rng(0)
    store = EdgeStore(tmp_path, index_after_chunks=1_000)
    await store.open()
    await store.put_collection("acme", Collection("docs"))

    async def chunks(name, count):
        for n in range(count):
            yield NewChunk(f"{name} {n}", rng.standard_normal(64).tolist(), SparseTerms([n], [1.0]))

    async def put(name, count):
        await store.put_document("acme", Document(name, "docs", "m"), chunks(name, count))

    async def texts(name):
        return [c.text for c in await store.get_chunks("acme", name)]

    await put("big", 1_200)
    before = {folder.name for folder in (tmp_path / "shards").iterdir()}
    await put("late", 10)
    await put("short", 10)
    await store.delete_document("acme", "short")
    deadline = time.monotonic() + 60
    while {folder.name for folder in (tmp_path / "shards").iterdir()} & before:
        assert time.monotonic() < deadline
        hits = await store.search("acme", Query(Mode.SPARSE, "m", [], SparseTerms([1_100], [1.0]), 5))
        assert [hit.chunk.text for hit in hits] == ["big 1100"]
        await asyncio.sleep(0.02)
    await put("later", 10)
    assert await texts("late") == [f"late {n}" for n in range(10)]
    assert len(await texts("big")) == 1_200
    hits = await store.search("acme", Query(Mode.SPARSE, "m", [], SparseTerms([5], [1.0]), 10))
    assert {hit.chunk.text for hit in hits} == {"big 5", "late 5", "later 5"}
    await store.close()
    again = EdgeStore(tmp_path)
    await again.open()
    assert len(await again.get_chunks("acme", "later")) == 10
    assert len(list((tmp_path / "shards").iterdir())) == 1
    await again.close()


async def test_a_request_without_identity_is_refused(bench):
    with pytest.raises(aio.AioRpcError) as caught:
        await bench.stub.Search(pb.SearchRequest(query="x"), metadata=(("x-sabueso-identity", "forged"),))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_the_real_embedding_and_reranking_services_fit(tmp_path):
    act_as("acme")
    hashing = EmbeddingSettings(identity_secret=SECRET, embedding_model="hash:64")
    async with listening(build_embedding(hashing)) as embedding_address:
        late = RerankingSettings(identity_secret=SECRET, embedding_address=embedding_address, reranking_model="maxsim")
        async with (
            listening(build_reranking(late)) as reranking_address,
            connect(embedding_address, EMBEDDING) as channel,
            retrieval(tmp_path, embedding_address=embedding_address, reranking_address=reranking_address) as bench,
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
            for query, expected in (("¿qué penalizaciones hay?", 0), ("revisan los precios", 1), ("CT-2025-0001", 2)):
                found = await bench.stub.Search(pb.SearchRequest(query=query))
                assert not found.degraded
                assert found.passages[0].text == texts[expected]
                assert found.passages[0].scores.rerank != 0
