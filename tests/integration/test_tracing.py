"""One question, one trace: real processes, a real OpenTelemetry collector, and no words of the question in it."""

import asyncio
import hashlib
import json
import os
import sys
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx2
import pytest
import pytest_asyncio
import yaml
from grpc import aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from local import ports
from services.runtime.tenants import SqlSource
from services.runtime.testing import SECRET, act_as
from services.sql_tool import grants
from tests.integration.gateway_stack import serving
from tests.integration.passages import store_passage

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "sk-test-tracing"
READER = "tracing_reader"
# The client's own span, under which everything happens.
CLIENT = "00f067aa0ba902b7"
QUESTION = "¿Cuántos contratos secretísimos hay?"
SEARCHED = "penalizaciones confidenciales"
# PostgreSQL's own message quotes the value.
WRONG = "SELECT count(*) FROM contracts WHERE amount > 'inconfesable'"
RIGHT = "SELECT count(*) FROM contracts WHERE title <> 'reservado'"
WORDS = (
    "secretísimos",
    "confidenciales",
    "inconfesable",
    "reservado",
    "count(*)",
    "Son varios",
    KEY,
    "dsn",
    "postgres://",
)
SERVICES = ("embedding", "retrieval", "tool_cache", "sql_tool", "orchestrator", "gateway")


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps the spans that arrive, with the service that sent them."""

    def __init__(self):
        self.spans = []

    async def Export(self, request, context):
        for resource in request.resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            service = named["service.name"].removeprefix("sabueso-")
            self.spans += [(service, span) for scope in resource.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def of(self, trace_id):
        return [(service, span) for service, span in self.spans if span.trace_id.hex() == trace_id]


class Model:
    """An OpenAI-compatible server whose turns are given; notes the trace that each request names."""

    def __init__(self):
        self.turns = []
        self.traces = []
        routes = [Route("/v1/models", self.models), Route("/v1/chat/completions", self.complete, methods=["POST"])]
        self.app = Starlette(routes=routes)

    async def models(self, request):
        return JSONResponse({"object": "list", "data": [{"id": "llama"}]})

    async def complete(self, request):
        self.traces += request.headers.getlist("traceparent")
        return StreamingResponse(pieces(self.turns.pop(0)), media_type="text/event-stream")


async def pieces(turn):
    """`turn` is an answer, or calls as (tool, arguments), or None for one that never ends."""
    while turn is None:
        yield event_of({"delta": {"content": "y "}, "finish_reason": None})
        await asyncio.sleep(0.001)
    delta = {"role": "assistant", "content": turn if isinstance(turn, str) else ""}
    if not isinstance(turn, str):
        delta["tool_calls"] = [
            {
                "index": at,
                "id": f"c{at}",
                "type": "function",
                "function": {"name": tool, "arguments": json.dumps(given)},
            }
            for at, (tool, given) in enumerate(turn)
        ]
    for choice in ({"delta": delta, "finish_reason": None}, {"delta": {}, "finish_reason": "stop"}):
        yield event_of(choice)
    yield b"data: [DONE]\n\n"


def event_of(choice):
    event = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "llama"}
    return b"data: " + json.dumps(event | {"choices": [{"index": 0, **choice}]}).encode() + b"\n\n"


@dataclass
class World:
    """All that a test may look at. `http` has the tenant's key; `ports` are (service's, metrics)."""

    http: httpx2.AsyncClient
    collector: Collector
    model: Model
    ports: dict[str, tuple[int, int]]
    logs: dict[str, Path]

    async def metrics_of(self, service):
        return (await self.http.get(f"http://127.0.0.1:{self.ports[service][1]}/metrics")).text

    def lines_of(self, service):
        return [json.loads(line) for line in self.logs[service].read_text().splitlines()]


def environment_of(**settings):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SABUESO_", "OTEL_"))}
    # The SDK's own setting, in milliseconds: spans leave at once and not every 5 s.
    shared = {"SABUESO_HOST": "127.0.0.1", "SABUESO_IDENTITY_SECRET": SECRET, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    return inherited | shared | {f"SABUESO_{name.upper()}": str(value) for name, value in settings.items()}


@asynccontextmanager
async def process(service, log, **settings):
    """The service as a process of its own; ended by SIGTERM."""
    with log.open("wb") as stderr:
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-m", f"services.{service}.server", env=environment_of(**settings), stderr=stderr
        )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.terminate()
            try:
                await asyncio.wait_for(running.wait(), 10)
            except TimeoutError:
                running.kill()
                await running.wait()


@asynccontextmanager
async def collecting():
    collector = Collector()
    server = aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def make_tenant(postgres_server, folder):
    """A tenant with a key, a table and a reader of it."""
    admin = await asyncpg.connect(postgres_server.dsn())
    await admin.execute("CREATE DATABASE tracing")
    await admin.close()
    admin = await asyncpg.connect(postgres_server.dsn("tracing"))
    await admin.execute("CREATE TABLE contracts (title text, amount numeric); INSERT INTO contracts VALUES ('a', 1)")
    sql = {"dsn_secret": "acme-dsn", "tables": {"contracts": {"columns": {"title": {}, "amount": {}}}}}
    for statement in grants.statements(SqlSource.model_validate(sql), READER):
        await admin.execute(statement)
    await admin.execute(f"ALTER ROLE {READER} PASSWORD 'pass'")
    await admin.close()
    keys = [{"id": "all", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]
    (folder / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", "keys": keys, "sql": sql}))
    (folder / "acme-dsn").write_text(postgres_server.dsn("tracing", READER, "pass"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(postgres_server, valkey_url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracing")
    await make_tenant(postgres_server, folder)
    free = ports.pick(2 * len(SERVICES), ports.random_start())
    own = dict(zip(SERVICES, zip(free[::2], free[1::2], strict=True), strict=True))
    addresses = {f"{service}_address": f"127.0.0.1:{port}" for service, (port, _) in own.items()}
    logs = {service: folder / f"{service}.log" for service in SERVICES}
    model = Model()
    async with AsyncExitStack() as stack:
        start = stack.enter_async_context
        collector, endpoint = await start(collecting())
        tenants = {"tenants_dir": folder}
        settings = {
            "embedding": {"embedding_model": "hash:64"},
            "retrieval": {"vector_store": "memory:", "embedding_address": addresses["embedding_address"]},
            "tool_cache": {"valkey_url": "memory:"},
            "sql_tool": tenants | {"secrets_dir": folder},
            "orchestrator": {
                **tenants,
                **{name: addresses[name] for name in ("retrieval_address", "sql_tool_address", "tool_cache_address")},
                "model_url": f"http://127.0.0.1:{own['gateway'][0]}/v1",
                "model_name": "llama",
                "valkey_url": "memory:",
            },
            "gateway": {
                **tenants,
                **{name: addresses[name] for name in ("orchestrator_address", "retrieval_address")},
                "valkey_url": valkey_url,
                "model_url": f"{await start(serving(model.app))}/v1",
            },
        }
        for service in SERVICES:
            port, metrics_port = own[service]
            shared = {"port": port, "metrics_port": metrics_port, "otlp_endpoint": endpoint, "log_level": "DEBUG"}
            await start(process(service, logs[service], **shared, **settings[service]))
        headers = {"authorization": f"Bearer {KEY}"}
        http = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{own['gateway'][0]}", headers=headers, timeout=30, trust_env=False
        )
        world = World(await start(http), collector, model, own, logs)
        await until(lambda: all('"serving"' in log.read_text() for log in logs.values()), 40)
        act_as("acme")
        await store_passage(addresses["retrieval_address"], "hash-64", 64)
        yield world


async def until(reached, seconds=10):
    async with asyncio.timeout(seconds):
        while not reached():
            await asyncio.sleep(0.05)


def parents_of(spans):
    """(service, name) of each span and of its parent, which is None where somebody else began the trace."""
    names = {span.span_id: (service, span.name.rsplit("/", 1)[-1]) for service, span in spans}
    return [(names[span.span_id], names.get(span.parent_span_id)) for _, span in spans]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answered(world):
    """The trace's id and its spans, of a question that took a search, a wrong statement and a right one."""
    world.model.turns = [
        [("vector_search", {"query": SEARCHED}), ("sql_query", {"query": WRONG})],
        [("sql_query", {"query": RIGHT})],
        "Son varios.",
    ]
    trace_id = os.urandom(16).hex()
    body = {"model": "sabueso", "messages": [{"role": "user", "content": QUESTION}]}
    body["sabueso"] = {"session_id": "tuesday"}
    headers = {"traceparent": f"00-{trace_id}-{CLIENT}-01"}
    response = await world.http.post("/v1/chat/completions", json=body, headers=headers)
    assert response.json()["choices"][0]["message"]["content"] == "Son varios."
    # The question's and three turns' requests; BatchPut is not waited for by anyone.
    whole = Counter(completions=4, Run=1, Query=2, Search=1, Embed=1, BatchGet=2, BatchPut=1)

    def complete():
        return whole <= Counter(span.name.rsplit("/", 1)[-1] for _, span in world.collector.of(trace_id))

    await until(complete)
    return trace_id, world.collector.of(trace_id)


