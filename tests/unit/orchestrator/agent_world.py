"""What tests of the agent share: its tools, and ways to look at what happened."""

import asyncio
import json
from datetime import date

from services.orchestrator.agent import Agent
from services.orchestrator.arguments import TypedForm
from services.orchestrator.dispatch import Dispatcher, ToolSet
from services.orchestrator.events import CallFinished, CallStarted, Text
from services.orchestrator.model import ToolCall
from services.orchestrator.result_cache import MemoryStore, ResultCache
from services.orchestrator.results import Pages, Passage, Passages, Rows
from services.orchestrator.routing.router import AskTheModel
from services.orchestrator.stopwatch import Stopwatch
from services.orchestrator.strategies.auto import Auto
from services.orchestrator.strategies.registry import strategies
from services.orchestrator.task import Limits, Task
from services.orchestrator.tools import SqlQuery, Tool, VectorSearch, WebSearch

QUESTION = "How many contracts did we sign?"
KINDS = {
    "vector_search": ("retrieval", VectorSearch, Passages),
    "sql_query": ("sql_tool", SqlQuery, Rows),
    "web_search": ("web_tool", WebSearch, Pages),
}


def call(call_id, name, **arguments):
    return ToolCall(call_id, name, json.dumps(arguments))


SEARCH = call("s", "vector_search", query="penalty")
COUNT = call("q", "sql_query", query="SELECT count(*) FROM contracts")


def passages(*texts, degraded=()):
    found = (Passage("doc", str(i), "Contract", "c.pdf", 1, "8.3", "en", text) for i, text in enumerate(texts))
    return Passages(tuple(found), degraded)


async def search(arguments, seconds):
    return passages("Penalty of 2 % a month.")


async def finds_nothing(arguments, seconds):
    return passages()


async def count(arguments, seconds):
    return Rows(arguments.query, "[]", ("count",), ((47,),))


def together():
    """Search and count that end only when both run: by a barrier, whatever the clock says."""
    met = asyncio.Barrier(2)

    async def search_together(arguments, seconds):
        await met.wait()
        return await search(arguments, seconds)

    async def count_together(arguments, seconds):
        await met.wait()
        return await count(arguments, seconds)

    return search_together, count_together


def fails(error):
    async def call(arguments, seconds):
        raise error

    return call


async def hangs(arguments, seconds):
    await asyncio.sleep(3600)


def tool(name, call, timeout=5.0):
    service, arguments, result = KINDS[name]
    return Tool(name, service, f"Does {name}.", TypedForm(arguments), result, call, timeout)


def dispatcher_of(tools, *, lost=None, timeout=5.0, clock=None, **more):
    made = {name: tool(name, call, timeout) for name, call in tools.items()}
    watch = Stopwatch(clock) if clock else Stopwatch()
    return Dispatcher(ToolSet(made, lost or {}), ResultCache(MemoryStore()), stopwatch=watch, **more)


def dispatcher(vector_search=search, sql_query=count, **more):
    return dispatcher_of({"vector_search": vector_search, "sql_query": sql_query}, **more)


def agent_of(model, router=None, *, plan=None, limits=None, auto=None, **more):
    router = router or AskTheModel()
    made = strategies(model, router, plan)
    return Agent(made, limits or Limits(), lambda: date(2025, 11, 29), auto=auto or Auto(router), **more)


async def collect(model, tools=None, *, router=None, limits=None, question=QUESTION, shield=None, agent=None, **task):
    agent = agent or agent_of(model, router, limits=limits)
    return [event async for event in agent.run(Task(question, **task), tools or dispatcher(), shield)]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def text_of(events):
    return "".join(event.text for event in of(events, Text))


def observations(model):
    """What the tools said, as the model saw it in its last turn."""
    return [json.loads(message.text) for message in model.requests[-1][0] if message.role == "tool"]


def calls_of(events):
    """Names of the tools called, in order, and of those that answered or failed."""
    return [one.tool for one in of(events, CallStarted)], [one.tool for one in of(events, CallFinished)]
