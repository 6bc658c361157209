"""Streams of models through the whole gateway: to the byte, in every cut, with every usage, to every end."""

import asyncio
import hashlib
import json

import httpx2
import pytest
import pytest_asyncio

from tests.integration.streams_stack import streams_stack, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORLD = "Año nuevo: 契約は四十七件 👩‍👩‍👧‍👦 🇪🇸 é e\u0301 ﷽ Ａ"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(tmp_path_factory):
    async with streams_stack(tmp_path_factory, timeouts={"first_token_seconds": 50, "idle_seconds": 50}) as door:
        yield door


# To the byte


async def test_a_stream_is_the_same_at_every_cut_and_at_one_byte_a_write(door):
    script = {"pieces": ["é👩‍👩‍👧", "漢"], "usage": "last", "completion_tokens": 9, "eol": "\r\n"}
    whole = await door.ask(fault=script | {"usage": "none"})
    size = len(whole.content) + 200
    before = await door.used()
    # Every offset is a cut of one of these.
    cuts = [{"cut_at": list(range(first, size, 40))} for first in range(1, 41)]
    for cut in [*cuts, {"write_bytes": 1}]:
        response = await door.ask(fault=script | cut)
        assert response.content == whole.content
    assert await door.used() - before == 41 * (11 + 9)


async def test_any_script_of_the_world_arrives_byte_by_byte(door):
    response = await door.ask(fault={"text": WORLD, "write_bytes": 1, "comments": True, "bom": True})
    text, code, done = text_of(response.text)
    assert hashlib.sha256(text.encode()).hexdigest() == hashlib.sha256(WORLD.encode()).hexdigest()
    assert (code, done) == (None, True)
    assert "\ufffd" not in response.text
    assert response.content.startswith(b"\xef\xbb\xbf: note\n")


TOOL_DELTAS = [
    [{"index": 0, "id": "a", "type": "function", "function": {"name": "get_", "arguments": ""}}],
    [{"index": 0, "id": "b", "function": {"name": "weather", "arguments": '{"ñ'}}],
    [{"id": "", "function": {"arguments": '":1}'}}, {"index": 1, "function": {"arguments": " "}}],
]


async def test_deltas_of_tool_calls_are_not_touched(door):
    response = await door.ask(fault={"repeat": 0, "tool_deltas": TOOL_DELTAS, "finish_reason": "tool_calls"})
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert [delta["tool_calls"] for delta in deltas if "tool_calls" in delta] == TOOL_DELTAS
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_no_proxy_may_hold_a_stream_back(door):
    response = await door.ask(fault={"headers": {"Cache-Control": "max-age=60"}})
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["cache-control"] == "no-cache"
    assert "content-encoding" not in response.headers
    assert "content-length" not in response.headers


async def test_every_event_is_out_before_the_next_is_written(door):
    door.mock.go_on.clear()
    async with door.asking(fault={"pieces": ["a", "b"], "hold_after": 1}) as response:
        pieces = response.aiter_raw()
        seen = b""
        while b'"content":"a"' not in seen:
            seen += await asyncio.wait_for(anext(pieces), 30)
        assert b'"content":"b"' not in seen
        door.mock.go_on.set()
        assert b'"content":"b"' in b"".join([piece async for piece in pieces])


# Usage


OPTIONS = {"none": {}, "empty": {"stream_options": {}}, "null": {"stream_options": None}}
OPTIONS |= {name: {"stream_options": {"include_usage": name == "true"}} for name in ("false", "true")}


@pytest.mark.parametrize("style", ["none", "last", "null_then_last", "every", "with_finish"])
@pytest.mark.parametrize("when", ["asked", "always"])
async def test_usage_is_charged_always_and_seen_by_those_who_asked(door, style, when):
    script = {"pieces": ["a", "b", "c"], "usage": style, "usage_when": when, "completion_tokens": 30}
    for name, options in OPTIONS.items():
        before = await door.used()
        response = await door.ask(fault=script, **options)
        charged = await door.used() - before
        sent = door.mock.requests[-1].asked
        assert sent["stream_options"] == {"include_usage": True}
        assert {k: v for k, v in sent.items() if k != "stream_options"} == door.body(fault=script)
        assert ('"usage"' in response.text) == (name == "true" and style != "none"), name
        assert text_of(response.text) == ("abc", None, True)
        # An estimate where the server says nothing: the prompt, and a token a delta.
        assert charged == 41 if style != "none" else 3 < charged < 41


