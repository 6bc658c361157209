import asyncio
import math

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.admission import duration_text, limit_headers
from services.gateway.limits import FallbackLimiter, MemoryLimiter, StoreLost, decide, interval_us
from services.runtime.tenants import Limits


class Clock:
    """Time that passes when told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class LostStore:
    """A shared store that never answers."""

    def __init__(self):
        self.asked = 0

    async def admit(self, tenant, limits, lease):
        self.asked += 1
        raise StoreLost("gone")

    async def release(self, tenant, lease):
        raise AssertionError("a lease of the local limiter came here")


def per_minute(limit):
    return Limits(requests_per_minute=limit, concurrent_requests=0)


@given(limit=st.integers(1, 5000), pauses=st.lists(st.floats(0, 30), max_size=60))
def test_never_more_than_the_limit_and_what_time_gives_back(limit, pauses):
    async def admitted():
        clock = Clock()
        limiter = MemoryLimiter(clock)
        count = 0
        for number, pause in enumerate(pauses):
            clock.now += pause
            decision = await limiter.admit("t", per_minute(limit), str(number))
            count += not decision.refused_by
            assert 0 <= decision.remaining <= limit
            assert 0 <= decision.reset_seconds <= 60.1
        return count, clock.now - 1000

    count, elapsed = asyncio.run(admitted())
    assert count <= limit + math.floor(elapsed * limit / 60 + 1e-6)


@given(limit=st.integers(1, 2000), early=st.floats(0.001, 0.9))
def test_the_wait_is_exact(limit, early):
    async def run():
        clock = Clock()
        limiter = MemoryLimiter(clock)
        decision = decide(limit, "", 0, 0, 0)
        while not decision.refused_by:
            decision = await limiter.admit("t", per_minute(limit), "x")
        refused_at = clock.now
        clock.now = refused_at + decision.retry_after_seconds * early
        assert (await limiter.admit("t", per_minute(limit), "x")).refused_by
        clock.now = refused_at + decision.retry_after_seconds + 2e-6
        assert not (await limiter.admit("t", per_minute(limit), "x")).refused_by

    asyncio.run(run())


def test_the_interval_is_never_too_short():
    assert all(interval_us(limit) * limit >= 60_000_000 for limit in range(1, 3000))


async def test_a_lost_store_is_asked_again_only_after_a_second():
    clock, store = Clock(), LostStore()
    limiter = FallbackLimiter(store, MemoryLimiter(clock), 2, clock)
    for _ in range(5):
        assert not (await limiter.admit("t", per_minute(20), "a")).refused_by
    assert store.asked == 1
    clock.now += 1.01
    await limiter.admit("t", per_minute(20), "a")
    assert store.asked == 2
    await limiter.release("t", "a")


def test_durations_are_written_as_openai_does():
    texts = {0: "0ms", 0.12: "120ms", 1: "1s", 1.5: "1.5s", 59.9996: "1m0s", 360: "6m0s", 61.25: "1m1.25s"}
    assert {seconds: duration_text(seconds) for seconds in texts} == texts


def test_an_unlimited_tenant_gets_no_limit_headers():
    assert limit_headers(decide(0, "", 0, 0, 3)) == {}
