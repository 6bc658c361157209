import asyncio

import pytest

from services.runtime.errors import Overloaded
from services.web_tool.pace import Pace


class Time:
    """Passes only while somebody sleeps."""

    def __init__(self):
        self.now = 100.0

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds


async def test_a_few_requests_come_at_once_and_then_the_rate_holds():
    time = Time()
    pace = Pace(2, clock=time.clock, sleep=time.sleep)
    taken = []
    for _ in range(8):
        async with pace.turn("a.test"):
            taken.append(round(time.now - 100, 3))
    assert taken == [0, 0, 0, 0, 0.5, 1.0, 1.5, 2.0]


async def test_a_host_that_was_left_alone_may_be_asked_at_once_again():
    time = Time()
    pace = Pace(1, clock=time.clock, sleep=time.sleep)
    for _ in range(6):
        async with pace.turn("a.test"):
            pass
    time.now += 60
    before = time.now
    async with pace.turn("a.test"):
        assert time.now == before


async def test_hosts_do_not_wait_for_each_other():
    time = Time()
    pace = Pace(0.001, clock=time.clock, sleep=time.sleep)
    for number in range(50):
        async with pace.turn(f"{number}.test"):
            pass
    assert time.now == 100


async def test_two_requests_at_a_time_go_to_one_host():
    pace = Pace(1000)
    present, most = 0, 0

    async def ask():
        nonlocal present, most
        async with pace.turn("a.test"):
            present += 1
            most = max(most, present)
            await asyncio.sleep(0.01)
            present -= 1

    await asyncio.gather(*(ask() for _ in range(8)))
    assert most == 2


async def test_when_many_wait_for_a_host_more_are_refused_and_told_when_to_come_back():
    pace = Pace(0.5)
    waiting = [asyncio.create_task(hold(pace)) for _ in range(16)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded) as caught:
        async with pace.turn("a.test"):
            pass
    assert caught.value.retry_after.total_seconds() >= 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with pace.turn("b.test"):
        pass


async def hold(pace):
    async with pace.turn("a.test"):
        await asyncio.sleep(60)


async def test_hosts_are_forgotten_when_there_are_many():
    time = Time()
    pace = Pace(1000, clock=time.clock, sleep=time.sleep)
    for number in range(10_000):
        time.now += 1
        async with pace.turn(f"{number}.test"):
            pass
    assert len(pace._hosts) <= 4096
