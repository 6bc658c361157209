"""A command can be cancelled at any moment, and its caller ends."""

import asyncio
import secrets

import pytest
from redis.asyncio import Redis

from services.runtime.valkey import connection_pool


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
