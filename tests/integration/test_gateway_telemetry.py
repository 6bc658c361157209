"""What a gateway tells: spans for generative AI over OTLP/HTTP, metrics, and an access log."""

import asyncio
import base64
import hashlib
import json
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
import yaml
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from local import ports
from sabueso.orchestrator.v1 import orchestrator_pb2_grpc
from services.gateway.clients import DESCRIPTORS
from services.runtime.server import Served, build, set_health
from services.runtime.testing import SIGNER
from services.understudy.faults import Script
from services.understudy.faults.server import FaultyServer
from tests.integration.gateway_stack import Agent, serving
from tests.integration.test_tracing import process, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "sk-test-telling-canary-key"
WORDS = ("secretísima", "Firmamos 47", KEY, "canary", "confidencial")
LANGFUSE = "Basic " + base64.b64encode(b"pk-lf-1:sk-lf-2").decode()
CLIENT_SPAN = "00f067aa0ba902b7"


class Collector:
    """Takes OTLP/HTTP in protobuf, as Langfuse does, from those who have the key."""

    def __init__(self):
        self.spans = []
        self.refused = 0
        self.app = Starlette(routes=[Route("/api/public/otel/v1/traces", self.take, methods=["POST"])])

    async def take(self, request):
        if request.headers.get("authorization") != LANGFUSE:
            self.refused += 1
            return Response(status_code=401)
        taken = trace_service_pb2.ExportTraceServiceRequest.FromString(await request.body())
        self.spans += [span for one in taken.resource_spans for scope in one.scope_spans for span in scope.spans]
        return Response(media_type="application/x-protobuf")

    def of(self, trace_id, name=""):
        return [one for one in self.spans if one.trace_id.hex() == trace_id and one.name.startswith(name)]


@dataclass
class World:
    """`http` has the tenant's key."""

    http: httpx2.AsyncClient
    collector: Collector
    mock: object
    agent: Agent
    log: Path
    port: int
    used: list = field(default_factory=list)

    async def ask(self, model="mini-1", path="/v1/chat/completions", trace_id="", **fields):
        body = {"model": model, "messages": [{"role": "user", "content": "pregunta secretísima"}], **fields}
        headers = {"traceparent": f"00-{trace_id}-{CLIENT_SPAN}-01"} if trace_id else {}
        return await self.http.post(path, json=body, headers=headers)

    async def call_of(self, trace_id, name):
        """The one span of a model's call in that trace."""
        await until(lambda: self.collector.of(trace_id, "POST "), 30)
        (span,) = self.collector.of(trace_id, name)
        return span

    def lines(self, **wanted):
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if wanted.items() <= line.items()]


@asynccontextmanager
async def orchestrating(agent):
    server, health = build(
        "test",
        [Served(agent, orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server, DESCRIPTORS["orchestrator"])],
        SIGNER,
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await set_health(health, [], True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def write_pools(folder, mock):
    """A pool of two replicas, which are one server by two names."""
    replicas = [{"url": f"http://{host}:{mock.port}/v1"} for host in ("127.0.0.1", "127.0.0.2")]
    pool = {"name": "pool", "replicas": replicas, "affinity": "none", "health": {"failures": 100}}
    path = folder / "pools.yml.txt"
    path.write_text(yaml.safe_dump({"pools": [pool]}))
    return path


@asynccontextmanager
async def telling(folder, valkey_url, **settings):
    key = {"id": "main", "sha256": hashlib.sha256(KEY.encode()).hexdigest(), "scopes": ["agent", "models"]}
    (folder / "acme.yaml").write_text(
        yaml.safe_dump({"id": "acme", "keys": [key], "limits": {"requests_per_minute": 0, "tokens_per_minute": 0}})
    )
    collector, agent = Collector(), Agent()
    port, metrics_port = ports.pick(2, ports.random_start())
    async with AsyncExitStack() as stack:
        start = stack.enter_async_context
        mock = FaultyServer(Script())
        await mock.start(host="0.0.0.0")
        stack.push_async_callback(mock.stop)
        given = {
            "tenants_dir": folder,
            "valkey_url": valkey_url,
            "pools_file": write_pools(folder, mock),
            "orchestrator_address": await start(orchestrating(agent)),
            "port": port,
            "metrics_port": metrics_port,
            "otlp_endpoint": f"{await start(serving(collector.app))}/api/public/otel",
            "otlp_protocol": "http/protobuf",
            "otlp_headers": f"Authorization={LANGFUSE.replace('=', '%3D')}",
        }
        log = folder / "log"
        await start(process("gateway", log, **given | settings))
        http = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {KEY}"}, timeout=60, trust_env=False
        )
        await until(lambda: '"serving"' in log.read_text(), 60)
        yield World(await start(http), collector, mock, agent, log, port)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory, valkey_url):
    async with telling(tmp_path_factory.mktemp("telling"), valkey_url) as world:
        yield world