async def test_one_trace_leads_from_the_gateway_to_every_service(answered):
    _, spans = answered
    parents = parents_of(spans)
    completions, chat = ("gateway", "completions"), ("gateway", "chat llama")
    agent = ("gateway", "invoke_agent sabueso")
    run, turn = ("orchestrator", "Run"), ("orchestrator", "model turn")
    search, query = ("orchestrator", "execute_tool vector_search"), ("orchestrator", "execute_tool sql_query")
    assert {one for one in parents if one[0] in (completions, agent, chat, run, turn, search, query)} == {
        (completions, None),
        (completions, turn),
        (agent, completions),
        (chat, completions),
        (run, agent),
        (turn, run),
        (search, run),
        (query, run),
    }
    assert parents.count((turn, run)) == parents.count((completions, turn)) == parents.count((chat, completions)) == 3
    assert parents.count((("sql_tool", "Query"), query)) == 2
    assert (("retrieval", "Search"), search) in parents
    assert (("embedding", "Embed"), ("retrieval", "Search")) in parents
    assert (("tool_cache", "BatchGet"), run) in parents
    assert (("tool_cache", "BatchPut"), run) in parents


async def test_spans_say_how_a_call_ended(answered):
    _, spans = answered
    codes = [
        one.value.string_value
        for service, span in spans
        if service == "sql_tool" and span.name.endswith("/Query")
        for one in span.attributes
        if one.key == "rpc.response.status_code"
    ]
    assert sorted(codes) == ["FAILED_PRECONDITION", "OK"]
    # A wrong statement is the caller's doing: no server has failed.
    assert all(span.status.code != trace_pb2.Status.STATUS_CODE_ERROR for _, span in spans)
    (root,) = [span for _, span in spans if span.parent_span_id.hex() == CLIENT]
    assert root.name == "POST /v1/chat/completions"
    assert root.kind == trace_pb2.Span.SPAN_KIND_SERVER


