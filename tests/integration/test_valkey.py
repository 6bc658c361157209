"""A command can be cancelled at any moment, and its caller ends."""

import asyncio
import itertools
import secrets
import socket
import struct

import pytest
import uvloop
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, ReadOnlyError

from services.runtime.valkey import connection_pool
from tests.integration.valkey_proxy import valkey_proxy


@pytest.mark.parametrize("wait_seconds", [0, 1])
async def test_a_command_ends_with_its_callers_cancellation_whenever_that_comes(valkey_url, wait_seconds):
    async with Redis.from_pool(connection_pool(valkey_url, max_connections=4, wait_seconds=wait_seconds)) as client:
        for steps in range(30):
            await client.ping()  # so that there is a connection, and the command is what is cancelled
            task = asyncio.create_task(client.execute_command("BLPOP", f"nothing:{secrets.token_hex(4)}", 0))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task}, timeout=2)
            assert task.cancelled(), f"after {steps} steps"


async def test_a_connection_to_a_server_that_became_a_replica_is_given_up(valkey_url):
    key = f"test:{secrets.token_hex(4)}"
    async with valkey_proxy(valkey_url) as proxy, Redis.from_pool(connection_pool(proxy.url)) as client:
        proxy.refused = {"SET": "READONLY You can't write against a read only replica."}
        with pytest.raises(ReadOnlyError):
            await client.set(key, 1, px=1000)
        proxy.fail_over()
        assert await client.set(key, 1, px=1000)


async def ping_after_a_reset(retries):
    """A server that answers once on its first connection and resets it; the answer to what comes next."""
    connections = itertools.count()

    async def serve(reader, writer):
        number = next(connections)
        while await reader.read(1000):
            writer.write(b"+PONG\r\n")
            await writer.drain()
            if number == 0:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}?protocol=2"
        pool = connection_pool(url, retries=retries, driver_info=None)
        async with Redis.from_pool(pool) as client:
            assert await client.ping()
            await asyncio.sleep(0.1)
            return await client.ping()


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_connection_that_was_reset_meanwhile_is_given_up_whatever_the_event_loop_says_of_it(loop):
    with asyncio.Runner(loop_factory=loop) as runner:
        try:
            runner.run(ping_after_a_reset(0))
        except ConnectionError:
            pass
        assert runner.run(ping_after_a_reset(1))
