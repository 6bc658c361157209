"""Random lives of requests, beside a ledger that is kept in another way."""

import asyncio
import copy
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.limits.decision import Spent
from services.gateway.limits.memory import MemoryLimiter
from services.gateway.limits.plan import Limit

# The machine may be busy.
PATIENTLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

DAY = 86_400
START = 20_000 * DAY
SHAPES = st.tuples(
    st.integers(1, 40),  # requests a minute
    st.integers(1, 5_000),  # tokens a minute
    st.integers(1, 20_000),  # tokens a day
    st.integers(1, 5),  # at the same time
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass time"), st.integers(0, 90_000_000)),
        st.tuples(st.just("pass a day"), st.just(DAY * 1_000_000)),
        st.tuples(st.just("ask"), st.integers(0, 6_000)),
        st.tuples(st.just("end"), st.integers(0, 9_000)),
        st.tuples(st.just("end twice"), st.integers(0, 9_000)),
    ),
    max_size=60,
)


class Clock:
    """Time that passes when told to; whole microseconds, as the limiter counts."""

    def __init__(self):
        self.now_us = START * 1_000_000

    def __call__(self):
        return Fraction(self.now_us, 1_000_000)


class Ledger:
    """The same limits in fractions of units and of seconds."""

    def __init__(self, requests, tokens, daily, most):
        self.sizes = {"requests": requests, "tokens": tokens}
        self.levels = {"requests": Fraction(0), "tokens": Fraction(0)}
        self.daily, self.most = daily, most
        self.used = {}
        self.running = {}
        self.at = Fraction(START)

    def go_to(self, now):
        for kind, size in self.sizes.items():
            self.levels[kind] = max(Fraction(0), self.levels[kind] - (now - self.at) * size / 60)
        self.at = now

    @property
    def today(self):
        return self.at // DAY

    def ask(self, lease, tokens):
        cost, day_cost = min(tokens, self.sizes["tokens"]), min(tokens, self.daily)
        fits = (
            self.levels["requests"] + 1 <= self.sizes["requests"]
            and (not cost or self.levels["tokens"] + cost <= self.sizes["tokens"])
            and (not day_cost or self.used.get(self.today, 0) + day_cost <= self.daily)
            and len(self.running) < self.most
        )
        if fits:
            self.levels["requests"] += 1
            self.levels["tokens"] += cost
            self.used[self.today] = self.used.get(self.today, 0) + day_cost
            self.running[lease] = (cost, day_cost, self.today)
        return fits

    def end(self, lease, spent):
        cost, day_cost, day = self.running.pop(lease)
        self.levels["tokens"] = max(Fraction(0), self.levels["tokens"] + spent - cost)
        if day == self.today:
            self.used[day] = max(0, self.used[day] + spent - day_cost)


@settings(PATIENTLY, max_examples=300)
@given(shape=SHAPES, steps=STEPS)
def test_every_life_of_requests_ends_with_exact_books(shape, steps):
    asyncio.run(_live(shape, steps))


async def _live(shape, steps):
    requests, tokens, daily, most = shape
    clock, ledger = Clock(), Ledger(*shape)
    limiter = MemoryLimiter(clock)
    plan = (
        Limit("tenant", "requests", "", requests),
        Limit("tenant", "tokens", "", tokens),
        Limit("tenant", "daily_tokens", "", daily),
        Limit("tenant", "concurrency", "", most),
    )
    receipts = {}
    for number, (step, amount) in enumerate(steps):
        if step.startswith("pass"):
            clock.now_us += amount
        ledger.go_to(clock())
        if step == "ask":
            decision = await limiter.admit("t", plan, str(number), amount)
            assert (decision.receipt is not None) == ledger.ask(str(number), amount)
            assert (decision.refused_by is None) == (decision.receipt is not None)
            if decision.receipt is None:
                await _the_wait_is_exact(limiter, clock, ledger, plan, amount, decision)
            else:
                receipts[str(number)] = decision.receipt
        elif step.startswith("end") and receipts:
            lease, receipt = receipts.popitem()
            ledger.end(lease, amount)
            await limiter.settle(receipt, Spent(amount, amount))
        await _agree(limiter, ledger, plan)
    for lease, receipt in receipts.items():
        ledger.end(lease, 0)
        await limiter.settle(receipt, Spent())
    await _agree(limiter, ledger, plan)
    assert (await limiter.look("t", plan))[3].used == 0


async def _agree(limiter, ledger, plan):
    standings = await limiter.look("t", plan)
    used = {one.limit.kind: one.used for one in standings}
    assert used == {
        "requests": -(-ledger.levels["requests"] // 1),
        "tokens": -(-ledger.levels["tokens"] // 1),
        "daily_tokens": ledger.used.get(ledger.today, 0),
        "concurrency": len(ledger.running),
    }
    assert all(0 <= one.remaining <= one.limit.most for one in standings)


async def _the_wait_is_exact(limiter, clock, ledger, plan, tokens, decision):
    """If nothing else happens: the same request passes after the wait, and not a microsecond earlier."""
    if len(ledger.running) >= ledger.most:
        return  # nobody knows when a running request ends
    now, wait_us = clock.now_us, round(decision.refused_by.wait_seconds * 1e6)
    clock.now_us = now + wait_us - 1
    assert (await limiter.admit("t", plan, "probe", tokens)).receipt is None
    clock.now_us = now + wait_us
    twin = copy.deepcopy(limiter)
    assert (await twin.admit("t", plan, "probe", tokens)).receipt
    clock.now_us = now


async def test_empty_buckets_are_cleared_away():
    clock = Clock()
    limiter = MemoryLimiter(clock, sweep_after=100)
    plan = (Limit("tenant", "requests", "", 60_000), Limit("tenant", "daily_tokens", "", 10))
    for number in range(1000):
        await limiter.admit(f"t{number}", plan, "l", 1)
        clock.now_us += 1_000
    assert len(limiter) <= 102
