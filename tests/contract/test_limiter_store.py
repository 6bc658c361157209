"""What limits do when their store misbehaves: refuses commands, mixes up answers, hangs, dies and comes back."""

import asyncio
import random
import signal
import subprocess
import time
import uuid
from contextlib import asynccontextmanager

import pytest
import redis.asyncio
from redis.asyncio.cluster import RedisCluster

from local import ports, valkey
from services.gateway.limits.decision import Spent, StoreLost
from services.gateway.limits.fallback import FallbackLimiter, fallback_limiter
from services.gateway.limits.memory import MemoryLimiter
from services.gateway.limits.plan import Limit
from services.gateway.limits.valkey import ValkeyLimiter, valkey_limiter
from tests.integration.valkey_proxy import mute_server, valkey_proxy

PATIENCE_SECONDS = 20
PLAN = (
    Limit("tenant", "requests", "", 1000),
    Limit("tenant", "tokens", "", 60_000),
    Limit("tenant", "daily_tokens", "", 100_000),
    Limit("tenant", "concurrency", "", 10),
    Limit("key", "daily_tokens", "app", 50_000),
    Limit("model", "daily_tokens", "org/m", 40_000),
)


def new_tenant():
    return f"t-{uuid.uuid4().hex[:12]}"


async def used(limiter, tenant):
    return [one.used for one in await limiter.look(tenant, PLAN) if one.limit.kind != "requests"]


async def test_a_proxy_that_refuses_digests_gets_the_scripts_whole(valkey_url):
    tenant = new_tenant()
    async with valkey_proxy(valkey_url) as proxy:
        proxy.refused = {"EVALSHA": "ERR unknown command 'EVALSHA'", "SCRIPT": "ERR unknown command 'SCRIPT'"}
        async with valkey_limiter(proxy.url, timeout_seconds=PATIENCE_SECONDS) as limiter:
            for _ in range(3):
                decision = await limiter.admit(tenant, PLAN, uuid.uuid4().hex, 100)
                await limiter.settle(decision.receipt, Spent(10, 10))
            assert (await limiter.look(tenant, PLAN))[2].used == 30
        assert proxy.commands.count("EVALSHA") == 1


@pytest.mark.parametrize("digests", ["known", "forgotten", "refused"])
async def test_what_goes_together_is_answered_one_by_one(valkey_url, digests):
    """Many at once, in few round trips, each with its own answer."""
    tenant, plan = new_tenant(), (*PLAN[2:3], Limit("tenant", "concurrency", "", 70))
    async with valkey_proxy(valkey_url) as proxy, redis.asyncio.from_url(valkey_url) as client:
        await client.script_flush()
        if digests == "refused":
            proxy.refused = {"EVALSHA": "NOPERM User default has no permissions to run the 'evalsha' command"}
        async with valkey_limiter(proxy.url, timeout_seconds=PATIENCE_SECONDS) as limiter:
            if digests == "known":
                await limiter.look(tenant, plan)
            decisions = await asyncio.gather(*(limiter.admit(tenant, plan, str(n), n) for n in range(100)))
            running = [one.receipt for one in decisions if one.receipt]
            assert len(running) == 70
            assert sorted(one.standings[1].used for one in decisions if one.receipt) == list(range(1, 71))
            assert len({receipt.lease for receipt in running}) == 70
            assert all(receipt.taken[0] == int(receipt.lease) for receipt in running)
            await asyncio.gather(*(limiter.settle(receipt, Spent(5, 5)) for receipt in running))
            assert [one.used for one in await limiter.look(tenant, plan)] == [350, 0]


async def test_all_who_wait_for_a_store_that_hangs_are_told():
    async with mute_server() as url, valkey_limiter(url, timeout_seconds=0.3) as shared:
        answers = await asyncio.gather(
            *(shared.admit(f"t{n}", PLAN, str(n)) for n in range(50)), return_exceptions=True
        )
    assert {type(one) for one in answers} == {StoreLost}


async def test_a_proxy_that_refuses_scripts_altogether_is_a_lost_store(valkey_url):
    async with valkey_proxy(valkey_url) as proxy:
        proxy.refused = {name: f"ERR unknown command '{name}'" for name in ("EVALSHA", "EVAL")}
        async with valkey_limiter(proxy.url, timeout_seconds=PATIENCE_SECONDS) as limiter:
            with pytest.raises(StoreLost):
                await limiter.admit(new_tenant(), PLAN, "a")