def attributes_of(span):
    return {one.key: value_of(one.value) for one in span.attributes}


def value_of(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(one) for one in value.array_value.values]
    return getattr(value, kind)


def new_trace():
    return os.urandom(16).hex()


async def test_a_models_call_is_a_client_span_of_the_conventions(world):
    trace_id = new_trace()
    world.mock.queue(Script(prompt_tokens=11, completion_tokens=5))
    assert (await world.ask(trace_id=trace_id, temperature=0.5, max_tokens=50)).status_code == 200
    span = await world.call_of(trace_id, "chat mini-1")
    (request,) = world.collector.of(trace_id, "POST ")
    assert request.parent_span_id.hex() == CLIENT_SPAN
    assert span.parent_span_id == request.span_id
    assert span.kind == trace_pb2.Span.SPAN_KIND_CLIENT
    told = attributes_of(span)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "mini-1",
        "gen_ai.response.model": "mini-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 5,
    }
    assert {name: told.get(name) for name in expected} == expected
    assert "error.type" not in told
    assert span.status.code == trace_pb2.Status.STATUS_CODE_UNSET


async def test_the_pool_is_asked_within_the_span_and_hears_no_baggage(world):
    trace_id = new_trace()
    headers = {"traceparent": f"00-{trace_id}-{CLIENT_SPAN}-01", "baggage": "user=canary"}
    body = {"model": "mini-1", "messages": []}
    await world.http.post("/v1/chat/completions", json=body, headers=headers)
    span = await world.call_of(trace_id, "chat mini-1")
    sent = world.mock.requests[-1].headers
    assert sent["traceparent"] == f"00-{trace_id}-{span.span_id.hex()}-01"
    assert "user=canary" not in json.dumps(dict(sent))


@pytest.mark.parametrize("traceparent", ["00-" + "0" * 32 + f"-{CLIENT_SPAN}-01", "zz", "00-abc-def-01", "x" * 5000])
async def test_a_trace_context_that_is_wrong_begins_a_new_trace(world, traceparent):
    body = {"model": "mini-1", "messages": []}
    response = await world.http.post("/v1/chat/completions", json=body, headers={"traceparent": traceparent})
    assert response.status_code == 200
    _, trace_id, _, _ = world.mock.requests[-1].headers["traceparent"].split("-")
    assert len(trace_id) == 32
    assert set(trace_id) != {"0"}


async def test_a_stream_says_when_its_first_chunk_came(world):
    trace_id = new_trace()
    world.mock.queue(Script(usage="last", prompt_tokens=7))
    await world.ask(trace_id=trace_id, stream=True)
    told = attributes_of(await world.call_of(trace_id, "chat mini-1"))
    assert told["gen_ai.request.stream"] is True
    assert 0 < told["gen_ai.response.time_to_first_chunk"] < 60
    assert told["gen_ai.usage.input_tokens"] == 7


async def test_a_failure_is_named(world):
    trace_id = new_trace()
    world.mock.queue(Script(status=400))
    await world.ask(trace_id=trace_id)
    span = await world.call_of(trace_id, "chat mini-1")
    assert attributes_of(span)["error.type"] == "400"
    assert span.status.code == trace_pb2.Status.STATUS_CODE_ERROR


async def test_a_stream_that_breaks_off_is_a_failure_though_it_began_well(world):
    trace_id = new_trace()
    world.mock.queue(Script(ending="close", after_chunks=2))
    response = await world.ask(trace_id=trace_id, stream=True)
    assert response.status_code == 200
    span = await world.call_of(trace_id, "chat mini-1")
    assert attributes_of(span)["error.type"] == json.loads(response.text.split("data: ")[-1])["error"]["code"]


