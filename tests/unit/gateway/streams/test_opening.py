"""What of a model's answer is known before anything of it goes to the client."""

import asyncio
import json

import pytest

from services.gateway.streams.asking import Outgoing
from services.gateway.streams.opening import NotOpened, open_answer
from services.runtime.errors import DeadlineExceeded, DependencyFailed
from tests.unit.gateway.streams.upstreams import Played, running

STREAM, WHOLE = Outgoing("/v1/chat/completions", b"", streamed=True), Outgoing("/v1/chat/completions", b"")
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
CALL = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a"}]}}]}\n\n'
EMPTY = b'data: {"choices":[],"prompt_filter_results":[],"usage":null}\n\n'
CUT = DependencyFailed("cut", dependency="model pool")


def error(code, **fields):
    return b"data: " + json.dumps({"error": {"message": "m", "code": code, **fields}}).encode() + b"\n\n"


async def refused(upstream, outgoing=STREAM):
    with pytest.raises(NotOpened) as caught:
        await open_answer(upstream, outgoing)
    assert upstream.outcomes == ["broken"]
    return caught.value


@pytest.mark.parametrize("content", [TEXT, CALL, b"data: [DONE]\n\n", b"data: what?\n\n"])
async def test_a_preamble_is_held_until_there_is_content(content):
    upstream = Played(b": hi\n\n" + ROLE[:40], ROLE[40:], EMPTY, content[:9], content[9:], TEXT)
    opened = await open_answer(upstream, STREAM)
    assert b"".join(event.raw for event in opened.events) == b": hi\n\n" + ROLE + EMPTY + content
    assert [piece async for piece in opened.rest] == [TEXT]
    assert upstream.outcomes == []


async def test_nothing_is_open_while_only_the_role_has_come():
    async with running(open_answer(Played(ROLE, asyncio.Event()), STREAM)) as task:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()


@pytest.mark.parametrize("before", [b"", ROLE, b": ping\n\n"])
@pytest.mark.parametrize(
    ("code", "status", "retryable"),
    [(429, 429, True), (503, 503, True), (400, 400, False), ("rate", 502, True), (None, 502, True), (200, 502, True)],
)
async def test_an_error_in_place_of_content_has_its_own_status(before, code, status, retryable):
    found = await refused(Played(before + error(code), b"data: [DONE]\n\n"))
    assert (found.status_code, found.retryable) == (status, retryable)


async def test_a_busy_model_says_when_to_come_again():
    found = await refused(Played(error(429), retry_after="7"))
    assert (found.code, found.headers) == ("upstream_overloaded", {"Retry-After": "7"})
    assert (await refused(Played(error(429), retry_after="soon"))).headers == {"Retry-After": "1"}


async def test_the_message_of_a_servers_fault_stays_inside():
    found = await refused(Played(error(500, message="CUDA error at /opt/secret")))
    assert "CUDA" not in found.detail


async def test_a_refused_request_is_told_why():
    found = await refused(Played(error(400, type="BadRequestError", param="messages")))
    assert (found.detail, found.code, found.param) == ("m", "BadRequestError", "messages")


@pytest.mark.parametrize(
    "upstream",
    [
        Played(b"<html>busy</html>", kind="text/html; charset=utf-8"),
        Played(b'{"id":"x","choices":[]}', kind="application/json"),
        Played(b"what?", kind="application/json"),
        Played(b"", kind="application/json"),
        Played(),
        Played(ROLE),
        Played(ROLE, b'data: {"cho'[:5]),
        Played(b"\x1f\x8b", content_encoding="gzip"),
        Played(b"data: " + b"a" * 5_000_000),
    ],
)
async def test_what_is_no_stream_is_a_bad_answer(upstream):
    found = await refused(upstream)
    assert (found.status_code, found.code, found.retryable) == (502, "bad_model_answer", True)


@pytest.mark.parametrize("failure", [CUT, DeadlineExceeded("silent", stage="model pool")])
async def test_a_failure_of_the_connection_passes_and_closes(failure):
    upstream = Played(ROLE, failure)
    with pytest.raises(type(failure)):
        await open_answer(upstream, STREAM)
    assert upstream.outcomes == ["broken"]


async def test_who_stops_waiting_closes_the_answer_as_abandoned():
    upstream = Played(ROLE, asyncio.Event())
    async with running(open_answer(upstream, STREAM)):
        await asyncio.sleep(0)
    assert upstream.outcomes == ["abandoned"]


async def test_a_preamble_that_does_not_end_is_passed_on():
    comments = b": still here\n\n" * 10_000
    opened = await open_answer(Played(comments, asyncio.Event()), STREAM)
    assert b"".join(event.raw for event in opened.events) == comments


@pytest.mark.parametrize(
    "body", [b'{"error":{"message":"m","code":429}}', b' {"object":"error","message":"m","code":429}']
)
@pytest.mark.parametrize("outgoing", [STREAM, WHOLE])
async def test_an_error_in_a_whole_answer_that_claims_success(body, outgoing):
    found = await refused(Played(*(bytes([byte]) for byte in body), kind="application/json"), outgoing)
    assert (found.status_code, found.code) == (429, "upstream_overloaded")


async def test_a_page_is_no_answer_to_anybody():
    assert (await refused(Played(b"<html>", kind="text/html"), WHOLE)).status_code == 502


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"object":"list","data":[]}', b'{"error":null,"choices":[]}', b"\x93NUMPY"]
)
async def test_other_bodies_are_whole(body):
    opened = await open_answer(Played(*(bytes([byte]) for byte in body), kind="application/json"), WHOLE)
    assert opened.framer is None
    assert opened.first + b"".join([piece async for piece in opened.rest]) == body


async def test_a_refusal_with_its_own_status_is_not_looked_into():
    upstream = Played(b"no", status=400, kind="application/json")
    opened = await open_answer(upstream, STREAM)
    assert (opened.first, upstream.given) == (b"", 0)


async def test_a_stream_that_nobody_asked_for_is_one():
    assert (await open_answer(Played(TEXT), WHOLE)).framer is not None
