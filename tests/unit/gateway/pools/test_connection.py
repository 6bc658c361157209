import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.pools.connection import Connection, ConnectionLost, Silent


class Wire:
    """The other end of a connection, in memory."""

    def __init__(self):
        self.written = b""
        self.aborted = False
        self.paused = False
        self.idle = []
        self.closed = []
        self.connection = Connection(self)
        self.connection.connection_made(self)

    def on_idle(self, connection):
        self.idle.append(connection)

    def on_closed(self, connection):
        self.closed.append(connection)

    def write(self, data):
        self.written += data

    def writelines(self, pieces):
        self.written += b"".join(pieces)

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.aborted

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False

    def get_write_buffer_size(self):
        return 0


async def body_of(reply):
    await reply.head
    found = b""
    while piece := await reply.read():
        found += piece
    return found


FRAMINGS = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nhello\r\n\r\nyo",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=1\r\n"
    b"\r\n\r\nyo\r\n0\r\nt: 1\r\n\r\n",
    "interim": b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello\r\n\r\nyo",
    "until closed": b"HTTP/1.1 200 OK\r\n\r\nhello\r\n\r\nyo",
    "of old": b"HTTP/1.0 200 OK\r\n\r\nhello\r\n\r\nyo",
}


@settings(max_examples=200, deadline=None)
@given(kind=st.sampled_from(sorted(FRAMINGS)), cuts=st.sets(st.integers(1, 160)))
def test_an_answer_is_the_same_wherever_it_is_cut(kind, cuts):
    async def run():
        wire, answer = Wire(), FRAMINGS[kind]
        reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
        edges = [0, *sorted(cut for cut in cuts if cut < len(answer)), len(answer)]
        for start, end in pairwise(edges):
            wire.connection.data_received(answer[start:end])
        if kind in ("until closed", "of old"):
            wire.connection.connection_lost(None)
        assert await body_of(reply) == b"hello\r\n\r\nyo"
        assert reply.status == 200
        assert b"link" not in dict(reply.headers)
        assert bool(wire.idle) == (kind in ("length", "chunked", "interim"))

    asyncio.run(run())


@settings(max_examples=200, deadline=None)
@given(kind=st.sampled_from(["length", "chunked", "interim"]), length=st.integers(0, 200))
def test_an_answer_that_ends_early_is_never_taken_for_whole(kind, length):
    async def run():
        wire, answer = Wire(), FRAMINGS[kind]
        length_ = min(length, len(answer) - 1)
        reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
        if length_:
            wire.connection.data_received(answer[:length_])
        wire.connection.connection_lost(None)
        with pytest.raises(ConnectionLost) as lost:
            await body_of(reply)
        assert lost.value.any_byte == (length_ > 0)
        assert not wire.idle

    asyncio.run(run())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_noise_ends_the_connection_and_nothing_else(noise):
    async def run():
        wire = Wire()
        reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
        wire.connection.data_received(noise)
        wire.connection.data_received(FRAMINGS["length"])
        wire.connection.connection_lost(None)
        try:
            await body_of(reply)
        except ConnectionLost:
            assert wire.aborted or not wire.idle

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000,
    ],
)
async def test_an_answer_that_is_not_clear_is_none(answer):
    wire = Wire()
    reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
    wire.connection.data_received(answer)
    with pytest.raises(ConnectionLost):
        await body_of(reply)
    assert wire.aborted


async def test_bytes_after_an_answer_end_the_connection():
    wire = Wire()
    reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
    wire.connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n")
    assert await body_of(reply) == b"ok"
    assert wire.connection.closed
    idle = Wire()
    idle.connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert idle.connection.closed


async def test_the_server_is_read_no_faster_than_the_client_reads():
    wire = Wire()
    reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
    wire.connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n")
    await reply.head
    for _ in range(5):
        wire.connection.data_received(b"x" * 65536)
    assert wire.paused
    await reply.read()
    assert not wire.paused


async def test_silence_ends_an_answer_and_a_slow_reader_does_not():
    wire = Wire()
    reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
    wire.connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx")
    reply.limit(idle_seconds=0.05)
    await asyncio.sleep(0.2)
    assert await reply.read() == b"x"
    with pytest.raises(Silent):
        await reply.read()
    assert wire.aborted


async def test_a_deadline_ends_an_answer_that_goes_on():
    wire = Wire()
    reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
    wire.connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n")
    reply.limit(idle_seconds=60, deadline=asyncio.get_running_loop().time() + 0.1)

    async def drip():
        while not wire.aborted:
            wire.connection.data_received(b"x")
            await asyncio.sleep(0.01)

    dripping = asyncio.create_task(drip())
    with pytest.raises(Silent):
        await body_of(reply)
    await dripping


async def test_an_answer_that_nobody_wants_takes_its_connection_with_it():
    wire = Wire()
    reply = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
    reply.abandon()
    reply.abandon()
    assert wire.aborted
    whole = Wire()
    reply = whole.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
    whole.connection.data_received(FRAMINGS["length"])
    reply.abandon()
    assert not whole.aborted
    assert whole.idle
