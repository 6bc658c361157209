"""What stands behind the gateway in the tests of the page: an agent that follows a script, a library with passages."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from sabueso.orchestrator.v1 import orchestrator_pb2_grpc
from sabueso.retrieval.v1 import retrieval_pb2
from services.gateway.app import WEB
from services.gateway.clients import DESCRIPTORS
from services.runtime import context, errors
from services.runtime.server import Served, build, set_health
from services.runtime.testing import SIGNER
from tests.integration.gateway_stack import Library, Stack, gateway_stack, key_of, milliseconds


class ScriptedAgent(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """Answers a question with the events of its script. An `asyncio.Event` in it is waited for, an error is raised."""

    def __init__(self):
        self.scripts = {}
        self.requests = []
        self.cancelled = asyncio.Event()

    async def Run(self, request, ctx):
        self.requests.append(request)
        try:
            for part in self.scripts.get(request.question, [words("Nothing to say."), end()]):
                match part:
                    case asyncio.Event():
                        await part.wait()
                    case Exception():
                        raise part
                    case _:
                        yield part
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def thought(iteration=1, text="", step=""):
    return pb.RunResponse(thought=pb.Thought(iteration=iteration, text=text, step_id=step))


def started(call_id, tool, iteration=1, step="", **arguments):
    written = json.dumps(arguments, ensure_ascii=False)
    call = pb.ToolCallStarted(iteration=iteration, call_id=call_id, tool=tool, arguments_json=written, step_id=step)
    return pb.RunResponse(tool_call_started=call)


def finished(call_id, tool, ms, summary, iteration=1, ok=True, **facts):
    status = pb.TOOL_CALL_STATUS_OK if ok else pb.TOOL_CALL_STATUS_ERROR
    call = pb.ToolCallFinished(
        iteration=iteration, call_id=call_id, tool=tool, status=status, duration=milliseconds(ms), summary=summary,
        **facts,
    )  # fmt: skip
    return pb.RunResponse(tool_call_finished=call)


def words(text):
    return pb.RunResponse(text_delta=pb.TextDelta(text=text))


def lost(service, reason):
    return pb.RunResponse(degraded=pb.Degraded(service=service, reason=reason))


def chosen(strategy, reason, confidence=0.0):
    return pb.RunResponse(chosen=pb.Chosen(strategy=strategy, reason=reason, confidence=confidence))


def plan(*steps, revision=1):
    """Each step: (id, question, specialist, ids that it needs)."""
    made = [pb.PlanStep(id=id_, question=asks, specialist=who, depends_on=needs) for id_, asks, who, needs in steps]
    return pb.RunResponse(plan=pb.Plan(steps=made, revision=revision))


def step_finished(step, found=True, reason=""):
    return pb.RunResponse(step_finished=pb.StepFinished(step_id=step, found=found, reason=reason))


def finding(kind, text="", mark=0, reason="it is so"):
    value = pb.FindingKind.Value(f"FINDING_KIND_{kind.upper()}")
    return pb.RunResponse(finding=pb.Finding(kind=value, text=text, mark=mark, reason=reason))


def suspicion(action, tool, call_id="", reason="1 text(s) of this result: orders to the model", score=0.97):
    value = pb.SuspicionAction.Value(f"SUSPICION_ACTION_{action.upper()}")
    told = pb.Suspicion(call_id=call_id, tool=tool, action=value, score=score, reason=reason)
    return pb.RunResponse(suspicion=told)


def said(mark, tool, quote, **arguments):
    """What another tool said."""
    source = pb.ToolSource(tool=tool, arguments_json=json.dumps(arguments, ensure_ascii=False), quote=quote)
    return pb.RunResponse(citation=pb.Citation(mark=mark, tool=source))


def passage(mark, document_id, chunk_id, quote, title="Contract 7", **facts):
    source = pb.DocumentSource(
        document_id=document_id, chunk_id=chunk_id, title=title, quote=quote, source="c7.pdf", **facts
    )
    return pb.RunResponse(citation=pb.Citation(mark=mark, document=source))


def rows(mark, statement, params, columns, found, row_count=None):
    source = pb.SqlSource(
        statement=statement,
        params_json=json.dumps(params),
        row_count=row_count or len(found),
        preview_json=json.dumps({"columns": columns, "rows": found}),
    )
    return pb.RunResponse(citation=pb.Citation(mark=mark, sql=source))


def web(mark, url, title, quote):
    return pb.RunResponse(citation=pb.Citation(mark=mark, web=pb.WebSource(url=url, title=title, quote=quote)))


def end(finish=pb.FINISH_ANSWERED, reason="", answer_id="ans-1", **facts):
    timings = {"model": 300, "tools": 120, "cache": 1, "overhead": 4, "total": 425}
    return pb.RunResponse(
        finished=pb.Finished(
            answer_id=answer_id, strategy="react", finish=finish, reason=reason, iterations=2,
            usage=pb.Usage(prompt_tokens=1200, completion_tokens=34),
            timings=pb.Timings(**{name: milliseconds(ms) for name, ms in timings.items()}),
            **facts,
        )
    )  # fmt: skip


class Shelf(Library):
    """A library whose documents have the passages that a test puts there: {document_id: [passage, …]}."""

    def __init__(self):
        super().__init__()
        self.passages = {}
        self.collections = {
            name: retrieval_pb2.Collection(name=name, document_count=1) for name in ("legal", "handbook")
        }

    def put(self, document_id, texts, tenant="demo", collection="legal", **facts):
        document = retrieval_pb2.Document(
            document_id=document_id, collection=collection, chunk_count=len(texts), **facts
        )  # fmt: skip
        self.documents.setdefault(tenant, {})[document_id] = document
        self.passages[document_id] = [
            retrieval_pb2.Passage(document_id=document_id, chunk_id=f"{document_id}#{index}", text=text)
            for index, text in enumerate(texts)
        ]

    async def ListDocuments(self, request, ctx):
        found = sorted(self.documents.get(context.tenant(), {}).items())
        rest = [
            document
            for id_, document in found
            if id_ > request.page_token and request.collection in ("", document.collection)
        ]
        page = rest[: request.page_size]
        following = page[-1].document_id if len(rest) > len(page) else ""
        return retrieval_pb2.ListDocumentsResponse(documents=page, next_page_token=following)

    async def GetChunks(self, request, ctx):
        document = self._find(request.document_id)
        passages = self.passages[request.document_id]
        start = int(request.page_token or 0)
        stop = start + request.page_size
        following = str(stop) if stop < len(passages) else ""
        return retrieval_pb2.GetChunksResponse(
            document=document, passages=passages[start:stop], next_page_token=following
        )


@dataclass
class Site:
    """The page's gateway, and what is behind it."""

    url: str
    agent: ScriptedAgent
    shelf: Shelf
    stack: Stack

    @property
    def desk(self):
        return self.stack.desk

    def key(self, tenant="demo", name="all"):
        return key_of(tenant, name)

    def script(self, question, *events):
        self.agent.scripts[question] = events


@asynccontextmanager
async def site(folder: Path) -> AsyncGenerator[Site]:
    """A gateway in this process with the real page."""
    agent, shelf = ScriptedAgent(), Shelf()
    served = [
        Served(
            agent, orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server, DESCRIPTORS["orchestrator"]
        )
    ]  # fmt: skip
    server, health = build("test", served, SIGNER)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await set_health(health, served, True)
    try:
        async with gateway_stack(folder, WEB, library=shelf, orchestrator_address=f"127.0.0.1:{port}") as stack:
            yield Site(stack.url, agent, shelf, stack)
    finally:
        await server.stop(None)


def overloaded():
    return errors.DependencyFailed("model does not answer.", dependency="model")


async def eventually(fact):
    """Waits until `fact()` is true. Raises TimeoutError."""
    async with asyncio.timeout(30):
        while not fact():
            await asyncio.sleep(0.02)
