"""How our server writes answers: what uvicorn would write, in fewer pieces; and that it forgets them at once."""

import asyncio
import gc
import weakref

import pytest

from services.gateway.edge import Edge
from services.gateway.server import http_server
from tests.integration.test_gateway_http import PATIENCE_SECONDS, connected

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD = GET.replace(b"GET", b"HEAD")


def app_of(*messages, status=200, headers=(), before_body=None):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        if before_body is not None:
            await before_body.wait()
        for number, body in enumerate(messages, 1):
            await send({"type": "http.response.body", "body": body, "more_body": number < len(messages)})

    return app


def length(number):
    return (b"content-length", b"%d" % number)


async def exchange(app, request=GET, *, least=None):
    """What the server says besides the date: until it closes, or has said that many bytes."""
    said = b""
    async with connected(http_server(app, 1)) as (reader, writer):
        writer.write(request)
        while least is None or len(without_date(said)) < least:
            piece = await reader.read(65536)
            said += piece
            if not piece:
                break
    return without_date(said)


def without_date(answer):
    return b"\r\n".join(line for line in answer.split(b"\r\n") if not line.startswith(b"date:"))


@pytest.mark.parametrize(
    ("app", "request_", "answer"),
    [
        (app_of(b"hola", headers=[length(4)]), GET, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhola"),
        (app_of(b"ho", b"la", headers=[(b"Content-Length", b"4")]), GET,
         b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhola"),
        (app_of(b"ho", b"la"), GET,
         b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nho\r\n2\r\nla\r\n0\r\n\r\n"),
        (app_of(b""), GET, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        (app_of(b"", headers=[length(4)]), HEAD, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"),
        (app_of(b"hola"), HEAD, b"HTTP/1.1 200 OK\r\n\r\n"),
        (app_of(b"", status=204), GET, b"HTTP/1.1 204 No Content\r\n\r\n"),
        (app_of(b"hola", headers=[length(4), (b"connection", b"close")]), GET,
         b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nhola"),
        (app_of(b"hola", headers=[length(4)]), b"GET / HTTP/1.0\r\n\r\n",
         b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nhola"),
    ],
)  # fmt: skip
async def test_an_answer_is_what_http_says(app, request_, answer):
    assert await exchange(app, request_, least=len(answer)) == answer


async def test_a_large_body_comes_whole_behind_its_head():
    body = b"a" * 3_000_000
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 3000000\r\n\r\n"
    assert await exchange(app_of(body, headers=[length(len(body))]), least=len(head + body)) == head + body


@pytest.mark.parametrize("headers", [[], [length(4)]], ids=["a stream", "one piece"])
async def test_a_head_does_not_wait_for_a_body_that_does_not_come(headers):
    go_on = asyncio.Event()
    app = app_of(b"hola", headers=headers, before_body=go_on)
    async with connected(http_server(app, 1)) as (reader, writer):
        writer.write(GET)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        go_on.set()
        assert await reader.readuntil(b"hola")


@pytest.mark.parametrize(
    "header",
    [(b"x-a", b"1\r\nx-b: 2"), (b"x-a", b"1\nx-b: 2"), (b"x-a", b"1\rx"), (b"x-a\r\nx-b", b"1"), (b"x", b"\0")],
)
async def test_a_header_that_holds_a_break_is_never_sent(header):
    answer = await exchange(app_of(b"hola", headers=[length(4), header]))
    assert b"x-b" not in answer
    assert b"hola" not in answer


@pytest.mark.parametrize("size", [3, 5])
async def test_a_body_of_another_length_than_was_said_ends_the_connection(size):
    answer = await exchange(app_of(b"hola", headers=[length(size)]))
    assert b"hola" not in answer


async def test_requests_that_come_at_once_are_answered_in_their_order():
    async def app(scope, receive, send):
        await app_of(scope["path"].encode(), headers=[length(len(scope["path"]))])(scope, receive, send)

    requests = b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number for number in range(20))
    paths = [b"/%d" % number for number in range(20)]
    answers = b"".join(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(path), path) for path in paths)
    assert await exchange(app, requests, least=len(answers)) == answers


async def test_nothing_of_an_answered_request_waits_for_the_garbage_collector():
    """It would have to look for it among all that is there: a tenth of all work, once."""
    known = []

    async def app(scope, receive, send):
        known.append(weakref.ref(scope["state"]["line"]))
        await app_of(b"hola", headers=[length(4)])(scope, receive, send)

    async with connected(http_server(Edge(app), 1)) as (reader, writer):
        gc.disable()
        try:
            for _ in range(3):
                writer.write(GET)
                await reader.readuntil(b"hola")
            async with asyncio.timeout(PATIENCE_SECONDS):
                # The connection keeps what it knows of its last request.
                while any(reference() is not None for reference in known[:-1]):
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()
