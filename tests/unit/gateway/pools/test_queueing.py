import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.access.callers import Caller
from services.gateway.errors import ApiError
from services.gateway.queueing import BANDS, MOST_TOKENS, QUANTUM_TOKENS, FairQueue, QueueLimits, Runs
from services.runtime.context import Identity
from services.runtime.errors import Overloaded
from services.runtime.tenants import Tenant
from services.runtime.testing import SIGNER


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Places:
    """A queue whose number of places a test sets, and the order in which it served."""

    def __init__(self, count=0, **limits):
        self.count = count
        self.clock = Clock()
        self.served = []
        self.queue = FairQueue("test", lambda: self.count, QueueLimits(**{"ttl_seconds": 60, **limits}), self.clock)

    def ask(self, name, tenant="a", band="normal", **options):
        async def ask():
            await self.queue.enter(tenant, band, **options)
            self.served.append(name)

        return asyncio.create_task(ask())

    async def settle(self):
        for _ in range(5):
            await asyncio.sleep(0)

    async def serve(self, tasks, expected=None):
        """Lets them through one at a time."""
        await self.settle()
        self.count = 1
        self.queue.wake()
        while not all(task.done() for task in tasks):
            await self.settle()
            self.queue.leave()
        await self.settle()
        return self.served


async def test_who_finds_a_place_does_not_wait():
    places = Places(2)
    assert await places.queue.enter("a") == 0
    assert await places.queue.enter("b") == 0
    assert places.queue.running == 2


async def test_within_a_tenant_first_come_is_first_served():
    places = Places()
    assert await places.serve([places.ask(number) for number in range(9)]) == list(range(9))


async def test_tenants_take_turns_whoever_came_first():
    places = Places()
    many = [places.ask(f"a{number}", "a", cost=QUANTUM_TOKENS) for number in range(5)]
    await places.settle()
    few = [places.ask(f"b{number}", "b", cost=QUANTUM_TOKENS) for number in range(2)]
    assert await places.serve([*many, *few]) == ["a0", "b0", "a1", "b1", "a2", "a3", "a4"]


async def test_turns_are_measured_in_tokens():
    places = Places()
    large = [places.ask(f"a{number}", "a", cost=4 * QUANTUM_TOKENS) for number in range(3)]
    await places.settle()
    small = [places.ask(f"b{number}", "b", cost=QUANTUM_TOKENS) for number in range(12)]
    served = await places.serve([*large, *small])
    # For each large one about four small ones go by.
    assert 3 <= served.index("a0") <= 4
    assert 7 <= served.index("a1") <= 9


async def test_a_higher_band_goes_first_and_running_answers_before_new_ones():
    places = Places()
    tasks = []
    for band in reversed(BANDS):
        tasks += [places.ask(f"{band} new", band, band), places.ask(f"{band} turn", band, band, internal=True)]
    assert await places.serve(tasks) == ["high turn", "high new", "normal turn", "normal new", "low turn", "low new"]


async def test_the_low_band_does_not_starve_where_the_high_one_waits_long_too():
    places = Places()
    low = places.ask("low", band="low")
    await places.settle()
    places.clock.now = 5
    high = places.ask("high", band="high")
    await places.settle()
    places.clock.now = 28
    assert await places.serve([low, high]) == ["low", "high"]


async def test_the_low_band_does_not_starve():
    places = Places(ageing_seconds=1)
    low = places.ask("low", "l", "low")
    await places.settle()
    places.clock.now = 6.0
    high = [places.ask(f"high{number}", "h", "high") for number in range(5)]
    served = await places.serve([low, *high])
    assert served[0] == "low"


async def test_a_full_tenant_is_refused_and_others_are_not():
    places = Places(most_waiting_per_tenant=2)
    tasks = [places.ask(number) for number in range(2)]
    await places.settle()
    with pytest.raises(ApiError) as refused:
        await places.queue.enter("a")
    assert (refused.value.status_code, refused.value.code) == (429, "queue_full")
    assert int(refused.value.headers["Retry-After"]) >= 1
    tasks += [places.ask("b", "b"), places.ask("turn", internal=True)]
    assert len(await places.serve(tasks)) == 4


async def test_a_full_queue_refuses_with_overloaded():
    places = Places(most_waiting=2)
    tasks = [places.ask(number, f"t{number}") for number in range(2)]
    await places.settle()
    with pytest.raises(Overloaded) as refused:
        await places.queue.enter("z")
    assert refused.value.retry_after.total_seconds() >= 1
    await places.serve(tasks)


