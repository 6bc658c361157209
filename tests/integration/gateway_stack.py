"""A gateway on a loopback port, with a model pool and small servants behind it that do as the question says."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx2
import yaml
from google.protobuf.duration_pb2 import Duration
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.ingestion.v1 import ingestion_pb2, ingestion_pb2_grpc
from sabueso.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from sabueso.reranking.v1 import reranking_pb2, reranking_pb2_grpc
from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from sabueso.web_tool.v1 import web_tool_pb2, web_tool_pb2_grpc
from services.gateway.access.door import open_door
from services.gateway.access.store import AccessStore, MemoryAccessStore
from services.gateway.admission import Terms
from services.gateway.agent import Agent as AgentDoor
from services.gateway.app import create_app
from services.gateway.clients import DESCRIPTORS, connected
from services.gateway.feedback.ledger import MemoryLedger
from services.gateway.limits.decision import Limiter
from services.gateway.limits.memory import MemoryLimiter
from services.gateway.mcp.changes import Changes
from services.gateway.mcp.endpoint import McpEndpoint, mcp_endpoint
from services.gateway.mcp.notices import LocalNotices, Notices
from services.gateway.mcp.sessions import Sessions
from services.gateway.pools.configuration import PoolConfiguration
from services.gateway.pools.pool import pool_at
from services.gateway.pools.routing import pools_of
from services.gateway.server import http_server, listen
from services.gateway.status import Readiness
from services.runtime import context, errors
from services.runtime.server import Served, build, set_health
from services.runtime.tenants import TenantDirectory
from services.runtime.testing import SECRET, SIGNER

TENANTS = [
    {
        "id": "demo",
        "keys": [
            {"id": "all", "labels": ["*"]},
            {"id": "reader", "scopes": ["search"]},
            {"id": "hr", "labels": ["hr", "staff"]},
            {"id": "loader", "scopes": ["data"]},
            {"id": "asker", "scopes": ["agent"]},
            {"id": "chief", "scopes": ["admin"]},
        ],
        "sql": [
            {"name": "main", "dsn_secret": "d", "tables": {"contracts": {"columns": {"id": {}}}}},
            {"name": "archive", "dsn_secret": "d", "schema": "old", "tables": {"contracts": {"columns": {"id": {}}}}},
        ],
        "limits": {"requests_per_minute": 60_000},
    },
    {"id": "sixty", "keys": [{"id": "all"}], "limits": {"requests_per_minute": 60}},
    {"id": "single", "keys": [{"id": "all"}], "limits": {"concurrent_requests": 1}},
    {"id": "small", "keys": [{"id": "all"}], "limits": {"body_bytes": 2_000}},
    {
        "id": "narrow",
        "keys": [{"id": "all"}],
        "models": ["mini-*"],
        "limits": {"requests_per_minute": 0, "daily_tokens": 10_000_000},
    },
]


def key_of(tenant: str, key: str = "all") -> str:
    return f"sk-test-{tenant}-{key}"


def write_tenants(folder: Path) -> Path:
    for tenant in TENANTS:
        keys = [
            {**key, "sha256": hashlib.sha256(key_of(tenant["id"], key["id"]).encode()).hexdigest()}
            for key in tenant["keys"]
        ]
        (folder / f"{tenant['id']}.yaml").write_text(yaml.safe_dump({**tenant, "keys": keys}))
    return folder


def milliseconds(count: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(count * 1000))
    return duration


class Agent(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """Answers the flagship question; other questions name what to do instead."""

    def __init__(self):
        self.requests = []
        self.callers = []
        self.kept = {}
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go_on = asyncio.Event()

    async def GetAnswer(self, request, ctx):
        self.requests.append(request)
        kept = self.kept.get((context.tenant(), context.identity().principal, request.answer_id))
        if kept is None:
            raise errors.NotFound("There is no such answer.", answer=request.answer_id)
        return kept

    async def Run(self, request, ctx):
        self.requests.append(request)
        self.callers.append((context.identity(), context.current().seconds_left()))
        pb = orchestrator_pb2
        match request.question:
            case "refuse":
                raise errors.InvalidField("It is above 8192.", field="options.max_output_tokens")
            case "model is down":
                raise errors.DependencyFailed("model does not answer.", dependency="model")
            case "bug":
                raise RuntimeError("dsn=postgres://u:p@h")
            case "stop half-way":
                yield pb.RunResponse(text_delta=pb.TextDelta(text="Half"))
                return
            case "fail half-way":
                yield pb.RunResponse(text_delta=pb.TextDelta(text="Half"))
                raise errors.DependencyFailed("model does not answer.", dependency="model")
            case "wait":
                await ctx.send_initial_metadata(())
                self.started.set()
                await self.go_on.wait()
            case "hang":
                await ctx.send_initial_metadata(())
                self.started.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
        _, named, answer_id = request.question.partition("call it ")
        answer_id = answer_id if named else "ans-1"
        events = [*_opening(request), *_scenario(answer_id, with_evidence=request.options.include_evidence)]
        self.keep(request.options, events)
        for event in events:
            yield event

    def keep(self, options, events):
        if options.store:
            whose = context.tenant(), context.identity().principal, options.answer_id
            self.kept[whose] = orchestrator_pb2.GetAnswerResponse(events=events, memo=options.memo)

    async def DeleteSession(self, request, ctx):
        self.requests.append(request)
        self.callers.append((context.identity(), context.current().seconds_left()))
        if "nowhere" in (request.session_id, request.answer_id.removeprefix("ans_")):
            raise errors.NotFound("There is no session `nowhere`, or no more.", session="nowhere")
        return orchestrator_pb2.DeleteSessionResponse(answer_count=2)

    TOOLS = (
        ("vector_search", {"query": {"type": "string", "minLength": 1}, "top_k": {"type": "integer", "default": 5}}),
        ("web_search", {"query": {"type": "string", "maxLength": 400}}),
        ("contract_total", {"year": {"type": "integer"}}),
    )

    async def ListTools(self, request, ctx):
        pb = orchestrator_pb2
        self.callers.append((context.identity(), context.current().seconds_left()))
        tools = [
            pb.Tool(
                name=name,
                description=f"What {name} is for. NOT for the rest.",
                parameters_schema_json=json.dumps(
                    {"type": "object", "properties": fields, "required": [*fields][:1], "additionalProperties": False}
                ),
            )
            for name, fields in self.TOOLS
        ]
        return pb.ListToolsResponse(tools=tools[:2] if context.tenant() == "narrow" else tools)

    async def CallTool(self, request, ctx):
        """Does what the query says, as `Run` does."""
        pb = orchestrator_pb2
        self.requests.append(request)
        self.callers.append((context.identity(), context.current().seconds_left()))
        arguments = json.loads(request.arguments_json)
        if request.name not in dict(self.TOOLS):
            raise errors.NotFound(f"There is no tool `{request.name}`.", tool=request.name)
        yield pb.CallToolResponse(progress=pb.ToolProgress(message="searching"))
        match query := arguments.get("query", "no query"):
            case 7:
                raise errors.InvalidField("invalid arguments: query: it is wrong", field="arguments_json")
            case "overloaded":
                raise errors.Overloaded("Too many tools are at work.", retry_after=timedelta(seconds=3))
            case "bug":
                raise RuntimeError("dsn=postgres://u:p@h")
            case "stop half-way":
                return
            case "wait":
                self.started.set()
                await self.go_on.wait()
                yield pb.CallToolResponse(progress=pb.ToolProgress(message="still searching"))
            case "hang":
                self.started.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
            case "fail":
                failed = {"error": "timeout after 5s", "tool": request.name}
                yield pb.CallToolResponse(
                    result=pb.ToolResult(text=json.dumps(failed), structured_json=json.dumps(failed), failed=True)
                )
                return
        yield pb.CallToolResponse(result=tool_result(request.name, query))


def tool_result(name, query):
    """What a tool finds: the query itself."""
    text = json.dumps({"found": query}, ensure_ascii=False)
    match name:
        case "vector_search":
            passage = dict.fromkeys(("document_id", "chunk_id", "collection", "title", "source", "language"), "d1")
            passage |= {"page": None, "section": "8 > 8.3", "score": 0.5, "metadata": {"year": "2025"}, "text": query}
            found = {"passages": [passage], "truncated": False}
        case "web_search":
            page = {"title": query, "url": "https://example.org", "snippet": query, "published": ""}
            found = {"results": [page], "truncated": False}
        case _:
            found = {
                "columns": ["n"], "rows": [[1], [None]], "row_count": 2, "truncated": False, "statement": "SELECT 1",
                "params": [2025],
            }  # fmt: skip
    return orchestrator_pb2.ToolResult(
        text=text, structured_json=json.dumps(found), from_cache=True, duration=milliseconds(12)
    )


def _opening(request):
    """What comes before an answer that was planned, and of which something is wrong; nothing before others."""
    if request.options.previous_answer_id == "ans_nowhere":
        raise errors.NotFound("There is no answer `ans_nowhere` to follow.", answer="ans_nowhere")
    if request.question != "plan it":
        return
    pb = orchestrator_pb2
    yield pb.RunResponse(chosen=pb.Chosen(strategy="plan", reason="two questions in one", confidence=0.75))
    steps = [
        pb.PlanStep(id="s1", question="Which contracts?", specialist="documents"),
        pb.PlanStep(id="s2", question="How much?", depends_on=["s1"]),
    ]
    yield pb.RunResponse(plan=pb.Plan(steps=steps, revision=1))
    yield pb.RunResponse(step_finished=pb.StepFinished(step_id="s2", reason="nothing was found"))
    yield pb.RunResponse(plan=pb.Plan(steps=[pb.PlanStep(id="s3", question="Where?")], revision=2))
    yield pb.RunResponse(step_finished=pb.StepFinished(step_id="s3", found=True))
    yield pb.RunResponse(thought=pb.Thought(iteration=2, text="Look.", step_id="s1"))
    started = pb.ToolCallStarted(iteration=2, call_id="b", tool="crm__find", arguments_json="{}", step_id="s1")
    yield pb.RunResponse(tool_call_started=started)
    yield pb.RunResponse(
        suspicion=pb.Suspicion(
            call_id="b", tool="crm__find", action=pb.SUSPICION_ACTION_REDACTED, score=0.5, reason="orders in a reply"
        )
    )
    yield pb.RunResponse(
        finding=pb.Finding(kind=pb.FINDING_KIND_NUMBER, text="48", mark=2, reason="it is nowhere in the evidence")
    )
    source = pb.ToolSource(tool="crm__find", arguments_json='{"query": "Müller"}', quote="One customer.")
    yield pb.RunResponse(citation=pb.Citation(mark=4, tool=source))


def _scenario(answer_id, *, with_evidence=False):
    pb = orchestrator_pb2
    yield pb.RunResponse(thought=pb.Thought(iteration=1, text="Count first."))
    started = pb.ToolCallStarted(iteration=1, call_id="a", tool="sql_query", arguments_json='{"query": "SELECT 1"}')
    yield pb.RunResponse(tool_call_started=started)
    yield pb.RunResponse(
        tool_call_finished=pb.ToolCallFinished(
            iteration=1, call_id="a", tool="sql_query", status=pb.TOOL_CALL_STATUS_OK, from_cache=True,
            duration=milliseconds(12.5), summary="1 row", cache_age=milliseconds(61_240),
        )
    )  # fmt: skip
    yield pb.RunResponse(degraded=pb.Degraded(service="reranking", reason="timeout"))
    for text in ("Firmamos 47 ", "contratos [1].", " Penalización del 2 % [2][3]."):
        yield pb.RunResponse(text_delta=pb.TextDelta(text=text))
    document = pb.DocumentSource(
        document_id="legal/contract:7", chunk_id="c9", title="Contract 7", source="c7.pdf", page=3, section="8 > 8.3",
        quote="A penalty of 2 %",
    )  # fmt: skip
    sql = pb.SqlSource(
        statement="SELECT count(*)", params_json="[100000]", row_count=1,
        preview_json='{"columns": ["count"], "rows": [[47]]}',
    )  # fmt: skip
    web = pb.WebSource(url="https://example.org/cpi", title="CPI", quote="2 %")
    yield pb.RunResponse(citation=pb.Citation(mark=2, document=document))
    yield pb.RunResponse(citation=pb.Citation(mark=1, sql=sql))
    yield pb.RunResponse(citation=pb.Citation(mark=3, web=web))
    if with_evidence:
        found = pb.DocumentSource(document_id="d9", chunk_id="c1", title="Other", source="o.pdf", quote="Not cited")
        for mark, cited, source in (
            (1, True, {"sql": sql}),
            (2, True, {"document": document}),
            (3, True, {"web": web}),
        ):
            yield pb.RunResponse(evidence=pb.Evidence(source=pb.Citation(mark=mark, **source), cited=cited))
        yield pb.RunResponse(evidence=pb.Evidence(source=pb.Citation(mark=5, document=found), score=0.5))
    timings = {"model": 300, "tools": 12.5, "cache": 1, "overhead": 4, "total": 317.5}
    yield pb.RunResponse(
        finished=pb.Finished(
            answer_id=answer_id, strategy="react", finish=pb.FINISH_ANSWERED, iterations=2, cache_hit_count=1,
            usage=pb.Usage(prompt_tokens=120, completion_tokens=30),
            timings=pb.Timings(**{name: milliseconds(ms) for name, ms in timings.items()}),
            checking_usage=pb.Usage(prompt_tokens=20, completion_tokens=5), checking_duration=milliseconds(40),
        )
    )  # fmt: skip


class Library(retrieval_pb2_grpc.RetrievalServiceServicer):
    """Keeps documents by tenant, in memory."""

    def __init__(self):
        self.searches = []
        self.labels = []
        self.migrations = []
        self.documents = {
            "demo": {
                "legal/contract:7": retrieval_pb2.Document(
                    document_id="legal/contract:7",
                    collection="legal",
                    title="Contract 7",
                    source="c7.pdf",
                    chunk_count=1,
                )
            }
        }
        self.collections = {}

    async def Search(self, request, ctx):
        self.searches.append(request)
        self.labels.append(context.identity().labels)
        passage = retrieval_pb2.Passage(
            document_id="d1", chunk_id="c1", text="penalty", title="T", page=0, language="en", score=0.5,
            scores=retrieval_pb2.Scores(dense=0.25), metadata={"year": "2025"},
        )  # fmt: skip
        return retrieval_pb2.SearchResponse(
            passages=[passage],
            stages={"embed": milliseconds(3)},
            degraded=["reranking"],
            routed=[retrieval_pb2.RoutedCollection(name="legal", score=0.5, chosen=True)] if request.route else [],
        )

    async def ListDocuments(self, request, ctx):
        found = sorted(self.documents.get(context.tenant(), {}).items())
        rest = [document for id_, document in found if id_ > request.page_token]
        page = rest[: request.page_size]
        following = page[-1].document_id if len(rest) > len(page) else ""
        return retrieval_pb2.ListDocumentsResponse(documents=page, next_page_token=following)

    async def GetDocument(self, request, ctx):
        return retrieval_pb2.GetDocumentResponse(document=self._find(request.document_id))

    async def GetChunks(self, request, ctx):
        document = self._find(request.document_id)
        passage = retrieval_pb2.Passage(
            document_id=document.document_id, chunk_id="c1", text="A penalty of 2 %", page=3
        )
        following = "" if request.page_token else "next"
        return retrieval_pb2.GetChunksResponse(document=document, passages=[passage], next_page_token=following)

    async def DeleteDocument(self, request, ctx):
        self._find(request.document_id)
        gone = self.documents[context.tenant()].pop(request.document_id)
        return retrieval_pb2.DeleteDocumentResponse(chunk_count=gone.chunk_count)

    async def PutCollection(self, request, ctx):
        if request.collection.name == "Bad Name":
            raise errors.InvalidField("`name` is 1 to 64 of a-z, 0-9, - and _.", field="name")
        self.collections[request.collection.name] = request.collection
        return retrieval_pb2.PutCollectionResponse(collection=request.collection)

    async def MigrateCollection(self, request, ctx):
        self.migrations.append(request)
        state = retrieval_pb2.MIGRATION_STATE_CANCELLED if request.cancel else retrieval_pb2.MIGRATION_STATE_RUNNING
        collection = retrieval_pb2.Collection(
            name=request.name, migration=retrieval_pb2.Migration(state=state, embedding_model="m2", total_count=7)
        )
        return retrieval_pb2.MigrateCollectionResponse(collection=collection)

    async def DeleteCollection(self, request, ctx):
        if self.collections.pop(request.name, None) is None:
            raise errors.NotFound("There is no such collection.")
        return retrieval_pb2.DeleteCollectionResponse(document_count=2)

    async def ListCollections(self, request, ctx):
        return retrieval_pb2.ListCollectionsResponse(collections=list(self.collections.values()))

    def _find(self, document_id):
        document = self.documents.get(context.tenant(), {}).get(document_id)
        if document is None:
            raise errors.NotFound("There is no such document.")
        return document


class Desk(ingestion_pb2_grpc.IngestionServiceServicer):
    """Takes documents in; a job stays queued until the test says otherwise."""

    def __init__(self):
        self.jobs = {}
        self.headers = []
        self.contents = []

    async def Submit(self, request_iterator, ctx):
        header, content = None, b""
        async for message in request_iterator:
            if message.HasField("header"):
                header = message.header
            else:
                assert len(message.content) <= 1024 * 1024
                content += message.content
        if header.collection == "missing":
            raise errors.NotFound("There is no collection `missing`.")
        if not content:
            raise errors.InvalidField("The document is empty.", field="content")
        self.headers.append(header)
        self.contents.append(content)
        number = len(self.headers)
        job = ingestion_pb2.Job(
            job_id=f"job-{number}", document_id=header.document_id or f"doc-{number}", collection=header.collection,
            status=ingestion_pb2.JOB_STATUS_QUEUED, title=header.title, source=header.source or header.filename,
        )  # fmt: skip
        self.jobs[job.job_id] = (context.tenant(), job)
        return ingestion_pb2.SubmitResponse(job=job)

    async def ListJobs(self, request, ctx):
        jobs = [job for tenant, job in reversed(self.jobs.values()) if tenant == context.tenant()]
        return ingestion_pb2.ListJobsResponse(
            jobs=[job for job in jobs if request.document_id in ("", job.document_id)]
        )

    async def CancelJob(self, request, ctx):
        job = self.jobs[request.job_id][1]
        job.status = ingestion_pb2.JOB_STATUS_CANCELLED
        return ingestion_pb2.CancelJobResponse(job=job)


class LengthEmbedder(embedding_pb2_grpc.EmbeddingServiceServicer):
    """The vector of a text is its length and its input type."""

    async def Embed(self, request, ctx):
        embeddings = [
            embedding_pb2.Embedding(dense=[len(text), request.input_type, 0.1], token_count=2) for text in request.texts
        ]
        return embedding_pb2.EmbedResponse(embeddings=embeddings, model="small@1")

    async def Describe(self, request, ctx):
        return embedding_pb2.DescribeResponse(model="small@1", dimensions=3)


class LengthReranker(reranking_pb2_grpc.RerankingServiceServicer):
    """Longer is better."""

    async def Rerank(self, request, ctx):
        scores = [reranking_pb2.Score(index=i, score=len(c.text)) for i, c in enumerate(request.candidates)]
        scores.sort(key=lambda score: -score.score)
        return reranking_pb2.RerankResponse(scores=scores[: request.top_n or None], model="length@1")

    async def Describe(self, request, ctx):
        return reranking_pb2.DescribeResponse(model="length@1")


class Web(web_tool_pb2_grpc.WebToolServiceServicer):
    """Knows one page, and that inner addresses are forbidden."""

    async def Fetch(self, request, ctx):
        if "169.254" in request.url:
            raise errors.NotPermitted("The address is not public.", rule="private_address")
        return web_tool_pb2.FetchResponse(
            final_url=request.url, title="A page", text="Text of the page", status_code=200, content_type="text/html"
        )


class Cache(tool_cache_pb2_grpc.ToolCacheServiceServicer):
    """Notes what is to be forgotten, and for whom."""

    def __init__(self):
        self.forgotten = []
        self.failing = None

    async def Invalidate(self, request, ctx):
        if self.failing:
            raise self.failing
        self.forgotten.append((context.tenant(), request.tool, list(request.sources)))
        return tool_cache_pb2.InvalidateResponse()


class Pool:
    """An OpenAI-compatible server that records what it gets, and answers as `mode` says."""

    STREAM = (
        'data: {"choices":[{"delta":{"content":"año 👩‍👩‍👧 e\u0301 漢字"}}],"odd":1}\r\n\r\n'
        ": comment\n\ndata: [DONE]\n\n"
    ).encode()

    def __init__(self):
        self.mode = "answer"
        self.bodies = []
        self.headers = []
        self.closed = asyncio.Event()
        routes = [Route("/v1/models", self.models), Route("/v1/chat/completions", self.complete, methods=["POST"])]
        self.app = Starlette(routes=routes)

    async def models(self, request):
        return JSONResponse({"object": "list", "data": [{"id": "mini-1"}, {"id": "big-1"}]})

    async def complete(self, request):
        self.bodies.append(await request.body())
        self.headers.append(dict(request.headers))
        match self.mode:
            case "stream":
                return StreamingResponse(self._one_byte_each(), media_type="text/event-stream")
            case "truncated":
                return StreamingResponse(self._cut(), media_type="text/event-stream")
            case "hang":
                return StreamingResponse(self._hang(), media_type="text/event-stream")
            case "overloaded":
                return Response(
                    b'{"object":"error","message":"busy"}', 429, {"retry-after": "7", "x-ratelimit-limit-requests": "1"}
                )
            case "refuse us":
                return JSONResponse({"error": "bad key"}, 401)
        return Response(b'{ "id" : "x",  "choices": [] }', media_type="application/json", headers={"x-vllm": "1"})

    async def _one_byte_each(self):
        for byte in self.STREAM:
            yield bytes([byte])

    async def _cut(self):
        yield b'data: {"choices":[{"delta":{"content":"half"}}]}\n\ndata: {"cho'
        raise ConnectionError("the GPU is gone")

    async def _hang(self):
        try:
            yield b'data: {"choices":[{"delta":{"content":"on and"}}]}\n\n'
            await asyncio.sleep(60)
        finally:
            self.closed.set()


@dataclass
class Stack:
    """All that a test may look at."""

    url: str
    grpc_address: str
    agent: Agent
    library: Library
    desk: Desk
    cache: Cache
    pool: Pool
    readiness: Readiness
    limiter: Limiter
    http: httpx2.AsyncClient = field(repr=False)
    mcp: McpEndpoint = field(repr=False)

    def headers(self, tenant="demo", key="all"):
        return {"authorization": f"Bearer {key_of(tenant, key)}"}

    async def ask(self, question, tenant="demo", **fields):
        body = {"model": "sabueso", "messages": [{"role": "user", "content": question}], **fields}
        return await self.http.post("/v1/chat/completions", json=body, headers=self.headers(tenant))

    async def get(self, path, tenant="demo", key="all"):
        return await self.http.get(path, headers=self.headers(tenant, key))


@asynccontextmanager
async def serving(app, listener=None) -> AsyncGenerator[str]:
    """The application on a loopback port, or on `listener`'s."""
    listener = listener or listen("127.0.0.1", 0)
    server = http_server(app, 1)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await task


