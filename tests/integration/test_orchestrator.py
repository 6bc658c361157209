"""The orchestrator on real loopback servers: tools over gRPC, the model over HTTP, streaming as vLLM does."""

import asyncio
import json
import re
import socket
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
import uvicorn
import yaml
from google.protobuf.duration_pb2 import Duration
from grpc import aio
from prometheus_client import REGISTRY
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from sabueso.orchestrator.v1 import orchestrator_pb2_grpc as rpc
from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from sabueso.sql_tool.v1 import sql_tool_pb2, sql_tool_pb2_grpc
from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from sabueso.web_tool.v1 import web_tool_pb2, web_tool_pb2_grpc
from services.orchestrator import server
from services.orchestrator.config import Settings
from services.runtime import context, errors
from services.runtime.channels import connect
from services.runtime.server import Served
from services.runtime.testing import SECRET, SIGNER, act_as, listening
from services.tool_cache import server as tool_cache_server
from services.tool_cache.config import Settings as CacheSettings
from services.understudy import server as understudy_server
from services.understudy.config import Settings as UnderstudySettings
from tests.integration.tool_cache_client import counted

QUESTION = "¿Cuántos contratos de más de 100k€ firmamos en 2025, y qué condiciones se repiten?"
SEARCH = ("vector_search", '{"query": "condiciones especiales", "top_k": 3}')
COUNT = ("sql_query", '{"query": "SELECT count(*), sum(amount) FROM contracts WHERE amount > $1", "params": [100000]}')
WEB = ("web_search", '{"query": "IPC zona euro"}')


class Tools:
    """What the in-test tool servers do, and what was asked of them."""

    def __init__(self):
        self.asked = []
        self.tenants = set()
        self.failing = {}
        self.hanging = set()
        self.cancelled = set()
        self.values = {}
        self.shelf = {}
        self.collections = ["contracts"]
        self.chosen = None
        self.verified = []
        self.sources = ["main"]
        self.volatile = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.put = asyncio.Event()
        self.released = asyncio.Event()
        self.found = {}

    async def answer(self, method, request=None):
        self.asked.append((method, request))
        self.tenants.add(context.tenant())
        if method in self.failing:
            raise self.failing[method]
        if method in self.hanging:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled.add(method)
                raise

    def count(self, method):
        return [name for name, _ in self.asked].count(method)


class Retrieval(retrieval_pb2_grpc.RetrievalServiceServicer):
    """One document."""

    def __init__(self, tools):
        self.tools = tools

    async def Search(self, request, context):
        await self.tools.answer("Search", request)
        if self.tools.shelf:
            return self._from_shelf(request)
        passage = retrieval_pb2.Passage(
            document_id="c-7",
            chunk_id="c-7#1",
            title="Contrato 7",
            source="c7.pdf",
            page=3,
            section="8.3",
            language="es",
        )
        passage.text = "Penalización por retraso del 2 % mensual."
        response = retrieval_pb2.SearchResponse(passages=[passage], degraded=["reranking"])
        if request.route and self.tools.chosen is not None:
            for name in self.tools.collections:
                response.routed.add(name=name, score=0.5, chosen=name in self.tools.chosen)
        return response

    def _from_shelf(self, request):
        """The best two texts by the words that they share with the query."""

        def shared(name):
            words = [set(re.findall(r"\w{4,}", text.lower())) for text in (request.query, self.tools.shelf[name])]
            return len(words[0] & words[1])

        best = sorted((name for name in self.tools.shelf if shared(name)), key=shared, reverse=True)[:2]
        texts = [(name, self.tools.shelf[name]) for name in best]
        made = [
            retrieval_pb2.Passage(document_id=one, chunk_id=f"{one}#1", title=one, text=text) for one, text in texts
        ]
        return retrieval_pb2.SearchResponse(passages=made)

    async def ListCollections(self, request, context):
        await self.tools.answer("ListCollections")
        return retrieval_pb2.ListCollectionsResponse(
            collections=[
                retrieval_pb2.Collection(name=name, description="Contratos", document_count=1)
                for name in self.tools.collections
            ]
        )


class Sql(sql_tool_pb2_grpc.SqlToolServiceServicer):
    """One row."""

    def __init__(self, tools):
        self.tools = tools

    async def Query(self, request, context):
        await self.tools.answer("Query", request)
        await self.tools.gate.wait()
        cell = sql_tool_pb2.Cell
        return sql_tool_pb2.QueryResponse(
            result=sql_tool_pb2.ResultSet(
                columns=[sql_tool_pb2.Column(name=name) for name in ("count", "total", "big", "nan", "tags", "none")],
                rows=[
                    sql_tool_pb2.Row(
                        cells=[
                            cell(integer_value=47),
                            cell(decimal_value="8300000.00"),
                            cell(integer_value=2**53 + 1),
                            cell(real_value=float("nan")),
                            cell(json_value='["a"]'),
                            cell(),
                        ]
                    )
                ],
                tables=["public.contracts"],
                source=request.source or self.tools.sources[0],
                volatile=self.tools.volatile,
            )
        )

    async def DescribeSchema(self, request, context):
        await self.tools.answer("DescribeSchema", request)
        return sql_tool_pb2.DescribeSchemaResponse(
            text="CREATE TABLE contracts (\n  id text\n);",
            version="1",
            tables=["public.contracts"],
            sources=[sql_tool_pb2.Source(name=name) for name in self.tools.sources],
        )

    async def ListVerifiedQueries(self, request, context):
        await self.tools.answer("ListVerifiedQueries")
        return sql_tool_pb2.ListVerifiedQueriesResponse(queries=self.tools.verified)

    async def RunVerifiedQuery(self, request, context):
        await self.tools.answer("RunVerifiedQuery", request)
        arguments = json.loads(request.arguments_json)
        if not isinstance(arguments.get("year"), int):
            raise errors.InvalidField("`year` must be an integer.", field="arguments.year")
        row = sql_tool_pb2.Row(cells=[sql_tool_pb2.Cell(decimal_value="8300000.00")])
        result = sql_tool_pb2.ResultSet(
            columns=[sql_tool_pb2.Column(name="total")], rows=[row], tables=["public.contracts"], source="main"
        )
        return sql_tool_pb2.RunVerifiedQueryResponse(
            result=result, sql="SELECT sum(amount) FROM contracts WHERE year = $1", params_json=f"[{arguments['year']}]"
        )


class Web(web_tool_pb2_grpc.WebToolServiceServicer):
    """One page."""

    def __init__(self, tools):
        self.tools = tools

    async def Search(self, request, context):
        await self.tools.answer("WebSearch", request)
        return web_tool_pb2.SearchResponse(
            results=[
                web_tool_pb2.Result(url="https://ec.europa.eu", title="IPC", snippet="2,1 %", published="2025-11-01")
            ]
        )


