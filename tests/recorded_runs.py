"""Whole runs of the agent over a wire: the questions, a small fixed tool set, and what of a run is written down."""

import asyncio
import json
import re
import socket
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import date

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from services.orchestrator.agent import Agent
from services.orchestrator.arguments import TypedForm
from services.orchestrator.calling.profiles import profile_of
from services.orchestrator.calling.ways import Way, calling_model
from services.orchestrator.dispatch import Dispatcher, ToolSet
from services.orchestrator.events import (
    CallFinished,
    CallStarted,
    Chosen,
    Cited,
    Finished,
    Planned,
    StepFinished,
    Text,
    Thought,
)
from services.orchestrator.model import Sampling
from services.orchestrator.openai_model import OpenAIModel
from services.orchestrator.planning.planner import Planner
from services.orchestrator.result_cache import MemoryStore, ResultCache
from services.orchestrator.results import Passage, Passages, Rows
from services.orchestrator.routing.router import AskTheModel
from services.orchestrator.strategies.plan import Plan, PlanPolicy
from services.orchestrator.strategies.registry import strategies
from services.orchestrator.task import Limits, Task
from services.orchestrator.tools import SqlQuery, Tool, VectorSearch
from services.runtime.errors import InvalidField

# A model this small does not stop by itself; and a recording is no place for pages of it. Forms need some room.
MAX_TOKENS, MAX_FORM_TOKENS = 120, 320
TODAY = date(2026, 11, 30)
HANDBOOK = {
    "en": (
        ("Late delivery", "A supplier who delivers late owes a penalty of 2 % of the price for every month of delay."),
        ("Notice", "A framework contract ends with a notice of thirty days, in writing, to the office in Bilbao."),
        ("Warranty", "Pumps carry a warranty of three years from delivery. Seals and bearings are not covered."),
    ),
    "es": (
        ("Entrega tardía", "El proveedor que entrega tarde debe una penalización del 2 % del precio por cada mes."),
        ("Preaviso", "El contrato marco se resuelve con un preaviso de treinta días, por escrito, en Bilbao."),
        ("Garantía", "Las bombas tienen una garantía de tres años desde la entrega. Las juntas no están cubiertas."),
    ),
}
QUESTIONS = {
    ("en", "react"): "What penalty does a supplier owe who delivers late?",
    ("en", "rag"): "How long is the warranty of pumps?",
    ("en", "plan"): "What penalty is owed for late delivery, and how many contracts are there?",
    ("es", "react"): "¿Qué preaviso exige el contrato marco?",
    ("es", "rag"): "¿Cuánto dura la garantía de las bombas?",
    ("es", "plan"): "¿Qué penalización hay por entrega tardía y cuántos contratos hay?",
}


@dataclass(frozen=True)
class Case:
    """One run. `way`: how the model is brought to call tools."""

    language: str
    strategy: str
    way: str
    temperature: float = 0.0

    @property
    def name(self):
        return f"{self.language}-{self.strategy}-{self.way}" + (f"-t{self.temperature:g}" if self.temperature else "")

    @property
    def question(self):
        return QUESTIONS[self.language, self.strategy]


CASES = [
    Case(language, strategy, way, warm)
    for strategy, way in (("react", "native"), ("react", "guided"), ("rag", "guided"), ("plan", "guided"))
    for language in ("en", "es")
    for warm in ((0,) if strategy == "rag" else (0, 0.8))
]


def dispatcher():
    """A handbook of three paragraphs in two languages, and a table of 47 contracts."""

    async def search(arguments, seconds):
        asked = set(re.findall(r"\w{4,}", arguments.query.lower()))
        every = [(tongue, at, *entry) for tongue, entries in HANDBOOK.items() for at, entry in enumerate(entries)]
        near = sorted(every, key=lambda one: -len(asked & set(re.findall(r"\w{4,}", f"{one[2]} {one[3]}".lower()))))
        found = (Passage("handbook", f"{t}{at}", title, "h.pdf", at + 1, "", t, text) for t, at, title, text in near)
        return Passages(tuple(found)[: min(arguments.top_k, 2)])

    async def count(arguments, seconds):
        if "contracts" not in arguments.query.lower():
            raise InvalidField("There is one table, contracts, with the columns id and supplier.", field="query")
        return Rows(arguments.query, "[]", ("count",), ((47,),))

    tools = {
        "vector_search": Tool(
            "vector_search", "retrieval", "Searches the handbook.", TypedForm(VectorSearch), Passages, search, 5.0
        ),
        "sql_query": Tool(
            "sql_query", "sql_tool", "Queries the table contracts(id, supplier).", TypedForm(SqlQuery), Rows, count, 5.0
        ),
    }
    return Dispatcher(ToolSet(tools), ResultCache(MemoryStore()), max_calls=12)


