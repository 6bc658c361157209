"""One behaviour of limits, in memory and in Valkey."""

import asyncio
import time
import uuid

import pytest
import redis.asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from services.gateway.limits.decision import Receipt, Spent
from services.gateway.limits.memory import MemoryLimiter
from services.gateway.limits.plan import Limit
from services.gateway.limits.valkey import valkey_limiter

# Generous: what is tested here is the counting, on a machine that may be busy.
PATIENCE_SECONDS = 20


def plan(requests=0, tokens=0, daily=0, concurrent=0, scope="tenant", owner=""):
    sizes = {"requests": requests, "tokens": tokens, "concurrency": concurrent, "daily_tokens": daily}
    return tuple(Limit(scope, kind, owner, most) for kind, most in sizes.items() if most)


def new_tenant():
    return f"t-{uuid.uuid4().hex[:12]}"


def new_lease():
    return uuid.uuid4().hex


async def admit(limiter, tenant, wanted, tokens=0):
    return await limiter.admit(tenant, wanted, new_lease(), tokens)


async def standing(limiter, tenant, wanted, kind, scope="tenant"):
    found = await limiter.look(tenant, wanted)
    return next(one for one in found if (one.limit.kind, one.limit.scope) == (kind, scope))


def of(decision, kind, scope="tenant"):
    return next(one for one in decision.standings if (one.limit.kind, one.limit.scope) == (kind, scope))


def kind_of(decision):
    return decision.refused_by.limit.kind if decision.refused_by else ""


@pytest.fixture(params=["memory", "valkey"])
async def limiter(request):
    if request.param == "memory":
        yield MemoryLimiter()
        return
    url = request.getfixturevalue("valkey_url")
    async with valkey_limiter(url, timeout_seconds=PATIENCE_SECONDS) as limiter:
        yield limiter