async def test_retries_are_one_call(world):
    trace_id = new_trace()
    world.mock.queue(Script(status=503), Script())
    before = len(world.mock.requests)
    assert (await world.ask(trace_id=trace_id)).status_code == 200
    assert len(world.mock.requests) == before + 2
    told = attributes_of(await world.call_of(trace_id, "chat mini-1"))
    assert "error.type" not in told
    assert told["gen_ai.response.finish_reasons"] == ["stop"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_hang_up_ends_the_span_once(world, stream):
    trace_id = new_trace()
    hold = Script(ending="hang", after_chunks=2) if stream else Script(hold_headers=True)
    world.mock.queue(hold)
    before = len(world.mock.requests)
    body = {"model": "mini-1", "messages": [], "stream": stream}
    headers = {"traceparent": f"00-{trace_id}-{CLIENT_SPAN}-01"}
    asking = asyncio.create_task(world.http.post("/v1/chat/completions", json=body, headers=headers))
    await until(lambda: len(world.mock.requests) > before, 30)
    asking.cancel()
    span = await world.call_of(trace_id, "chat mini-1")
    assert attributes_of(span)["error.type"] == "cancelled"
    await until(lambda: world.lines(trace_id=trace_id, status=499, hung_up=True), 30)
    await asyncio.sleep(0.3)  # a second one would have come by now, or later: then another test fails
    assert len(world.collector.of(trace_id, "chat ")) == 1


async def test_the_agents_answer_and_what_was_thought_of_it_are_in_one_trace(world):
    trace_id = new_trace()
    response = await world.ask("sabueso", trace_id=trace_id)
    span = await world.call_of(trace_id, "invoke_agent sabueso")
    told = attributes_of(span)
    answer_id = response.json()["sabueso"]["answer_id"]
    expected = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "sabueso",
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.response.id": answer_id,
        "gen_ai.response.finish_reasons": ["stop"],
    }
    assert {name: told.get(name) for name in expected} == expected
    said = {"answer_id": answer_id, "rating": "down", "comment": "confidencial"}
    assert (await world.http.post("/v1/feedback", json=said)).status_code == 201
    await until(lambda: world.collector.of(trace_id, "feedback"), 30)
    (feedback,) = world.collector.of(trace_id, "feedback")
    told = attributes_of(feedback)
    assert told["langfuse.trace.metadata.user_feedback"] == -1
    (event,) = feedback.events
    assert event.name == "gen_ai.evaluation.result"
    assert attributes_of(event)["gen_ai.evaluation.score.value"] == -1
    assert attributes_of(event)["gen_ai.evaluation.score.label"] == "down"
    assert {link.trace_id.hex() for link in feedback.links} == {trace_id}


async def test_the_access_log_has_a_line_for_each_request_and_no_word_of_it(world):
    request_id = new_trace()
    body = {"model": "mini-1", "messages": [{"role": "user", "content": "secretísima"}]}
    headers = {"x-request-id": request_id}
    await world.http.post("/v1/chat/completions?q=confidencial", json=body, headers=headers)
    await until(lambda: world.lines(request_id=request_id), 30)
    (line,) = world.lines(request_id=request_id, message="request")
    assert {
        "level": "INFO", "method": "POST", "route": "/v1/chat/completions", "status": 200, "tenant": "acme",
        "key": "main", "model": "mini-1", "service": "gateway", "tokens_exact": True,
    }.items() <= line.items()  # fmt: skip
    assert {"duration_ms", "first_byte_ms", "input_tokens", "output_tokens", "trace_id"} <= set(line)
    shown = world.log.read_text()
    assert [word for word in WORDS if word in shown] == []
    assert world.lines(route="/metrics") == []


async def test_spans_hold_no_content_unless_it_is_asked_for(world):
    await world.ask(trace_id=new_trace(), stream=True)
    await until(lambda: world.collector.spans, 30)
    for word in WORDS:
        assert [one.name for one in world.collector.spans if word.encode() in one.SerializeToString()] == []


async def test_a_key_sent_as_the_requests_id_is_not_taken_for_one(world):
    key = "sk-sabueso-abcdefghij-" + "k" * 43
    answer = await world.http.get("/healthz", headers={"x-request-id": key})
    assert len(answer.headers["x-request-id"]) == 32
    assert key not in world.log.read_text()


async def test_what_is_not_http_is_answered_with_a_request_id_too(world):
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(b"nonsense\r\n\r\n")
    head, _, body = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nx-request-id: " in head
    assert json.loads(body)["error"]["code"] == "invalid_http"