class Cache(tool_cache_pb2_grpc.ToolCacheServiceServicer):
    """A cache in a dictionary."""

    def __init__(self, tools):
        self.tools = tools

    async def BatchGet(self, request, context):
        await self.tools.answer("BatchGet", request)
        known = [self.tools.values.get(call.SerializeToString(deterministic=True)) for call in request.calls]
        token = "token" if request.lease else ""
        return tool_cache_pb2.BatchGetResponse(
            lookups=[
                tool_cache_pb2.Lookup(snapshot=7, lease_token=token)
                if value is None
                else tool_cache_pb2.Lookup(hit=True, value=value, snapshot=7, **self.tools.found)
                for value in known
            ]
        )

    async def Release(self, request, context):
        await self.tools.answer("Release", request)
        self.tools.released.set()
        return tool_cache_pb2.ReleaseResponse()

    async def BatchPut(self, request, context):
        await self.tools.answer("BatchPut", request)
        for entry in request.entries:
            self.tools.values[entry.call.SerializeToString(deterministic=True)] = entry.value
        self.tools.put.set()
        return tool_cache_pb2.BatchPutResponse(stored_count=len(request.entries))


class HttpModel:
    """An OpenAI-compatible server that plays back replies. A reply is a list of chunks, a status code, or "hang"."""

    def __init__(self):
        self.replies = []
        self.requests = []
        self.keys = []
        self.hanging = asyncio.Event()
        self.disconnected = asyncio.Event()

    async def complete(self, request):
        self.keys.append(request.headers.get("authorization", ""))
        self.requests.append(await request.json())
        reply = self.replies.pop(0)
        if isinstance(reply, int):
            headers = {"retry-after": "7"} if reply == 429 else {}
            return JSONResponse({"error": {"message": "prompt: secret"}}, status_code=reply, headers=headers)
        return StreamingResponse(self._stream(reply), media_type="text/event-stream")

    async def _stream(self, reply):
        try:
            for chunk in reply:
                if chunk == "hang":
                    self.hanging.set()
                    await asyncio.sleep(60)
                yield chunk if isinstance(chunk, bytes) else b"data: " + json.dumps(chunk).encode() + b"\n\n"
                await asyncio.sleep(0)
            yield b"data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.disconnected.set()
            raise

    def observations(self):
        """What the tools said, as the model saw it last."""
        return [json.loads(one["content"]) for one in self.requests[-1]["messages"] if one["role"] == "tool"]


def chunk(finish=None, **delta):
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def usage(prompt=100, completion=20):
    tokens = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return chunk() | {"choices": [], "usage": tokens}


def calling(*calls, content=""):
    """Tool calls in pieces: the name first, then the arguments a few characters at a time."""
    chunks = [chunk(role="assistant", content=content)]
    for index, (name, arguments) in enumerate(calls):
        head = {"index": index, "id": f"call-{index}", "type": "function", "function": {"name": name, "arguments": ""}}
        chunks.append(chunk(tool_calls=[head]))
        for piece in re.findall(r"(?s).{1,9}", arguments):
            chunks.append(chunk(tool_calls=[{"index": index, "function": {"arguments": piece}}]))
    return [*chunks, chunk("tool_calls", content=""), usage()]


def saying(text):
    pieces = [chunk(content=piece) for piece in re.findall(r"(?s).{1,6}", text)]
    return [chunk(role="assistant", content=""), *pieces, chunk("stop"), usage()]


@asynccontextmanager
async def http(model):
    sock = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/v1/chat/completions", model.complete, methods=["POST"])])
    web = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_config=None))
    running = asyncio.create_task(web.serve(sockets=[sock]))
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
    finally:
        web.should_exit = True
        web.force_exit = True
        await running


def served(servicer, add, module, name):
    return Served(servicer, add, module.DESCRIPTOR.services_by_name[name])


class World:
    """Everything that runs in a test."""

    def __init__(self, tools, model, stub, address):
        self.tools, self.model, self.stub, self.address = tools, model, stub, address

    async def ask(self, question=QUESTION, *, history=(), **options):
        request = pb.RunRequest(question=question, history=history, options=pb.Options(**options))
        return [response async for response in self.stub.Run(request, timeout=20)]


@asynccontextmanager
async def world(tmp_path, *, cache_address=None, model_url=None, tenant=None, **settings):
    sql = {"dsn_secret": "dsn", "tables": {"contracts": {"columns": {"id": {}}}}}
    (tmp_path / "acme.yaml").write_text(yaml.safe_dump({"id": "acme", "sql": sql} | (tenant or {})))
    (tmp_path / "vault.yaml").write_text(yaml.safe_dump({"id": "vault", "web": {"sovereign": True}}))
    tools, model = Tools(), HttpModel()
    retrieval = served(
        Retrieval(tools),
        retrieval_pb2_grpc.add_RetrievalServiceServicer_to_server,
        retrieval_pb2,
        "RetrievalService",
    )
    sql_tool = served(
        Sql(tools), sql_tool_pb2_grpc.add_SqlToolServiceServicer_to_server, sql_tool_pb2, "SqlToolService"
    )
    web_tool = served(
        Web(tools), web_tool_pb2_grpc.add_WebToolServiceServicer_to_server, web_tool_pb2, "WebToolService"
    )
    cache = served(
        Cache(tools), tool_cache_pb2_grpc.add_ToolCacheServiceServicer_to_server, tool_cache_pb2, "ToolCacheService"
    )
    async with AsyncExitStack() as stack:
        start = stack.enter_async_context
        wired = Settings(
            identity_secret=SECRET,
            model_url=model_url or await start(http(model)),
            model_name="llama",
            retrieval_address=await start(listening(retrieval)),
            sql_tool_address=await start(listening(sql_tool)),
            web_tool_address=await start(listening(web_tool)),
            tool_cache_address=cache_address or await start(listening(cache)),
            tenants_dir=tmp_path,
            # The model's replies are written turn by turn: none is left out unless a test asks for it.
            **{"first_calls_seconds": 0, **settings},
        )
        orchestrator = server.build(wired)
        address = await start(listening(orchestrator))
        act_as("acme")
        channel = await start(connect(address, orchestrator.descriptor))
        yield World(tools, model, rpc.OrchestratorServiceStub(channel), address)


def of(responses, kind):
    return [getattr(one, kind) for one in responses if one.WhichOneof("event") == kind]


def text_of(responses):
    return "".join(one.text for one in of(responses, "text_delta"))


def degraded(responses):
    """What was skipped. Whether the cache's answer comes within its few milliseconds is up to the machine."""
    return {one.service for one in of(responses, "degraded")} - {"tool_cache"}


