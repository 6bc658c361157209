import asyncio

import pytest

from services.gateway.limits.decision import LimiterUnavailable, Receipt, Spent, StoreLost
from services.gateway.limits.fallback import FallbackLimiter, fallback_limiter
from services.gateway.limits.memory import MemoryLimiter
from services.gateway.limits.metrics import FALLBACKS, STORE_LOST
from services.gateway.limits.plan import Limit


def limit(kind, most, on_loss="local"):
    return Limit("tenant", kind, "", most, on_loss)


class LosableLimiter(MemoryLimiter):
    """A shared store that is there or not."""

    def __init__(self):
        super().__init__()
        self.there = True
        self.fails_once_at = ""
        self.asked = self.probed = 0
        self.forgotten = []

    async def admit(self, tenant, plan, lease, tokens=0, least=None):
        self.asked += 1
        self._check()
        return await super().admit(tenant, plan, lease, tokens, least)

    async def settle(self, receipt, spent):
        self.asked += 1
        self._check()
        if receipt.lease == self.fails_once_at:
            self.fails_once_at = ""
            raise StoreLost("gone again")
        await super().settle(receipt, spent)

    async def look(self, tenant, plan):
        self._check()
        return await super().look(tenant, plan)

    async def probe(self):
        self.probed += 1
        self._check()

    def forget(self, lease):
        self.forgotten.append(lease)

    def _check(self):
        if not self.there:
            raise StoreLost("gone")


@pytest.fixture
async def parts():
    shared, local = LosableLimiter(), MemoryLimiter()
    limiter = FallbackLimiter(shared, local, replica_count=2, retry_seconds=0.01)
    yield limiter, shared, local
    await limiter.close()


async def recovered(limiter):
    async with asyncio.timeout(30):
        while limiter.degraded:
            await asyncio.sleep(0.005)


async def used(limiter, plan, tenant="t"):
    return [one.used for one in await limiter.look(tenant, plan)]


async def test_a_lost_store_is_asked_by_no_further_request():
    shared = LosableLimiter()
    shared.there = False
    async with fallback_limiter(shared, MemoryLimiter(), 2) as limiter:
        for number in range(5):
            assert (await limiter.admit("t", (limit("requests", 20),), str(number))).receipt.local
        assert (shared.asked, limiter.degraded, STORE_LOST._value.get()) == (1, True, 1)
    STORE_LOST.set(0)


async def test_a_store_that_is_back_is_used_again(parts):
    limiter, shared, _ = parts
    shared.there = False
    await limiter.admit("t", (limit("requests", 20),), "a")
    async with asyncio.timeout(30):
        while shared.probed < 3:
            await asyncio.sleep(0.005)
    assert limiter.degraded
    shared.there = True
    await recovered(limiter)
    assert STORE_LOST._value.get() == 0
    assert not (await limiter.admit("t", (limit("requests", 20),), "b")).receipt.local


async def test_while_it_is_lost_each_process_grants_its_share(parts):
    limiter, shared, _ = parts
    shared.there = False
    before = FALLBACKS.labels("local")._value.get()
    decisions = [await limiter.admit("t", (limit("requests", 5),), str(number)) for number in range(5)]
    assert [one.receipt is not None for one in decisions] == [True, True, True, False, False]
    assert {one.limit.most for decision in decisions for one in decision.standings} == {3}
    assert FALLBACKS.labels("local")._value.get() == before + 5


async def test_an_open_limit_lets_pass_and_the_others_still_count(parts):
    limiter, shared, _ = parts
    shared.there = False
    plan = (limit("requests", 2, "open"), limit("concurrency", 4))
    decisions = [await limiter.admit("t", plan, str(number)) for number in range(4)]
    assert [one.receipt is not None for one in decisions] == [True, True, False, False]
    assert {one.limit.kind for decision in decisions for one in decision.standings} == {"concurrency"}
    before = FALLBACKS.labels("open")._value.get()
    assert (await limiter.admit("t", plan[:1], "x")).standings == ()
    assert FALLBACKS.labels("open")._value.get() == before + 1


