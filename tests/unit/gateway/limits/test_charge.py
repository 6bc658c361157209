import asyncio

import pytest

from services.gateway.limits.charge import Charge
from services.gateway.limits.decision import Decision, Receipt, StoreLost
from services.gateway.limits.memory import MemoryLimiter
from services.gateway.limits.metrics import LEASES, UNMETERED
from services.gateway.limits.plan import Limit
from services.gateway.metering import Meter

PLAN = (
    Limit("tenant", "daily_tokens", "", 100_000),
    Limit("tenant", "concurrency", "", 1),
    Limit("model", "daily_tokens", "m", 100_000),
)


async def used(limiter):
    return [one.used for one in await limiter.look("t", PLAN)]


async def ended(meter, *, status=200, finished=True, failed=False, reserved=1000):
    """Tokens charged to the tenant and to the model by a request that went like this."""
    limiter = MemoryLimiter()
    meter.reserved_tokens = reserved
    charge = Charge(limiter, "t", meter)
    await charge.admit(PLAN, reserved)
    assert await used(limiter) == [reserved, 1, reserved]
    charge.status, charge.finished, charge.failed = status, finished, failed
    await charge.settle()
    tenant, running, model = await used(limiter)
    assert running == 0
    return tenant, model


async def test_what_the_model_says_is_charged():
    assert await ended(Meter(prompt_tokens=500, completion_tokens=200, exact=True, dispatched=True)) == (700, 700)
    assert await ended(Meter(prompt_tokens=900, completion_tokens=900, exact=True, dispatched=True)) == (1800, 1800)


async def test_a_request_that_reached_no_model_costs_no_tokens():
    assert await ended(Meter(prompt_tokens=500), status=404) == (0, 0)


async def test_an_answer_that_failed_costs_no_tokens():
    assert await ended(Meter(prompt_tokens=500, dispatched=True), status=502) == (0, 0)
    assert await ended(Meter(prompt_tokens=500, dispatched=True), status=0, finished=False, failed=True) == (0, 0)


async def test_an_answer_that_was_broken_off_costs_its_prompt_and_what_was_delivered():
    meter = Meter(prompt_tokens=500, completion_tokens=5, dispatched=True)
    assert await ended(meter, finished=False) == (505, 505)
    assert await ended(Meter(prompt_tokens=500, dispatched=True), status=0, finished=False) == (500, 500)


async def test_without_a_word_of_the_model_the_estimate_is_charged_and_counted():
    before = UNMETERED._value.get()
    assert await ended(Meter(prompt_tokens=500, completion_tokens=77, dispatched=True)) == (577, 577)
    assert await ended(Meter(prompt_tokens=500, dispatched=True)) == (1000, 1000)
    assert UNMETERED._value.get() == before + 2


async def test_the_agent_is_charged_by_its_turns_and_only_its_name_by_their_sum():
    assert await ended(Meter(prompt_tokens=120, completion_tokens=30, exact=True)) == (0, 150)


async def test_our_own_services_are_never_refused_and_charged_all_the_same():
    limiter = MemoryLimiter()
    plan = (Limit("tenant", "requests", "", 1), Limit("tenant", "daily_tokens", "", 10))
    for _ in range(3):
        charge = Charge(limiter, "t", Meter(prompt_tokens=50, completion_tokens=5, exact=True, dispatched=True))
        charge.count_only(plan)
        charge.status, charge.finished = 200, True
        await charge.settle()
    assert [one.used for one in await limiter.look("t", plan)] == [0, 165]


class SlowLimiter(MemoryLimiter):
    """Waits before each step until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.settled = 0

    async def admit(self, tenant, plan, lease, tokens=0, least=None):
        self.asked.set()
        await self.go_on.wait()
        return await super().admit(tenant, plan, lease, tokens, least)

    async def settle(self, receipt, spent):
        self.asked.set()
        await self.go_on.wait()
        self.settled += 1
        await super().settle(receipt, spent)


async def ends(condition):
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_a_client_who_leaves_while_the_store_is_asked_leaves_nothing_behind():
    limiter, before = SlowLimiter(), LEASES._value.get()
    charge = Charge(limiter, "t", Meter())

    async def request():
        try:
            await charge.admit(PLAN, 100)
        finally:
            await charge.settle()

    running = asyncio.create_task(request())
    await limiter.asked.wait()
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    limiter.go_on.set()

    async def settled():
        return limiter.settled == 1

    await ends(settled)
    assert await used(limiter) == [0, 0, 0]
    assert LEASES._value.get() == before


async def test_a_cancellation_during_the_settlement_does_not_stop_it():
    limiter = SlowLimiter()
    limiter.go_on.set()
    charge = Charge(limiter, "t", Meter())
    await charge.admit(PLAN, 100)
    limiter.asked.clear()
    limiter.go_on.clear()
    settling = asyncio.create_task(charge.settle())
    await limiter.asked.wait()
    settling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await settling
    limiter.go_on.set()
    await charge.settle()
    assert (limiter.settled, await used(limiter)) == (1, [0, 0, 0])


async def test_a_request_that_was_refused_settles_nothing():
    limiter = MemoryLimiter()
    first, second = (Charge(limiter, "t", Meter()) for _ in range(2))
    assert (await first.admit(PLAN, 1)).receipt
    assert not (await second.admit(PLAN, 1)).receipt
    await second.settle()
    assert (await used(limiter))[1] == 1
    await first.settle()
    assert (await used(limiter))[1] == 0


class LosingLimiter(MemoryLimiter):
    """Admits, and then is gone."""

    async def admit(self, tenant, plan, lease, tokens=0, least=None):
        return Decision((), Receipt(tenant, lease, plan, (tokens, 1, tokens), 1))

    async def settle(self, receipt, spent):
        raise StoreLost("gone")


async def test_a_settlement_that_gets_lost_harms_no_request():
    charge = Charge(LosingLimiter(), "t", Meter())
    await charge.admit(PLAN, 1)
    await charge.settle()