async def test_a_question_is_answered_from_documents_tables_and_web_with_citations(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [
            calling(SEARCH, COUNT, WEB, content="Busco las tres cosas."),
            saying("Son 47 contratos por 8.300.000 € [2]; se repite una penalización [1]. IPC: 2,1 % [3]. Falso [9]."),
        ]
        responses = await it.ask()
    assert (responses[0].chosen.strategy, responses[0].chosen.reason) == ("react", "there is no router")
    assert responses[1].thought.text == "Busco las tres cosas."
    started = of(responses, "tool_call_started")
    assert [(one.tool, one.arguments_json) for one in started] == [SEARCH, COUNT, WEB]
    finished = of(responses, "tool_call_finished")
    assert {(one.tool, one.status, one.summary) for one in finished} == {
        ("vector_search", pb.TOOL_CALL_STATUS_OK, "1 passage"),
        ("sql_query", pb.TOOL_CALL_STATUS_OK, "1 row"),
        ("web_search", pb.TOOL_CALL_STATUS_OK, "1 page"),
    }
    assert text_of(responses).endswith("IPC: 2,1 % [3]. Falso .")
    sql, document, web = of(responses, "citation")
    assert [sql.mark, document.mark, web.mark] == [2, 1, 3]
    assert sql.sql.statement.startswith("SELECT count(*)")
    assert sql.sql.params_json == "[100000]"
    assert sql.sql.row_count == 1
    assert document.document.quote == "Penalización por retraso del 2 % mensual."
    assert document.document.page == 3
    assert web.web.url == "https://ec.europa.eu"
    assert degraded(responses) == {"reranking"}
    end = responses[-1].finished
    assert (end.finish, end.reason, end.iterations, end.strategy) == (pb.FINISH_ANSWERED, "", 2, "react")
    assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (200, 40)
    parts = [end.timings.model, end.timings.tools, end.timings.cache, end.timings.overhead]
    assert sum(part.ToMilliseconds() for part in parts) <= end.timings.total.ToMilliseconds()
    assert it.tools.tenants == {"acme"}


async def test_what_the_model_is_sent(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(SEARCH, COUNT), saying("47 [2].")]
        await it.ask(temperature=0.5, max_output_tokens=2000)
        first, second = it.model.requests
        observations = it.model.observations()
        key = it.model.keys[0]
    assert first["model"] == "llama"
    assert first["stream"] is True
    assert first["stream_options"] == {"include_usage": True}
    assert (first["temperature"], first["max_tokens"]) == (0.5, 2000)
    assert [one["role"] for one in first["messages"]] == ["system", "system", "user"]
    tools = {one["function"]["name"]: one["function"] for one in first["tools"]}
    assert list(tools) == ["vector_search", "sql_query", "web_search", "calculate"]
    assert tools["sql_query"]["description"].endswith("CREATE TABLE contracts (\n  id text\n);")
    assert SIGNER.verify(key.removeprefix("Bearer ")).tenant == "acme"
    assert second["messages"][:3] == first["messages"]
    assert second["tools"] == first["tools"]
    added = second["messages"][3:]
    assert [one["role"] for one in added] == ["assistant", "tool", "tool"]
    assert added[0]["tool_calls"][1]["function"] == {"name": COUNT[0], "arguments": COUNT[1]}
    assert [one["tool_call_id"] for one in added[1:]] == ["call-0", "call-1"]
    assert observations[0]["passages"][0]["n"] == 1
    said = {
        "n": 2,
        "columns": ["count", "total", "big", "nan", "tags", "none"],
        "rows": [[47, "8300000.00", str(2**53 + 1), "nan", ["a"], None]],
        "row_count": 1,
        "truncated": False,
    }
    assert said.items() <= observations[1].items()


async def test_a_key_of_its_own_replaces_the_identity(tmp_path):
    async with world(tmp_path, model_api_key="sk-vllm") as it:
        it.model.replies = [saying("Hola.")]
        await it.ask()
        assert it.model.keys == ["Bearer sk-vllm"]


@pytest.mark.parametrize("arguments", ['{"query": "SELECT', "no json at all", ""])
async def test_malformed_arguments_are_told_and_may_be_sent_back(tmp_path, arguments):
    async with world(tmp_path) as it:
        it.model.replies = [calling(("sql_query", arguments)), calling(COUNT), saying("47 [1].")]
        responses = await it.ask()
        assert "error" in it.model.observations()[0]
        first = next(one for one in it.model.requests[-1]["messages"] if one["role"] == "assistant")
        sent_back = first["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent_back), dict)
    assert [one.status for one in of(responses, "tool_call_finished")] == [
        pb.TOOL_CALL_STATUS_ERROR,
        pb.TOOL_CALL_STATUS_OK,
    ]
    assert responses[-1].finished.finish == pb.FINISH_ANSWERED


async def test_servers_that_number_every_call_0_are_understood(tmp_path):
    whole = [
        {"index": 0, "id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate((SEARCH, COUNT))
    ]
    async with world(tmp_path) as it:
        it.model.replies = [
            [chunk(role="assistant", content=None, tool_calls=[one]) for one in whole] + [chunk("tool_calls")],
            saying("47 [2]."),
        ]
        responses = await it.ask()
    assert [one.tool for one in of(responses, "tool_call_started")] == ["vector_search", "sql_query"]
    assert responses[-1].finished.usage.prompt_tokens > 100  # estimated where the server did not say


async def test_an_empty_reply_gets_one_more_turn_without_tools(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT), saying(""), saying("47 [1].")]
        responses = await it.ask()
        assert [one.get("tool_choice") for one in it.model.requests] == [None, None, "none"]
        assert it.model.requests[-1]["tools"] == it.model.requests[0]["tools"]  # the prompt begins as before
    assert text_of(responses) == "47 [1]."


async def test_wrong_sql_goes_to_the_model_with_its_hint_and_degrades_nothing(tmp_path):
    async with world(tmp_path) as it:
        it.tools.failing["Query"] = errors.SqlError(
            "There is no column `totl`.", hint="Perhaps `total`.", code="unknown_column", position="8"
        )
        it.model.replies = [calling(COUNT), saying("No he podido.")]
        responses = await it.ask()
        assert it.model.observations() == [
            {
                "error": "There is no column `totl`.",
                "tool": "sql_query",
                "code": "unknown_column",
                "position": 8,
                "hint": "Perhaps `total`.",
            }
        ]
    assert degraded(responses) == set()
    assert (responses[-1].finished.finish, responses[-1].finished.reason) == (pb.FINISH_REFUSED, "no_evidence")


async def test_a_tool_that_does_not_answer_makes_the_answer_partial(tmp_path):
    async with world(tmp_path, sql_query_timeout_seconds=0.3) as it:
        it.tools.hanging.add("Query")
        it.tools.failing["WebSearch"] = RuntimeError("secret")
        it.model.replies = [calling(SEARCH, COUNT, WEB), saying("Una penalización [1]. Sin cifras ni web.")]
        responses = await it.ask()
        observed = it.model.observations()
    assert observed[1:] == [
        {"error": "timeout after 0.3s", "tool": "sql_query"},
        {"error": "web_tool failed", "tool": "web_search"},
    ]
    assert degraded(responses) == {"reranking", "sql_tool", "web_tool"}
    assert (responses[-1].finished.finish, responses[-1].finished.reason) == (pb.FINISH_PARTIAL, "tool_failed")


async def test_a_lost_sql_tool_is_missing_named_and_used_again(tmp_path):
    async with world(tmp_path) as it:
        it.tools.failing["DescribeSchema"] = errors.DependencyFailed("The database does not answer.")
        it.model.replies = [saying("Hola."), saying("Hola.")]
        responses = await it.ask()
        assert [one["function"]["name"] for one in it.model.requests[0]["tools"]] == [
            "vector_search",
            "web_search",
            "calculate",
        ]
        assert responses[1].degraded == pb.Degraded(service="sql_tool", reason="The database does not answer")
        del it.tools.failing["DescribeSchema"]
        for _ in range(60):
            listed = await it.stub.ListTools(pb.ListToolsRequest())
            if len(listed.tools) == 4:
                break
            await asyncio.sleep(0.1)
        assert [one.name for one in listed.tools] == ["vector_search", "sql_query", "web_search", "calculate"]


async def test_results_are_kept_and_used_again(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT, WEB), saying("47 [1]."), calling(COUNT, WEB), saying("47 [1].")]
        await it.ask()
        await asyncio.wait_for(it.tools.put.wait(), 20)
        responses = await it.ask()
    assert it.tools.count("Query") == it.tools.count("WebSearch") == 1
    assert (it.tools.count("BatchGet"), it.tools.count("BatchPut")) == (2, 1)
    assert [one.from_cache for one in of(responses, "tool_call_finished")] == [True, True]
    assert responses[-1].finished.cache_hit_count == 2
    assert of(responses, "citation")[0].sql.row_count == 1


async def test_degraded_results_are_not_kept(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(SEARCH), saying("Una penalización [1].")]
        await it.ask()
        await asyncio.sleep(0.05)
    assert it.tools.count("BatchPut") == 0


@pytest.mark.parametrize(
    ("mode", "gets", "puts"), [(pb.CACHE_MODE_REFRESH, 1, 1), (pb.CACHE_MODE_OFF, 0, 0), (pb.CACHE_MODE_USE, 1, 1)]
)
async def test_the_cache_mode_is_respected(tmp_path, mode, gets, puts):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT), saying("47 [1].")]
        await it.ask(cache=mode)
        await asyncio.sleep(0.1)
    assert (it.tools.count("BatchGet"), it.tools.count("BatchPut")) == (gets, puts)


