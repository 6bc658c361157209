"""A model's answer on its way to the client, with every way to end."""

import asyncio
import json

import pytest

from services.gateway.errors import ApiError
from services.gateway.metering import Meter
from services.gateway.streams.asking import Outgoing
from services.gateway.streams.drain import Shutdown
from services.gateway.streams.events import KEEP_ALIVE
from services.gateway.streams.opening import open_answer
from services.gateway.streams.relay import answer
from services.runtime.errors import DeadlineExceeded, DependencyFailed
from tests.unit.gateway.streams.upstreams import Client, Played, never, running

CHAT = "/v1/chat/completions"
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"hola"}}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9}}\n\n'
DONE = b"data: [DONE]\n\n"
CUT = DependencyFailed("cut", dependency="model pool")


class Door:
    """Answers one request as the gateway does: a task that ends with the client."""

    def __init__(self, *, path=CHAT, streamed=True, hides_usage=False, keep_alive_seconds=60.0):
        self.client = Client()
        self.meter = Meter(prompt_tokens=5, dispatched=True)
        self.outgoing = Outgoing(path, b"", streamed=streamed, hides_usage=hides_usage)
        self.shutdown = Shutdown()
        self._keep_alive_seconds = keep_alive_seconds

    async def serve(self, opening):
        response = await answer(opening, self.outgoing, meter=self.meter, keep_alive_seconds=self._keep_alive_seconds)
        await response({"type": "http", "state": {"shutdown": self.shutdown}}, never, self.client.send)

    async def play(self, upstream):
        await asyncio.wait_for(self.serve(open_answer(upstream, self.outgoing)), 30)
        return self.client.body


def error_of(body):
    assert b"[DONE]" not in body
    (last,) = body.strip().split(b"\n\n")[-1:]
    return json.loads(last.removeprefix(b"data: "))["error"]["code"]


async def test_a_sound_stream_comes_to_the_byte_and_the_connection_can_be_used_again():
    door, upstream = Door(), Played(TEXT, STOP + USAGE, DONE)
    assert await door.play(upstream) == TEXT + STOP + USAGE + DONE
    assert upstream.outcomes == ["complete"]
    assert door.client.headers["x-accel-buffering"] == "no"
    assert door.client.headers["cache-control"] == "no-cache"
    assert (door.meter.prompt_tokens, door.meter.completion_tokens, door.meter.exact) == (7, 9, True)
    assert door.meter.finish_reasons == ["stop"]


async def test_what_the_model_waits_with_after_its_end_keeps_nobody():
    upstream = Played(TEXT, DONE, asyncio.Event())
    assert await Door().play(upstream) == TEXT + DONE
    assert upstream.outcomes == ["complete"]


@pytest.mark.parametrize("rest", [(), (CUT,), (b'data: {"choi',), (b'data: {"choi', CUT), (USAGE,)])
async def test_a_cut_is_an_error_and_never_an_end(rest):
    door, upstream = Door(hides_usage=True), Played(TEXT, TEXT, *rest)
    body = await door.play(upstream)
    assert body.startswith(TEXT + TEXT + b'data: {"error"')
    assert error_of(body) == "dependency_failed"
    assert upstream.outcomes == ["broken"]


async def test_silence_in_mid_stream_is_an_error_too():
    upstream = Played(TEXT, DeadlineExceeded("silent", stage="model pool"))
    assert error_of(await Door().play(upstream)) == "deadline_exceeded"


async def test_a_line_without_an_end_is_an_error_and_nothing_of_it_is_kept():
    upstream = Played(TEXT, *[b"data: " + b"a" * 1_000_000] * 100)
    assert error_of(await Door().play(upstream)) == "bad_model_answer"
    assert upstream.given < 10
    assert upstream.outcomes == ["broken"]


async def test_a_models_own_error_is_passed_on_and_ends_the_stream():
    event = b'data: {"error":{"message":"CUDA","code":500}}\n\n'
    door, upstream = Door(), Played(TEXT, event, DONE)
    assert await door.play(upstream) == TEXT + event
    assert upstream.outcomes == ["broken"]


async def test_the_end_of_a_finished_answer_may_be_cut():
    assert await Door().play(Played(TEXT, STOP)) == TEXT + STOP
    assert await Door().play(Played(TEXT, DONE, CUT)) == TEXT + DONE


async def test_the_responses_api_has_error_events_of_its_own():
    body = await Door(path="/v1/responses").play(Played(b'data: {"type":"response.output_text.delta","delta":"x"}\n\n'))
    name, data = body.strip().split(b"\n\n")[-1].split(b"\n")
    assert name == b"event: error"
    event = json.loads(data[6:])
    assert event["type"] == "error"
    assert event["code"] == event["error"]["code"] == "dependency_failed"


async def test_a_client_that_leaves_in_mid_stream_is_charged_what_it_got():
    door, upstream = Door(), Played(TEXT, TEXT, asyncio.Event())
    async with running(door.serve(open_answer(upstream, door.outgoing))):
        await door.client.until(lambda client: client.body == TEXT + TEXT)
    assert upstream.outcomes == ["abandoned"]
    assert (door.meter.prompt_tokens, door.meter.completion_tokens, door.meter.exact) == (5, 2, False)


