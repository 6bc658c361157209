"""Embedding and reranking by the server of their own and on Ray Serve: one contract.

Ray is deployed as k8s/ray says, but smaller. It is large, and fetched for the slow tests (local/clients.py).
"""

import asyncio
import contextlib
import re
import signal
import time
import urllib.request
from concurrent import futures
from pathlib import Path

import grpc
import numpy as np
import psutil
import pytest
import yaml
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from sabueso.reranking.v1 import reranking_pb2 as reranking_pb
from sabueso.reranking.v1 import reranking_pb2_grpc as reranking_rpc
from sabueso.type.v1.vectors_pb2 import TokenVectors
from services.embedding.encoder import HashEncoder, Kind
from services.runtime import context, errors
from services.runtime.channels import connect
from services.runtime.identity import METADATA_KEY, Signer
from services.runtime.testing import SIGNER, act_as
from tests.contract.ray_servers import Embedder, good_vectors, is_there, plain_servers, ray_cluster

QUERY, DOCUMENT = pb.INPUT_TYPE_QUERY, pb.INPUT_TYPE_DOCUMENT

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def embedder_server():
    server = grpc.server(futures.ThreadPoolExecutor(16))
    embedder = Embedder()
    rpc.add_EmbeddingServiceServicer_to_server(embedder, server)
    embedder.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield embedder
    embedder.behaviour = good_vectors
    server.stop(None).wait(10)


@pytest.fixture
def embedder(embedder_server):
    embedder_server.behaviour = good_vectors
    embedder_server.calls.clear()
    return embedder_server


@pytest.fixture(scope="module")
def on_ray(embedder_server):
    with ray_cluster(embedder_server) as services:
        yield services


@pytest.fixture(scope="module")
def plain(embedder_server):
    with plain_servers(embedder_server) as services:
        for name in ("embedding", "reranking"):
            asyncio.run(is_there(getattr(services, name)))
        yield services


@pytest.fixture(params=["plain", pytest.param("on_ray", marks=pytest.mark.slow)])
def services(request):
    return request.getfixturevalue(request.param)


@contextlib.asynccontextmanager
async def embedding(services):
    async with connect(services.embedding, pb.DESCRIPTOR.services_by_name["EmbeddingService"]) as channel:
        yield rpc.EmbeddingServiceStub(channel)


@contextlib.asynccontextmanager
async def reranking(services):
    # Without retries: what is asked here may be refused on purpose.
    async with connect(services.reranking) as channel:
        yield reranking_rpc.RerankingServiceStub(channel)


async def refusal(call):
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    error = errors.from_rpc(caught.value, "the service")
    assert error is not None, caught.value
    return error


def reranked(*texts):
    return reranking_pb.RerankRequest(query="a", candidates=[reranking_pb.Candidate(text=text) for text in texts])


def test_the_tests_ray_is_that_of_the_manifests():
    (locked,) = re.findall(r"^ray==(\S+)", Path("ray.lock").read_text(encoding="utf-8"), re.MULTILINE)
    for name in ("embedding", "reranking"):
        manifest, *_ = yaml.safe_load_all(Path(f"k8s/ray/{name}.yaml").read_text(encoding="utf-8"))
        assert manifest["spec"]["rayClusterConfig"]["rayVersion"] == locked


# ---- what is answered --------------------------------------------------------------------------------------------