async def test_a_lost_cache_costs_a_note_and_little_time(tmp_path):
    async with world(tmp_path, cache_address="127.0.0.1:1") as it:
        it.model.replies = [calling(COUNT), calling(WEB), saying("47 [1].")]
        responses = await it.ask()
    assert [one.service for one in of(responses, "degraded")] == ["tool_cache"]
    end = responses[-1].finished
    assert end.finish == pb.FINISH_ANSWERED
    assert end.timings.cache.ToMilliseconds() < 5_000


async def test_who_hangs_up_cancels_the_tools_within_a_second(tmp_path):
    async with world(tmp_path) as it:
        it.tools.hanging |= {"Search", "Query"}
        it.model.replies = [calling(SEARCH, COUNT)]
        call = it.stub.Run(pb.RunRequest(question=QUESTION), timeout=20)
        async for response in call:
            if response.WhichOneof("event") == "tool_call_started":
                break
        while not (it.tools.count("Query") and it.tools.count("Search")):
            await asyncio.sleep(0.01)
        call.cancel()
        async with asyncio.timeout(10):
            while it.tools.cancelled != {"Search", "Query"}:
                await asyncio.sleep(0.01)


async def test_who_hangs_up_ends_the_models_stream_within_a_second(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT), [chunk(content="Son 47 "), "hang"]]
        call = it.stub.Run(pb.RunRequest(question=QUESTION), timeout=20)
        async for response in call:
            if response.WhichOneof("event") == "text_delta":
                break
        await asyncio.wait_for(it.model.hanging.wait(), 20)
        call.cancel()
        await asyncio.wait_for(it.model.disconnected.wait(), 20)


async def test_the_deadline_brings_a_partial_answer_from_the_evidence(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT), ["hang"], ["hang"]]
        responses = await it.ask(deadline=Duration(seconds=5))
    assert "No he podido terminar la respuesta (se ha agotado el tiempo)" in text_of(responses)
    assert "count = 47" in text_of(responses)
    end = responses[-1].finished
    assert (end.finish, end.reason) == (pb.FINISH_PARTIAL, "deadline")
    assert of(responses, "citation")[0].mark == 1


async def test_the_callers_own_deadline_counts_too(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT), ["hang"], ["hang"]]
        call = it.stub.Run(pb.RunRequest(question=QUESTION), timeout=4)
        responses = [response async for response in call]
    assert responses[-1].finished.reason == "deadline"


async def failure(call):
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return errors.from_rpc(caught.value, "orchestrator")


@pytest.mark.parametrize(
    ("replies", "kind", "calls"),
    [
        ([500, 503], errors.DependencyFailed, 2),
        ([400], errors.DependencyFailed, 1),
        ([[b"data: {broken\n\n"]], errors.DependencyFailed, 1),
        ([[{"error": {"message": "out of memory"}}]], errors.DependencyFailed, 1),
        ([[chunk(content="Son 4")]], errors.DependencyFailed, 1),
        ([429], errors.LimitExceeded, 1),
    ],
)
async def test_a_failing_model_is_named_without_its_words(tmp_path, replies, kind, calls):
    async with world(tmp_path) as it:
        it.model.replies = list(replies)
        error = await failure(it.ask())
        assert len(it.model.requests) == calls
    assert type(error) is kind
    assert "secret" not in error.message
    assert error.metadata in ({"dependency": "model"}, {"setting": "model"})
    if kind is errors.LimitExceeded:
        assert error.retry_after.total_seconds() == 7


async def test_a_model_gets_one_more_attempt(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [500, saying("Hola.")]
        assert text_of(await it.ask()) == "Hola."


async def test_a_model_that_fails_after_evidence_leaves_a_partial_answer(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT), 500, 500]
        responses = await it.ask()
    assert degraded(responses) == {"model"}
    assert "count = 47" in text_of(responses)
    assert responses[-1].finished.finish == pb.FINISH_PARTIAL


WRONG = [
    (pb.RunRequest(question=QUESTION, options=pb.Options(**options)), field, says)
    for options, field, says in [
        ({"strategy": "magic"}, "options.strategy", "auto, react, router, rag, plan"),
        ({"reflection": "deep"}, "options.reflection", "off, mark, drop"),
        ({"query_transform": "rephrase"}, "options.query_transform", "none, hyde, multi_query"),
        ({"max_iterations": 11}, "options.max_iterations", "1 to 10"),
        ({"max_iterations": -1}, "options.max_iterations", "1 to 10"),
        ({"tools": ["calculator"]}, "options.tools", "vector_search, sql_query, web_search"),
        ({"deadline": Duration(seconds=601)}, "options.deadline", "600"),
        ({"deadline": Duration(seconds=-1)}, "options.deadline", "above 0"),
        ({"max_output_tokens": 9000}, "options.max_output_tokens", "8192"),
        ({"temperature": 3.0}, "options.temperature", "0 to 2"),
        ({"temperature": float("nan")}, "options.temperature", "0 to 2"),
        ({"cache": 9}, "options.cache", "9"),
        # What is repeated of it must find room in the metadata of the call.
        ({"strategy": "x" * 20_000}, "options.strategy", "xxx…` is not"),
        ({"reflection": "x" * 20_000}, "options.reflection", "xxx…` is no"),
        ({"query_transform": "x" * 20_000}, "options.query_transform", "xxx…` is not"),
        ({"tools": ["x" * 20_000]}, "options.tools", "xxx…` is not"),
    ]
] + [
    (pb.RunRequest(question="  "), "question", "empty"),
    (pb.RunRequest(question="x" * 32_769), "question", "32768"),
    (pb.RunRequest(question="x", history=[pb.Message(role="tool")]), "history[0].role", "system, user, assistant"),
    (pb.RunRequest(question="x", history=[pb.Message(role="x" * 20_000)]), "history[0].role", "xxx…` is not"),
    (pb.RunRequest(question="x", history=[pb.Message(role="system", text="x" * 40_000)]), "history", "32768"),
]