class TestLimiter:
    """What every limiter does."""

    async def test_of_fifty_parallel_requests_exactly_the_limit_is_admitted(self, limiter):
        tenant, wanted = new_tenant(), plan(requests=2)  # one more every 30 s: the machine may be slow
        decisions = await asyncio.gather(*(admit(limiter, tenant, wanted) for _ in range(50)))
        admitted = [of(one, "requests") for one in decisions if one.receipt]
        refused = [of(one, "requests") for one in decisions if not one.receipt]
        assert sorted(one.remaining for one in admitted) == [0, 1]
        assert {(one.remaining, one.limit.most) for one in refused} == {(0, 2)}
        assert all(0 < one.wait_seconds <= 30 for one in refused)
        assert all(0 < one.reset_seconds <= 60 for one in admitted + refused)

    async def test_waiting_as_long_as_told_is_enough_and_not_too_long(self, limiter):
        tenant, wanted = new_tenant(), plan(requests=60)
        decision = None
        while decision is None or decision.receipt:
            before = time.monotonic()
            decision = await admit(limiter, tenant, wanted)
        after, wait = time.monotonic(), decision.refused_by.wait_seconds
        while True:
            asked_at = time.monotonic()
            decision = await admit(limiter, tenant, wanted)
            if decision.receipt:
                break
            assert asked_at < after + wait + 0.001
            await asyncio.sleep(0.02)
        assert time.monotonic() >= before + wait - 0.001

    async def test_of_fifty_at_the_same_time_exactly_the_limit_runs(self, limiter):
        tenant, wanted = new_tenant(), plan(requests=1000, concurrent=5)
        decisions = await asyncio.gather(*(admit(limiter, tenant, wanted) for _ in range(50)))
        running = [one.receipt for one in decisions if one.receipt]
        assert len(running) == 5
        assert {kind_of(one) for one in decisions} == {"", "concurrency"}
        # A refusal costs nothing of the other limit.
        assert min(of(one, "requests").remaining for one in decisions) >= 995
        await limiter.settle(running[0], Spent())
        await limiter.settle(running[0], Spent())
        await limiter.settle(Receipt(tenant, "never seen", wanted), Spent())
        assert [kind_of(await admit(limiter, tenant, wanted)) for _ in range(2)] == ["", "concurrency"]

    async def test_without_limits_everything_passes(self, limiter):
        decision = await admit(limiter, new_tenant(), ())
        assert decision.receipt
        assert decision.standings == ()
        await limiter.settle(decision.receipt, Spent(5, 5))

    async def test_tenants_do_not_share(self, limiter):
        one, other, wanted = new_tenant(), new_tenant(), plan(requests=1)
        assert (await admit(limiter, one, wanted)).receipt
        assert not (await admit(limiter, one, wanted)).receipt
        assert (await admit(limiter, other, wanted)).receipt

    async def test_a_lower_limit_holds_at_once_and_locks_nobody_out(self, limiter):
        tenant = new_tenant()
        for _ in range(50):
            await admit(limiter, tenant, plan(requests=50))
        refused = await admit(limiter, tenant, plan(requests=2))
        assert 0 < refused.refused_by.wait_seconds <= 30

    async def test_what_was_not_spent_is_given_back_and_what_was_overspent_is_charged(self, limiter):
        tenant, wanted = new_tenant(), plan(tokens=100, daily=1000)
        first = await admit(limiter, tenant, wanted, 55)
        assert kind_of(await admit(limiter, tenant, wanted, 55)) == "tokens"
        await limiter.settle(first.receipt, Spent(60, 60))
        assert (await standing(limiter, tenant, wanted, "daily_tokens")).used == 60
        second = await admit(limiter, tenant, wanted, 30)
        await limiter.settle(second.receipt, Spent(1, 1))
        assert (await standing(limiter, tenant, wanted, "daily_tokens")).used == 61
        assert (await standing(limiter, tenant, wanted, "tokens")).used <= 61

    async def test_debt_makes_later_requests_wait_and_never_shows_below_nothing(self, limiter):
        tenant, wanted = new_tenant(), plan(requests=1000, tokens=60)
        decision = await admit(limiter, tenant, wanted, 10)
        await limiter.settle(decision.receipt, Spent(180, 180))
        now = await standing(limiter, tenant, wanted, "tokens")
        assert (now.remaining, now.used > 60) == (0, True)
        refused = (await admit(limiter, tenant, wanted, 10)).refused_by
        assert refused.remaining == 0
        assert 100 < refused.wait_seconds <= 130
        # Requests that need no tokens are not refused for them.
        assert (await admit(limiter, tenant, wanted, 0)).receipt

    async def test_a_refund_never_makes_more_room_than_there_is(self, limiter):
        tenant, wanted = new_tenant(), plan(tokens=6_000_000)
        decision = await admit(limiter, tenant, wanted, 20_000)
        await asyncio.sleep(0.25)  # it has all leaked away
        await limiter.settle(decision.receipt, Spent())
        assert (await standing(limiter, tenant, wanted, "tokens")).used == 0
        assert kind_of(await admit(limiter, tenant, wanted, 6_000_000)) == ""

    async def test_a_reservation_above_the_limit_needs_all_of_it(self, limiter):
        tenant, wanted = new_tenant(), plan(tokens=100)
        decision = await admit(limiter, tenant, wanted, 100_000)
        assert of(decision, "tokens").remaining == 0
        await limiter.settle(decision.receipt, Spent(7, 7))
        assert (await standing(limiter, tenant, wanted, "tokens")).used <= 7

    async def test_a_guess_takes_what_is_left_when_that_will_do(self, limiter):
        tenant, wanted = new_tenant(), plan(tokens=100, daily=1000)
        first = await limiter.admit(tenant, wanted, new_lease(), 2000, 20)
        assert first.receipt.taken == (100, 1000)
        await limiter.settle(first.receipt, Spent(60, 60))
        second = await limiter.admit(tenant, wanted, new_lease(), 500, 20)
        minute, day = second.receipt.taken
        assert (40 <= minute <= 100, day) == (True, 500)
        refused = await limiter.admit(tenant, wanted, new_lease(), 500, 60)
        assert refused.refused_by.limit.kind == "tokens"
        await limiter.settle(second.receipt, Spent(1, 1))
        assert (await standing(limiter, tenant, wanted, "daily_tokens")).used == 61

    async def test_nothing_known_leaves_what_was_reserved(self, limiter):
        tenant, wanted = new_tenant(), plan(daily=1000, concurrent=1)
        decision = await admit(limiter, tenant, wanted, 70)
        await limiter.settle(decision.receipt, Spent(as_reserved=True))
        assert [one.used for one in await limiter.look(tenant, wanted)] == [0, 70]

    async def test_the_day_ends_at_midnight_utc(self, limiter):
        tenant, wanted = new_tenant(), plan(daily=100)
        await admit(limiter, tenant, wanted, 90)
        refused = (await admit(limiter, tenant, wanted, 20)).refused_by
        left = 86_400 - time.time() % 86_400
        assert refused.limit.kind == "daily_tokens"
        assert abs(refused.wait_seconds - left) < 30 or left < 30
        assert (refused.remaining, refused.reset_seconds) == (10, refused.wait_seconds)

    async def test_what_is_given_back_to_another_day_is_not_given_back_to_today(self, limiter):
        tenant, wanted = new_tenant(), plan(daily=1000)
        decision = await admit(limiter, tenant, wanted, 300)
        yesterday = Receipt(tenant, new_lease(), wanted, (200,), decision.receipt.day - 1)
        await limiter.settle(yesterday, Spent())
        assert (await standing(limiter, tenant, wanted, "daily_tokens")).used == 300

    async def test_all_limits_are_taken_or_none(self, limiter):
        tenant = new_tenant()
        wanted = (
            *plan(requests=100, tokens=1000, daily=5000, concurrent=10),
            *plan(requests=50, tokens=500, daily=400, concurrent=5, scope="key", owner="k"),
            *plan(requests=20, tokens=300, concurrent=1, scope="model", owner="m"),
        )
        first = await admit(limiter, tenant, wanted, 200)
        assert first.receipt
        before = {one.limit: one.used for one in first.standings}
        refused = await admit(limiter, tenant, wanted, 200)
        assert not refused.receipt
        assert {(one.limit.scope, one.limit.kind) for one in refused.standings if one.wait_seconds} == {
            ("model", "tokens"),
            ("model", "concurrency"),
        }
        assert {one.limit: one.used for one in refused.standings if one.limit.kind != "tokens"} == {
            limit: used for limit, used in before.items() if limit.kind != "tokens"
        }
        await limiter.settle(first.receipt, Spent(50, 70))
        used = {(one.limit.scope, one.limit.kind): one.used for one in await limiter.look(tenant, wanted)}
        assert used["tenant", "daily_tokens"] == used["key", "daily_tokens"] == 50
        assert used["model", "tokens"] <= 70
        assert {used[scope, "concurrency"] for scope in ("tenant", "key", "model")} == {0}

    async def test_the_longest_wait_is_the_one_that_counts(self, limiter):
        tenant = new_tenant()
        wanted = (*plan(requests=60), *plan(requests=1, scope="key", owner="k"))
        await admit(limiter, tenant, wanted)
        refused = (await admit(limiter, tenant, wanted)).refused_by
        assert (refused.limit.scope, 30 < refused.wait_seconds <= 60) == ("key", True)

    async def test_what_our_own_services_spend_is_charged_without_asking(self, limiter):
        tenant, wanted = new_tenant(), plan(tokens=60_000, daily=1000)
        await limiter.settle(Receipt(tenant, new_lease(), wanted), Spent(400, 400))
        assert (await standing(limiter, tenant, wanted, "daily_tokens")).used == 400
        await limiter.settle(Receipt(tenant, new_lease(), wanted), Spent(900, 900))
        assert (await standing(limiter, tenant, wanted, "daily_tokens")).remaining == 0

    async def test_each_limit_has_its_own_time(self, limiter):
        """Tokens that come back quickly are not held back by requests that come back slowly, nor the other way."""
        tenant, wanted = new_tenant(), plan(requests=2, tokens=600_000)
        await admit(limiter, tenant, wanted, 1_000)
        await asyncio.sleep(0.2)
        second = await admit(limiter, tenant, wanted, 600_000)
        assert second.receipt
        assert of(second, "requests").remaining == 0
        assert kind_of(await admit(limiter, tenant, wanted)) == "requests"