FEW = 60


def series(text):
    return {line.rsplit(" ", 1)[0] for line in text.splitlines() if line and not line.startswith("#")}


async def test_names_that_clients_invent_make_no_series(world):
    async def bother(number):
        name = f"invented-{number}-" + os.urandom(4).hex()
        await world.http.post("/v1/chat/completions", json={"model": name, "messages": []})
        await world.http.get(f"/{name}/{name}")
        await world.http.get(f"/v1/models/{name}")

    async def metrics():
        return (await world.http.get("/metrics")).text

    await asyncio.gather(*map(bother, range(5)))
    await metrics()
    before = series(await metrics())
    for start in range(0, 300, 20):
        await asyncio.gather(*map(bother, range(start, start + 20)))
    after = series(await metrics())
    assert len(after - before) < FEW  # a busy limiter counts its own troubles
    assert not any("invented" in one for one in after)
    assert any('model="other"' in one for one in after)
    assert {span.name for span in world.collector.spans if "invented" in span.name} == set()


@pytest.mark.slow
async def test_ten_thousand_invented_names_leave_series_and_memory_flat(world):
    async def bother(number):
        await world.http.post("/v1/chat/completions", json={"model": f"invented-{number}", "messages": []})
        await world.http.get(f"/invented/{number}")

    for start in range(0, 1000, 50):
        await asyncio.gather(*map(bother, range(start, start + 50)))
    before = (await world.http.get("/metrics")).text
    for start in range(1000, 10_000, 50):
        await asyncio.gather(*map(bother, range(start, start + 50)))
    after = (await world.http.get("/metrics")).text
    assert len(series(after) - series(before)) < FEW

    def bytes_of(text):
        (line,) = [one for one in text.splitlines() if one.startswith("process_resident_memory_bytes ")]
        return float(line.split()[1])

    assert bytes_of(after) < bytes_of(before) + 40e6


async def test_first_tokens_and_tokens_are_measured_per_model(world):
    await world.ask(stream=True)
    text = (await world.http.get("/metrics")).text
    for one in (
        'sabueso_gateway_model_request_seconds_count{model="mini-1",operation="chat",outcome="ok"}',
        'sabueso_gateway_model_first_token_seconds_count{model="mini-1"}',
        'sabueso_gateway_model_output_token_seconds_count{model="mini-1"}',
        'sabueso_gateway_model_tokens_total{model="mini-1",type="input"}',
        'sabueso_gateway_model_tokens_total{model="mini-1",type="output"}',
    ):
        assert one in series(text)
    assert "acme" not in text


@pytest.mark.parametrize(
    ("version", "provider", "content"),
    [
        ("1.41", "gen_ai.provider.name", True),
        pytest.param("1.36", "gen_ai.system", True, marks=pytest.mark.slow),
        pytest.param("1.36", "gen_ai.system", False, marks=pytest.mark.slow),
    ],
)
async def test_other_versions_and_content_by_setting(tmp_path, valkey_url, version, provider, content):
    settings = {"genai_semconv": version, "trace_content": content, "access_log": False}
    async with telling(tmp_path, valkey_url, **settings) as world:
        trace_id = new_trace()
        world.mock.queue(Script(text="Son 47."))
        await world.ask(trace_id=trace_id, stream=True)
        span = await world.call_of(trace_id, "chat mini-1")
        told = attributes_of(span)
        assert told[provider] == "vllm"
        assert "gen_ai.request.stream" not in told
        raw = span.SerializeToString()
        assert ("secretísima".encode() in raw, b"Son 47." in raw) == (content, content)
        if version == "1.41":
            assert json.loads(told["gen_ai.output.messages"])[0]["parts"][0]["content"] == "Son 47."
        assert world.lines(message="request") == []


@pytest.mark.slow
async def test_an_analyzer_that_is_not_installed_ends_the_process(tmp_path, valkey_url):
    given = {"tenants_dir": tmp_path, "valkey_url": valkey_url, "metrics_port": 0, "port": 0}
    key = {"id": "main", "sha256": "0" * 64}
    (tmp_path / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", "keys": [key]}))
    async with process("gateway", tmp_path / "log", pii_analyzer="presidio", **given) as running:
        assert await asyncio.wait_for(running.wait(), 60) == 78
    assert "SABUESO_PII_ANALYZER" in (tmp_path / "log").read_text()
