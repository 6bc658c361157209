"""LangGraph's prebuilt agent (LangChain's `create_agent`), with the script of bench_agent_worker."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

from loadtests.bench_agent_worker import ANSWER, CALLS, PASSAGES, PIECES, QUESTION, SYSTEM, THOUGHT, serve


class Script(BaseChatModel):
    """The model: calls first, then the answer."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=ANSWER))])

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        await asyncio.sleep(0)
        if not isinstance(messages[-1], ToolMessage):
            yield ChatGenerationChunk(message=AIMessageChunk(content=THOUGHT))
            chunks = [
                {"name": name, "args": json.dumps(arguments), "id": f"call_{n}", "index": n, "type": "tool_call_chunk"}
                for n, (name, arguments) in enumerate(CALLS)
            ]
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=chunks))
            return
        for piece in PIECES:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


@tool
async def vector_search(query: str, top_k: int = 5) -> str:
    """Does vector_search."""
    await asyncio.sleep(0)
    return json.dumps({"passages": [{"n": n, "title": "Contracts", "text": text} for n, text in enumerate(PASSAGES)]})


@tool
async def sql_query(query: str, params: list[Any] | None = None) -> str:
    """Does sql_query."""
    await asyncio.sleep(0)
    return json.dumps({"n": 6, "columns": ["count"], "rows": [[47]]})


def langgraph() -> Callable[[], Awaitable[str]]:
    """One answer."""
    agent = create_agent(Script(), [vector_search, sql_query], system_prompt=SYSTEM)

    async def answer() -> str:
        said: list[str] = []
        asked = {"messages": [{"role": "user", "content": QUESTION}]}
        async for mode, event in agent.astream(asked, stream_mode=["updates", "messages"]):
            if mode != "messages":
                continue
            message, _ = event
            if isinstance(message, AIMessageChunk) and message.text != THOUGHT:
                said.append(message.text)
        return "".join(said)

    return answer


if __name__ == "__main__":
    serve(langgraph())