async def test_vectors_terms_and_token_vectors_are_those_of_the_encoder(services):
    act_as("acme")
    texts = ["La penalización es del 2 %.", "¿Cuántos contratos hay?"]
    request = pb.EmbedRequest(
        texts=texts, input_type=DOCUMENT, language="es", with_sparse=True, with_token_vectors=True
    )
    async with embedding(services) as stub:
        response = await stub.Embed(request)
        counted = await stub.CountTokens(pb.CountTokensRequest(texts=texts))
        described = await stub.Describe(pb.DescribeRequest())
    expected = await HashEncoder(32).embed(texts, Kind.DOCUMENT, token_vectors=True)
    for one, wanted, count in zip(response.embeddings, expected, counted.token_counts, strict=True):
        assert list(one.dense) == wanted.dense.tolist()
        assert one.token_vectors.values == wanted.token_vectors.astype("<f2").tobytes()
        assert one.token_count == wanted.token_count == count + 3
        assert len(one.sparse.indices) == len(one.sparse.values) > 1
    assert (described.model, described.dimensions, described.max_tokens) == ("hash-32", 32, 512)
    assert response.model == described.model


async def test_messages_of_some_megabytes_pass(services):
    act_as("acme")
    texts = [f"{n} " + "palabra " * 500 for n in range(200)]
    async with embedding(services) as stub:
        response = await stub.Embed(pb.EmbedRequest(texts=texts, input_type=DOCUMENT, with_token_vectors=True))
    assert len(response.embeddings) == 200
    assert response.ByteSize() > 4 * 2**20


async def test_candidates_come_back_in_order_of_their_scores(services, embedder):
    act_as("acme")

    def behaviour(request, call):
        rows = [np.eye(4, dtype="<f2")[[0 if text in ("a", "near") else 1]] for text in request.texts]
        vectors = [TokenVectors(dimensions=4, values=row.tobytes()) for row in rows]
        return pb.EmbedResponse(embeddings=[pb.Embedding(token_vectors=one) for one in vectors])

    embedder.behaviour = behaviour
    async with reranking(services) as stub:
        response = await stub.Rerank(reranked("far", "near", "far too"))
        described = await stub.Describe(reranking_pb.DescribeRequest())
    assert [one.index for one in response.scores] == [1, 0, 2]
    assert response.model == described.model == "maxsim"


@pytest.mark.parametrize("name", ["embedding", "reranking"])
async def test_every_method_of_the_contract_is_answered(services, name):
    act_as("acme")
    proto = {"embedding": pb, "reranking": reranking_pb}[name]
    (service,) = proto.DESCRIPTOR.services_by_name.values()
    async with aio.insecure_channel(getattr(services, name)) as channel:
        for method in service.methods:
            call = channel.unary_unary(f"/{service.full_name}/{method.name}")
            code = await call(b"", metadata=[(METADATA_KEY, SIGNER.sign(context.identity()))]).code()
            assert code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)


async def test_health_is_told_to_anybody(services):
    async with aio.insecure_channel(services.embedding) as channel:
        # Ray asks for the application where there are several.
        answer = await health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), metadata=[("application", "embedding")]
        )
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


# ---- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "field_"),
    [
        (pb.EmbedRequest(input_type=QUERY), "texts"),
        (pb.EmbedRequest(texts=["a"] * 257, input_type=QUERY), "texts"),
        (pb.EmbedRequest(texts=["a", " \n"], input_type=QUERY), "texts[1]"),
        (pb.EmbedRequest(texts=["a"]), "input_type"),
        (pb.EmbedRequest(texts=["a"], input_type=QUERY, language="español"), "language"),
        (pb.EmbedRequest(texts=["a"], input_type=DOCUMENT, other_languages=["en"]), "other_languages"),
    ],
)
async def test_a_malformed_request_is_refused_with_its_field(services, request_, field_):
    act_as("acme")
    async with embedding(services) as stub:
        error = await refusal(stub.Embed(request_))
    assert isinstance(error, errors.InvalidField)
    assert error.metadata["field"] == field_


@pytest.mark.parametrize(
    "token",
    [
        None,
        "not.a.token",
        Signer("another secret, another secret, 32").sign(context.Identity("acme")),
        SIGNER.sign(context.Identity("acme"), ttl_seconds=-5),
    ],
    ids=["none", "malformed", "forged", "expired"],
)
async def test_a_call_without_a_valid_identity_is_refused(services, token):
    metadata = [(METADATA_KEY, token)] if token else []
    async with aio.insecure_channel(services.embedding) as channel:
        call = rpc.EmbeddingServiceStub(channel).Describe(pb.DescribeRequest(), metadata=metadata)
        error = await refusal(call)
    assert isinstance(error, errors.Unauthenticated)


