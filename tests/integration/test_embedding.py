"""The embedding service over gRPC, with the fake and with the default model."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.embedding.config import Settings
from services.embedding.server import build
from services.runtime import errors
from services.runtime.onnx_models import ModelNotFound
from services.runtime.testing import SECRET, act_as, running

QUERY, DOCUMENT = pb.INPUT_TYPE_QUERY, pb.INPUT_TYPE_DOCUMENT


def service(model="hash:32", **others):
    return running(build(Settings(identity_secret=SECRET, embedding_model=model, **others)))


async def refusal(channel, request, method="Embed"):
    with pytest.raises(aio.AioRpcError) as caught:
        await getattr(rpc.EmbeddingServiceStub(channel), method)(request)
    error = errors.from_rpc(caught.value, "embedding")
    assert isinstance(error, errors.InvalidField), caught.value
    return error.metadata["field"]


async def test_the_default_model_answers_all_that_is_asked_for():
    act_as("acme")
    async with running(build(Settings(identity_secret=SECRET))) as channel:
        stub = rpc.EmbeddingServiceStub(channel)
        described = await stub.Describe(pb.DescribeRequest())
        texts = ["La penalización es del 2 % mensual.", "¿Cuántos contratos firmamos en 2025?"]
        request = pb.EmbedRequest(
            texts=texts, input_type=DOCUMENT, language="es", with_sparse=True, with_token_vectors=True
        )
        response = await stub.Embed(request)
        counted = await stub.CountTokens(pb.CountTokensRequest(texts=texts))
    assert (described.dimensions, described.max_tokens, described.token_vectors) == (384, 512, True)
    assert response.model == described.model
    assert described.model.startswith("multilingual-e5-small@")
    for embedding, count in zip(response.embeddings, counted.token_counts, strict=True):
        assert np.linalg.norm(embedding.dense) == pytest.approx(1, abs=1e-4)
        rows = np.frombuffer(embedding.token_vectors.values, "<f2").reshape(-1, embedding.token_vectors.dimensions)
        assert rows.shape == (count, 384)
        assert len(embedding.sparse.indices) == len(embedding.sparse.values) > 2
        assert not embedding.truncated


async def test_what_is_not_asked_for_is_not_sent():
    act_as("acme")
    async with service() as channel:
        response = await rpc.EmbeddingServiceStub(channel).Embed(pb.EmbedRequest(texts=["a"], input_type=QUERY))
    (embedding,) = response.embeddings
    assert len(embedding.dense) == 32
    assert not embedding.HasField("sparse")
    assert not embedding.HasField("token_vectors")


async def test_a_search_and_a_document_share_their_terms():
    act_as("acme")
    async with service() as channel:
        stub = rpc.EmbeddingServiceStub(channel)
        sparse = [
            (await stub.Embed(pb.EmbedRequest(texts=[text], input_type=kind, language="es", with_sparse=True)))
            .embeddings[0]
            .sparse
            for text, kind in (("CT-2025-0001 penalizacion", QUERY), ("Penalizaciones del CT-2025-0001.", DOCUMENT))
        ]
    assert set(sparse[0].indices) == set(sparse[1].indices)
    assert set(sparse[0].values) == {1.0}


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.EmbedRequest(input_type=QUERY), "texts"),
        (pb.EmbedRequest(texts=["a"] * 257, input_type=QUERY), "texts"),
        (pb.EmbedRequest(texts=["a", " \n"], input_type=QUERY), "texts[1]"),
        (pb.EmbedRequest(texts=["\0"], input_type=QUERY), "texts[0]"),
        (pb.EmbedRequest(texts=["a"]), "input_type"),
        (pb.EmbedRequest(texts=["a"], input_type=QUERY, language="spanish"), "language"),
    ],
)
async def test_a_malformed_request_is_refused_with_its_field(request_, field):
    act_as("acme")
    async with service() as channel:
        assert await refusal(channel, request_) == field


async def test_counting_takes_up_to_4096_texts():
    act_as("acme")
    async with service() as channel:
        counts = await rpc.EmbeddingServiceStub(channel).CountTokens(pb.CountTokensRequest(texts=["a b"] * 4096))
        assert set(counts.token_counts) == {2}
        assert await refusal(channel, pb.CountTokensRequest(texts=["a"] * 4097), "CountTokens") == "texts"
        assert await refusal(channel, pb.CountTokensRequest(), "CountTokens") == "texts"


async def test_the_service_is_healthy_once_warm():
    act_as("acme")
    async with service() as channel:
        check = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert check.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_model_that_is_not_there_is_named():
    with pytest.raises(ModelNotFound, match="make setup"):
        build(Settings(identity_secret=SECRET, embedding_model="onnx:./no/such/folder"))


class UnsteadyApi(BaseHTTPRequestHandler):
    """An embeddings API that answers with the status its server has at the moment."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"data": [{"index": 0, "embedding": [3.0, 4.0]}]}'
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def unsteady():
    server = ThreadingHTTPServer(("127.0.0.1", 0), UnsteadyApi)
    server.status = 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


async def test_a_remote_server_that_fails_is_named_and_used_again_when_it_is_back(unsteady):
    act_as("acme")
    request = pb.EmbedRequest(texts=["a"], input_type=QUERY)
    async with service(f"openai:http://127.0.0.1:{unsteady.server_port}/v1") as channel:
        stub = rpc.EmbeddingServiceStub(channel)
        assert (await stub.Describe(pb.DescribeRequest())).dimensions == 2
        found = []
        for status in (500, 429, 401, 200):
            unsteady.status = status
            try:
                found.append(list((await stub.Embed(request)).embeddings[0].dense))
            except aio.AioRpcError as error:
                known = errors.from_rpc(error, "embedding")
                found.append(type(known) if known else error.code())
        field = await refusal(channel, pb.EmbedRequest(texts=["a"], input_type=QUERY, with_token_vectors=True))
    assert found[:3] == [errors.DependencyFailed, errors.Overloaded, grpc.StatusCode.INTERNAL]
    assert found[3] == pytest.approx([0.6, 0.8])
    assert field == "with_token_vectors"


async def test_a_remote_server_may_start_after_us(unsteady):
    unsteady.status = 503
    served = build(Settings(identity_secret=SECRET, embedding_model=f"openai:http://127.0.0.1:{unsteady.server_port}"))
    warming = asyncio.create_task(served.warm_up())
    await asyncio.sleep(0.3)
    assert not warming.done()
    unsteady.status = 200
    await asyncio.wait_for(warming, 5)
    await served.close()


async def test_other_calls_are_answered_while_the_model_works():
    act_as("acme")
    async with running(build(Settings(identity_secret=SECRET))) as channel:
        stub = rpc.EmbeddingServiceStub(channel)
        texts = [f"{n} " + "La penalización por demora. " * 40 for n in range(4)]
        working = asyncio.ensure_future(stub.Embed(pb.EmbedRequest(texts=texts, input_type=DOCUMENT)))
        await asyncio.sleep(0)
        for _ in range(5):
            await stub.Describe(pb.DescribeRequest())
        assert not working.done()
        assert len((await working).embeddings) == 4
