"""Pydantic AI's agent, with the script of bench_agent_worker."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelRequest,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from loadtests.bench_agent_worker import CALLS, PASSAGES, PIECES, QUESTION, SYSTEM, THOUGHT, serve


async def script(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    """The model: calls first, then the answer."""
    await asyncio.sleep(0)
    last = messages[-1]
    if not (isinstance(last, ModelRequest) and any(isinstance(part, ToolReturnPart) for part in last.parts)):
        yield THOUGHT
        yield {
            n: DeltaToolCall(name=name, json_args=json.dumps(arguments), tool_call_id=f"call_{n}")
            for n, (name, arguments) in enumerate(CALLS, 1)
        }
        return
    for piece in PIECES:
        yield piece


async def vector_search(query: str, top_k: int = 5) -> str:
    """Does vector_search."""
    await asyncio.sleep(0)
    return json.dumps({"passages": [{"n": n, "title": "Contracts", "text": text} for n, text in enumerate(PASSAGES)]})


async def sql_query(query: str, params: list[Any] | None = None) -> str:
    """Does sql_query."""
    await asyncio.sleep(0)
    return json.dumps({"n": 6, "columns": ["count"], "rows": [[47]]})


def pydantic_ai() -> Callable[[], Awaitable[str]]:
    """One answer."""
    agent = Agent(FunctionModel(stream_function=script), instructions=SYSTEM, tools=[vector_search, sql_query])

    async def answer() -> str:
        said: list[str] = []
        async with agent.run_stream_events(QUESTION) as events:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    said.append(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    said.append(event.delta.content_delta)
        return "".join(said).removeprefix(THOUGHT)

    return answer


if __name__ == "__main__":
    serve(pydantic_ai())