async def test_a_failing_dependency_is_named(services, embedder):
    act_as("acme")
    embedder.behaviour = lambda request, call: call.abort(grpc.StatusCode.UNAVAILABLE, "secret of the embedder")
    async with reranking(services) as stub:
        error = await refusal(stub.Rerank(reranked("b")))
    assert isinstance(error, errors.DependencyFailed)
    assert error.metadata["dependency"] == "embedding"
    assert "secret" not in error.message


async def test_a_bug_tells_the_caller_nothing_of_our_insides(services, embedder):
    act_as("acme")
    broken = TokenVectors(dimensions=2, values=np.full((1, 2), np.nan, "<f2").tobytes())
    embedder.behaviour = lambda request, call: pb.EmbedResponse(
        embeddings=[pb.Embedding(token_vectors=broken) for _ in request.texts]
    )
    async with reranking(services) as stub:
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Rerank(reranked("b"))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert caught.value.details() == "internal error"


async def test_calls_are_counted_by_method_and_status(services):
    act_as("acme")
    async with embedding(services) as stub:
        await stub.Embed(pb.EmbedRequest(texts=["a"], input_type=QUERY))
        await refusal(stub.Embed(pb.EmbedRequest(texts=["a"])))
    metrics = await asyncio.to_thread(read, f"http://{services.metrics}/metrics")
    for code in ("OK", "INVALID_ARGUMENT"):
        labels = f'code="{code}",method="Embed",service="embedding"'
        assert re.search(rf"^sabueso_call_duration_seconds_count{{{labels}}} [1-9]", metrics, re.MULTILINE)