@asynccontextmanager
async def gateway_stack(
    tenants_dir: Path,
    web: Path,
    limiter: Limiter | None = None,
    *,
    access: AccessStore | None = None,
    admin_tenant: str = "",
    notices: Notices | None = None,
    orchestrator_address: str = "",
    models: Path | PoolConfiguration | None = None,
    library: Library | None = None,
    terms: Terms | None = None,
) -> AsyncGenerator[Stack]:
    agent, library, desk, cache, pool = Agent(), library or Library(), Desk(), Cache(), Pool()
    servants = {
        "orchestrator": (agent, orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server),
        "retrieval": (library, retrieval_pb2_grpc.add_RetrievalServiceServicer_to_server),
        "ingestion": (desk, ingestion_pb2_grpc.add_IngestionServiceServicer_to_server),
        "embedding": (LengthEmbedder(), embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server),
        "reranking": (LengthReranker(), reranking_pb2_grpc.add_RerankingServiceServicer_to_server),
        "web_tool": (Web(), web_tool_pb2_grpc.add_WebToolServiceServicer_to_server),
        "tool_cache": (cache, tool_cache_pb2_grpc.add_ToolCacheServiceServicer_to_server),
    }
    served = [Served(servicer, add, DESCRIPTORS[name]) for name, (servicer, add) in servants.items()]
    server, health = build("test", served, SIGNER)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await set_health(health, served, True)
    limiter = limiter or MemoryLimiter()
    tenants = TenantDirectory(write_tenants(tenants_dir))
    tenants.watch()
    try:
        async with (
            AsyncExitStack() as stack,
            connected(
                dict.fromkeys(servants, f"127.0.0.1:{port}")
                | ({"orchestrator": orchestrator_address} if orchestrator_address else {})
            ) as clients,
            serving(pool.app) as pool_url,
            pools_of(models or pool_at(f"{pool_url}/v1"), "pool-key") as pools,
            open_door(
                tenants,
                tenants_dir,
                SIGNER,
                access or MemoryAccessStore(),
                limiter,
                admin_tenant=admin_tenant,
                look_seconds=0.05,
            ) as entrance,
        ):
            readiness = Readiness(clients.health, pools.states)
            ledger = MemoryLedger()
            door = AgentDoor(clients, ledger, deadline_seconds=30, keep_alive_seconds=0.2, accept_seconds=20)
            tools = await stack.enter_async_context(
                mcp_endpoint(
                    clients,
                    Sessions(SECRET),
                    Changes(tenants, lambda: readiness.draining, look_seconds=0.05, settle_seconds=0, max_streams=3),
                    notices or LocalNotices(),
                    allowed_origins="https://chat.example",
                )
            )
            app = create_app(
                keys=entrance.keys,
                admin=entrance.admin,
                limiter=limiter,
                terms=terms,
                clients=clients,
                pool=pools,
                agent=door,
                ledger=ledger,
                readiness=readiness,
                mcp=tools,
                web=web,
            )
            async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=10, trust_env=False) as http:
                grpc_address = f"127.0.0.1:{port}"
                yield Stack(url, grpc_address, agent, library, desk, cache, pool, readiness, limiter, http, tools)
    finally:
        await tenants.close()
        await server.stop(None)


def events_of(text: str) -> list:
    """Data of the SSE events, parsed; `[DONE]` stays a string."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [one if one == "[DONE]" else json.loads(one) for one in data]
