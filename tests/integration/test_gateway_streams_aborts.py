"""Thousands of clients that leave at any moment: nothing stays behind."""

import asyncio
import random

import pytest

from tests.integration.streams_stack import streams_stack

pytestmark = pytest.mark.slow

SCRIPTS = [
    {},
    {"before": "silence"},
    {"headers_delay_seconds": 0.02},
    {"chunk_delay_seconds": 0.005},
    {"ending": "hang", "after_chunks": 2},
    {"ending": "reset", "after_chunks": 2},
    {"status": 503},
    {"text": "x" * 100_000, "write_bytes": 50},
]


async def leave(door, chance):
    """One request that is given up after up to 60 ms, or answered before."""
    fields = {"stream": chance.random() < 0.8, "fault": chance.choice(SCRIPTS)}
    asking = asyncio.create_task(door.ask(**fields))
    await asyncio.wait({asking}, timeout=chance.random() * 0.06)
    asking.cancel()
    await asyncio.wait({asking})


async def metrics(door):
    return (await door.http.get("/metrics")).text


async def test_no_abort_leaves_anything_behind(tmp_path_factory):
    chance = random.Random(7)
    async with streams_stack(tmp_path_factory, max_in_flight=12) as door:

        async def client():
            for _ in range(100):
                await leave(door, chance)

        async with asyncio.timeout(100):
            await asyncio.gather(*(client() for _ in range(20)))
        await door.used()  # waits until no place of the tenant's is taken
        async with asyncio.timeout(30):
            while door.mock.running or "\nsabueso_gateway_active_requests 1.0\n" not in await metrics(door):
                await asyncio.sleep(0.1)
        # As many as the model server takes at once are answered: no place there is lost.
        answers = await asyncio.gather(*(door.ask(fault={}) for _ in range(12)))
        assert [answer.status_code for answer in answers] == [200] * 12
