"""Limits hold for all gateways together, each a process of its own: with wrong clocks, and one of them dying."""

import asyncio
import itertools
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack, ExitStack, contextmanager

import httpx2
import pytest
import pytest_asyncio

from local import ports, valkey
from services.runtime.testing import SECRET
from services.understudy.faults import Script, faulty
from tests.integration.limited_tenants import bearer, chat, check_headers, code_of, write

# Three gateways take long to start; the same is checked in test_limiter.py with three limiters of one process.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

SKEWS = (0, 30, -30)
LEASE_SECONDS = 3
TENANTS = {
    "ten": {"requests_per_minute": 10},
    "tokens": {"tokens_per_minute": 100, "daily_tokens": 10_000},
    "skewed": {"requests_per_minute": 1},
    "five": {"concurrent_requests": 5},
    "dying": {"concurrent_requests": 1},
    "local": {"requests_per_minute": 3},
    "open": {"requests_per_minute": 3, "on_store_loss": {"requests": "open"}},
    "closed": {"requests_per_minute": 300, "on_store_loss": {"requests": "closed"}},
}


class Fleet:
    """Three gateways, the Valkey that they share, and the model server behind them."""

    def __init__(self, clients, processes, mock, stores, store_command):
        self.clients, self.processes, self.mock = clients, processes, mock
        self._stores, self._store_command = stores, store_command
        self._turn = itertools.cycle(clients)

    async def ask(self, tenant, body=None, client=None):
        client = client or next(self._turn)
        return await client.post("/v1/chat/completions", json=body or chat(), headers=bearer(tenant), timeout=60)

    async def reaches(self, condition):
        async with asyncio.timeout(90):
            while not await condition():
                await asyncio.sleep(0.05)

    @contextmanager
    def without_store(self):
        self._stores.close()
        yield
        self._stores.enter_context(running(self._store_command))

    async def limits_are(self, state):
        async def agreed():
            answers = await asyncio.gather(*(client.get("/readyz", timeout=60) for client in self.clients))
            return {answer.json()["limits"] for answer in answers} == {state}

        await self.reaches(agreed)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tenants")
    for name, limits in TENANTS.items():
        write(folder, name, **limits)
    store_port, *gateway_ports = ports.pick(1 + len(SKEWS), ports.random_start())
    store_command = valkey.command(tmp_path_factory.mktemp("valkey"), store_port)
    async with (
        faulty(Script(prompt_tokens=10, completion_tokens=50)) as mock,
        AsyncExitStack() as stack,
    ):
        stores = stack.enter_context(ExitStack())
        stores.enter_context(running(store_command))
        settings = {
            "SABUESO_HOST": "127.0.0.1",
            "SABUESO_METRICS_PORT": "0",
            "SABUESO_IDENTITY_SECRET": SECRET,
            "SABUESO_TENANTS_DIR": str(folder),
            "SABUESO_VALKEY_URL": f"redis://127.0.0.1:{store_port}",
            "SABUESO_MODEL_URL": f"{mock.url}/v1",
            "SABUESO_LIMITER_TIMEOUT_SECONDS": "10",
            "SABUESO_LIMITER_LEASE_SECONDS": str(LEASE_SECONDS),
            "SABUESO_REPLICA_COUNT": str(len(SKEWS)),
        }
        command = [sys.executable, "-m", "tests.integration.limits_replica"]
        processes = [
            stack.enter_context(running(command, **settings, SABUESO_PORT=str(port), SKEW_SECONDS=str(skew)))
            for port, skew in zip(gateway_ports, SKEWS, strict=True)
        ]
        clients = [
            await stack.enter_async_context(httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False))
            for port in gateway_ports
        ]
        fleet = Fleet(clients, processes, mock, stores, store_command)
        for client, process in zip(clients, processes, strict=True):
            await fleet.reaches(lambda client=client, process=process: alive(client, process))
        yield fleet