async def test_the_spans_of_an_answer_name_its_conversation(answered):
    _, spans = answered
    named = {
        span.name.rsplit("/", 1)[-1]
        for _, span in spans
        for one in span.attributes
        if (one.key, one.value.string_value) == ("gen_ai.conversation.id", "tuesday")
    }
    assert named == {"invoke_agent sabueso", "Run"}


async def test_no_span_and_no_log_holds_a_word_of_question_statement_answer_or_key(world, answered):
    _, spans = answered
    for word in WORDS:
        assert [span.name for _, span in spans if word.encode() in span.SerializeToString()] == []
    for service, log in world.logs.items():
        shown = "".join(line for line in log.read_text().splitlines() if '"level": "DEBUG"' not in line)
        assert [word for word in WORDS if word in shown] == [], service


async def test_the_model_is_asked_within_the_trace(world, answered):
    trace_id, spans = answered
    ours = {span.span_id.hex() for service, span in spans if service == "gateway"}
    named = [traceparent.split("-") for traceparent in world.model.traces]
    assert {trace for _, trace, _, _ in named} == {trace_id}
    assert {parent for _, _, parent, _ in named} <= ours
    assert len(named) == 3


async def test_logs_name_the_trace(world, answered):
    trace_id, _ = answered
    calls = [line for line in world.lines_of("sql_tool") if line["message"] == "call" and "Query" in line["method"]]
    assert {(line["level"], line["code"], line["trace_id"]) for line in calls} == {
        ("DEBUG", "OK", trace_id),
        ("INFO", "FAILED_PRECONDITION", trace_id),
    }
    assert {line["service"] for line in calls} == {"sql_tool"}
    (request,) = [
        line for line in world.lines_of("gateway")
        if line["message"] == "request" and line.get("trace_id") == trace_id
    ][-1:]  # fmt: skip
    assert request["status"] == 200


