import asyncio

import pytest

from services.runtime import tasks


async def test_a_task_is_waited_for_until_it_has_cleared_up():
    steps = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleared up")

    running = [asyncio.create_task(work()) for _ in range(2)]
    await asyncio.sleep(0)
    await tasks.end(running[0], None, running[1])
    assert steps == ["cleared up"] * 2


async def test_what_a_task_failed_with_before_is_raised():
    async def fail():
        raise ValueError("broken")

    failed = asyncio.create_task(fail())
    await asyncio.wait({failed})
    with pytest.raises(ValueError, match="broken"):
        await tasks.end(failed)


async def test_nothing_is_ended_where_there_is_nothing():
    await tasks.end(None)
    await tasks.end()
