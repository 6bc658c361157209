"""The embedding service over gRPC, with the fake and with the default model."""

import asyncio
import contextlib
import json
import math
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
import onnx
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.embedding import quantise
from services.embedding.config import Settings
from services.embedding.encoder import Kind
from services.embedding.learned_sparse import SpladeWeigher
from services.embedding.server import build, make_encoder
from services.runtime import errors
from services.runtime.model_server import ModelServer
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


async def test_a_search_in_two_languages_has_the_terms_of_both_and_one_vector():
    act_as("acme")

    async def embedded(**languages):
        request = pb.EmbedRequest(texts=["penalizaciones penalties"], input_type=QUERY, with_sparse=True, **languages)
        return (await stub.Embed(request)).embeddings

    async with service() as channel:
        stub = rpc.EmbeddingServiceStub(channel)
        [both] = await embedded(language="es", other_languages=["en", "es"])
        [spanish], [english] = await embedded(language="es"), await embedded(language="en")
    terms = list(both.sparse.indices)
    assert set(terms) == {*spanish.sparse.indices, *english.sparse.indices} != set(spanish.sparse.indices)
    assert len(terms) == len(set(terms)) == len(both.sparse.values)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.EmbedRequest(input_type=QUERY), "texts"),
        (pb.EmbedRequest(texts=["a"] * 257, input_type=QUERY), "texts"),
        (pb.EmbedRequest(texts=["a", " \n"], input_type=QUERY), "texts[1]"),
        (pb.EmbedRequest(texts=["\0"], input_type=QUERY), "texts[0]"),
        (pb.EmbedRequest(texts=["\n\n\n"], input_type=QUERY), "texts[0]"),
        (pb.EmbedRequest(texts=["a", "\u200b \ufeff"], input_type=DOCUMENT), "texts[1]"),
        (pb.EmbedRequest(texts=["a"]), "input_type"),
        (pb.EmbedRequest(texts=["a"], input_type=QUERY, language="spanish"), "language"),
        (pb.EmbedRequest(texts=["a"], input_type=QUERY, other_languages=["en", "xx1"]), "other_languages[1]"),
        (pb.EmbedRequest(texts=["a"], input_type=DOCUMENT, other_languages=["en"]), "other_languages"),
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