async def test_a_client_that_leaves_before_the_beginning_ends_the_opening():
    ended = asyncio.Event()
    started = asyncio.Event()

    async def opening():
        started.set()
        try:
            await never()
        finally:
            ended.set()

    for streamed in (True, False):
        ended.clear()
        started.clear()
        async with running(Door(streamed=streamed).serve(opening())):
            await asyncio.wait_for(started.wait(), 30)
        await asyncio.wait_for(ended.wait(), 30)


async def test_an_answer_that_nobody_began_to_send_is_closed():
    upstream, door = Played(TEXT), Door()
    outcome = asyncio.Event()

    async def close(given):
        upstream.outcomes.append(given)
        outcome.set()

    upstream.close = close

    async def leave():
        await answer(open_answer(upstream, door.outgoing), door.outgoing, meter=door.meter)

    await asyncio.ensure_future(leave())
    await asyncio.wait_for(outcome.wait(), 30)
    assert upstream.outcomes == ["abandoned"]


async def test_a_silent_prefill_has_signs_of_life_and_then_its_answer():
    door, go_on = Door(keep_alive_seconds=0.01), asyncio.Event()
    async with running(door.serve(open_answer(Played(go_on, TEXT, DONE), door.outgoing))) as task:
        await door.client.until(lambda client: client.body.count(KEEP_ALIVE) >= 3)
        assert door.client.status == 200
        assert door.client.headers["content-type"] == "text/event-stream; charset=utf-8"
        go_on.set()
        await asyncio.wait_for(task, 30)
    assert door.client.body.replace(KEEP_ALIVE, b"") == TEXT + DONE


async def test_a_silence_in_mid_stream_has_signs_of_life():
    door, go_on = Door(keep_alive_seconds=0.01), asyncio.Event()
    async with running(door.serve(open_answer(Played(TEXT, b"data: ", go_on, b"[DONE]\n\n"), door.outgoing))) as task:
        await door.client.until(lambda client: client.body.count(KEEP_ALIVE) >= 3)
        go_on.set()
        await asyncio.wait_for(task, 30)
    assert door.client.body.replace(KEEP_ALIVE, b"") == TEXT + DONE


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (CUT, "dependency_failed"),
        (ApiError(429, "busy", code="upstream_overloaded"), "upstream_overloaded"),
        (DeadlineExceeded("no", stage="model pool"), "deadline_exceeded"),
    ],
)
async def test_a_late_failure_is_an_event_and_an_early_one_is_raised(failure, code):
    async def opening(go_on):
        await go_on.wait()
        raise failure

    door, go_on = Door(keep_alive_seconds=0.01), asyncio.Event()
    async with running(door.serve(opening(go_on))) as task:
        await door.client.until(lambda client: client.body)
        go_on.set()
        await asyncio.wait_for(task, 30)
    assert error_of(door.client.body) == code
    with pytest.raises(type(failure)):
        await Door().serve(opening(go_on))


async def test_a_late_refusal_of_the_model_is_an_event():
    async def opening(go_on):
        await go_on.wait()
        refused = Played(
            b'{"error":{"message":"too long","type":"BadRequestError"}}', status=400, kind="application/json"
        )
        return await open_answer(refused, door.outgoing)

    door, go_on = Door(keep_alive_seconds=0.01), asyncio.Event()
    async with running(door.serve(opening(go_on))) as task:
        await door.client.until(lambda client: client.body)
        go_on.set()
        await asyncio.wait_for(task, 30)
    assert error_of(door.client.body) == "BadRequestError"


@pytest.mark.parametrize("status", [200, 400])
async def test_a_whole_answer_comes_to_the_byte(status):
    usage = b'"usage":{"prompt_tokens":3,"completion_tokens":4}'
    body = b'{ "id":"x", "model":"m", "choices":[{"finish_reason":"stop"}], ' + usage + b"}"
    door = Door(streamed=False)
    upstream = Played(body[:70], body[70:], status=status, kind="application/json", content_length=str(len(body)))
    assert await door.play(upstream) == body
    assert (door.client.status, upstream.outcomes) == (status, ["complete"])
    assert door.meter.exact == (status == 200)
    assert door.meter.response_model == ("m" if status == 200 else "")


async def test_a_cut_whole_answer_is_no_answer():
    upstream = Played(b"{" * 100, CUT, kind="application/json")
    with pytest.raises(DependencyFailed):
        await Door(streamed=False).play(upstream)
    assert upstream.outcomes == ["broken"]


async def test_the_end_of_the_process_is_an_event_and_no_cut():
    door, upstream = Door(), Played(TEXT, asyncio.Event())
    async with running(door.serve(open_answer(upstream, door.outgoing))) as task:
        await door.client.until(lambda client: client.body)
        door.shutdown.end()
        await asyncio.wait_for(task, 30)
    assert error_of(door.client.body) == "server_shutting_down"
    assert door.client.ended
    assert upstream.outcomes == ["abandoned"]


async def test_a_time_limit_of_the_callers_own_is_not_taken_for_the_end_of_the_process():
    door = Door()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await door.serve(open_answer(Played(TEXT, asyncio.Event()), door.outgoing))
    assert not door.client.ended


async def test_headers_of_the_connection_and_of_others_limits_stay_behind():
    door = Door(streamed=False)
    await door.play(
        Played(b"{}", kind="application/json", x_vllm="1", connection="close", x_ratelimit_limit_requests="1")
    )
    assert {"x-vllm": "1", "content-type": "application/json"} == door.client.headers
