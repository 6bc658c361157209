"""Bodies of every size, announced or not, and clients that ask before they send."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from tests.integration.gateway_stack import key_of
from tests.integration.streams_stack import BODY_BYTES, streams_stack

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATH = "/v1/chat/completions"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(tmp_path_factory):
    async with streams_stack(tmp_path_factory) as door:
        yield door


def body_of(size):
    body = json.dumps({"model": "mini-1", "messages": [], "pad": ""}).encode()
    return body[:-2] + b"x" * (size - len(body)) + b'"}'


@pytest.mark.parametrize("size", [32_767, 32_769, 1024 * 1024, BODY_BYTES - 1, BODY_BYTES, BODY_BYTES + 1, 3_000_000])
@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_passes_whole_up_to_the_limit(door, size, announced):
    body = body_of(size)

    async def pieces():
        for start in range(0, size, 60_000):
            yield body[start : start + 60_000]

    headers = {"content-type": "application/json"}
    response = await door.http.post(PATH, content=body if announced else pieces(), headers=headers)
    if size > BODY_BYTES:
        assert response.status_code == 413
        error = response.json()["error"]
        assert (error["code"], error["type"]) == ("request_too_large", "invalid_request_error")
        assert str(BODY_BYTES) in error["message"]
    else:
        assert response.status_code == 200
        assert door.mock.requests[-1].body == body


@asynccontextmanager
async def connected(door):
    """A raw connection, for what HTTP clients do not do."""
    host, port = door.stack.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


def head(*more):
    lines = [f"POST {PATH} HTTP/1.1", "Host: x", f"Authorization: Bearer {key_of('metered')}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


async def status_of(reader):
    async with asyncio.timeout(30):
        head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split()[1])


async def test_who_asks_before_sending_is_told_to_go_on(door):
    body = body_of(40_000)
    async with connected(door) as (reader, writer):
        writer.write(head(f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert await status_of(reader) == 100
        writer.write(body)
        assert await status_of(reader) == 200
    assert door.mock.requests[-1].body == body


async def test_who_asks_with_too_much_is_refused_without_sending(door):
    async with connected(door) as (reader, writer):
        writer.write(head(f"Content-Length: {BODY_BYTES + 1}", "Expect: 100-continue"))
        assert await status_of(reader) == 413


async def test_who_leaves_in_the_middle_of_a_body_leaves_nothing_behind(door):
    arrived = len(door.mock.requests)
    for more in ("Content-Length: 1000", "Transfer-Encoding: chunked"):
        async with connected(door) as (_, writer):
            writer.write(head(more) + b"40\r\n{" if "chunked" in more else head(more) + b'{"model"')
            await writer.drain()
    await door.used()  # waits until no place is taken
    assert len(door.mock.requests) == arrived


async def test_a_connection_serves_on_after_a_refused_body(door):
    async with connected(door) as (reader, writer):
        for size in (BODY_BYTES + 1, 2_000):
            body = body_of(size)
            writer.write(head(f"Content-Length: {size}") + body)
            await writer.drain()
            async with asyncio.timeout(30):
                answer = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split()[1]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length")
                )
                await reader.readexactly(length)
            assert answer.split()[1] == (b"413" if size > BODY_BYTES else b"200")