class ModelApi(BaseHTTPRequestHandler):
    """An embeddings API that does as its server's `behaviour` says, and remembers how many texts each request had.

    `behaviour(texts)` answers (status, headers, body), or vectors.
    """

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        self.server.requests.append(len(texts))
        answer = self.server.behaviour(texts)
        if not isinstance(answer, tuple):
            rows = [{"index": n, "embedding": vector} for n, vector in enumerate(answer)]
            answer = 200, {}, json.dumps({"data": rows})
        status, headers, body = answer
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body.encode()))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # who asked may have gone
            self.wfile.write(body.encode())

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A folder with a small tokenizer: that of the default model takes a second to read."""
    folder = tmp_path_factory.mktemp("words")
    word_tokenizer(["[UNK]", "[CLS]", "[SEP]"]).save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def api(words):
    server = ThreadingHTTPServer(("127.0.0.1", 0), ModelApi)
    server.requests = []
    server.words = str(words)
    server.behaviour = lambda texts: [[3.0, 4.0]] * len(texts)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def of(api, **others):
    return service(f"openai:http://127.0.0.1:{api.server_port}/v1", remote_tokenizer=api.words, **others)


def in_turn(*answers):
    """Each answer once, then vectors."""
    left = list(answers)
    return lambda texts: (left.pop(0), {}, "{}") if left else [[3.0, 4.0]] * len(texts)


async def failure(channel, seconds=None, texts=("a",)):
    with pytest.raises(aio.AioRpcError) as caught:
        await rpc.EmbeddingServiceStub(channel).Embed(
            pb.EmbedRequest(texts=texts, input_type=DOCUMENT), timeout=seconds
        )
    return errors.from_rpc(caught.value, "embedding") or caught.value.code()


async def test_a_remote_server_that_fails_is_named_and_used_again_when_it_is_back(api):
    act_as("acme")
    request = pb.EmbedRequest(texts=["a"], input_type=QUERY)
    async with of(api) as channel:
        stub = rpc.EmbeddingServiceStub(channel)
        assert (await stub.Describe(pb.DescribeRequest())).dimensions == 2
        found = []
        for status in (500, 429, 401):
            api.behaviour = lambda texts, status=status: (status, {}, "{}")
            found.append(await failure(channel))
        api.behaviour = in_turn()
        embedded = (await stub.Embed(request)).embeddings[0]
        field = await refusal(channel, pb.EmbedRequest(texts=["a"], input_type=QUERY, with_token_vectors=True))
    assert [type(one) for one in found[:2]] == [errors.DependencyFailed, errors.Overloaded]
    assert found[0].metadata["dependency"] == found[1].metadata["dependency"] == "embedding server"
    assert found[2] is grpc.StatusCode.INTERNAL
    assert list(embedded.dense) == pytest.approx([0.6, 0.8])
    assert field == "with_token_vectors"


async def test_a_busy_server_is_asked_again_and_a_broken_one_is_not(api):
    url = f"http://127.0.0.1:{api.server_port}"
    server = ModelServer(url, name="test server", api_key="secret", timeout_seconds=20)
    body = {"input": ["a"]}
    api.behaviour = in_turn(429, 503)
    assert await server.post("/v1/embeddings", body, deadline=None)
    assert len(api.requests) == 3
    api.behaviour = in_turn(500)
    with pytest.raises(errors.DependencyFailed, match="test server failed"):
        await server.post("/v1/embeddings", body, deadline=None)
    assert len(api.requests) == 4
    with pytest.raises(errors.DeadlineExceeded):
        await server.post("/v1/embeddings", body, deadline=time.monotonic() - 1)
    assert len(api.requests) == 4
    await server.close()


async def test_a_server_that_is_not_there_is_tried_again_and_named():
    server = ModelServer("http://127.0.0.1:1", name="test server", api_key="", timeout_seconds=20)
    with pytest.raises(errors.DependencyFailed, match="test server does not answer") as caught:
        await server.post("/v1/embeddings", {}, deadline=None)
    assert caught.value.metadata["dependency"] == "test server"
    with pytest.raises(errors.DependencyFailed, match="left alone"):
        await server.post("/v1/embeddings", {}, deadline=None)
    await server.close()


async def test_the_time_that_a_server_asks_for_is_given_to_it(api):
    act_as("acme")
    async with of(api) as channel:
        left = [(429, {"Retry-After": "1"}, "{}")]
        api.behaviour = lambda texts: left.pop() if left else [[3.0, 4.0]] * len(texts)
        began = time.monotonic()
        await rpc.EmbeddingServiceStub(channel).Embed(pb.EmbedRequest(texts=["a"], input_type=QUERY))
        assert 1 <= time.monotonic() - began < 10
        # Beyond the caller's patience nobody waits for it.
        api.behaviour = lambda texts: (429, {"Retry-After": "60"}, "{}")
        began = time.monotonic()
        assert isinstance(await failure(channel, seconds=20), errors.Overloaded)
        assert time.monotonic() - began < 10


async def test_a_server_that_fails_again_and_again_is_left_alone_for_a_moment(api):
    act_as("acme")
    async with of(api) as channel:
        api.requests.clear()
        api.behaviour = lambda texts: (500, {}, "{}")
        for _ in range(20):
            assert isinstance(await failure(channel), errors.DependencyFailed)
        assert 5 <= len(api.requests) < 10
        api.behaviour = in_turn()
        async with asyncio.timeout(20):
            while True:
                try:
                    await rpc.EmbeddingServiceStub(channel).Embed(pb.EmbedRequest(texts=["a"], input_type=QUERY))
                    break
                except aio.AioRpcError:
                    await asyncio.sleep(0.1)


async def test_a_slow_server_costs_the_caller_no_more_than_its_time(api):
    act_as("acme")
    release = threading.Event()

    def slow(texts):
        release.wait(60)
        return [[3.0, 4.0]] * len(texts)

    async with of(api, remote_timeout_seconds=0.5) as channel:
        api.behaviour = slow
        try:
            began = time.monotonic()
            assert isinstance(await failure(channel), errors.DependencyFailed)
            assert time.monotonic() - began < 30
        finally:
            release.set()


async def test_many_texts_go_in_requests_of_32_and_keep_their_places(api):
    act_as("acme")
    async with of(api) as channel:
        api.requests.clear()
        api.behaviour = lambda texts: [[float(text.removeprefix("passage: ")), 1.0] for text in texts]
        texts = [str(n) for n in range(250)]
        response = await rpc.EmbeddingServiceStub(channel).Embed(pb.EmbedRequest(texts=texts, input_type=DOCUMENT))
    assert [round(one.dense[0] / one.dense[1]) for one in response.embeddings] == list(range(250))
    assert sum(api.requests) == 250
    assert max(api.requests) == 32


@pytest.mark.parametrize("status", [413, 422, 400, 500])
async def test_a_text_that_is_too_long_for_the_server_is_cut_and_reported(api, status):
    act_as("acme")
    seen = []

    def behaviour(texts):
        if any(len(text) > 500 for text in texts):
            return status, {}, '{"error": "input is too long: it exceeds 512 tokens"}'
        seen.extend(texts)
        return [[3.0, 4.0]] * len(texts)

    async with of(api) as channel:
        api.behaviour = behaviour
        request = pb.EmbedRequest(texts=["short", "long " * 400, "other"], input_type=DOCUMENT)
        response = await rpc.EmbeddingServiceStub(channel).Embed(request)
    assert [one.truncated for one in response.embeddings] == [False, True, False]
    assert max(map(len, seen)) > 250


@pytest.mark.parametrize(
    "vectors",
    [[[1.0, 2.0, 3.0]], [[1.0, None]], [[1.0, float("nan")]], [[]], [], [[1.0, 2.0]] * 2, [["a", "b"]], None],
)
async def test_an_answer_that_cannot_be_right_is_refused(api, vectors):
    act_as("acme")
    async with of(api) as channel:
        api.behaviour = lambda texts: (200, {}, '{"object": "x"}') if vectors is None else vectors
        assert await failure(channel) is grpc.StatusCode.INTERNAL
        api.behaviour = in_turn()
        await rpc.EmbeddingServiceStub(channel).Embed(pb.EmbedRequest(texts=["a"], input_type=QUERY))


async def test_one_broken_vector_among_eight_fails_the_call(api):
    act_as("acme")
    async with of(api) as channel:
        api.behaviour = lambda texts: [[float("nan") if "NANBAIT" in text else 1.0, 1.0] for text in texts]
        assert await failure(channel, texts=[*map(str, range(7)), "NANBAIT"]) is grpc.StatusCode.INTERNAL
        response = await rpc.EmbeddingServiceStub(channel).Embed(
            pb.EmbedRequest(texts=[*map(str, range(7))], input_type=DOCUMENT)
        )
        assert len(response.embeddings) == 7


async def test_a_remote_server_may_start_after_us(api):
    api.behaviour = lambda texts: (503, {}, "{}")
    url = f"openai:http://127.0.0.1:{api.server_port}"
    served = build(Settings(identity_secret=SECRET, embedding_model=url, remote_tokenizer=api.words))
    warming = asyncio.create_task(served.warm_up())
    await asyncio.sleep(0.3)
    assert not warming.done()
    api.behaviour = in_turn()
    await asyncio.wait_for(warming, 10)
    await served.close()


def word_tokenizer(vocabulary):
    """Cuts at spaces; the vocabulary begins with [UNK], [CLS] and [SEP]."""
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return tokenizer


def masked_language_model(folder, vocabulary=("[UNK]", "[CLS]", "[SEP]", "late", "delay", "penalty", "menu")):
    """A SPLADE-like model: each token gives 3 to itself and 1 to the word before it, -1 to all others."""
    word_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    size = len(vocabulary)
    table = (
        np.full((size, size), -1, np.float32)
        + 4 * np.eye(size, dtype=np.float32)
        + 2 * np.eye(size, k=-1, dtype=np.float32)
    )
    table[:3] = -1
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["logits"])],
        "splade",
        [value("input_ids", TensorProto.INT64, ["b", "t"]), value("attention_mask", TensorProto.INT64, ["b", "t"])],
        [value("logits", TensorProto.FLOAT, ["b", "t", size])],
        [numpy_helper.from_array(table, "table")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(folder / "model.onnx")
    )
    return f"onnx:{folder}"


async def test_a_learned_sparse_model_expands_words_and_is_part_of_the_models_name(tmp_path):
    act_as("acme")
    (tmp_path / "tiny-splade").mkdir()
    model = masked_language_model(tmp_path / "tiny-splade")
    async with service(sparse_model=model, max_tokens=16) as channel:
        stub = rpc.EmbeddingServiceStub(channel)
        described = await stub.Describe(pb.DescribeRequest())
        request = pb.EmbedRequest(texts=["delay penalty", "menu " * 40], input_type=DOCUMENT, with_sparse=True)
        response = await stub.Embed(request)
    assert described.learned_sparse
    assert described.model == response.model
    assert re.fullmatch(r"hash-32\+tiny-splade@[0-9a-f]{12}", response.model)
    first, second = (dict(zip(one.sparse.indices, one.sparse.values, strict=True)) for one in response.embeddings)
    assert first == pytest.approx({3: math.log(2), 4: math.log(4), 5: math.log(4)})
    assert second == pytest.approx({5: math.log(2), 6: math.log(4)})
    assert [one.truncated for one in response.embeddings] == [False, True]


async def test_a_learned_sparse_model_keeps_the_heaviest_terms(tmp_path):
    words = ["[UNK]", "[CLS]", "[SEP]", *(f"w{n}" for n in range(40))]
    weigher = SpladeWeigher.load(
        masked_language_model(tmp_path, words).removeprefix("onnx:"),
        threads=1,
        max_tokens=64,
        terms=16,
        waiting_tokens=1000,
    )
    (weights,) = await weigher.weigh([" ".join(words[4::2])], Kind.QUERY, "es")
    assert len(weights.indices) == 16
    assert min(weights.values) == pytest.approx(math.log(4))
    await weigher.close()


async def test_bm25_is_the_default_and_says_so():
    act_as("acme")
    async with service() as channel:
        described = await rpc.EmbeddingServiceStub(channel).Describe(pb.DescribeRequest())
    assert (described.learned_sparse, described.model) == (False, "hash-32")


@pytest.mark.parametrize(("setting", "languages"), [("", []), ("en", ["en"]), ("es,en", ["es", "en"])])
async def test_the_languages_of_the_model_are_told(setting, languages):
    act_as("acme")
    async with service(embedding_languages=setting) as channel:
        described = await rpc.EmbeddingServiceStub(channel).Describe(pb.DescribeRequest())
    assert list(described.languages) == languages


async def test_an_int8_model_is_made_beside_one_in_32_bit_and_taken(tmp_path):
    masked_language_model(tmp_path)
    rng = np.random.default_rng(1)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["words"]),
            helper.make_node("MatMul", ["words", "matrix"], ["last_hidden_state"]),
        ],
        "words",
        [value("input_ids", TensorProto.INT64, ["b", "t"]), value("attention_mask", TensorProto.INT64, ["b", "t"])],
        [value("last_hidden_state", TensorProto.FLOAT, ["b", "t", 32])],
        [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
            for name, shape in (("table", (7, 64)), ("matrix", (64, 32)))
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(tmp_path / "model.onnx"))
    vectors = []
    for make in (lambda: None, lambda: quantise.make(str(tmp_path))):
        make()
        encoder = make_encoder(Settings(identity_secret=SECRET, embedding_model=f"onnx:{tmp_path}", max_batch_items=8))
        texts = ["late delay", "menu " * 30, "penalty"]
        together = [one.dense for one in await encoder.embed(texts, Kind.DOCUMENT, token_vectors=False)]
        alone = [(await encoder.embed([text], Kind.DOCUMENT, token_vectors=False))[0].dense for text in texts]
        assert min(float(a @ b) for a, b in zip(together, alone, strict=True)) > 0.9999
        vectors.append((encoder.model, np.stack(together)))
        await encoder.close()
    (wide_name, wide), (small_name, small) = vectors
    assert wide_name != small_name
    assert 0.99 < (wide * small).sum(axis=1).min() < 1


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