@contextmanager
def running(command, **environment):
    """A process that is killed at the end of the block."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


async def alive(client, process):
    assert process.poll() is None, "a gateway did not start; run it by hand to see why"
    try:
        return (await client.get("/healthz")).status_code == 200
    except httpx2.TransportError:
        return False


async def test_sixty_requests_to_three_gateways_share_ten(fleet):
    before, since = len(fleet.mock.requests), time.monotonic()
    answers = await asyncio.gather(*(fleet.ask("ten") for _ in range(60)))
    more = int((time.monotonic() - since) / 6)  # what comes back meanwhile, on a slow machine
    admitted = [one for one in answers if one.status_code == 200]
    assert 10 <= len(admitted) <= 10 + more
    assert len(fleet.mock.requests) - before == len(admitted)
    assert {code_of(one) for one in answers if one.status_code != 200} == {(429, "rate_limit_exceeded")}
    for one in answers:
        check_headers(one, tokens=False)


async def test_tokens_are_reserved_by_all_gateways_together(fleet):
    fleet.mock.go_on.clear()
    body = chat(max_tokens=85, fault={"hold_headers": True, "prompt_tokens": 10, "completion_tokens": 50})
    tasks = [asyncio.create_task(fleet.ask("tokens", body)) for _ in range(12)]

    async def decided():
        return sum(task.done() for task in tasks) == 11

    await fleet.reaches(decided)
    fleet.mock.go_on.set()
    answers = await asyncio.gather(*tasks)
    assert sum(one.status_code == 200 for one in answers) == 1
    usage = (await fleet.clients[1].get("/v1/usage", headers=bearer("tokens"))).json()
    assert usage["daily_tokens"]["used"] == 60


async def test_clocks_that_are_wrong_change_nothing(fleet):
    """One gateway is half a minute ahead, one behind: a minute's only request is admitted once."""
    since = time.monotonic()
    answers = [await fleet.ask("skewed", client=client) for client in fleet.clients * 3]
    assert [one.status_code for one in answers].count(200) == 1 + int((time.monotonic() - since) / 60)
    waits = [int(one.headers["retry-after"]) for one in answers if one.status_code == 429]
    assert max(waits) - min(waits) <= 1 + (time.monotonic() - since)
    assert max(waits) <= 60


async def test_at_the_same_time_no_more_than_the_limit_run_behind_all_gateways(fleet):
    fleet.mock.go_on.clear()
    before = len(fleet.mock.requests)
    tasks = [asyncio.create_task(fleet.ask("five", chat(fault={"hold_headers": True}))) for _ in range(30)]

    async def decided():
        return sum(task.done() for task in tasks) == 25 and len(fleet.mock.requests) - before == 5

    await fleet.reaches(decided)
    # Longer than leases last: those of running requests are renewed.
    await asyncio.sleep(1.5 * LEASE_SECONDS)
    assert code_of(await fleet.ask("five")) == (429, "concurrency_limit_exceeded")
    fleet.mock.go_on.set()
    await asyncio.gather(*tasks)
    assert (await fleet.ask("five")).status_code == 200


async def test_without_the_store_each_limit_follows_its_policy_until_it_is_back(fleet):
    with fleet.without_store():
        for client in fleet.clients:  # each finds out by itself
            assert (await fleet.ask("open", client=client)).status_code == 200
        await fleet.limits_are("degraded")
        # A third of the limit each.
        answers = [await fleet.ask("local", client=client) for client in fleet.clients * 2]
        assert [one.status_code for one in answers] == [200] * 3 + [429] * 3
        assert {one.headers["x-ratelimit-limit-requests"] for one in answers} == {"1"}
        answers = [await fleet.ask("open", client=client) for client in fleet.clients * 3]
        assert {one.status_code for one in answers} == {200}
        answer = await fleet.ask("closed")
        assert code_of(answer) == (503, "limiter_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        metrics = (await fleet.clients[0].get("/metrics")).text
        assert "sabueso_gateway_limiter_store_lost 1.0" in metrics
        assert 'sabueso_gateway_limiter_fallbacks_total{policy="local"}' in metrics
    await fleet.limits_are("ok")
    assert (await fleet.ask("closed")).status_code == 200


async def test_a_gateway_that_is_killed_holds_its_places_for_a_lease_and_no_longer(fleet):
    """The last test: one gateway fewer from here on."""
    fleet.mock.go_on.clear()
    before = len(fleet.mock.requests)
    asking = asyncio.create_task(fleet.ask("dying", chat(fault={"hold_headers": True}), fleet.clients[2]))
    await fleet.mock.arrived(before + 1)
    assert code_of(await fleet.ask("dying", client=fleet.clients[0])) == (429, "concurrency_limit_exceeded")
    fleet.processes[2].kill()
    with pytest.raises(httpx2.TransportError):
        await asking
    fleet.mock.go_on.set()

    async def passes():
        return (await fleet.ask("dying", client=fleet.clients[0])).status_code == 200

    await fleet.reaches(passes)