async def test_a_plain_completions_usage_is_asked_for_too(door):
    before = await door.used()
    response = await door.ask("/v1/completions", prompt="x", fault={"completion_tokens": 30})
    assert '"usage"' not in response.text
    assert await door.used() - before == 41


@pytest.mark.parametrize("dimensions", [8, 3000])
async def test_a_large_answer_in_one_piece_passes_and_is_charged(door, dimensions):
    before = await door.used()
    fields = {"input": ["a"] * 50, "stream": False, "fault": {"dimensions": dimensions, "prompt_tokens": 123}}
    response = await door.ask("/v1/embeddings", **fields)
    assert [len(entry["embedding"]) for entry in response.json()["data"]] == [dimensions] * 50
    assert await door.used() - before == 123


# Ends


@pytest.mark.parametrize("ending", ["close", "reset", "half", "half_chunk", "stop"])
async def test_a_truncated_stream_never_looks_complete(door, ending):
    response = await door.ask(fault={"pieces": [str(n) for n in range(60)], "after_chunks": 40, "ending": ending})
    text, code, done = text_of(response.text)
    # Of a reset connection the last bytes may be lost.
    whole = "".join(str(n) for n in range(40))
    assert whole.startswith(text) if ending == "reset" else text == whole
    assert (code, done) == ("dependency_failed", False)
    assert 'finish_reason":"stop' not in response.text


async def test_a_truncated_whole_answer_is_no_answer(door):
    with pytest.raises(httpx2.RemoteProtocolError):
        await door.ask(stream=False, fault={"ending": "close"})


async def test_a_wrong_frame_in_mid_stream_is_a_cut(door):
    response = await door.ask(fault={"framing": "bad_chunk", "finish_reason": None, "done": False})
    assert text_of(response.text)[1:] == ("dependency_failed", False)


async def test_an_error_of_the_model_in_mid_stream_is_passed_on_and_is_the_end(door):
    error = {"error": {"message": "out of memory", "code": 500}}
    response = await door.ask(fault={"pieces": ["a", "b"], "after_chunks": 1, "error": error})
    assert text_of(response.text) == ("a", 500, False)


async def test_a_line_that_does_not_end_is_an_error_and_is_not_read_on(door):
    response = await door.ask(fault={"pieces": ["a"], "ending": "long_line"})
    assert text_of(response.text) == ("a", "bad_model_answer", False)
    record = door.mock.requests[-1]
    await asyncio.wait_for(record.closed.wait(), 30)
    assert record.sent_bytes < 60_000_000


# Who leaves


async def until_idle(door):
    """Nothing runs, nothing is counted as running, all places are free."""
    await door.used()
    async with asyncio.timeout(30):
        while door.mock.running:
            await asyncio.sleep(0.02)
    door.mock.go_on.set()
    assert (await door.ask(fault={})).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "script",
    [{"before": "silence"}, {"hold_headers": True}, {"ending": "hang", "role_chunk": False, "after_chunks": 0}],
)
async def test_a_client_that_leaves_before_the_answer_ends_the_models_work(door, script, stream):
    door.mock.go_on.clear()
    before = await door.used()
    arrived = len(door.mock.requests)
    asking = asyncio.create_task(door.ask(stream=stream, fault=script))
    record = await asyncio.wait_for(door.mock.arrived(arrived + 1), 30)
    asking.cancel()
    await asyncio.wait_for(record.closed.wait(), 30)
    assert await door.used() > before  # the prompt was read
    await until_idle(door)


async def test_a_client_that_leaves_in_mid_stream_ends_the_models_work(door):
    before = await door.used()
    script = {"pieces": ["a"] * 9, "after_chunks": 5, "ending": "hang", "prompt_tokens": 1000}
    async with door.asking(fault=script) as response:
        seen = b""
        async for piece in response.aiter_raw():
            seen += piece
            if seen.count(b'"content":"a"') == 5:
                break
    await asyncio.wait_for(door.mock.requests[-1].closed.wait(), 30)
    charged = await door.used() - before
    assert 5 < charged < 40  # the estimate of the prompt, and what was delivered
    await until_idle(door)


async def test_a_slow_reader_slows_the_model_down(door):
    script = {"text": "x" * 4000, "pieces": None, "ending": "endless", "usage": "none"}
    async with door.asking(fault=script) as response:
        await anext(response.aiter_raw())
        record = door.mock.requests[-1]
        sent = -1
        async with asyncio.timeout(60):
            while sent != record.sent_bytes:
                sent = record.sent_bytes
                await asyncio.sleep(0.5)
        assert sent < 40_000_000  # what kernels and buffers on the way hold
    await asyncio.wait_for(record.closed.wait(), 30)
    await until_idle(door)