async def test_a_full_queue_sheds_the_newest_of_the_lowest_band_for_a_higher_one():
    places = Places(most_waiting=2)
    old, new = places.ask("old", "l", "low"), None
    await places.settle()
    new = places.ask("new", "l", "low")
    await places.settle()
    high = places.ask("high", "h", "high")
    await places.settle()
    with pytest.raises(Overloaded):
        await new
    assert await places.serve([old, high]) == ["high", "old"]


async def test_a_request_that_waits_too_long_is_refused():
    places = Places(ttl_seconds=0.01)
    with pytest.raises(Overloaded):
        await places.queue.enter("a")
    assert places.queue.waiting == 0


async def test_who_gives_up_leaves_at_once():
    places = Places()
    first, second = places.ask("first"), places.ask("second")
    await places.settle()
    first.cancel()
    await places.settle()
    assert places.queue.waiting == 1
    assert await places.serve([second]) == ["second"]


async def test_a_place_that_was_granted_to_one_who_gives_up_goes_to_the_next():
    places = Places(1)
    await places.queue.enter("x")
    first, second = places.ask("first"), places.ask("second")
    await places.settle()
    places.queue.leave()
    first.cancel()  # granted already, and not yet told
    await asyncio.wait([first, second], timeout=10)
    assert first.cancelled()
    assert places.served == ["second"]
    assert places.queue.running == 1


async def test_a_place_is_not_lost_on_one_who_gave_up_just_before():
    places = Places(1)
    await places.queue.enter("x")
    first, second = places.ask("first"), places.ask("second")
    await places.settle()
    first.cancel()
    places.queue.leave()  # before the cancelled one could leave the queue
    await asyncio.wait([first, second], timeout=10)
    assert places.served == ["second"]
    assert places.queue.running == 1


async def test_retry_after_follows_how_quickly_places_become_free():
    places = Places(4)
    for _ in range(4):
        await places.queue.enter("x")
    tasks = [places.ask(number) for number in range(8)]
    await places.settle()
    for _ in range(4):
        places.clock.now += 2
        places.queue.leave()
    assert places.queue.waiting == 4
    assert places.queue.drain_seconds() == pytest.approx(7.5, abs=2.5)
    for task in tasks:
        task.cancel()
    await places.settle()


async def test_answers_of_the_agent_are_bounded_and_shared_in_the_same_way():
    runs, running, most = Runs(2), 0, 0

    async def run(tenant):
        nonlocal running, most
        async with runs(Caller(Tenant(id=tenant), Identity(tenant, "key", ()), "", SIGNER)):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(run(tenant) for tenant in "aabbccdd"))
    assert (most, running) == (2, 0)


_REQUEST = st.tuples(
    st.sampled_from("abcd"), st.sampled_from(BANDS), st.integers(1, 2 * MOST_TOKENS), st.booleans(), st.booleans()
)


@settings(max_examples=50, deadline=None)
@given(requests=st.lists(_REQUEST, max_size=30), capacity=st.integers(1, 4))
def test_whatever_comes_and_goes_no_place_is_lost_or_given_twice(requests, capacity):
    async def run():
        places = Places(most_waiting=20, most_waiting_per_tenant=8)
        most = 0

        async def visit(tenant, band, cost, internal):
            nonlocal most
            try:
                await places.queue.enter(tenant, band, cost=cost, internal=internal)
            except (ApiError, Overloaded):
                return
            try:
                most = max(most, places.queue.running)
                await asyncio.sleep(0)
            finally:
                places.queue.leave()

        tasks = []
        for tenant, band, cost, internal, gives_up in requests:
            tasks.append(asyncio.create_task(visit(tenant, band, cost, internal)))
            if gives_up:
                await asyncio.sleep(0)
                tasks[len(tasks) // 2].cancel()
        places.count = capacity
        places.queue.wake()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= capacity
        assert (places.queue.running, places.queue.waiting) == (0, 0)

    asyncio.run(run())


@settings(max_examples=50, deadline=None)
@given(costs=st.lists(st.integers(1, 4 * QUANTUM_TOKENS), min_size=10, max_size=40))
def test_two_tenants_who_always_wait_get_the_same_tokens_within_a_bound(costs):
    async def run():
        places = Places(most_waiting=200)
        half = len(costs) // 2
        tasks = [places.ask(("a", cost), "a", cost=cost) for cost in costs[:half]]
        tasks += [places.ask(("b", cost), "b", cost=cost) for cost in costs[half:]]
        served = await places.serve(tasks)
        left = {"a": half, "b": len(costs) - half}
        tokens = {"a": 0, "b": 0}
        for tenant, cost in served:
            tokens[tenant] += cost
            left[tenant] -= 1
            if not left[tenant]:
                break
            assert abs(tokens["a"] - tokens["b"]) <= 2 * (QUANTUM_TOKENS + max(costs))

    asyncio.run(run())