async def test_three_gateways_share_one_limit(valkey_url):
    tenant, wanted = new_tenant(), plan(requests=2, tokens=100_000)
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as a,
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as b,
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as c,
    ):
        decisions = await asyncio.gather(*(admit([a, b, c][n % 3], tenant, wanted, 10) for n in range(60)))
    assert sum(one.receipt is not None for one in decisions) == 2


async def test_a_second_settlement_changes_nothing(valkey_url):
    tenant, wanted = new_tenant(), plan(daily=1000, concurrent=3)
    async with valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter:
        decision = await admit(limiter, tenant, wanted, 100)
        for _ in range(3):
            await limiter.settle(decision.receipt, Spent(10, 10))
        assert (await standing(limiter, tenant, wanted, "daily_tokens")).used == 10


async def test_leases_are_renewed_while_their_process_lives_and_expire_with_it(valkey_url):
    tenant, wanted = new_tenant(), plan(concurrent=1)
    key = wanted[0].store_key(tenant)
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as watching,
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS, lease_seconds=1.5) as running,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        lease = (await admit(running, tenant, wanted)).receipt.lease
        first = await client.zscore(key, lease)
        async with asyncio.timeout(60):
            while await client.zscore(key, lease) == first:
                await asyncio.sleep(0.05)
            running.forget(lease)  # as if the process had died
            while kind_of(await admit(watching, tenant, wanted)):
                await asyncio.sleep(0.05)


