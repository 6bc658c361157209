"""Time in streams: what may last, what may not, and who waits in the queue."""

import asyncio

import pytest

from services.understudy.faults import Script, faulty
from tests.integration.pools_app import pool, relaying
from tests.integration.streams_stack import streams_stack, text_of


async def test_a_long_stream_is_not_cut_by_any_limit_of_whole_answers(tmp_path_factory):
    limits = {"total_seconds": 0.5, "first_token_seconds": 50, "idle_seconds": 50}
    script = {"pieces": ["a"] * 6, "chunk_delay_seconds": 0.15}
    async with streams_stack(tmp_path_factory, timeouts=limits) as door:
        assert text_of((await door.ask(fault=script)).text) == ("a" * 6, None, True)
        late = await door.ask(stream=False, fault={"before": "silence"})
        assert late.status_code == 504


async def test_silence_in_mid_stream_ends_with_an_error(tmp_path_factory):
    limits = {"total_seconds": 50, "first_token_seconds": 50, "idle_seconds": 0.3}
    async with streams_stack(tmp_path_factory, timeouts=limits) as door:
        response = await door.ask(fault={"pieces": ["a"] * 9, "after_chunks": 1, "ending": "hang"})
        assert text_of(response.text) == ("a", "deadline_exceeded", False)
        await asyncio.wait_for(door.mock.requests[-1].closed.wait(), 30)


async def test_a_client_that_leaves_the_queue_is_gone_at_once(tmp_path_factory):
    async with streams_stack(tmp_path_factory, max_in_flight=1) as door:
        first = asyncio.create_task(door.ask(fault={"hold_after": 1}))
        await asyncio.wait_for(door.mock.arrived(1), 30)
        waiting = [asyncio.create_task(door.ask(fault={"pieces": ["b"]}, stream=stream)) for stream in (True, False)]
        usage = {}
        async with asyncio.timeout(30):
            while usage.get("used") != 4:  # both, the first, and this one
                usage = (await door.http.get("/v1/usage")).json()["concurrent_requests"]
                await asyncio.sleep(0.02)
        for task in waiting:
            task.cancel()
        async with asyncio.timeout(30):
            while usage["used"] != 2:
                usage = (await door.http.get("/v1/usage")).json()["concurrent_requests"]
                await asyncio.sleep(0.02)
        assert not first.done()
        door.mock.go_on.set()
        assert (await first).status_code == 200
        assert len(door.mock.requests) == 1


@pytest.mark.parametrize("ending", ["complete", "close"])
async def test_a_silent_prefill_has_comments_and_then_its_answer_or_its_error(ending):
    script = {"pieces": ["a"], "hold_after": 0, "ending": ending}
    script |= {"repeat": 0, "hold_headers": True} if ending == "close" else {}
    async with faulty() as mock, relaying(pool(mock), keep_alive_seconds=0.1) as door:
        body = door.body(stream=True, fault=script)
        async with door.http.stream("POST", "/v1/chat/completions", json=body) as response:
            seen = b""
            async for piece in response.aiter_raw():
                seen += piece
                if seen.count(b": keep-alive\n\n") == 3:
                    mock.go_on.set()
        text, code, done = text_of(seen.decode())
        assert (text, done) == (("a", True) if ending == "complete" else ("", False))
        assert code == (None if ending == "complete" else "dependency_failed")


async def test_while_only_comments_went_out_another_server_may_still_answer():
    async with faulty() as first, faulty() as second, relaying(pool(first, second), keep_alive_seconds=0.1) as door:
        first.script = second.script = Script(hold_headers=True, before="answer", status=503)
        body = door.body(stream=True)
        async with door.http.stream("POST", "/v1/chat/completions", json=body) as response:
            pieces = response.aiter_raw()
            seen = await anext(pieces)
            assert seen.startswith(b": keep-alive\n\n")
            other = second if first.requests else first
            other.script = Script(pieces=("a",))
            (first if first.requests else second).go_on.set()
            seen += b"".join([piece async for piece in pieces])
        assert text_of(seen.decode()) == ("a", None, True)
