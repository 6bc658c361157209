"""A caller that hangs up is seen by everything below within a second: gateway, agent, model, tools, PostgreSQL."""

import asyncio
import hashlib
import json
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

import asyncpg
import httpx2
import openai
import pytest
import pytest_asyncio
import yaml
from prometheus_client import REGISTRY
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from services.gateway import server as gateway
from services.gateway.config import Settings as GatewaySettings
from services.orchestrator import server as orchestrator
from services.orchestrator.config import Settings as OrchestratorSettings
from services.reranking import server as reranking
from services.reranking.config import Settings as RerankingSettings
from services.retrieval import server as retrieval
from services.retrieval.config import Settings as RetrievalSettings
from services.runtime.server import Served
from services.runtime.tenants import SqlSource
from services.runtime.testing import SECRET, act_as, listening
from services.sql_tool import grants
from services.sql_tool import server as sql_tool
from services.sql_tool.config import Settings as SqlSettings
from services.tool_cache import server as tool_cache
from services.tool_cache.config import Settings as CacheSettings
from tests.integration.gateway_stack import key_of, serving
from tests.integration.passages import store_passage

pytestmark = pytest.mark.asyncio(loop_scope="module")

READER = "hang_up_reader"
SLOW = "SELECT count(*) FROM contracts a, contracts b, contracts c WHERE a.amount + b.amount + c.amount < 0"
CALLS = [("vector_search", {"query": "condiciones especiales"}), ("sql_query", {"query": SLOW})]


class WaitingEmbedder(embedding_pb2_grpc.EmbeddingServiceServicer):
    """Embeds nothing until its caller has gone."""

    def __init__(self):
        self.called = asyncio.Event()

    async def Describe(self, request, context):
        return embedding_pb2.DescribeResponse(model="waiting", dimensions=2, max_tokens=512)

    async def Embed(self, request, context):
        self.called.set()
        await asyncio.get_running_loop().create_future()


class Model:
    """An OpenAI-compatible server. Does what `mode` says, and notes when its caller has gone.

    `tools` calls both tools, `silent` sends not even a header, `midway` stops in the middle of its text.
    """

    def __init__(self):
        self.mode = "answer"
        self.called = asyncio.Event()
        self.gone = asyncio.Event()
        routes = [Route("/v1/models", self.models), Route("/v1/chat/completions", self.complete, methods=["POST"])]
        self.app = Starlette(routes=routes)

    def begin(self, mode):
        self.mode = mode
        self.called.clear()
        self.gone.clear()

    async def models(self, request):
        return JSONResponse({"object": "list", "data": [{"id": "llama"}]})

    async def complete(self, request):
        streamed = (await request.json()).get("stream")
        if self.mode == "silent" or (self.mode == "midway" and not streamed):
            self.called.set()
            while (await request.receive())["type"] != "http.disconnect":
                pass
            self.gone.set()
        return StreamingResponse(self._turn(), media_type="text/event-stream")

    async def _turn(self):
        if self.mode == "tools":
            yield event({"role": "assistant", "content": "", "tool_calls": [*map(as_call, range(2), CALLS)]})
            yield event({}, "tool_calls")
        elif self.mode == "midway":
            yield event({"role": "assistant", "content": "Son varios "})
            self.called.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.gone.set()
        else:
            yield event({"role": "assistant", "content": "Son varios."})
            yield event({}, "stop")
        yield b"data: [DONE]\n\n"


def as_call(index, call):
    name, arguments = call
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": index, "id": f"call-{index}", "type": "function", "function": function}


def event(delta, finish=None):
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "llama",
                                   "choices": choices}).encode() + b"\n\n"  # fmt: skip


@dataclass
class World:
    """All that a test may look at."""

    url: str
    model: Model
    embedder: WaitingEmbedder
    admin: asyncpg.Connection

    async def statements(self):
        return await self.admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND state = 'active'", READER
        )


