import asyncio
import time
from contextlib import closing

import pytest

from services.orchestrator.patience import Patience

SOON, FAR = 0.02, 60


async def _after(seconds: float, answer: str = "there") -> str:
    await asyncio.sleep(seconds)
    return answer


async def test_what_comes_in_time_is_given():
    with closing(Patience(time.monotonic)) as patience:
        assert [await patience.wait(_after(0, str(n)), time.monotonic() + FAR) for n in range(3)] == ["0", "1", "2"]


async def test_what_is_late_is_cancelled():
    cancelled = asyncio.Event()

    async def late():
        try:
            await asyncio.sleep(FAR)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with closing(Patience(time.monotonic)) as patience:
        with pytest.raises(TimeoutError):
            await patience.wait(late(), time.monotonic() + SOON)
        assert cancelled.is_set()
        assert await patience.wait(_after(0), time.monotonic() + FAR) == "there"


@pytest.mark.parametrize(("first", "second"), [(FAR, SOON), (SOON, 4 * SOON)], ids=["earlier", "later"])
async def test_each_wait_has_an_end_of_its_own(first, second):
    began = time.monotonic()
    with closing(Patience(time.monotonic)) as patience:
        await patience.wait(_after(0), began + first)
        with pytest.raises(TimeoutError):
            await patience.wait(_after(FAR), began + second)
    assert time.monotonic() - began >= second


async def test_an_end_that_has_passed_between_two_waits_ends_only_the_next_one():
    with closing(Patience(time.monotonic)) as patience:
        end = time.monotonic() + SOON
        await patience.wait(_after(0), end)
        await asyncio.sleep(2 * SOON)
        with pytest.raises(TimeoutError):
            await patience.wait(_after(FAR), end)


async def test_a_caller_who_gives_up_is_no_late_answer():
    async def ask():
        with closing(Patience(time.monotonic)) as patience:
            await patience.wait(_after(FAR), time.monotonic() + FAR)

    task = asyncio.create_task(ask())
    await asyncio.sleep(SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_is_the_failure():
    async def fails():
        raise ValueError("broken")

    with closing(Patience(time.monotonic)) as patience, pytest.raises(ValueError, match="broken"):
        await patience.wait(fails(), time.monotonic() + FAR)


async def test_nothing_is_left_to_ring():
    with closing(Patience(time.monotonic)) as patience:
        await patience.wait(_after(0), time.monotonic() + SOON)
    await asyncio.sleep(2 * SOON)
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize("instead", ["an answer", "a failure"])
async def test_what_ends_otherwise_when_it_is_cancelled_leaves_nothing_of_it(instead):
    async def stubborn():
        try:
            await asyncio.sleep(FAR)
        except asyncio.CancelledError:
            if instead == "a failure":
                raise ValueError("broken") from None
        return "there"

    with closing(Patience(time.monotonic)) as patience:
        if instead == "a failure":
            with pytest.raises(ValueError, match="broken"):
                await patience.wait(stubborn(), time.monotonic() + SOON)
        else:
            assert await patience.wait(stubborn(), time.monotonic() + SOON) == "there"
    assert asyncio.current_task().cancelling() == 0