async def test_wrong_requests_are_refused_by_name(tmp_path):
    async with world(tmp_path) as it:
        for request, field, says in WRONG:
            error = await failure(anext(aiter(it.stub.Run(request, timeout=20))))
            assert isinstance(error, errors.InvalidField)
            assert error.metadata == {"field": field}
            assert says in error.message


async def test_questions_above_the_ceiling_are_refused_and_the_place_is_given_back(tmp_path):
    async with world(tmp_path, max_runs=1) as it:
        it.model.replies = [["hang"], saying("Hola.")]
        first = it.stub.Run(pb.RunRequest(question=QUESTION), timeout=20)
        waiting = asyncio.ensure_future(anext(aiter(first)))
        await asyncio.wait_for(it.model.hanging.wait(), 20)
        error = await failure(it.ask())
        assert isinstance(error, errors.Overloaded)
        waiting.cancel()
        first.cancel()
        await asyncio.wait_for(it.model.disconnected.wait(), 20)
        assert text_of(await it.ask()) == "Hola."


async def test_an_unknown_collection_is_not_found(tmp_path):
    async with world(tmp_path) as it:
        error = await failure(it.ask(collections=["secret"]))
    assert isinstance(error, errors.NotFound)
    assert error.metadata == {"collection": "secret"}


async def test_wanted_collections_reach_every_search(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(SEARCH), saying("Una penalización [1].")]
        await it.ask(collections=["contracts"], tools=["vector_search"])
        assert [one["function"]["name"] for one in it.model.requests[0]["tools"]] == ["vector_search"]
    request = next(request for method, request in it.tools.asked if method == "Search")
    assert list(request.collections) == ["contracts"]
    assert request.top_k == 3


async def test_tools_are_listed_with_their_schemas(tmp_path):
    async with world(tmp_path) as it:
        tools = (await it.stub.ListTools(pb.ListToolsRequest())).tools
        act_as("vault")
        theirs = (await it.stub.ListTools(pb.ListToolsRequest())).tools
    assert [tool.name for tool in tools] == ["vector_search", "sql_query", "web_search", "calculate"]
    assert json.loads(tools[1].parameters_schema_json)["required"] == ["query"]
    assert [tool.name for tool in theirs] == ["vector_search", "calculate"]


async def test_a_tenant_that_is_not_known_is_refused(tmp_path):
    async with world(tmp_path) as it:
        act_as("nobody")
        with pytest.raises(aio.AioRpcError) as caught:
            await it.ask()
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_nothing_of_question_statement_or_answer_is_logged(tmp_path, caplog):
    caplog.set_level("INFO")
    async with world(tmp_path, sql_query_timeout_seconds=0.2) as it:
        it.tools.hanging.add("Query")
        it.model.replies = [calling(SEARCH, COUNT), 500, 500]
        await it.ask()
    logged = " ".join(str(vars(record)) for record in caplog.records if not record.name.startswith("uvicorn"))
    assert "a model turn failed" in logged
    for secret in ("contratos", "SELECT", "Penalización", "condiciones", "127.0.0.1"):
        assert secret not in logged


async def test_answers_and_calls_are_counted(tmp_path):
    def counted(name, **labels):
        return REGISTRY.get_sample_value(f"sabueso_orchestrator_{name}", labels) or 0

    def judged(valid):
        found = REGISTRY.collect()
        samples = (
            one for family in found for one in family.samples if one.name == "sabueso_orchestrator_model_calls_total"
        )
        return sum(one.value for one in samples if one.labels["valid"] == valid)

    def all_counted():
        return [
            counted("answers_total", strategy="react", finish="answered"),
            counted("tool_calls_total", tool="sql_query", status="ok"),
            counted("tool_calls_total", tool="unknown", status="not_made"),
            judged("true"),
            judged("false"),
            counted("overhead_seconds_count"),
        ]

    before = all_counted()
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT, ("no_such_tool", "{}")), saying("47 [1].")]
        await it.ask()
    assert [after - earlier for after, earlier in zip(all_counted(), before, strict=True)] == [1] * 6


@pytest.mark.parametrize("strategy", ["react", "rag", "auto"])
async def test_the_parts_of_the_time_add_up_to_a_millisecond(tmp_path, strategy):
    async with world(tmp_path) as it:
        it.model.replies = [calling(SEARCH, COUNT), saying("47 [2].")] if strategy != "rag" else [saying("Sí [1].")]
        timings = (await it.ask(strategy=strategy))[-1].finished.timings
    parts = [one.ToNanoseconds() for one in (timings.model, timings.tools, timings.cache, timings.overhead)]
    assert abs(sum(parts) - timings.total.ToNanoseconds()) < 1_000_000
    assert all(part > 0 for part in parts)


def searched(it):
    return [request for method, request in it.tools.asked if method == "Search"]


LONG = ("vector_search", '{"query": "¿Qué penalización hay por retraso en las entregas?", "top_k": 3}')


