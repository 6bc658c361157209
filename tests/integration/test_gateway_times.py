"""The times that an answer tells, against those that passed on both sides of the gateway: no bound asks for speed."""

import asyncio
import json
import time

import pytest

from tests.integration.gateway_stack import gateway_stack, write_tenants

# What the stand-in says that its run took, whatever it took: less than it is made to wait below.
SAID_MS, WAIT_SECONDS = 317.5, 0.5
# Times are told to a tenth of a millisecond, each rounded by itself.
ROUNDING_MS = 0.2


@pytest.fixture
async def stack(tmp_path):
    web = tmp_path / "web"
    web.mkdir()
    async with gateway_stack(write_tenants(tmp_path), web) as one:
        yield one


async def slow_answer(stack, **asked):
    """The answer, with the milliseconds that surely passed and those that passed at most."""
    agent = stack.agent
    agent.started.clear()
    agent.go_on.clear()
    sent = time.perf_counter()
    asking = asyncio.create_task(stack.ask("wait", **asked))
    await asyncio.wait_for(agent.started.wait(), 60)
    arrived = time.perf_counter()
    await asyncio.sleep(WAIT_SECONDS)
    waited = time.perf_counter() - arrived
    agent.go_on.set()
    answer = await asking
    return answer, waited * 1000, (time.perf_counter() - sent) * 1000


def add_up(timings):
    parts = sum(timings[name] for name in ("model", "tools", "cache", "overhead"))
    assert abs(parts - timings["total"]) <= ROUNDING_MS
    assert timings["total"] == SAID_MS
    return parts + timings["gateway"]


async def test_the_parts_of_the_header_add_up_to_what_the_caller_waited(stack):
    answer, least, most = await slow_answer(stack)
    said = dict(one.split(";dur=") for one in answer.headers["server-timing"].split(", "))
    timings = {name: float(ms) for name, ms in said.items()}
    assert timings == answer.json()["sabueso"]["timings_ms"]
    assert least - ROUNDING_MS <= add_up(timings) <= most + ROUNDING_MS


async def test_the_last_event_of_a_stream_says_all_that_passed_until_then(stack):
    answer, least, most = await slow_answer(stack, stream=True)
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    (timings,) = [one["sabueso"]["timings_ms"] for one in events if "timings_ms" in one.get("sabueso", {})]
    assert least - ROUNDING_MS <= add_up(timings) <= most + ROUNDING_MS


async def test_a_run_that_says_more_than_passed_leaves_nothing_to_the_gateway(stack):
    answer = await stack.ask("x")
    timings = answer.json()["sabueso"]["timings_ms"]
    assert timings["gateway"] >= 0
    assert timings["total"] == SAID_MS
