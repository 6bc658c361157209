"""What every broadcast between gateways does."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from local import ports
from services.gateway.mcp.notices import LocalNotices, Notice, valkey_notices


@asynccontextmanager
async def in_memory(request):
    both = LocalNotices()
    yield both, both


@asynccontextmanager
async def in_valkey(request):
    url = request.getfixturevalue("valkey_url")
    async with AsyncExitStack() as stack:
        two = [await stack.enter_async_context(valkey_notices(url)) for _ in range(2)]
        async with asyncio.timeout(60):
            for one in two:
                await one.subscribed.wait()
        yield two


@pytest.fixture(params=[in_memory, in_valkey])
def connect(request):
    return lambda: request.param(request)


async def test_everybody_hears_what_one_tells_in_order(connect):
    notices = [Notice("a", "1"), Notice("a"), Notice("b", "ñ 7")]
    async with connect() as (first, second), asyncio.timeout(60):
        heard = asyncio.Queue()
        alone = asyncio.Queue()
        second.listen(heard.put_nowait)
        first.listen(alone.put_nowait)
        for notice in notices:
            await first.tell(notice)
        assert [await heard.get() for _ in notices] == notices
        assert [await alone.get() for _ in notices] == notices


async def test_a_store_that_is_away_is_no_failure_and_one_still_hears_oneself():
    port = ports.pick(1, ports.random_start())[0]
    heard = []
    async with valkey_notices(f"redis://127.0.0.1:{port}") as notices:
        notices.listen(heard.append)
        await notices.tell(Notice("a", "1"))
    assert heard == [Notice("a", "1")]