@pytest.mark.parametrize("error", ["READONLY You can't write against a read only replica.", "OOM command not allowed"])
async def test_a_store_that_takes_no_writes_is_lost(valkey_url, error):
    async with valkey_proxy(valkey_url) as proxy:
        proxy.refused = dict.fromkeys(("EVALSHA", "EVAL"), error)
        async with (
            valkey_limiter(proxy.url, timeout_seconds=PATIENCE_SECONDS) as shared,
            fallback_limiter(shared, MemoryLimiter(), 1) as limiter,
        ):
            assert (await limiter.admit(new_tenant(), PLAN, "a")).receipt.local
            with pytest.raises(StoreLost):
                await shared.probe()


async def test_a_server_that_became_a_replica_is_left_for_the_one_that_its_name_leads_to(valkey_url):
    async with valkey_proxy(valkey_url) as proxy:
        proxy.refused = dict.fromkeys(("EVALSHA", "EVAL"), "READONLY You can't write against a read only replica.")
        async with (
            valkey_limiter(proxy.url, timeout_seconds=PATIENCE_SECONDS) as shared,
            fallback_limiter(shared, MemoryLimiter(), 1) as limiter,
        ):
            await limiter.admit(new_tenant(), PLAN, "a")
            proxy.fail_over()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while limiter.degraded:
                    await asyncio.sleep(0.05)


async def test_books_are_right_though_answers_come_in_another_order(valkey_url):
    tenant = new_tenant()
    async with valkey_proxy(valkey_url) as proxy:

        def mixed(answer):
            if isinstance(answer, list) and len(answer) > 2:
                rows = answer[1:]
                random.shuffle(rows)
                return [answer[0], *rows]
            return answer

        proxy.change = mixed
        async with valkey_limiter(proxy.url, timeout_seconds=PATIENCE_SECONDS) as limiter:
            for _ in range(20):
                decision = await limiter.admit(tenant, PLAN, uuid.uuid4().hex, 300)
                assert [one.limit for one in decision.standings] == list(PLAN)
                await limiter.settle(decision.receipt, Spent(7, 9))
            standings = {one.limit.scope: one.used for one in await limiter.look(tenant, PLAN[2:])}
    assert (standings["key"], standings["model"]) == (140, 180)


async def test_an_answer_with_a_limit_missing_is_no_answer(valkey_url):
    async with valkey_proxy(valkey_url) as proxy:
        proxy.change = lambda answer: answer[:-1] if isinstance(answer, list) else answer
        async with valkey_limiter(proxy.url, timeout_seconds=PATIENCE_SECONDS) as limiter:
            with pytest.raises(StoreLost):
                await limiter.admit(new_tenant(), PLAN, "a")


async def test_a_store_that_hangs_costs_its_timeout_once():
    async with mute_server() as url, valkey_limiter(url, timeout_seconds=0.3) as shared:
        since = time.monotonic()
        with pytest.raises(StoreLost):
            await shared.admit("t", PLAN, "a")
        assert time.monotonic() - since >= 0.29
        # The probe comes after the test: not one of these asks the store, or they would take 500 s.
        limiter = FallbackLimiter(shared, MemoryLimiter(), 1, retry_seconds=3600)
        async with asyncio.timeout(60):
            for number in range(2000):
                assert (await limiter.admit(f"t{number}", PLAN, str(number))).receipt.local
        await limiter.close()


def started(command):
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