async def play(case, url, name, family, *, shield=None, reviewer=None):
    """The events of one run; what was raised comes last where something was."""
    connection = OpenAIModel(url, name, lambda: "none", profile=profile_of(family, name))
    model = calling_model(connection, name, profile_of(family, name), Way(case.way))
    # One step after the other: replies are told apart by their order.
    plan = Plan(Planner(model, 300), model, model, PlanPolicy(at_once=1, iterations=2), today=lambda: TODAY)
    more = {"reviewer": reviewer} if reviewer else {}
    agent = Agent(strategies(model, AskTheModel(), plan), Limits(run_tokens=40_000), lambda: TODAY, **more)
    tools = dispatcher()
    sampling = Sampling(temperature=case.temperature, max_tokens=MAX_TOKENS)
    task = Task(case.question, max_iterations=3, seconds=1_800, sampling=sampling, strategy=case.strategy)
    events = []
    try:
        async with aclosing(agent.run(task, tools, shield and shield(tools, case.question))) as happening:
            async for event in happening:
                events.append(event)
    except Exception as error:
        events.append(error)
    finally:
        await connection.close()
    return events


_NOTED = {
    Chosen: lambda one: ["chosen", one.strategy],
    Planned: lambda one: ["planned", [[step.id, step.question, step.specialist] for step in one.steps]],
    StepFinished: lambda one: ["step", one.step_id, one.found],
    Thought: lambda one: ["thought", one.text],
    CallStarted: lambda one: ["call", one.tool, one.arguments_json],
    CallFinished: lambda one: ["result", one.tool, one.ok],
    Cited: lambda one: ["cited", one.mark],
    Finished: lambda one: ["finished", one.finish.value, one.reason, one.usage.total],
}


def noted(events):
    """What of the events is the same whenever the same replies come."""
    told = [_NOTED[type(one)](one) for one in events if type(one) in _NOTED]
    told += [["raised", type(one).__name__] for one in events if isinstance(one, Exception)]
    return {"events": told, "text": "".join(one.text for one in events if isinstance(one, Text))}


# ---- replies as they came


def packed(lines):
    """The chunks of a reply, with what is the same in all of them said once; a text stands for a chunk of only that.

    Lost are the clock of later chunks, and the folder of the model's file.
    """
    chunks = [json.loads(line) for line in lines]
    for chunk in chunks:
        chunk |= {"created": chunks[0]["created"], "model": chunks[0]["model"].rpartition("/")[2]}
    same = {key: value for key, value in chunks[0].items() if all(one.get(key, ...) == value for one in chunks)}
    rest = [{key: value for key, value in one.items() if key not in same} for one in chunks]
    return {"same": same, "chunks": [_text_of(one) if one == _chunk(_text_of(one)) else one for one in rest]}


def unpacked(reply):
    return [reply["same"] | (_chunk(one) if isinstance(one, str) else one) for one in reply["chunks"]]


def _chunk(text):
    return {"choices": [{"finish_reason": None, "index": 0, "delta": {"content": text}}]}


def _text_of(chunk):
    return chunk["choices"][0]["delta"].get("content") if chunk.get("choices") else None


@asynccontextmanager
async def serving(complete):
    """A chat completions endpoint on loopback; its base URL."""
    sock = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    web = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_config=None))
    running = asyncio.create_task(web.serve(sockets=[sock]))
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
    finally:
        web.should_exit = web.force_exit = True
        await running