def read(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


# ---- who asks, and until when ------------------------------------------------------------------------------------


async def test_identity_and_time_go_on_to_the_called_service(services, embedder):
    act_as("acme")
    seen = []

    def behaviour(request, call):
        seen.append((dict(call.invocation_metadata())[METADATA_KEY], call.time_remaining()))
        return good_vectors(request, call)

    embedder.behaviour = behaviour
    async with reranking(services) as stub:
        await stub.Rerank(reranked("b"), timeout=60)
        await stub.Rerank(reranked("b"))
    assert {token for token, _ in seen} == {context.current().token}
    first, last = seen[0][1], seen[-1][1]
    # gRPC rounds up what it sends.
    assert 0 < first <= 70
    assert 70 < last <= 310  # the service's own setting


async def test_nobody_chooses_the_time_by_metadata(services, embedder):
    act_as("acme")
    seen = []

    def behaviour(request, call):
        seen.append(call.time_remaining())
        return good_vectors(request, call)

    embedder.behaviour = behaviour
    async with reranking(services) as stub:
        await stub.Rerank(reranked("b"), timeout=60, metadata=[("x-sabueso-seconds-left", "200")])
    assert max(seen) <= 70


@pytest.mark.parametrize("ending", ["hang up", "deadline"])
async def test_a_caller_who_has_gone_ends_the_work(services, embedder, ending):
    act_as("acme")
    embedder.behaviour = lambda request, call: waits_for_end(call)
    async with reranking(services) as stub:
        call = stub.Rerank(reranked("b"), timeout=2 if ending == "deadline" else 120)
        working = asyncio.ensure_future(call.code())
        await until(lambda: embedder.calls or working.done())
        if ending == "hang up":
            call.cancel()
        code = await working
        await until(lambda: all(not one.is_active() for one in embedder.calls))
        # The next one is served as ever.
        embedder.behaviour = good_vectors
        assert len((await stub.Rerank(reranked("b"))).scores) == 1
    wanted = grpc.StatusCode.CANCELLED if ending == "hang up" else grpc.StatusCode.DEADLINE_EXCEEDED
    assert code is wanted


def waits_for_end(call):
    ends = time.monotonic() + 100
    while call.is_active() and time.monotonic() < ends:
        time.sleep(0.02)
    return pb.EmbedResponse()


async def until(true, seconds=100):
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it did not happen"
        await asyncio.sleep(0.02)


# ---- what only Ray does ------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_more_calls_make_a_second_replica_and_too_many_are_refused_as_overload(on_ray, embedder):
    act_as("acme")
    released = []

    def behaviour(request, call):
        ends = time.monotonic() + 100
        while not released and call.is_active() and time.monotonic() < ends:
            time.sleep(0.02)
        return good_vectors(request, call)

    embedder.behaviour = behaviour
    async with reranking(on_ray) as stub:
        calls = [asyncio.ensure_future(one_call(stub)) for _ in range(8)]
        await until(lambda: len({one.peer() for one in embedder.calls}) > 1 or more(stub, calls), 200)
        calls += [asyncio.ensure_future(one_call(stub)) for _ in range(40)]
        await until(lambda: any(one.done() for one in calls))
        released.append(True)
        outcomes = await asyncio.gather(*calls)
    refused = [one for one in outcomes if isinstance(one, errors.ServiceError)]
    assert refused
    assert {type(one) for one in refused} == {errors.Overloaded}
    assert refused[0].retry_after is not None
    assert len(refused) < len(outcomes)


def more(stub, calls):
    """Replicas keep what they have: new calls find the new one."""
    if len(calls) < 14 and all(not one.done() for one in calls):
        calls.append(asyncio.ensure_future(one_call(stub)))
    return False


async def one_call(stub):
    try:
        return await stub.Rerank(reranked("b"), timeout=300)
    except aio.AioRpcError as error:
        return errors.from_rpc(error, "reranking")


@pytest.mark.slow
async def test_a_killed_replica_is_a_failure_that_is_tried_again(on_ray, embedder):
    act_as("acme")
    embedder.behaviour = lambda request, call: waits_for_end(call)
    async with reranking(on_ray) as stub:
        working = asyncio.ensure_future(one_call(stub))
        await until(lambda: embedder.calls)
        replicas = [
            one
            for one in psutil.Process(on_ray.processes[0].pid).children(recursive=True)
            if "Reranking" in " ".join(one.cmdline())
        ]
        assert replicas
        embedder.behaviour = good_vectors
        for one in replicas:
            one.send_signal(signal.SIGKILL)
        outcome = await working
        assert isinstance(outcome, errors.DependencyFailed) or len(outcome.scores) == 1
        ends = time.monotonic() + 100
        while isinstance(await one_call(stub), errors.ServiceError):
            assert time.monotonic() < ends
            await asyncio.sleep(0.2)


@pytest.mark.slow
async def test_a_new_version_takes_over_without_a_failed_call(on_ray):
    act_as("acme")

    def change(applications):
        (deployment,) = applications["embedding"]["deployments"]
        deployment["ray_actor_options"]["runtime_env"]["env_vars"]["SABUESO_EMBEDDING_MODEL"] = "hash:64"

    seen = []

    async def ask():
        # No retries: what fails here would be seen.
        async with connect(on_ray.embedding) as channel:
            stub = rpc.EmbeddingServiceStub(channel)
            ends = time.monotonic() + 200
            while seen[-20:] != ["hash-64"] * 20:
                seen.append((await stub.Embed(pb.EmbedRequest(texts=["a"], input_type=QUERY))).model)
                assert time.monotonic() < ends, "the new version did not come"

    asking = asyncio.gather(*(ask() for _ in range(3)))
    await until(lambda: len(seen) > 20 or asking.done())
    await asyncio.to_thread(on_ray.deploy, change)
    await asking
    assert set(seen) == {"hash-32", "hash-64"}
