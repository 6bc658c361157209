"""The reranking service over gRPC, beside a real embedding service or a reranking server by URL."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from grpc import aio

from sabueso.embedding.v1 import embedding_pb2
from sabueso.embedding.v1 import embedding_pb2_grpc as embedding_rpc
from sabueso.reranking.v1 import reranking_pb2 as pb
from sabueso.reranking.v1 import reranking_pb2_grpc as rpc
from sabueso.type.v1.vectors_pb2 import TokenVectors
from services.embedding.config import Settings as EmbeddingSettings
from services.embedding.server import build as build_embedding
from services.reranking.config import Settings
from services.reranking.server import build
from services.runtime import errors
from services.runtime.channels import connect
from services.runtime.onnx_models import ModelNotFound
from services.runtime.testing import SECRET, act_as, listening, running

LATE = "La penalización por demora en la entrega es del 2 % mensual."
LUNCH = "El menú del comedor cambia cada semana."
QUESTION = "¿Qué penalización hay por demora?"


def embedding(model="hash:64", port=0):
    return listening(build_embedding(EmbeddingSettings(identity_secret=SECRET, embedding_model=model)), port)


def reranking(address="127.0.0.1:1", model="maxsim"):
    return running(build(Settings(identity_secret=SECRET, reranking_model=model, embedding_address=address)))


def vectors(count, dimensions=64, seed=0):
    values = np.random.default_rng(seed).standard_normal((count, dimensions)).astype("<f2")
    return TokenVectors(dimensions=dimensions, values=values.tobytes())


def request(*texts, **others):
    return pb.RerankRequest(query=QUESTION, candidates=[pb.Candidate(text=text) for text in texts], **others)


async def failure(channel, request):
    with pytest.raises(aio.AioRpcError) as caught:
        await rpc.RerankingServiceStub(channel).Rerank(request)
    error = errors.from_rpc(caught.value, "reranking")
    assert error is not None, caught.value
    return error


async def test_texts_are_embedded_and_ranked_with_the_default_model():
    act_as("acme")
    async with listening(build_embedding(EmbeddingSettings(identity_secret=SECRET))) as address:
        async with reranking(address) as channel:
            response = await rpc.RerankingServiceStub(channel).Rerank(request(LUNCH, LATE))
    assert [score.index for score in response.scores] == [1, 0]
    assert response.scores[0].score > response.scores[1].score
    assert response.model == "maxsim"


async def test_more_texts_than_one_call_holds_keep_their_places():
    act_as("acme")
    texts = [f"menú {n}" for n in range(199)]
    texts.insert(123, LATE)
    async with embedding() as address, reranking(address) as channel:
        response = await rpc.RerankingServiceStub(channel).Rerank(request(*texts, top_n=3))
    assert len(response.scores) == 3
    assert response.scores[0].index == 123


async def test_stored_vectors_give_the_scores_of_the_texts_without_the_embedding_service():
    act_as("acme")
    async with embedding() as address:
        async with reranking(address) as channel:
            by_text = await rpc.RerankingServiceStub(channel).Rerank(request(LUNCH, LATE))
        async with connect(address) as channel:
            stub = embedding_rpc.EmbeddingServiceStub(channel)
            kinds = {(QUESTION,): embedding_pb2.INPUT_TYPE_QUERY, (LUNCH, LATE): embedding_pb2.INPUT_TYPE_DOCUMENT}
            (query,), stored = [
                [
                    one.token_vectors
                    for one in (
                        await stub.Embed(
                            embedding_pb2.EmbedRequest(texts=texts, input_type=kind, with_token_vectors=True)
                        )
                    ).embeddings
                ]
                for texts, kind in kinds.items()
            ]
    async with reranking() as channel:
        by_vectors = await rpc.RerankingServiceStub(channel).Rerank(
            pb.RerankRequest(
                query=QUESTION,
                query_token_vectors=query,
                candidates=[pb.Candidate(token_vectors=one) for one in stored],
            )
        )
    assert by_vectors == by_text


@pytest.mark.parametrize(
    ("malformed", "field"),
    [
        (pb.RerankRequest(query=" ", candidates=[pb.Candidate(text="a")]), "query"),
        (pb.RerankRequest(query="a" * 4097, candidates=[pb.Candidate(text="a")]), "query"),
        (pb.RerankRequest(query="a"), "candidates"),
        (request(*["a"] * 201), "candidates"),
        (request("a", " "), "candidates[1].text"),
        (request("a", top_n=-1), "top_n"),
        (request("a", query_token_vectors=TokenVectors(dimensions=0, values=b"12")), "query_token_vectors"),
        (request("a", query_token_vectors=TokenVectors(dimensions=-4, values=b"12")), "query_token_vectors"),
        (request("a", query_token_vectors=TokenVectors(dimensions=64, values=b"123")), "query_token_vectors"),
        (request("a", query_token_vectors=TokenVectors(dimensions=64)), "query_token_vectors"),
        (
            request("a", query_token_vectors=TokenVectors(dimensions=1, values=np.float16("nan").tobytes())),
            "query_token_vectors",
        ),
        (
            pb.RerankRequest(
                query="a",
                query_token_vectors=vectors(2, 64),
                candidates=[pb.Candidate(token_vectors=vectors(2, 64)), pb.Candidate(token_vectors=vectors(2, 32))],
            ),
            "candidates[1].token_vectors",
        ),
    ],
)
async def test_a_malformed_request_is_refused_with_its_field(malformed, field):
    act_as("acme")
    async with reranking() as channel:
        error = await failure(channel, malformed)
    assert isinstance(error, errors.InvalidField)
    assert error.metadata["field"] == field


async def test_a_lost_embedding_service_is_named_and_used_again_when_it_is_back():
    act_as("acme")
    async with embedding() as address:
        port = int(address.rsplit(":", 1)[1])
        async with reranking(address) as channel:
            stub = rpc.RerankingServiceStub(channel)
            assert len((await stub.Rerank(request(LATE))).scores) == 1
    async with reranking(address) as channel:
        error = await failure(channel, request(LATE))
        assert isinstance(error, errors.DependencyFailed)
        assert error.metadata["dependency"] == "embedding"
        async with embedding(port=port):
            stub = rpc.RerankingServiceStub(channel)
            for _ in range(20):
                try:
                    response = await stub.Rerank(request(LATE), timeout=5)
                    break
                except aio.AioRpcError:
                    continue
            assert len(response.scores) == 1


async def test_a_scorer_of_texts_ranks_without_the_embedding_service():
    act_as("acme")
    async with reranking(model="overlap") as channel:
        described = await rpc.RerankingServiceStub(channel).Describe(pb.DescribeRequest())
        response = await rpc.RerankingServiceStub(channel).Rerank(request(LUNCH, LATE))
    assert (described.model, described.reads_token_vectors) == ("overlap", False)
    assert [score.index for score in response.scores] == [1, 0]


async def test_a_scorer_of_texts_refuses_a_candidate_without_text():
    act_as("acme")
    async with reranking(model="overlap") as channel:
        error = await failure(channel, pb.RerankRequest(query="a", candidates=[pb.Candidate(token_vectors=vectors(1))]))
    assert error.metadata["field"] == "candidates[0].text"


class RerankApi(BaseHTTPRequestHandler):
    """Answers at the paths that its server has, with the status that it has at the moment; the longest text is best."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers.get("Authorization"), body))
        status = self.server.status if self.path in self.server.paths else 404
        texts = body["texts"] if "texts" in body else body["documents"]
        rows = [(n, len(text) - 1000.5) for n, text in enumerate(texts)][: self.server.most]
        if "texts" in body:
            answer = [{"index": n, "score": score} for n, score in rows]
        else:
            answer = {"results": [{"index": n, "relevance_score": score} for n, score in rows]}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def api():
    server = ThreadingHTTPServer(("127.0.0.1", 0), RerankApi)
    server.requests, server.status, server.paths, server.most = [], 200, ("/rerank", "/v1/rerank"), None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def by_url(api, scheme, **others):
    model = f"{scheme}:http://127.0.0.1:{api.server_port}"
    return build(Settings(identity_secret=SECRET, reranking_model=model, **others))


