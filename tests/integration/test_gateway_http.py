"""What uvicorn leaves open on a connection: heads without bounds, and requests to change the protocol."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import uvicorn

from services.gateway.server import HttpServer, http_server, listen
from services.gateway.telemetry.bad_requests import Http

PATIENCE_SECONDS = 30
FLOOD = b"x-a: " + b"a" * 70_000


async def echo(scope, receive, send):
    """The body, as it was received."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Hasty(Http):
    head_seconds = 0.2


@asynccontextmanager
async def connected(server):
    """A connection to a server that echoes."""
    listener = listen("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield reader, writer
    finally:
        writer.close()
        server.should_exit = server.force_exit = True
        await serving


def hasty(idle_seconds):
    config = uvicorn.Config(echo, http=Hasty, lifespan="off", log_config=None, timeout_keep_alive=idle_seconds)
    return HttpServer(config)


async def answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


@pytest.mark.parametrize("flood", [FLOOD, b"x-a: b\r\n" * 9_000], ids=["one header", "many headers"])
async def test_a_head_has_bounds(flood):
    async with connected(http_server(echo, 1)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n" + flood)
        status, body = await answer(reader)
        assert (status, json.loads(body)["error"]["code"]) == (431, "headers_too_large")
        assert await reader.read() == b""


@pytest.mark.parametrize("flood", [b"0\r\n" + FLOOD, b"1;" + b"a" * 70_000], ids=["a trailer", "an extension"])
async def test_what_is_between_the_content_has_bounds(flood):
    heard = asyncio.Event()

    async def hear(scope, receive, send):
        await receive()
        heard.set()
        await echo(scope, receive, send)

    async with connected(http_server(hear, 1)) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await heard.wait()
        writer.write(flood)
        assert (await answer(reader))[0] == 431
        assert await reader.read() == b""


async def test_a_large_body_is_no_head():
    async with connected(http_server(echo, 1)) as (reader, writer):
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\ncontent-length: 300000\r\n\r\n" + b"a" * 300_000)
            assert await answer(reader) == (200, b"a" * 300_000)


async def test_a_head_that_does_not_end_is_not_waited_for():
    async with connected(hasty(60)) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n")
        await asyncio.sleep(0.5)  # a body has time
        writer.write(b"ab")
        assert await answer(reader) == (200, b"ab")
        writer.write(b"GET / HTTP/1.1\r\nhost:")
        status, body = await answer(reader)
        assert (status, json.loads(body)["error"]["code"]) == (408, "request_timeout")
        assert await reader.read() == b""


async def test_a_connection_that_nobody_uses_is_closed():
    async with connected(hasty(1)) as (reader, _):
        assert await reader.read() == b""


UPGRADE = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"


@pytest.mark.parametrize("protocol", [UPGRADE, b"connection: upgrade\r\nupgrade: websocket\r\n"], ids=["h2c", "ws"])
@pytest.mark.parametrize("pieces", [1, 2, 1000])
async def test_a_request_to_change_the_protocol_is_answered_as_it_is(protocol, pieces):
    """Java's own client sends it with every first request over plain HTTP."""
    head = b"POST / HTTP/1.1\r\n" + protocol
    sent = (
        head + b"content-length: 5\r\n\r\nfirst"
        + head + b"transfer-encoding: chunked\r\n\r\n6\r\nsecond\r\n0\r\n\r\n"
        + b"GET / HTTP/1.1\r\n" + protocol + b"\r\n"
        + b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\nlast"
    )  # fmt: skip
    async with connected(http_server(echo, 1)) as (reader, writer):
        size = -(-len(sent) // pieces)
        for start in range(0, len(sent), size):
            writer.write(sent[start : start + size])
            await asyncio.sleep(0)
        assert [await answer(reader) for _ in range(4)] == [
            (200, b"first"),
            (200, b"second"),
            (200, b""),
            (200, b"last"),
        ]