async def test_a_lease_that_was_given_back_is_not_renewed(valkey_url):
    tenant, wanted = new_tenant(), plan(concurrent=2)
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        kept, ended = [(await admit(limiter, tenant, wanted)).receipt for _ in range(2)]
        await client.zrem(wanted[0].store_key(tenant), ended.lease)
        await limiter.renew()
        assert await client.zrange(wanted[0].store_key(tenant), 0, -1) == [kept.lease.encode()]


async def test_a_process_that_ends_in_good_order_gives_its_leases_back(valkey_url):
    tenant, wanted = new_tenant(), plan(concurrent=1)
    async with valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as ending:
        assert (await admit(ending, tenant, wanted)).receipt
    async with valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as watching:
        assert (await admit(watching, tenant, wanted)).receipt


FULL = (
    *plan(requests=100, tokens=10_000, daily=50_000, concurrent=10),
    *plan(requests=100, tokens=10_000, daily=50_000, concurrent=10, scope="key", owner="k"),
    *plan(tokens=10_000, concurrent=10, scope="model", owner="org/model-1"),
)


async def test_every_key_of_a_tenant_ends_by_itself_and_is_in_one_slot(valkey_url):
    tenant = new_tenant()
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        running = await admit(limiter, tenant, FULL, 500)
        ended = await admit(limiter, tenant, FULL, 500)
        await limiter.settle(ended.receipt, Spent(700, 700))
        await limiter.settle(Receipt(tenant, new_lease(), FULL), Spent(100_000, 100_000))
        await limiter.renew()
        keys = [key async for key in client.scan_iter(f"*{tenant}*")]
        assert len(keys) == len(FULL) + 2  # and a marker for each settlement
        assert all([await client.pttl(key) > 0 for key in keys])
        assert len({key_slot(key) for key in keys}) == 1
        await limiter.settle(running.receipt, Spent())


