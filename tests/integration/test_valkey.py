"""A command can be cancelled at any moment, and its caller ends."""

import asyncio
import secrets

import pytest
from redis.asyncio import Redis
from redis.exceptions import ReadOnlyError

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
