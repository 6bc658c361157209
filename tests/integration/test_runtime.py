"""The boundary, channels and health on a real loopback server."""

import asyncio
import contextvars

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sabueso.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc as rpc
from services.runtime import context, errors
from services.runtime.channels import connect
from services.runtime.server import Served
from services.runtime.testing import act_as, listening, running

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["ToolCacheService"]


class Probe(rpc.ToolCacheServiceServicer):
    """Does what the test asks for by the tool's name."""

    def __init__(self):
        self.cancelled = asyncio.Event()
        self.calls = 0

    async def BatchGet(self, request, context_):
        self.calls += 1
        match request.calls[0].tool:
            case "bug":
                raise RuntimeError("secret dsn=postgres://u:p@h")
            case "abstract":
                raise NotImplementedError
            case "field":
                raise errors.InvalidField("`calls` is wrong.", field="calls")
            case "busy":
                raise errors.Overloaded("Busy.")
            case "hang":
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
        left = context.current().seconds_left()
        return pb.BatchGetResponse(lookups=[pb.Lookup(hit=True, value=f"{context.tenant()} {left}".encode())])


def served(probe=None):
    return Served(probe or Probe(), rpc.add_ToolCacheServiceServicer_to_server, DESCRIPTOR)


def call(tool):
    return pb.BatchGetRequest(calls=[pb.Call(tool=tool, arguments_json="{}")])


async def test_a_call_carries_tenant_and_deadline():
    act_as("acme")
    async with running(served()) as channel:
        response = await rpc.ToolCacheServiceStub(channel).BatchGet(call("x"), timeout=2)
    tenant, left = response.lookups[0].value.decode().split()
    assert tenant == "acme"
    # gRPC writes a timeout with three digits, rounded up: one per cent more may arrive.
    assert 1 < float(left) <= 2 * 1.01


async def test_a_call_without_identity_is_refused():
    async def ask():
        async with listening(served()) as address, connect(address, DESCRIPTOR) as channel:
            with pytest.raises(aio.AioRpcError) as caught:
                await rpc.ToolCacheServiceStub(channel).BatchGet(call("x"))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    # Other tests of this process may have left an identity behind.
    await asyncio.create_task(ask(), context=contextvars.Context())


async def test_a_forged_identity_is_refused():
    act_as("acme")
    context.enter(context.CallContext(context.identity(), context.current().token[:-2] + "xx"))
    async with running(served()) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await rpc.ToolCacheServiceStub(channel).BatchGet(call("x"))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_bug_leaks_nothing():
    act_as("acme")
    async with running(served()) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await rpc.ToolCacheServiceStub(channel).BatchGet(call("bug"))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert caught.value.details() == "internal error"


async def test_a_method_that_is_not_there_yet_is_named():
    act_as("acme")
    async with running(served()) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await rpc.ToolCacheServiceStub(channel).BatchPut(pb.BatchPutRequest())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == "test does not offer BatchPut yet."
    assert isinstance(errors.from_rpc(caught.value, "tool_cache"), errors.NotFound)


async def test_a_stream_that_is_not_there_yet_is_named():
    act_as("acme")
    descriptor = orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"]
    add = orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server
    async with running(Served(orchestrator_pb2_grpc.OrchestratorServiceServicer(), add, descriptor)) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            async for _ in orchestrator_pb2_grpc.OrchestratorServiceStub(channel).Run(orchestrator_pb2.RunRequest()):
                pass
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == "test does not offer Run yet."


async def test_a_method_that_is_there_and_calls_what_is_not_has_a_bug():
    act_as("acme")
    async with running(served()) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await rpc.ToolCacheServiceStub(channel).BatchGet(call("abstract"))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert caught.value.details() == "internal error"


async def test_an_error_arrives_with_reason_and_metadata():
    act_as("acme")
    async with running(served()) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await rpc.ToolCacheServiceStub(channel).BatchGet(call("field"))
    error = errors.from_rpc(caught.value, "tool_cache")
    assert isinstance(error, errors.InvalidField)
    assert error.metadata == {"field": "calls"}


async def test_a_read_is_retried_when_the_server_is_unavailable():
    act_as("acme")
    probe = Probe()
    async with running(served(probe)) as channel:
        with pytest.raises(aio.AioRpcError):
            await rpc.ToolCacheServiceStub(channel).BatchGet(call("busy"))
    assert probe.calls == 3


async def test_a_caller_who_hangs_up_is_seen():
    act_as("acme")
    probe = Probe()
    async with running(served(probe)) as channel:
        waiting = asyncio.ensure_future(rpc.ToolCacheServiceStub(channel).BatchGet(call("hang")))
        while not probe.calls:
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait_for(probe.cancelled.wait(), 1)


class Flood(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """Says more than anybody reads, and notes when it is stopped."""

    def __init__(self):
        self.closed = asyncio.Event()

    async def Run(self, request, context_):
        try:
            while True:
                yield orchestrator_pb2.RunResponse(text_delta=orchestrator_pb2.TextDelta(text="x" * 100_000))
        finally:
            self.closed.set()


async def test_a_caller_who_hangs_up_while_it_is_being_written_to_is_seen():
    act_as("acme")
    flood = Flood()
    descriptor = orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"]
    add = orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server
    async with running(Served(flood, add, descriptor)) as channel:
        call = orchestrator_pb2_grpc.OrchestratorServiceStub(channel).Run(orchestrator_pb2.RunRequest())
        assert (await call.read()).HasField("text_delta")
        await asyncio.sleep(0.1)  # nobody reads: the next write waits
        call.cancel()
        await asyncio.wait_for(flood.closed.wait(), 1)


async def test_a_lost_service_is_used_again_when_it_is_back():
    act_as("acme")
    async with listening(served()) as address:
        channel = connect(address, DESCRIPTOR)
        stub = rpc.ToolCacheServiceStub(channel)
        await stub.BatchGet(call("x"))
    with pytest.raises(aio.AioRpcError) as caught:
        await stub.BatchGet(call("x"), timeout=2)
    assert isinstance(errors.from_rpc(caught.value, "tool_cache"), errors.DependencyFailed)
    async with listening(served(), port=int(address.rsplit(":", 1)[1])):
        for _ in range(50):
            try:
                await stub.BatchGet(call("x"), timeout=2)
                break
            except aio.AioRpcError:
                await asyncio.sleep(0.1)
        else:
            pytest.fail("the channel did not come back within 5 s")
    await channel.close()


async def test_health_needs_no_identity():
    async with running(served()) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        response = await stub.Check(health_pb2.HealthCheckRequest(service=DESCRIPTOR.full_name))
    assert response.status == health_pb2.HealthCheckResponse.SERVING