@pytest.mark.parametrize("tokens", [0, 100, 10_000])
async def test_a_key_without_an_end_is_given_one(valkey_url, tokens):
    tenant = new_tenant()
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        await admit(limiter, tenant, FULL, 500)
        keys = [key async for key in client.scan_iter(f"*{tenant}*")]
        assert all([await client.persist(key) for key in keys])
        await admit(limiter, tenant, FULL, tokens)  # none, some, and so many that it is refused
        assert all([await client.pttl(key) > 0 for key in keys])


async def test_a_clock_of_the_store_that_went_back_locks_nobody_out(valkey_url):
    tenant, wanted = new_tenant(), plan(requests=60)
    key = wanted[0].store_key(tenant)
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        await admit(limiter, tenant, wanted)
        seconds, _ = await client.time()
        # As it was written a day later, before the clock was set right.
        await client.set(key, f"{30 * 60_000_000} {(seconds + 86_400) * 1_000_000} 60", px=60_000)
        assert of(await admit(limiter, tenant, wanted), "requests").used == 31
        async with asyncio.timeout(30):
            while (await standing(limiter, tenant, wanted, "requests")).used > 30:
                await asyncio.sleep(0.1)


async def test_what_somebody_else_wrote_into_a_bucket_counts_as_empty(valkey_url):
    tenant, wanted = new_tenant(), plan(requests=60, daily=100)
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        for limit in wanted:
            await client.set(limit.store_key(tenant), "rubbish")
        decision = await admit(limiter, tenant, wanted, 40)
        assert [one.used for one in decision.standings] == [1, 40]


async def test_a_store_that_forgot_the_script_learns_it_again(valkey_url):
    tenant, wanted = new_tenant(), plan(requests=2)
    async with (
        valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter,
        redis.asyncio.from_url(valkey_url) as client,
    ):
        await admit(limiter, tenant, wanted)
        await client.script_flush()
        assert of(await admit(limiter, tenant, wanted), "requests").remaining == 0


LIVES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 400), st.sampled_from(["end", "end twice", "abort", "die"])),
    max_size=25,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(lives=LIVES, daily=st.integers(1, 3000), most=st.integers(1, 4), data=st.data())
def test_random_lives_of_requests_leave_exact_books_in_valkey(valkey_url, lives, daily, most, data):
    """Days and leases do not depend on the time that a test takes. Who dies leaves its reservation and its lease."""

    async def live():
        tenant, wanted = new_tenant(), plan(daily=daily, concurrent=most)
        async with valkey_limiter(valkey_url, timeout_seconds=PATIENCE_SECONDS) as limiter:
            used, running = 0, []
            for reserved, spent, fate in lives:
                decision = await admit(limiter, tenant, wanted, reserved)
                cost = min(reserved, daily)
                assert bool(decision.receipt) == (len(running) < most and (not cost or used + cost <= daily))
                if decision.receipt:
                    used += cost
                    running.append((decision.receipt, cost, spent, fate))
                while running and data.draw(st.booleans()):
                    receipt, cost, spent, fate = running.pop(data.draw(st.integers(0, len(running) - 1)))
                    if fate == "die":
                        limiter.forget(receipt.lease)
                        await limiter.settle(Receipt(tenant, receipt.lease, wanted[:1]), Spent())
                        continue
                    charged = 0 if fate == "abort" else spent
                    for _ in range(2 if fate == "end twice" else 1):
                        await limiter.settle(receipt, Spent(charged, charged))
                    used = max(0, used + charged - cost)
                found = [one.used for one in await limiter.look(tenant, wanted)]
                assert found == [len(running), used]
            for receipt, *_ in running:
                await limiter.settle(receipt, Spent(as_reserved=True))
            assert [one.used for one in await limiter.look(tenant, wanted)] == [0, used]

    asyncio.run(live())