@asynccontextmanager
async def own_valkey(folder):
    """A Valkey of the test's own, which it may stop. Yields its port, and functions to start and to kill it."""
    port = ports.pick(1, ports.random_start())[0]
    processes = []

    def start():
        processes.append(started(valkey.command(folder, port)))
        return processes[-1]

    try:
        yield f"redis://127.0.0.1:{port}", start
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(10)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_paused_store_is_done_without_and_used_again_when_it_goes_on(tmp_path):
    tenant, plan = new_tenant(), (Limit("tenant", "concurrency", "", 2), Limit("tenant", "daily_tokens", "", 10_000))
    async with (
        own_valkey(tmp_path) as (url, start),
        valkey_limiter(url, timeout_seconds=1) as shared,
        redis.asyncio.from_url(url) as client,
    ):
        process = start()
        limiter = FallbackLimiter(shared, MemoryLimiter(), 1, retry_seconds=0.1)
        await until_it_answers(client)
        before = await limiter.admit(tenant, plan, "before", 100)
        await until(lambda: not limiter.degraded)
        process.send_signal(signal.SIGSTOP)
        # Its question gets to the store when it goes on, and nobody waits for the answer any more.
        during = await limiter.admit(tenant, plan, "during", 200)
        assert during.receipt.local
        assert limiter.degraded
        await limiter.settle(before.receipt, Spent(30, 30))
        await limiter.settle(during.receipt, Spent(50, 50))
        process.send_signal(signal.SIGCONT)
        await until(lambda: not limiter.degraded)
        running, day = await shared.look(tenant, plan)
        assert running.used == 0
        # What the lost question reserved may stay: 30, and 50, and 200 of it.
        assert day.used in (80, 280)
        assert not (await limiter.admit(tenant, plan, "after", 1)).receipt.local
        await limiter.close()


async def until_it_answers(client):
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.ping()
            except redis.ConnectionError:
                await asyncio.sleep(0.05)


async def test_a_killed_store_refuses_nobody_and_is_used_again_when_it_is_back(tmp_path):
    tenant = new_tenant()
    async with (
        own_valkey(tmp_path) as (url, start),
        valkey_limiter(url, timeout_seconds=PATIENCE_SECONDS) as shared,
        redis.asyncio.from_url(url) as client,
    ):
        limiter = FallbackLimiter(shared, MemoryLimiter(), 1, retry_seconds=0.1)
        assert (await limiter.admit(tenant, PLAN, "never started")).receipt.local
        first = start()
        await until(lambda: not limiter.degraded)
        decision = await limiter.admit(tenant, PLAN, "a", 100)
        assert not decision.receipt.local
        first.kill()
        first.wait(10)
        await limiter.settle(decision.receipt, Spent(5, 5))
        assert (await limiter.admit(tenant, PLAN, "b")).receipt.local
        start()
        await until_it_answers(client)
        await until(lambda: not limiter.degraded)
        assert not (await limiter.admit(tenant, PLAN, "c")).receipt.local
        await limiter.close()


async def test_tenants_are_spread_over_the_shards_of_a_cluster(tmp_path):
    async with three_shards(tmp_path) as url, valkey_limiter(url, timeout_seconds=20, cluster=True) as limiter:
        for number in range(100):
            tenant = f"tenant-{number}"
            decision = await limiter.admit(tenant, PLAN, f"l{number}", 100)
            assert decision.receipt
            await limiter.settle(decision.receipt, Spent(7, 7))
            again = await limiter.admit(tenant, PLAN, f"m{number}", 100)
            assert [one.used for one in again.standings if one.limit.kind == "daily_tokens"] == [107] * 3
        await limiter.renew()
        async with RedisCluster.from_url(url) as client:
            sizes = [await client.execute_command("DBSIZE", target_nodes=node) for node in client.get_primaries()]
        assert len(sizes) == 3
        assert all(sizes)
    assert isinstance(limiter, ValkeyLimiter)


@asynccontextmanager
async def three_shards(folder):
    """A cluster of three masters on loopback."""
    picked = ports.pick(3, ports.random_start())
    processes = []
    clients = [redis.asyncio.Redis(port=port) for port in picked]
    try:
        for number, port in enumerate(picked):
            home = folder / str(number)
            home.mkdir()
            options = ["--cluster-enabled", "yes", "--cluster-port", str(ports.pick(1, ports.random_start())[0])]
            processes.append(started([*valkey.command(home, port), *options]))
        for client in clients:
            await until_it_answers(client)
        for number, client in enumerate(clients):
            first, last = 16_384 * number // 3, 16_384 * (number + 1) // 3 - 1
            await client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        for process, port in zip(options_of(processes)[1:], picked[1:], strict=True):
            await clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", port, process)
        async with asyncio.timeout(90):
            for client in clients:
                while b"cluster_state:ok" not in await client.execute_command("CLUSTER", "INFO"):
                    await asyncio.sleep(0.1)
        yield f"redis://127.0.0.1:{picked[0]}"
    finally:
        for client in clients:
            await client.aclose()
        for process in processes:
            process.kill()
            process.wait(10)


def options_of(processes):
    """The bus ports."""
    return [process.args[-1] for process in processes]
