"""The connection to the store that all requests share, against a server that says what a test wants it to say."""

import asyncio
import socket

import pytest
from redis.exceptions import ConnectionError, NoScriptError, ResponseError

from services.gateway.limits.channel import Channel
from services.runtime.valkey import connection_pool

PATIENCE_SECONDS = 20


class Server:
    """One connection at a time, read and written by hand: what is not read by the test is not answered."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_SECONDS)
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connection = None

    async def accept(self, opening):
        """Takes the connection that `opening` makes, and answers its greeting and its first command with `+OK`."""
        waiting = asyncio.ensure_future(opening)
        if self.connection is not None:
            self.connection.close()
        self.connection, _ = await asyncio.to_thread(self._listener.accept)
        self.connection.settimeout(PATIENCE_SECONDS)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not waiting.done():
                told = await asyncio.to_thread(self.connection.recv, 65536)
                self.connection.sendall(b"+OK\r\n" * told.count(b"*"))
                await asyncio.sleep(0.01)
        return waiting.result()

    def received(self):
        """What has come; waits for it, with the loop standing still."""
        return self.connection.recv(65536)

    def close(self):
        for one in (self._listener, self.connection):
            if one is not None:
                one.close()


@pytest.fixture
async def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
async def channel(server):
    channel = Channel(connection_pool(server.url, protocol=2), PATIENCE_SECONDS)
    assert await server.accept(channel.call("PING")) == b"OK"
    yield channel
    await channel.close()


async def test_commands_go_out_together_while_others_wait(server, channel):
    first = channel.call("GET", "1")
    assert server.received() == b"*2\r\n$3\r\nGET\r\n$1\r\n1\r\n"  # nobody waited
    rest = [channel.call("GET", "2"), channel.call("GET", "3")]
    server.connection.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.received()
    server.connection.settimeout(PATIENCE_SECONDS)
    rest.append(channel.call("GET", "4", at_once=True))
    assert [server.received()] == [b"".join(b"*2\r\n$3\r\nGET\r\n$1\r\n%d\r\n" % n for n in (2, 3, 4))]
    server.connection.sendall(b"$1\r\na\r\n$1\r\nb\r\n:7\r\n$-1\r\n")
    assert await asyncio.gather(first, *rest) == [b"a", b"b", 7, None]


async def test_what_waits_for_others_goes_out_all_the_same(server, channel):
    answers = [channel.call("GET", "1"), channel.call("GET", "2")]
    told = await asyncio.to_thread(server.received)
    while told.count(b"GET") < 2:
        told += await asyncio.to_thread(server.received)
    server.connection.sendall(b"+1\r\n+2\r\n")
    assert await asyncio.gather(*answers) == [b"1", b"2"]


async def test_who_waits_no_more_keeps_the_place_of_the_answer(server, channel):
    gone, here = channel.call("GET", "1"), channel.call("GET", "2")
    gone.cancel()
    server.connection.sendall(b"+1\r\n+2\r\n")
    assert await here == b"2"


async def test_errors_are_the_answers_of_those_who_asked(server, channel):
    answers = [channel.call("GET", str(number)) for number in range(3)]
    server.connection.sendall(b"-NOSCRIPT No matching script.\r\n-ERR no\r\n+fine\r\n")
    found = await asyncio.gather(*answers, return_exceptions=True)
    assert [type(one) for one in found] == [NoScriptError, ResponseError, bytes]


@pytest.mark.parametrize("nonsense", [b"nonsense\r\n", b"+1\r\n+2\r\n+3\r\n"], ids=["no answer", "more than was asked"])
async def test_after_what_nobody_understands_another_connection_is_opened(server, channel, nonsense):
    answers = [channel.call("GET", "1"), channel.call("GET", "2")]
    server.connection.sendall(nonsense)
    await asyncio.wait(answers, timeout=PATIENCE_SECONDS)
    if nonsense.startswith(b"n"):
        assert {type(one.exception()) for one in answers} == {ConnectionError}
    assert await asyncio.to_thread(read_to_end, server.connection) is True
    assert await server.accept(channel.call("PING")) == b"OK"


def read_to_end(connection):
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


async def test_a_lost_connection_fails_those_who_wait(server, channel):
    answers = [channel.call("GET", "1"), channel.call("GET", "2")]
    server.connection.close()
    found = await asyncio.gather(*answers, return_exceptions=True)
    assert {type(one) for one in found} == {ConnectionError}
    assert await server.accept(channel.call("PING")) == b"OK"


async def test_the_oldest_of_those_who_wait_says_when_it_is_too_long(server):
    channel = Channel(connection_pool(server.url, protocol=2), 1)
    await server.accept(channel.call("PING"))
    answers = [channel.call("GET", "1")]
    await asyncio.sleep(0.5)
    answers.append(channel.call("GET", "2"))
    found = await asyncio.gather(*answers, return_exceptions=True)
    assert {type(one) for one in found} == {TimeoutError}
    await channel.close()
