import asyncio
import contextlib
import gc

import pytest

from services.gateway.streams.events import sse, with_pauses


async def test_silence_is_filled_and_nothing_is_lost():
    async def items():
        for number in range(3):
            await asyncio.sleep(0.05)
            yield number

    seen = [item async for item in with_pauses(items(), 0.02)]
    assert [item for item in seen if item is not None] == [0, 1, 2]
    assert seen.count(None) >= 3


async def test_leaving_early_ends_the_source():
    ended = asyncio.Event()

    async def items():
        try:
            yield 1
            await asyncio.sleep(60)
        finally:
            ended.set()

    paced = with_pauses(items(), 0.01)
    assert [await anext(paced), await anext(paced)] == [1, None]
    await paced.aclose()
    assert ended.is_set()


async def test_a_failure_of_the_source_arrives():
    async def items():
        yield 1
        raise ValueError("no")

    paced = with_pauses(items(), 1)
    assert await anext(paced) == 1
    with pytest.raises(ValueError, match="no"):
        await anext(paced)


def test_an_event_is_one_line_whatever_it_holds():
    assert sse({"text": "a\nb\r\n\u2028ñ"}).count(b"\n") == 2


async def test_a_source_that_ends_when_it_is_left_is_reported_to_nobody():
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, facts: reported.append(facts))

    async def source():
        yield 1
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    items = with_pauses(source(), 0.01)
    assert [await anext(items), await anext(items)] == [1, None]
    await items.aclose()
    del items
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
