import asyncio

import pytest

from services.runtime.batching import Batcher
from services.runtime.errors import Overloaded


class Doubler:
    """Doubles numbers, and remembers its batches. Waits while `gate` is closed."""

    def __init__(self):
        self.batches = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, batch):
        self.batches.append(list(batch))
        await self.gate.wait()
        if 13 in batch:
            raise ValueError("thirteen")
        return [2 * n for n in batch]


def batcher(work, **limits):
    return Batcher(work, **{"max_batch_cost": 10, "max_batch_items": 4, "max_waiting_cost": 20, **limits})


async def test_results_come_in_the_order_of_the_items():
    work = Doubler()
    assert await batcher(work).submit([(n, 1) for n in range(9)]) == [2 * n for n in range(9)]
    assert [len(b) for b in work.batches] == [4, 4, 1]


async def test_a_batch_stays_within_its_cost():
    work = Doubler()
    await batcher(work).submit([(1, 6), (2, 6), (3, 4)])
    assert work.batches == [[1], [2, 3]]


async def test_an_item_above_the_budget_goes_alone():
    work = Doubler()
    assert await batcher(work).submit([(1, 99)]) == [2]


async def test_callers_share_a_batch():
    work = Doubler()
    work.gate.clear()
    one = batcher(work)
    first = asyncio.create_task(one.submit([(1, 1)]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(one.submit([(n, 1)])) for n in (2, 3)]
    await asyncio.sleep(0.01)
    work.gate.set()
    assert [await first, *[await other for other in others]] == [[2], [4], [6]]
    assert work.batches == [[1], [2, 3]]


async def test_a_full_queue_refuses_at_once():
    work = Doubler()
    work.gate.clear()
    one = batcher(work)
    tasks = [asyncio.create_task(one.submit([(0, 10)]))]
    await asyncio.sleep(0.01)  # it is being worked on now, and waits no more
    tasks += [asyncio.create_task(one.submit([(n, 10)])) for n in (1, 2)]
    await asyncio.sleep(0.01)
    with pytest.raises(Overloaded):
        await one.submit([(9, 10)])
    work.gate.set()
    assert [await task for task in tasks] == [[0], [2], [4]]


async def test_who_has_gone_costs_no_work():
    work = Doubler()
    work.gate.clear()
    one = batcher(work)
    first = asyncio.create_task(one.submit([(1, 1)]))
    await asyncio.sleep(0.01)
    gone = asyncio.create_task(one.submit([(2, 1)]))
    await asyncio.sleep(0.01)
    gone.cancel()
    await asyncio.sleep(0.01)
    work.gate.set()
    await first
    assert await one.submit([(3, 1)]) == [6]
    assert work.batches == [[1], [3]]


async def test_a_failed_batch_fails_only_its_callers():
    one = batcher(Doubler())
    with pytest.raises(ValueError, match="thirteen"):
        await one.submit([(13, 1)])
    assert await one.submit([(1, 1)]) == [2]


async def test_close_cancels_who_waits():
    work = Doubler()
    work.gate.clear()
    one = batcher(work)
    waiting = asyncio.create_task(one.submit([(1, 1)]))
    await asyncio.sleep(0.01)
    await one.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