async def test_metrics_count_the_calls_of_each_method(world, answered):
    shown = await world.metrics_of("sql_tool")
    counted = 'sabueso_call_duration_seconds_count{code="%s",method="Query",service="sql_tool"} 1.0'
    assert counted % "OK" in shown
    assert counted % "FAILED_PRECONDITION" in shown
    assert 'method="Search",service="retrieval"' in await world.metrics_of("retrieval")
    assert 'sabueso_gateway_request_duration_seconds_count{route="/v1/chat/completions",status="200"} 4.0' in (
        await world.metrics_of("gateway")
    )


async def test_a_trace_begins_here_when_the_client_brings_none(world, answered):
    response = await world.http.post("/v1/search", json={"query": SEARCHED})
    assert response.json()["results"] != []

    def own_root():
        return [span for _, span in world.collector.spans if span.name == "POST /v1/search"]

    # Services send their spans each in its own time: the trace is whole when the callers of each are there.
    await until(lambda: own_root() != [])
    (root,) = own_root()
    assert root.parent_span_id == b""
    expected = {(("embedding", "Embed"), ("retrieval", "Search")), (("retrieval", "Search"), ("gateway", "search"))}
    await until(lambda: expected <= set(parents_of(world.collector.of(root.trace_id.hex()))))


async def test_a_hang_up_shows_in_the_trace_and_leaves_no_error_in_the_logs(world):
    trace_id = os.urandom(16).hex()
    headers = {"traceparent": f"00-{trace_id}-{CLIENT}-01"}
    body = {"model": "sabueso", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    world.model.turns = [[("sql_query", {"query": RIGHT})], None]
    async with world.http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
        arriving = response.aiter_raw()
        await anext(arriving)
        await until(lambda: not world.model.turns)
        await anext(arriving)
        await arriving.aclose()

    def ended():
        """How the requests and the run ended."""
        kept = ("rpc.response.status_code", "http.response.status_code")
        return {
            (span.name.rsplit("/", 1)[-1], one.value.string_value or one.value.int_value)
            for _, span in world.collector.of(trace_id)
            for one in span.attributes
            if one.key in kept
        }

    await until(lambda: {("Run", "CANCELLED"), ("completions", 499)} <= ended())
    for service in SERVICES:
        assert [line for line in world.lines_of(service) if line["level"] == "ERROR"] == []


@pytest.mark.parametrize(
    ("service", "settings", "says"),
    [
        ("tool_cache", {"valkey_url": "http://nowhere"}, "settings: SABUESO_VALKEY_URL: String should match pattern"),
        ("sql_tool", {"tenant_dir": "/x"}, "settings: unknown settings: SABUESO_TENANT_DIR; known are: "),
        ("gateway", {"otlp_endpoint": "collector"}, "settings: SABUESO_OTLP_ENDPOINT: "),
    ],
)
async def test_a_wrong_setting_ends_the_process_and_is_named(tmp_path, service, settings, says):
    async with process(service, tmp_path / "log", **settings) as running:
        assert await asyncio.wait_for(running.wait(), 30) == 78
    shown = (tmp_path / "log").read_text()
    assert shown.startswith(says)
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize(
    ("service", "settings", "variable"),
    [
        ("web_tool", {"tenants_dir": "."}, "SABUESO_TENANTS_DIR"),
        ("embedding", {"embedding_model": "onnx:./nowhere"}, "SABUESO_EMBEDDING_MODEL"),
        ("reranking", {"reranking_model": "onnx:./nowhere"}, "SABUESO_RERANKING_MODEL"),
    ],
)
async def test_a_setting_that_names_what_is_not_there_ends_the_process(tmp_path, service, settings, variable):
    async with process(service, tmp_path / "log", metrics_port=0, **settings) as running:
        assert await asyncio.wait_for(running.wait(), 30) == 78
    (line,) = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert (line["level"], line["message"], line["setting"]) == ("ERROR", "a setting is wrong", variable)
    assert line["reason"]


async def test_a_collector_that_is_away_holds_nobody_up(tmp_path):
    (port,) = ports.pick(1, ports.random_start())
    settings = {"port": port, "metrics_port": 0, "valkey_url": "memory:", "otlp_endpoint": "http://127.0.0.1:1"}
    async with process("tool_cache", tmp_path / "log", **settings) as running:
        await until(lambda: '"serving"' in (tmp_path / "log").read_text(), 30)
        running.terminate()
        assert await asyncio.wait_for(running.wait(), 5) == 0