@pytest.mark.parametrize(
    ("scheme", "paths", "used"),
    [
        ("tei", ("/rerank",), "/rerank"),
        ("cohere", ("/rerank", "/v1/rerank"), "/v1/rerank"),
        ("cohere", ("/rerank",), "/rerank"),
    ],
)
async def test_a_reranking_server_is_asked_by_url(api, scheme, paths, used):
    act_as("acme")
    api.paths = paths
    async with running(by_url(api, scheme, remote_model="bge", remote_api_key="secret")) as channel:
        stub = rpc.RerankingServiceStub(channel)
        api.requests.clear()
        described = await stub.Describe(pb.DescribeRequest())
        response = await stub.Rerank(request(LUNCH, LATE))
    assert (described.model, described.reads_token_vectors) == ("bge", False)
    assert [score.index for score in response.scores] == [1, 0]
    assert all(score.score < 0 for score in response.scores)
    ((path, key, body),) = api.requests
    assert (path, key) == (used, "Bearer secret")
    assert body["query"] == QUESTION
    assert body.get("raw_scores", True) is True


async def test_a_reranking_server_that_fails_is_named_and_used_again_when_it_is_back(api):
    act_as("acme")
    async with running(by_url(api, "tei")) as channel:
        api.status = 500
        lost = await failure(channel, request(LATE))
        api.status = 429
        busy = await failure(channel, request(LATE))
        api.status, api.most = 200, 1
        with pytest.raises(aio.AioRpcError, match="internal error"):
            await rpc.RerankingServiceStub(channel).Rerank(request(LATE, LUNCH))
        api.most = None
        assert len((await rpc.RerankingServiceStub(channel).Rerank(request(LATE, LUNCH))).scores) == 2
    assert isinstance(lost, errors.DependencyFailed)
    assert isinstance(busy, errors.Overloaded)
    assert lost.metadata["dependency"] == busy.metadata["dependency"] == "reranking server"


async def test_a_reranking_server_may_start_after_us(api):
    api.status = 503
    served = by_url(api, "cohere")
    warming = asyncio.create_task(served.warm_up())
    await asyncio.sleep(0.3)
    assert not warming.done()
    api.status = 200
    await asyncio.wait_for(warming, 10)
    await served.close()


async def test_a_text_beyond_the_window_is_marked_by_late_interaction_too():
    act_as("acme")
    async with embedding() as address, reranking(address) as channel:
        response = await rpc.RerankingServiceStub(channel).Rerank(request(LATE, "menú " * 2000, LUNCH))
    assert {score.index: score.truncated for score in response.scores} == {0: False, 1: True, 2: False}


async def test_a_model_that_is_not_there_is_named():
    with pytest.raises(ModelNotFound, match="not a folder"):
        build(Settings(identity_secret=SECRET, reranking_model="onnx:./no/such/folder"))
