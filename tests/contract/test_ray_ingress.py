"""What is put around the calls in Ray's proxies, over a real gRPC server in the place of Ray's."""

import contextlib
from enum import StrEnum

import grpc
import pytest
from google.rpc import status_pb2
from grpc import aio
from grpc_status import rpc_status

from services.runtime import errors
from services.runtime.ray_ingress import SECONDS_LEFT, boundary

EMBED = "/sabueso.embedding.v1.EmbeddingService/Embed"


class Streaming(StrEnum):
    """Values of Ray's own."""

    UNARY_UNARY = "unary_unary"
    UNARY_STREAM = "unary_stream"


class Proxy:
    """Makes handlers as Ray's server does: all of them do what `behaviour` does."""

    def __init__(self, behaviour):
        self.service_handler_factory = lambda service_method, streaming_type: behaviour


@contextlib.asynccontextmanager
async def calling(behaviour, method=EMBED):
    proxy = Proxy(behaviour)
    boundary(None, proxy)
    handler = proxy.service_handler_factory(service_method=method, streaming_type=Streaming.UNARY_UNARY)
    service, name = method[1:].split("/")
    server = aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {name: grpc.unary_unary_rpc_method_handler(handler)}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel.unary_unary(method)
    finally:
        await server.stop(None)


def says(code, details="Traceback: secret"):
    async def behaviour(request, context):
        context.set_trailing_metadata((("request_id", "1"),))
        context.set_code(code)
        context.set_details(details)
        return b""

    return behaviour


async def failure(behaviour, method=EMBED):
    async with calling(behaviour, method) as call:
        with pytest.raises(aio.AioRpcError) as caught:
            await call(b"")
    return caught.value


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.Overloaded),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineExceeded),
        (grpc.StatusCode.UNAVAILABLE, errors.DependencyFailed),
        (grpc.StatusCode.INTERNAL, errors.DependencyFailed),
        (grpc.StatusCode.NOT_FOUND, errors.DependencyFailed),
        (grpc.StatusCode.UNKNOWN, errors.DependencyFailed),
    ],
)
async def test_what_ray_refuses_is_said_in_our_words(code, expected):
    error = await failure(says(code))
    known = errors.from_rpc(error, "embedding")
    assert type(known) is expected
    assert error.code() is expected.code
    assert "secret" not in error.details()
    assert ("request_id", "1") in tuple(error.trailing_metadata())


async def test_what_a_replica_refuses_is_passed_on_as_it_is():
    given = rpc_status.to_status(errors.to_status(errors.InvalidField("`texts` is empty.", field="texts")))

    async def behaviour(request, context):
        context.set_code(given.code)
        context.set_details(given.details)
        context.set_trailing_metadata(given.trailing_metadata)
        return b""

    error = await failure(behaviour)
    known = errors.from_rpc(error, "embedding")
    assert isinstance(known, errors.InvalidField)
    assert known.metadata["field"] == "texts"
    details = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
    assert [status_pb2.Status.FromString(one).message for one in details] == ["`texts` is empty."]


async def test_another_service_is_left_alone():
    error = await failure(says(grpc.StatusCode.NOT_FOUND, "as it was"), "/ray.serve.RayServeAPIService/Healthz")
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "as it was")


async def metadata_of(given=(), seconds=None):
    seen = []

    async def behaviour(request, context):
        seen.extend(context.invocation_metadata())
        return b"answer"

    async with calling(behaviour) as call:
        assert await call(b"", metadata=given, timeout=seconds) == b"answer"
    return [(key, value) for key, value in seen if key in ("application", "x-own", SECONDS_LEFT)]


async def test_the_application_and_the_time_that_is_left_go_on():
    own, application, (key, left) = await metadata_of([("x-own", "kept")], seconds=60)
    assert own == ("x-own", "kept")
    assert application == ("application", "embedding")
    assert key == SECONDS_LEFT
    assert 0 < float(left) <= 70


async def test_a_caller_without_a_deadline_waits_for_ever_whatever_it_says():
    found = await metadata_of([(SECONDS_LEFT, "1"), ("application", "reranking")])
    assert found == [("application", "embedding")]


def test_streams_are_left_alone():
    behaviour = says(grpc.StatusCode.OK)
    proxy = Proxy(behaviour)
    boundary(None, proxy)
    made = proxy.service_handler_factory(service_method=EMBED, streaming_type=Streaming.UNARY_STREAM)
    assert made is behaviour
