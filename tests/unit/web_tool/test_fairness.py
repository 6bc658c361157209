import asyncio
import contextlib

import pytest

from services.runtime import context
from services.runtime.context import CallContext, Identity
from services.runtime.errors import Overloaded
from services.web_tool.fairness import Places, Turns


def act_as(tenant):
    context.enter(CallContext(Identity(tenant), ""))


def take_all(places, tenant):
    act_as(tenant)
    taken = 0
    with contextlib.suppress(Overloaded):
        while True:
            places.take("full")
            taken += 1
    return taken


def test_no_tenant_takes_all_places_and_none_that_comes_later_finds_nothing():
    places = Places(24)
    assert [take_all(places, tenant) for tenant in "abcd"] == [16, 5, 2, 1]
    assert take_all(places, "e") == 0
    places.give_back("a")
    assert take_all(places, "e") == 1


@pytest.mark.parametrize(("count", "taken"), [(1, 1), (2, 1), (3, 2), (4, 2), (6, 4)])
def test_of_few_places_a_single_tenant_may_have_one_at_least(count, taken):
    assert take_all(Places(count), "a") == taken


def test_a_place_is_free_again_after_an_error():
    places = Places(1)
    for _ in range(3):
        with contextlib.suppress(ValueError), places.place("full"):
            raise ValueError


class Line:
    """Callers who take turns, in the order in which they got one."""

    def __init__(self, count):
        self.turns = Turns(count)
        self.served = []
        self.leave = asyncio.Event()

    async def stand(self, tenant):
        act_as(tenant)
        async with self.turns.turn():
            self.served.append(tenant)
            await self.leave.wait()

    async def stands(self, tenants):
        tasks = [asyncio.create_task(self.stand(tenant)) for tenant in tenants]
        await asyncio.sleep(0)
        return tasks


async def test_tenants_take_turns_however_many_of_one_wait():
    line = Line(1)
    tasks = await line.stands("aaaabcb")
    line.leave.set()
    await asyncio.gather(*tasks)
    assert "".join(line.served) == "aabcaba"


async def test_no_more_than_so_many_have_a_turn_at_a_time():
    line = Line(2)
    tasks = await line.stands("abcd")
    assert line.served == ["a", "b"]
    line.leave.set()
    await asyncio.gather(*tasks)
    assert line.served == ["a", "b", "c", "d"]


@pytest.mark.parametrize("gone", [0, 1, 2])
async def test_who_goes_away_takes_no_turn_along(gone):
    line = Line(1)
    tasks = await line.stands("aab")
    tasks[gone].cancel()
    await asyncio.sleep(0)
    line.leave.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(line.served) == (3 if gone == 0 else 2)
    assert await asyncio.wait_for(line.stand("c"), 1) is None


async def test_who_goes_away_just_when_the_turn_comes_passes_it_on():
    line = Line(1)
    first, second, third = await line.stands("abc")
    line.leave.set()
    await asyncio.sleep(0)  # the first has left, the second was told and has not run yet
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert line.served == ["a", "c"]
