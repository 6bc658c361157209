"""The connections to a model's server, one that writes what it is told to."""

import asyncio
import contextlib
import socket
import struct
from contextlib import asynccontextmanager

import pytest

from services.gateway.pools.connection import ConnectionLost
from services.gateway.pools.origin import Origin

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\nok"
# In place of what is to be written.
WAIT, RESET = b"wait", b"reset"


class Server:
    """Answers each request with the pieces of the next answer, then closes unless it is to keep the connection."""

    def __init__(self):
        self.answers = []
        self.heads = []
        self.go_on = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            keep = True
            while keep:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(2)
                pieces, keep = self.answers.pop(0)
                for piece in pieces:
                    if piece == WAIT:
                        await asyncio.wait_for(self.go_on.wait(), 60)
                    elif piece == RESET:
                        linger = struct.pack("ii", 1, 0)
                        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                        writer.transport.abort()
                    else:
                        writer.write(piece)
                        await writer.drain()
        writer.close()
        self.gone.set()


@asynccontextmanager
async def listening(server):
    serving = set()

    async def serve(reader, writer):
        serving.add(asyncio.current_task())
        await server(reader, writer)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    origin = Origin(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1", connect_seconds=20)
    try:
        yield origin
    finally:
        origin.drop()
        listener.close()
        await asyncio.wait_for(asyncio.gather(*serving), 60)


async def body_of(reply):
    found = b""
    while piece := await reply.read():
        found += piece
    return found


async def ask(origin):
    async with asyncio.timeout(60):
        return await body_of(await origin.post("/v1/x", [], b"{}"))


async def test_what_came_before_a_cut_goes_on_however_slow_the_reader():
    server = Server()
    server.answers = [([b"HTTP/1.1 200 OK\r\ncontent-length: 300\r\n\r\n", b"x" * 200], False)]
    async with listening(server) as origin:
        reply = await origin.post("/v1/x", [], b"{}")
        await asyncio.wait_for(server.gone.wait(), 60)
        await asyncio.sleep(0.05)
        found = b""
        while len(found) < 200:
            found += await reply.read()
        assert found == b"x" * 200
        with pytest.raises(ConnectionLost):
            await reply.read()


async def test_a_reset_ends_no_answer_that_has_no_length():
    server = Server()
    server.answers = [([UNTIL_CLOSED, WAIT, RESET], False)]
    async with listening(server) as origin:
        reply = await origin.post("/v1/x", [], b"{}")
        assert await reply.read()
        server.go_on.set()
        with pytest.raises(ConnectionLost):
            await body_of(reply)


async def test_a_used_connection_that_died_within_a_head_is_no_reason_to_send_again():
    server = Server()
    server.answers = [([OK], True), ([OK[:20]], False), ([OK], True)]
    async with listening(server) as origin:
        assert await ask(origin) == b"ok"
        with pytest.raises(ConnectionLost):
            await ask(origin)
    assert len(server.heads) == 2


@pytest.mark.parametrize("surplus", [OK.replace(b"ok", b"no"), b"HTTP/1.1 408 Request Timeout\r\n", b"x"])
@pytest.mark.parametrize("apart", [False, True])
async def test_what_a_server_sends_unasked_is_never_the_next_answer(surplus, apart):
    server = Server()
    server.answers = [([OK, surplus] if apart else [OK + surplus], True), ([OK], True)]
    async with listening(server) as origin:
        assert await ask(origin) == b"ok"
        await asyncio.wait_for(server.gone.wait(), 60)
        assert await ask(origin) == b"ok"


async def test_an_origin_that_is_closed_lets_its_answers_end_and_keeps_no_connection():
    server = Server()
    server.answers = [([OK[:-1], WAIT, OK[-1:]], True)]
    async with listening(server) as origin:
        reply = await origin.post("/v1/x", [], b"{}")
        origin.close()
        server.go_on.set()
        assert await body_of(reply) == b"ok"
        await asyncio.wait_for(server.gone.wait(), 60)


async def test_whoever_leaves_in_the_middle_of_sending_sends_no_more():
    connected, left, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    size, got = 64 * 2**20, 0

    async def slow(reader, writer):
        nonlocal got
        writer.transport.pause_reading()
        connected.set()
        await left.wait()
        writer.transport.resume_reading()
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                got += len(piece)
        writer.close()
        ended.set()

    async with listening(slow) as origin:
        asking = asyncio.create_task(origin.post("/v1/x", [], b"x" * size))
        await asyncio.wait_for(connected.wait(), 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        left.set()
        await asyncio.wait_for(ended.wait(), 60)
    assert got < size
