"""Addresses as the chart writes them, on real servers and with a real look-up: calls spread, and new pods are found.

A pod is a server on an address of its own of loopback; the headless Service is a name server of few lines.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager

import dns.flags
import dns.message
import dns.rrset
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sabueso.embedding.v1 import embedding_pb2 as pb
from sabueso.embedding.v1 import embedding_pb2_grpc as rpc
from services.runtime.channels import connect
from services.runtime.server import Served, build, set_health
from services.runtime.testing import SIGNER, act_as
from tests.chart.cluster_facts import containers, of_kind

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has one address")

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["EmbeddingService"]
HOST = "try-embedding-headless"


class Names(asyncio.DatagramProtocol):
    """Answers every question for addresses with `addresses`, as a cluster's DNS does for a headless Service."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.asked = []

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        answer.flags |= dns.flags.AA
        (wanted,) = question.question
        self.asked.append(wanted.name.to_text())
        if wanted.rdtype == dns.rdatatype.A and self.addresses:
            answer.answer.append(dns.rrset.from_text(wanted.name, 1, "IN", "A", *self.addresses))
        self.transport.sendto(answer.to_wire(), addr)


@asynccontextmanager
async def named(*addresses):
    """A name server; yields it and its `host:port`."""
    transport, names = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Names(list(addresses)), local_addr=("127.0.0.1", 0)
    )
    try:
        yield names, f"127.0.0.1:{transport.get_extra_info('sockname')[1]}"
    finally:
        transport.close()


class Counting(rpc.EmbeddingServiceServicer):
    def __init__(self):
        self.calls = 0

    async def Embed(self, request, context):
        self.calls += 1
        return pb.EmbedResponse()


@asynccontextmanager
async def pod(address, port=0, age_seconds=300):
    """A server on `address`; yields its servicer, its port, and what says whether it serves."""
    servicer = Counting()
    served = Served(servicer, rpc.add_EmbeddingServiceServicer_to_server, DESCRIPTOR)
    server, health = build("test", [served], SIGNER, max_connection_age_seconds=age_seconds)
    bound = server.add_insecure_port(f"{address}:{port}")
    await server.start()
    await set_health(health, [served], True)
    try:
        yield servicer, bound, lambda serving: set_health(health, [served], serving)
    finally:
        await server.stop(None)


async def test_calls_spread_over_all_pods_of_a_headless_service():
    async with AsyncExitStack() as stack:
        first, port, _ = await stack.enter_async_context(pod("127.0.0.1"))
        second, _, _ = await stack.enter_async_context(pod("127.0.0.2", port))
        names, at = await stack.enter_async_context(named("127.0.0.1", "127.0.0.2"))
        channel = await stack.enter_async_context(connect(f"dns://{at}/{HOST}:{port}", DESCRIPTOR))
        act_as("demo")
        stub = rpc.EmbeddingServiceStub(channel)
        deadline = time.monotonic() + 60
        # The second connection may be made a little after the first.
        while not (first.calls and second.calls) and time.monotonic() < deadline:
            await stub.Embed(pb.EmbedRequest(), timeout=30, wait_for_ready=True)
        before = first.calls, second.calls
        for _ in range(40):
            await stub.Embed(pb.EmbedRequest(), timeout=30)
        assert {first.calls - before[0], second.calls - before[1]} == {20}
        assert any(HOST in name for name in names.asked)


@pytest.mark.slow
async def test_a_new_pod_gets_calls_because_connections_age():
    """A client looks the name up again when a connection ends, and at most every 30 s."""
    async with AsyncExitStack() as stack:
        first, port, _ = await stack.enter_async_context(pod("127.0.0.1", age_seconds=2))
        second, _, _ = await stack.enter_async_context(pod("127.0.0.2", port, age_seconds=2))
        names, at = await stack.enter_async_context(named("127.0.0.1"))
        channel = await stack.enter_async_context(connect(f"dns://{at}/{HOST}:{port}", DESCRIPTOR))
        act_as("demo")
        stub = rpc.EmbeddingServiceStub(channel)
        await stub.Embed(pb.EmbedRequest(), timeout=30, wait_for_ready=True)
        assert (first.calls, second.calls) == (1, 0)
        names.addresses.append("127.0.0.2")
        deadline = time.monotonic() + 100
        while not second.calls and time.monotonic() < deadline:
            await stub.Embed(pb.EmbedRequest(), timeout=30, wait_for_ready=True)
            await asyncio.sleep(0.2)
        assert second.calls


async def test_probes_of_the_chart_are_answered_by_the_servers_as_they_mean_it(default_manifests):
    """Ready follows what the service says of itself, by the very names that the kubelet asks for."""
    (container,) = containers(of_kind(default_manifests, "Deployment")["try-embedding"]["spec"]["template"])
    async with pod("127.0.0.1") as (_, port, say), aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)

        async def answer(probe):
            name = container[probe]["grpc"].get("service", "")
            return (await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=30)).status

        serving = health_pb2.HealthCheckResponse.SERVING
        assert [await answer(probe) for probe in ("startupProbe", "readinessProbe", "livenessProbe")] == [serving] * 3
        await say(False)
        assert await answer("readinessProbe") == health_pb2.HealthCheckResponse.NOT_SERVING
