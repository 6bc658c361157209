"""Our agent, with the script of bench_agent_worker: the loop itself, without gRPC.

With the argument `shipped` it is as it is shipped: a shield reads what tools return, and a reviewer every sentence. The
passages bear the word of the scan at ingestion, as all do that were taken in by the same version. The peers do none of
it, and are compared with the loop alone.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from loadtests.bench_agent_worker import ANSWER, CALLS, PASSAGES, PIECES, QUESTION, THOUGHT, serve
from services.orchestrator.agent import Agent
from services.orchestrator.arguments import TypedForm
from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.dispatch import Dispatcher, ToolSet
from services.orchestrator.events import Text
from services.orchestrator.model import Delta, Message, Sampling, ToolCall, ToolSpec, Turn, Usage
from services.orchestrator.result_cache import MemoryStore, ResultCache
from services.orchestrator.results import Found, Passage, Passages, Rows
from services.orchestrator.routing.router import AskTheModel
from services.orchestrator.shield.tenant_shield import TenantShield
from services.orchestrator.strategies.registry import strategies
from services.orchestrator.task import Task
from services.orchestrator.tools import SqlQuery, Tool, VectorSearch
from services.runtime.recognition.injections.version import version
from services.runtime.tenants import GuardTools

_FOUND = Passages(
    tuple(
        Passage("contracts", str(n), "Contracts", "c.pdf", n, "8.3", "en", text, harmless_by=version())
        for n, text in enumerate(PASSAGES)
    )
)
_ROWS = Rows("SELECT count(*) FROM contracts WHERE year = $1", "[2025]", ("count",), ((47,),))


class Script:
    """The model: calls first, then the answer."""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """See Model."""
        await asyncio.sleep(0)
        if messages[-1].role == "user":
            yield Delta(THOUGHT)
            calls = [ToolCall(f"call_{n}", name, json.dumps(arguments)) for n, (name, arguments) in enumerate(CALLS)]
            yield Turn(THOUGHT, calls, Usage(900, 60))
            return
        for piece in PIECES:
            yield Delta(piece)
        yield Turn(ANSWER, (), Usage(1800, 200))


def _tool(name: str, service: str, form: Any, result: type[Found], found: Found) -> Tool:
    async def call(arguments: Any, seconds: float) -> Found:
        await asyncio.sleep(0)
        return found

    return Tool(name, service, f"Does {name}.", TypedForm(form), result, call, 5)


def ours(*, shipped: bool = False) -> Callable[[], Awaitable[str]]:
    """One answer."""
    agent = Agent(strategies(Script(), AskTheModel()))
    if shipped:
        reviewer = EvidenceReviewer()
        reviewer.warm()
        agent = replace(agent, reviewer=reviewer)
    tools = {
        "vector_search": _tool("vector_search", "retrieval", VectorSearch, Passages, _FOUND),
        "sql_query": _tool("sql_query", "sql_tool", SqlQuery, Rows, _ROWS),
    }
    cache = ResultCache(MemoryStore())

    async def answer() -> str:
        said: list[str] = []
        shield = TenantShield("bench", GuardTools(), tools, QUESTION) if shipped else None
        async for event in agent.run(Task(QUESTION), Dispatcher(ToolSet(tools), cache), shield):
            if isinstance(event, Text):
                said.append(event.text)
        return "".join(said)

    return answer


if __name__ == "__main__":
    serve(ours(shipped="shipped" in sys.argv[1:]))