async def test_a_transformed_search_asks_the_model_for_json_and_tells_what_was_searched(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [
            calling(LONG),
            saying('{"paraphrases": ["multa por demora", "recargo por tardanza"]}'),
            saying("Hay una penalización [1]."),
        ]
        responses = await it.ask(query_transform="multi_query")
        written = it.model.requests[1]
        queries = [request.query for request in searched(it)]
    assert written["response_format"]["type"] == "json_schema"
    assert written["response_format"]["json_schema"]["schema"]["required"] == ["paraphrases"]
    assert "tools" not in written
    assert queries[0] == "¿Qué penalización hay por retraso en las entregas?"
    assert sorted(queries[1:]) == ["multa por demora", "recargo por tardanza"]
    [ended] = of(responses, "tool_call_finished")
    assert ended.queries == [*queries[:1], "multa por demora", "recargo por tardanza"]
    assert ended.query_transform == "multi_query"
    assert ended.summary == "1 passage; 3 queries (multi_query)"
    [citation] = of(responses, "citation")
    assert citation.document.chunk_id == "c-7#1"
    end = responses[-1].finished
    assert (end.iterations, end.usage.prompt_tokens, end.usage.completion_tokens) == (2, 300, 60)


async def test_a_hypothetical_passage_is_searched_by_meaning(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(LONG), saying('{"hypothetical_passage": "Se aplica un 2 %."}'), saying("Sí [1].")]
        await it.ask(query_transform="hyde")
        modes = {request.query: request.mode for request in searched(it)}
    assert modes["Se aplica un 2 %."] == retrieval_pb2.SEARCH_MODE_DENSE
    assert list(modes.values()).count(retrieval_pb2.SEARCH_MODE_UNSPECIFIED) == 1


async def test_the_setting_decides_where_the_request_does_not(tmp_path):
    async with world(tmp_path, query_transform="step_back") as it:
        it.model.replies = [calling(LONG), saying('{"broader_question": "¿Qué reglas hay?"}'), saying("Sí [1].")]
        await it.ask()
        assert len(searched(it)) == 2
        it.model.replies = [calling(LONG), saying("Sí [1].")]
        await it.ask(query_transform="none", cache=pb.CACHE_MODE_OFF)
        assert len(searched(it)) == 3


@pytest.mark.parametrize("failing", [[500, 503], [429], [saying("lo siento")], [[chunk(content="{")]]])
async def test_a_model_that_cannot_write_queries_degrades_the_search_and_not_the_answer(tmp_path, failing):
    async with world(tmp_path) as it:
        it.model.replies = [calling(LONG), *failing, saying("Hay una penalización [1].")]
        responses = await it.ask(query_transform="decompose")
        assert len(searched(it)) == 1
    assert degraded(responses) == {"query_transform", "reranking"}
    assert responses[-1].finished.finish == pb.FINISH_ANSWERED


async def test_the_cache_tells_transformations_apart(tmp_path):
    async with world(tmp_path) as it:
        it.tools.shelf = {"c-7": "Penalización por retraso en las entregas."}
        for options, replies in [
            ({"query_transform": "hyde"}, [saying('{"hypothetical_passage": "Se aplica."}')]),
            ({"query_transform": "none"}, []),
            ({"query_transform": "hyde"}, []),
        ]:
            it.model.replies = [calling(LONG), *replies, saying("Sí [1].")]
            it.tools.put.clear()
            responses = await it.ask(**options)
            if responses[-1].finished.cache_hit_count == 0:
                await asyncio.wait_for(it.tools.put.wait(), 20)
        [ended] = of(responses, "tool_call_finished")
    assert ended.from_cache
    assert len(searched(it)) == 3
    assert ended.query_transform == "hyde"  # what was searched then is still told


async def test_who_hangs_up_cancels_all_searches_of_a_call(tmp_path):
    async with world(tmp_path) as it:
        it.tools.hanging.add("Search")
        it.model.replies = [calling(LONG), saying('{"sub_questions": ["¿Cuánto?", "¿Cuándo?"]}')]
        asking = asyncio.create_task(it.ask(query_transform="decompose"))
        while len(searched(it)) < 3:
            await asyncio.sleep(0.01)
        asking.cancel()
        async with asyncio.timeout(20):
            while "Search" not in it.tools.cancelled:
                await asyncio.sleep(0.01)


async def test_a_follow_up_is_completed_and_searched_as_a_whole(tmp_path):
    history = [
        pb.Message(role="user", text="¿Qué penalización hay por retraso?"),
        pb.Message(role="assistant", text="2 %"),
    ]
    lazy = ("vector_search", '{"query": "¿y en 2024?"}')
    whole = "¿Qué penalización por retraso hay en 2024?"
    async with world(tmp_path) as it:
        it.model.replies = [calling(lazy), saying(json.dumps({"standalone_query": whole})), saying("2 % [1].")]
        responses = await it.ask("¿y en 2024?", history=history)
        assert [request.query for request in searched(it)] == [whole]
        assert [one["role"] for one in it.model.requests[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert of(responses, "tool_call_finished")[0].queries == [whole]
    async with world(tmp_path, rewrite_follow_ups=False) as it:
        it.model.replies = [calling(lazy), saying("2 % [1].")]
        await it.ask("¿y en 2024?", history=history)
        assert [request.query for request in searched(it)] == ["¿y en 2024?"]


async def test_collections_are_chosen_where_that_is_left_open_and_the_choice_is_told(tmp_path):
    named = ("vector_search", '{"query": "condiciones", "collection": "policies"}')
    async with world(tmp_path) as it:
        it.tools.collections, it.tools.chosen = ["contracts", "policies"], {"contracts"}
        it.model.replies = [calling(SEARCH, named), saying("Sí [1].")]
        responses = await it.ask()
        route = {request.query: (request.route, list(request.collections)) for request in searched(it)}
    assert route == {"condiciones especiales": (True, []), "condiciones": (False, ["policies"])}
    told = {one.call_id: (list(one.collections), one.summary) for one in of(responses, "tool_call_finished")}
    assert set(map(str, told.values())) == {
        str((["contracts"], "1 passage; in contracts")),
        str(([], "1 passage")),
    }
    async with world(tmp_path, collection_routing=False) as it:
        it.tools.collections = ["contracts", "policies"]
        it.model.replies = [calling(SEARCH), saying("Sí [1].")]
        await it.ask()
        assert [request.route for request in searched(it)] == [False]


@asynccontextmanager
async def stand_in():
    """The understudy on loopback, as fast as it is; yields its URL."""
    settings = UnderstudySettings(host="127.0.0.1", port=0, model_name="llama")
    understudy = understudy_server.build(settings)
    with understudy_server.listen(settings) as listener:
        running = asyncio.create_task(understudy.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            understudy.should_exit = True
            await running


SHELF = {
    "plazos": "El término de antelación para resolver el contrato es de treinta días naturales.",
    "iberdrola": "La garantía de Iberdrola cubre los equipos durante tres años desde la entrega.",
    "endesa": "La garantía de Endesa cubre los equipos durante dos años desde la entrega.",
    "fines": "The surcharge for late delivery amounts to two per cent of the price for each week.",
    "acme": "The warranty of Acme covers all pumps for three years from delivery.",
    "borealis": "The warranty of Borealis covers all pumps for two years from delivery.",
    "menu": "La cafetería abre a las ocho. The cafeteria opens at eight.",
}


@pytest.mark.parametrize(
    ("transform", "question", "sources", "says"),
    [
        ("hyde", "¿Qué plazo de preaviso hay para rescindir el contrato?", {"plazos"}, "treinta días"),
        ("hyde", "What is the penalty for late delivery?", {"fines"}, "two per cent"),
        ("decompose", "¿Qué diferencias hay entre Iberdrola y Endesa en la garantía?", {"iberdrola", "endesa"}, "años"),
        ("decompose", "Compare the warranty of Acme and Borealis", {"acme", "borealis"}, "years"),
    ],
)
async def test_the_stand_in_model_answers_by_transformed_searches_in_both_languages(
    tmp_path, transform, question, sources, says
):
    async with stand_in() as url, world(tmp_path, model_url=url) as it:
        it.tools.shelf = SHELF
        responses = await it.ask(question, query_transform=transform, tools=["vector_search"])
        queries = [request.query for request in searched(it)]
    ended = of(responses, "tool_call_finished")
    assert {one.query_transform for one in ended} == {transform}
    assert set(queries) == {query for one in ended for query in one.queries}
    assert len(queries) > 1
    assert {one.document.document_id for one in of(responses, "citation")} == sources
    assert says in text_of(responses)
    end = responses[-1].finished
    assert end.finish == pb.FINISH_ANSWERED
    assert end.usage.completion_tokens > 0
    assert degraded(responses) == set()


@pytest.mark.parametrize(
    ("before", "question", "whole"),
    [
        ("¿Qué garantía da Iberdrola?", "¿y Endesa?", ("garantía", "Endesa")),
        ("What warranty does Acme give?", "and Borealis?", ("warranty", "Borealis")),
    ],
)
async def test_the_stand_in_model_completes_follow_ups(tmp_path, before, question, whole):
    history = [pb.Message(role="user", text=before), pb.Message(role="assistant", text="…")]
    async with stand_in() as url, world(tmp_path, model_url=url) as it:
        it.tools.shelf = SHELF
        await it.ask(question, history=history, tools=["vector_search"])
        [request] = searched(it)
    assert all(word in request.query for word in whole)


# Results that others have made, or are making


async def test_an_answer_says_how_old_a_result_is_and_for_which_words_it_was_made(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT), saying("47 [1]."), calling(COUNT), saying("47 [1].")]
        await it.ask()
        await asyncio.wait_for(it.tools.put.wait(), 20)
        it.tools.found = {"age": Duration(seconds=61), "matched_text": "other words", "similarity": 0.75}
        (ended,) = of(await it.ask(), "tool_call_finished")
    assert (ended.from_cache, ended.cache_age.seconds) == (True, 61)
    assert (ended.cache_matched_text, ended.cache_similarity) == ("other words", 0.75)


async def test_results_are_stored_with_what_they_were_made_from(tmp_path):
    async with world(tmp_path) as it:
        it.tools.shelf = {"c-7": "condiciones especiales"}  # whole results, unlike those without the shelf
        it.model.replies = [calling(SEARCH, COUNT), saying("47 [2].")]
        await it.ask()
        await asyncio.wait_for(it.tools.put.wait(), 20)
    (put,) = [request for method, request in it.tools.asked if method == "BatchPut"]
    stored = {entry.call.tool: entry for entry in put.entries}
    assert list(stored["sql_query"].sources) == ["table:main/public.contracts"]
    assert list(stored["vector_search"].sources) == ["collection:*", "collection:contracts"]
    assert {(entry.snapshot, entry.lease_token) for entry in put.entries} == {(7, "token")}
    assert stored["vector_search"].call.semantic_argument == "query"
    assert stored["sql_query"].call.semantic_argument == ""


@pytest.mark.parametrize("what", ["failing", "volatile", "degraded"])
async def test_a_call_that_brings_nothing_to_share_gives_its_lease_back(tmp_path, what):
    async with world(tmp_path) as it:
        it.tools.volatile = what == "volatile"
        if what == "failing":
            it.tools.failing["Query"] = errors.SqlError("Wrong.")
        it.model.replies = [calling(SEARCH if what == "degraded" else COUNT), saying("Nada.")]
        await it.ask()
        await asyncio.wait_for(it.tools.released.wait(), 20)
    (released,) = [request for method, request in it.tools.asked if method == "Release"]
    assert [lease.token for lease in released.leases] == ["token"]
    assert it.tools.count("BatchPut") == 0


async def test_who_hangs_up_gives_the_leases_back(tmp_path):
    async with world(tmp_path) as it:
        it.tools.hanging.add("Query")
        it.model.replies = [calling(COUNT)]
        asking = asyncio.create_task(it.ask())
        while not it.tools.count("Query"):
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait_for(it.tools.released.wait(), 20)


@asynccontextmanager
async def real_cache(**settings):
    """The product's own cache, remembering in its process."""
    wired = CacheSettings(identity_secret=SECRET, valkey_url="memory:", **settings)
    async with listening(tool_cache_server.build(wired)) as address:
        yield address


async def test_questions_that_are_asked_at_the_same_time_share_one_query(tmp_path):
    async with real_cache() as address, world(tmp_path, cache_address=address) as it:
        it.tools.gate.clear()
        it.model.replies = [*[calling(COUNT) for _ in range(8)], *[saying("47 [1].") for _ in range(8)]]
        asking = [asyncio.create_task(it.ask())]
        async with asyncio.timeout(60):
            while not it.tools.count("Query"):
                await asyncio.sleep(0.01)
            # One after another: a lookup that has to wait for seven others on a busy machine is given up.
            for waiting in range(1, 8):
                asking.append(asyncio.create_task(it.ask()))
                while REGISTRY.get_sample_value("sabueso_tool_cache_waiting_calls") < waiting:
                    await asyncio.sleep(0.01)
        it.tools.gate.set()
        answers = await asyncio.gather(*asking)
        assert it.tools.count("Query") == 1
    ended = [one for answer in answers for one in of(answer, "tool_call_finished")]
    assert sorted(one.from_cache for one in ended) == [False] + [True] * 7
    assert {answer[-1].finished.finish for answer in answers} == {pb.FINISH_ANSWERED}


async def test_when_the_first_to_ask_hangs_up_the_next_asks_the_tool(tmp_path):
    async with real_cache() as address, world(tmp_path, cache_address=address) as it:
        it.tools.gate.clear()
        it.model.replies = [calling(COUNT), calling(COUNT), saying("47 [1].")]
        first = asyncio.create_task(it.ask())
        while not it.tools.count("Query"):
            await asyncio.sleep(0.01)
        second = asyncio.create_task(it.ask())
        await asyncio.sleep(0.2)
        assert it.tools.count("Query") == 1
        first.cancel()
        while it.tools.count("Query") < 2:
            await asyncio.sleep(0.01)
        it.tools.gate.set()
        answer = await asyncio.wait_for(second, 20)
    assert answer[-1].finished.finish == pb.FINISH_ANSWERED


async def test_a_refreshed_answer_replaces_what_was_known(tmp_path):
    async with real_cache() as address, world(tmp_path, cache_address=address) as it:
        it.model.replies = [reply for _ in range(3) for reply in (calling(COUNT), saying("47 [1]."))]
        hits = []
        for mode in (pb.CACHE_MODE_USE, pb.CACHE_MODE_REFRESH, pb.CACHE_MODE_USE):
            (ended,) = of(await it.ask(cache=mode), "tool_call_finished")
            hits.append(ended.from_cache)
            await asyncio.sleep(0.1)
    assert hits == [False, False, True]
    assert it.tools.count("Query") == 2


async def test_a_question_asked_again_needs_no_turn_that_chooses_tools(tmp_path):
    async with real_cache() as address, world(tmp_path, cache_address=address, first_calls_seconds=60) as it:
        it.model.replies = [calling(COUNT), saying("47 [1]."), saying("Son 47 [1].")]
        stored = counted("results", outcome="stored")
        await it.ask()
        async with asyncio.timeout(20):
            while counted("results", outcome="stored") < stored + 2:  # the result, and with which call it began
                await asyncio.sleep(0.01)
        again = await it.ask()
    (ended,) = of(again, "tool_call_finished")
    assert ended.from_cache
    assert again[-1].finished.iterations == 1
    assert text_of(again) == "Son 47 [1]."


async def test_what_was_made_from_a_table_is_made_anew_once_data_was_loaded(tmp_path):
    async with real_cache() as address, world(tmp_path, cache_address=address) as it:
        it.model.replies = [reply for _ in range(2) for reply in (calling(COUNT), saying("47 [1]."))]
        await it.ask()
        await asyncio.sleep(0.1)
        async with connect(address) as channel:
            cache = tool_cache_pb2_grpc.ToolCacheServiceStub(channel)
            await cache.Invalidate(tool_cache_pb2.InvalidateRequest(sources=["table:main/public.contracts"]))
        (ended,) = of(await it.ask(), "tool_call_finished")
    assert not ended.from_cache


# Reviewed queries, several databases, internal data

REVIEWED = {"description": "d", "sql": "SELECT 1", "owner": "finance", "reviewed_on": "2025-01-01"}
REVIEWED_SQL = {
    "dsn_secret": "dsn",
    "tables": {"contracts": {"columns": {"id": {}}}},
    "verified_queries": {"contract_total": REVIEWED, "late_suppliers": REVIEWED},
}
YEAR = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}


def with_verified(it):
    it.tools.verified = [
        sql_tool_pb2.VerifiedQuery(
            name="contract_total",
            description="Total amount of contracts. NOT for single ones.",
            parameters_schema_json=json.dumps(YEAR),
            examples=[sql_tool_pb2.VerifiedExample(question="¿Cuánto en 2025?", arguments_json='{"year": 2025}')],
            version="v1",
        ),
        sql_tool_pb2.VerifiedQuery(name="late_suppliers", description="d", defect="No table `suppliers`."),
    ]


async def test_a_verified_query_is_called_mended_cited_and_remembered(tmp_path):
    async with world(tmp_path, tenant={"sql": REVIEWED_SQL}) as it:
        with_verified(it)
        it.model.replies = [
            calling(("contract_total", '{"year": "x"}')),
            calling(("contract_total", '{"year": 2025}')),
            saying("8.300.000 € [1]."),
        ]
        responses = await it.ask()
        offered = [one["function"] for one in it.model.requests[0]["tools"]]
        observed = it.model.observations()
        listed = (await it.stub.ListTools(pb.ListToolsRequest())).tools
        await asyncio.wait_for(it.tools.put.wait(), 20)
    assert [one["name"] for one in offered] == [
        "vector_search",
        "sql_query",
        "web_search",
        "calculate",
        "contract_total",
    ]
    assert offered[4]["parameters"] == YEAR
    assert [(one.name, json.loads(one.parameters_schema_json)) for one in listed][4] == ("contract_total", YEAR)
    assert (observed[0]["tool"], "integer" in observed[0]["error"]) == ("contract_total", True)
    assert observed[1]["rows"] == [["8300000.00"]]
    (citation,) = of(responses, "citation")
    assert citation.sql.statement == "SELECT sum(amount) FROM contracts WHERE year = $1"
    assert citation.sql.params_json == "[2025]"
    (entry,) = next(request for method, request in it.tools.asked if method == "BatchPut").entries
    assert (entry.call.tool, list(entry.sources)) == ("contract_total", ["table:main/public.contracts"])


async def test_verified_queries_are_wanted_by_name_and_counted_under_one(tmp_path):
    def counted():
        labels = {"tool": "verified_query", "status": "ok"}
        return REGISTRY.get_sample_value("sabueso_orchestrator_tool_calls_total", labels) or 0

    before = counted()
    async with world(tmp_path, tenant={"sql": REVIEWED_SQL}) as it:
        with_verified(it)
        it.model.replies = [calling(("contract_total", '{"year": 2025}')), saying("8.300.000 € [1].")]
        await it.ask(tools=["contract_total"])
        assert [one["function"]["name"] for one in it.model.requests[0]["tools"]] == ["contract_total"]
    assert it.tools.count("DescribeSchema") == 0
    assert counted() == before + 1


async def test_the_chosen_database_is_asked(tmp_path):
    table = {"contracts": {"columns": {"id": {}}}}
    sql = [{"name": name, "dsn_secret": "d", "tables": table} for name in ("main", "archive")]
    async with world(tmp_path, tenant={"sql": sql}) as it:
        it.tools.sources = ["main", "archive"]
        it.model.replies = [
            calling(
                ("sql_query", '{"query": "SELECT 1", "source": "archive"}'), ("sql_query", '{"query": "SELECT 2"}')
            ),
            saying("47 [1]."),
        ]
        await it.ask()
    assert [request.source for method, request in it.tools.asked if method == "Query"] == ["archive", ""]


async def test_a_web_query_is_sent_with_the_codes_that_must_not_leave(tmp_path):
    leaking = ("web_search", '{"query": "proveedor del contrato CT-2025-0091"}')
    async with world(tmp_path) as it:
        it.tools.shelf = {"c-7": "condiciones especiales del contrato CT-2025-0091"}
        it.model.replies = [calling(SEARCH), calling(leaking), saying("Nada [1].")]
        await it.ask()
    (asked,) = [request for method, request in it.tools.asked if method == "WebSearch"]
    assert list(asked.internal_terms) == ["CT-2025-0091"]


async def test_a_question_for_documents_is_answered_in_one_turn_by_rag(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [saying("Una penalización del 2 % [1].")]
        responses = await it.ask(strategy="rag")
        (asked,) = it.model.requests
    assert responses[0].chosen == pb.Chosen(strategy="rag", reason="as asked")
    assert [request.query for method, request in it.tools.asked if method == "Search"] == [QUESTION]
    assert [one["role"] for one in asked["messages"]][-3:] == ["assistant", "tool", "user"]
    end = responses[-1].finished
    assert (end.strategy, end.finish, end.iterations) == ("rag", pb.FINISH_ANSWERED, 1)


async def test_the_router_strategy_without_a_sure_route_goes_over_to_react(tmp_path):
    async with world(tmp_path) as it:
        it.model.replies = [calling(COUNT), saying("47 [1].")]
        responses = await it.ask(strategy="router")
    assert [one.strategy for one in of(responses, "chosen")] == ["router", "react"]
    assert responses[-1].finished.strategy == "react"


async def test_calls_of_one_answer_have_a_ceiling(tmp_path):
    async with world(tmp_path, max_calls_per_answer=1) as it:
        it.model.replies = [calling(COUNT, WEB), saying("47 [1]; la web no se consultó.")]
        responses = await it.ask()
    assert it.tools.count("Query") + it.tools.count("WebSearch") == 1
    end = responses[-1].finished
    assert (end.finish, end.reason) == (pb.FINISH_PARTIAL, "calls")


async def test_a_false_premise_is_refused(tmp_path):
    async with world(tmp_path) as it:
        it.tools.chosen = []  # no collection is about it
        it.tools.collections = ["contracts", "manuals"]
        it.model.replies = [
            calling(("vector_search", '{"query": "rescisión del contrato con Acme", "collection": "contracts"}')),
            saying("No tengo información suficiente para responder."),
        ]
        responses = await it.ask("¿Cuándo rescindimos el contrato con Acme?")
    end = responses[-1].finished
    assert (end.finish, end.reason) == (pb.FINISH_REFUSED, "no_evidence")