async def test_a_closed_limit_lets_nobody_pass(parts):
    limiter, shared, _ = parts
    shared.there = False
    plan = (limit("requests", 2), limit("tokens", 100, "closed"))
    before = FALLBACKS.labels("closed")._value.get()
    for _ in range(3):
        with pytest.raises(LimiterUnavailable) as refused:
            await limiter.admit("t", plan, "x")
        assert refused.value.limit.kind == "tokens"
    assert FALLBACKS.labels("closed")._value.get() == before + 3
    # What was lost with the first question is no refusal of others.
    assert (await limiter.admit("t", plan[:1], "y")).receipt


async def test_local_leases_are_given_back_here_though_the_store_is_back(parts):
    limiter, shared, local = parts
    plan = (limit("concurrency", 2),)
    shared.there = False
    decision = await limiter.admit("t", plan, "a")
    shared.there = True
    await recovered(limiter)
    assert await used(local, plan) == [1]
    await limiter.settle(decision.receipt, Spent())
    assert (await used(local, plan), await used(shared, plan)) == ([0], [0])


async def test_leases_of_the_store_are_given_back_to_it_when_it_is_back(parts):
    limiter, shared, _ = parts
    plan = (limit("concurrency", 2), limit("daily_tokens", 1000))
    decision = await limiter.admit("t", plan, "a", 300)
    shared.there = False
    await limiter.settle(decision.receipt, Spent(20, 20))
    assert limiter.degraded
    shared.there = True
    await recovered(limiter)
    assert await used(shared, plan) == [0, 20]


async def test_what_was_spent_meanwhile_is_charged_to_the_day_and_not_to_the_minute(parts):
    limiter, shared, _ = parts
    plan = (limit("tokens", 1_000), limit("daily_tokens", 10_000))
    shared.there = False
    decision = await limiter.admit("t", plan, "a", 300)
    await limiter.settle(decision.receipt, Spent(200, 200))
    await limiter.settle(Receipt("t", "turn", plan), Spent(150, 150))
    assert (await used(limiter, plan))[1] == 350
    shared.there = True
    await recovered(limiter)
    assert await used(shared, plan) == [0, 350]


async def test_what_was_reserved_meanwhile_is_charged_where_nobody_says_what_was_spent(parts):
    limiter, shared, _ = parts
    plan = (limit("tokens", 1_000), limit("daily_tokens", 10_000))
    shared.there = False
    decision = await limiter.admit("t", plan, "a", 21)
    await limiter.settle(decision.receipt, Spent(as_reserved=True))
    shared.there = True
    await recovered(limiter)
    assert await used(shared, plan) == [0, 21]


async def test_a_question_whose_answer_got_lost_holds_nothing_in_the_end(parts):
    limiter, shared, _ = parts
    plan = (limit("concurrency", 1),)
    shared.there = False
    await limiter.admit("t", plan, "a")
    await MemoryLimiter.admit(shared, "t", plan, "a")  # it did arrive
    shared.there = True
    await recovered(limiter)
    assert await used(shared, plan) == [0]


async def test_settlements_that_wait_are_bounded_and_what_is_dropped_is_renewed_no_more():
    shared = LosableLimiter()
    limiter = FallbackLimiter(shared, MemoryLimiter(), 1, retry_seconds=0.01, most_late=3)
    plan = (limit("concurrency", 100),)
    receipts = [(await limiter.admit("t", plan, str(number))).receipt for number in range(5)]
    shared.there = False
    for receipt in receipts:
        await limiter.settle(receipt, Spent())
    assert shared.forgotten == ["0", "1"]
    shared.there = True
    await recovered(limiter)
    assert await used(shared, plan) == [2]
    await limiter.close()


async def test_a_store_that_is_lost_again_while_it_hears_of_the_late_hears_of_them_later(parts):
    limiter, shared, _ = parts
    plan = (limit("concurrency", 100),)
    receipts = [(await limiter.admit("t", plan, str(number))).receipt for number in range(4)]
    shared.there = False
    for receipt in receipts:
        await limiter.settle(receipt, Spent())
    shared.there, shared.fails_once_at = True, "2"
    await recovered(limiter)
    assert (await used(shared, plan), shared.fails_once_at) == ([0], "")