async def make_database(postgres_server):
    """A table for a slow statement, and the tenant's reader of it; answers the tenant's `sql`."""
    admin = await asyncpg.connect(postgres_server.dsn())
    await admin.execute("CREATE DATABASE hang_up")
    await admin.close()
    admin = await asyncpg.connect(postgres_server.dsn("hang_up"))
    await admin.execute("""
        CREATE TABLE contracts (id text PRIMARY KEY, amount numeric);
        INSERT INTO contracts SELECT 'CT-' || g, g FROM generate_series(1, 1000) g;
        ANALYZE;
    """)
    sql = {"dsn_secret": "acme-dsn", "tables": {"contracts": {"columns": {"id": {}, "amount": {}}}}}
    for statement in grants.statements(SqlSource.model_validate(sql), READER):
        await admin.execute(statement)
    await admin.execute(f"ALTER ROLE {READER} PASSWORD 'pass'")
    return admin, sql


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(postgres_server, valkey_url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hang_up")
    admin, sql = await make_database(postgres_server)
    digest = hashlib.sha256(key_of("acme").encode()).hexdigest()
    tenant = {"id": "acme", "sql": sql, "keys": [{"id": "all", "sha256": digest}],
              "limits": {"concurrent_requests": 1, "requests_per_minute": 0}}  # fmt: skip
    (folder / "acme.yaml").write_text(yaml.safe_dump(tenant))
    (folder / "acme-dsn").write_text(postgres_server.dsn("hang_up", READER, "pass"))
    model, embedder = Model(), WaitingEmbedder()
    shared = {"identity_secret": SECRET}
    async with AsyncExitStack() as stack:
        start = stack.enter_async_context
        stack.push_async_callback(admin.close)
        embedding = Served(
            embedder,
            embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server,
            embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"],
        )
        retrieving = RetrievalSettings(
            vector_store="memory:",
            embedding_address=await start(listening(embedding)),
            reranking_address=await start(
                listening(reranking.build(RerankingSettings(reranking_model="overlap", **shared)))
            ),
            **shared,
        )
        querying = SqlSettings(
            tenants_dir=folder, secrets_dir=folder, max_cost=1e12, statement_timeout_seconds=60, **shared
        )
        (sql_served,) = await sql_tool.build(querying)
        door = gateway.listen("127.0.0.1", 0)
        retrieval_address = await start(listening(retrieval.build(retrieving)))
        act_as("acme")
        await store_passage(retrieval_address, "waiting", 2)
        running = OrchestratorSettings(
            model_url=f"http://127.0.0.1:{door.getsockname()[1]}/v1",
            model_name="llama",
            retrieval_address=retrieval_address,
            sql_tool_address=await start(listening(sql_served)),
            tool_cache_address=await start(listening(tool_cache.build(CacheSettings(valkey_url="memory:", **shared)))),
            tenants_dir=folder,
            sql_query_timeout_seconds=60,
            vector_search_timeout_seconds=60,
            **shared,
        )
        model_url = await start(serving(model.app))
        answering = GatewaySettings(
            orchestrator_address=await start(listening(orchestrator.build(running))),
            model_url=f"{model_url}/v1",
            tenants_dir=folder,
            valkey_url=valkey_url,
            **shared,
        )
        built = await start(gateway.build(answering))
        yield World(await start(serving(built.app, door)), model, embedder, admin)


def body_of(model, stream):
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": "¿Cuántos contratos hay?"}]}


async def whole(url, model):
    headers = {"authorization": f"Bearer {key_of('acme')}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=30, trust_env=False) as http:
        return await http.post("/v1/chat/completions", json=body_of(model, False))


async def streamed(url, model):
    headers = {"authorization": f"Bearer {key_of('acme')}"}
    async with (
        httpx2.AsyncClient(base_url=url, headers=headers, timeout=30, trust_env=False) as http,
        http.stream("POST", "/v1/chat/completions", json=body_of(model, True)) as response,
    ):
        async for _ in response.aiter_raw():
            pass


async def openai_streamed(url, model):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key_of("acme"), max_retries=0, timeout=30) as client:
        async with await client.chat.completions.create(**body_of(model, True)) as chunks:
            async for _ in chunks:
                pass


CLIENTS = pytest.mark.parametrize("client", [whole, streamed, openai_streamed])


def cancelled(*methods):
    """How often each method's call was cancelled, as the services counted it."""
    labels = {"service": "test", "code": "CANCELLED"}
    name = "sabueso_call_duration_seconds_count"
    return {method: REGISTRY.get_sample_value(name, labels | {"method": method}) or 0 for method in methods}


async def within(seconds, reached):
    """Waits until `reached()`; answers how long it took."""
    started = time.monotonic()
    async with asyncio.timeout(seconds):
        while not await reached():
            await asyncio.sleep(0.01)
    return time.monotonic() - started


@CLIENTS
async def test_a_hang_up_ends_the_run_both_tools_and_the_statement_at_once(world, client):
    world.model.begin("tools")
    world.embedder.called.clear()
    methods = ("Run", "Query", "Search", "Embed")
    before = cancelled(*methods)
    asking = asyncio.create_task(client(world.url, "sabueso"))
    await asyncio.wait_for(world.embedder.called.wait(), 30)

    async def runs():
        return await world.statements() == 1

    async def all_over():
        return await world.statements() == 0 and all(cancelled(*methods)[one] == before[one] + 1 for one in methods)

    await within(30, runs)
    assert cancelled(*methods) == before
    asking.cancel()
    await within(30, all_over)

    # The tenant may have one request at a time and the database works on: nothing is left behind.
    world.model.begin("answer")
    answer = await whole(world.url, "sabueso")
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "Son varios."


@CLIENTS
@pytest.mark.parametrize("mode", ["silent", "midway"])
async def test_a_hang_up_ends_the_agents_model_turn_at_once(world, client, mode):
    world.model.begin(mode)
    before = cancelled("Run")
    asking = asyncio.create_task(client(world.url, "sabueso"))
    await asyncio.wait_for(world.model.called.wait(), 30)
    asking.cancel()

    async def over():
        return world.model.gone.is_set() and cancelled("Run")["Run"] == before["Run"] + 1

    await within(30, over)


@CLIENTS
@pytest.mark.parametrize("mode", ["silent", "midway"])
async def test_a_hang_up_passes_through_to_a_model_that_is_asked_directly(world, client, mode):
    world.model.begin(mode)
    asking = asyncio.create_task(client(world.url, "llama"))
    await asyncio.wait_for(world.model.called.wait(), 30)
    asking.cancel()
    await asyncio.wait_for(world.model.gone.wait(), 1)
