"""The limits as a client meets them: a real Valkey, a real gateway, and a model server that fails on command."""

import asyncio
import base64
import os
import time

import pytest
import pytest_asyncio

from services.gateway.admission import Terms
from services.gateway.limits.fallback import fallback_limiter
from services.gateway.limits.memory import MemoryLimiter
from services.gateway.limits.valkey import valkey_limiter
from services.gateway.pools.pool import pool_at
from services.runtime.context import Identity
from services.runtime.testing import SIGNER
from services.understudy.faults import Script, faulty
from tests.integration.gateway_stack import gateway_stack
from tests.integration.limited_tenants import bearer, chat, check_headers, code_of, key_of, listed, write

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANTS = {
    "few": {"requests_per_minute": 2},
    "bodies": {"requests_per_minute": 2},
    "five": {"concurrent_requests": 5},
    "hundred": {"tokens_per_minute": 100, "daily_tokens": 100_000},
    "guess": {"tokens_per_minute": 100},
    "caps": {"tokens_per_minute": 100},
    "picture": {"tokens_per_minute": 50_000},
    "debt": {"tokens_per_minute": 1000, "requests_per_minute": 600},
    "abort": {"daily_tokens": 1_000_000},
    "errors": {"daily_tokens": 1_000_000, "requests_per_minute": 600},
    "silent": {"daily_tokens": 1_000_000},
    "day": {"daily_tokens": 60},
    "waits": {"tokens_per_minute": 6_000},
    "seconds": {"requests_per_minute": 60},
    "leases": {"concurrent_requests": 1},
    "turns-taken": {"concurrent_requests": 1},
    "agent": {"tokens_per_minute": 300, "daily_tokens": 100_000, "models": {"sabueso": {"daily_tokens": 1_000_000}}},
    "turns": {"tokens_per_minute": 100, "daily_tokens": 1_000_000, "models": {"mini-1": {"daily_tokens": 500_000}}},
    "own": {"daily_tokens": 100_000},
    "own-short": {"models": {"small": {"requests_per_minute": 1}, "length": {"requests_per_minute": 1}}},
    "own-whole": {"models": {"small@1": {"requests_per_minute": 1}, "length@1": {"requests_per_minute": 1}}},
    "grid-ok": {"requests_per_minute": 600, "tokens_per_minute": 100_000, "concurrent_requests": 8, "body_bytes": 4096},
    "grid-requests": {"requests_per_minute": 1, "tokens_per_minute": 100_000, "concurrent_requests": 8},
    "grid-tokens": {"requests_per_minute": 600, "tokens_per_minute": 100, "concurrent_requests": 8},
    "grid-concurrency": {"requests_per_minute": 600, "tokens_per_minute": 100_000, "concurrent_requests": 1},
}
# Far beyond any test: what is free again was given back, and did not expire.
LEASE_SECONDS = 3600


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory, valkey_url):
    folder = tmp_path_factory.mktemp("tenants")
    for name, limits in TENANTS.items():
        write(folder, name, **limits)
    keys = {"small": {"limits": {"requests_per_minute": 1, "daily_tokens": 500}}, "other": {}}
    write(folder, "keys", keys=keys, requests_per_minute=600, models={"big-1": {"tokens_per_minute": 50}})
    async with (
        faulty(Script(usage="last", prompt_tokens=10, completion_tokens=50)) as mock,
        valkey_limiter(valkey_url, timeout_seconds=20, lease_seconds=LEASE_SECONDS) as shared,
        fallback_limiter(shared, MemoryLimiter(), 1) as limiter,
        gateway_stack(folder, folder, limiter, models=pool_at(f"{mock.url}/v1")) as stack,
    ):
        yield World(stack, mock)


class World:
    def __init__(self, stack, mock):
        self.stack, self.mock, self.http = stack, mock, stack.http

    async def ask(self, tenant, body=None, key="app", path="/v1/chat/completions"):
        return await self.http.post(path, json=body or chat(), headers=bearer(tenant, key), timeout=60)

    async def usage(self, tenant, key="app"):
        response = await self.http.get("/v1/usage", headers=bearer(tenant, key), timeout=60)
        assert response.status_code == 200
        return response.json()

    async def day(self, tenant, key="app"):
        return (await self.usage(tenant, key))["daily_tokens"]["used"]

    async def settles(self, condition):
        """Waits for a fact; nothing here expires by itself."""
        async with asyncio.timeout(60):
            while not await condition():
                await asyncio.sleep(0.02)

    async def hold(self, tenant, count=1, **fields):
        """Requests whose answers are held back until `go_on`. Returns their tasks."""
        self.mock.go_on.clear()
        before = len(self.mock.requests)
        fault = {"hold_headers": True, "prompt_tokens": 10, "completion_tokens": 50}
        body = chat(fault=fault, **fields)
        tasks = [asyncio.create_task(self.ask(tenant, body)) for _ in range(count)]
        await self.mock.arrived(before + 1)
        return tasks


# Requests


async def test_of_many_at_once_exactly_the_limit_reaches_the_model(world):
    before, since = len(world.mock.requests), time.monotonic()
    answers = await asyncio.gather(*(world.ask("few") for _ in range(30)))
    more = int((time.monotonic() - since) / 30)  # what comes back meanwhile, on a very slow machine
    admitted = [one for one in answers if one.status_code == 200]
    assert 2 <= len(admitted) <= 2 + more
    assert len(world.mock.requests) - before == len(admitted)
    refused = [one for one in answers if one.status_code != 200]
    assert {code_of(one) for one in refused} == {(429, "rate_limit_exceeded")}
    for one in answers:
        check_headers(one, tokens=False)
    assert {one.headers["x-ratelimit-remaining-requests"] for one in refused} == {"0"}


async def test_after_the_stated_wait_the_request_passes(world):
    answer = await world.ask("seconds")
    while answer.status_code == 200:
        answer = await world.ask("seconds")
    assert code_of(answer) == (429, "rate_limit_exceeded")
    await asyncio.sleep(int(answer.headers["retry-after"]))
    assert (await world.ask("seconds")).status_code == 200


async def test_bodies_that_are_wrong_count_as_requests(world):
    since = time.monotonic()

    async def send():
        return await world.http.post("/v1/chat/completions", content=b"{nonsense", headers=bearer("bodies"), timeout=60)

    answers = await asyncio.gather(*(send() for _ in range(20)))
    more = int((time.monotonic() - since) / 30)
    codes = [code_of(one) for one in answers]
    assert 2 <= codes.count((400, "invalid_json")) <= 2 + more
    assert set(codes) == {(400, "invalid_json"), (429, "rate_limit_exceeded")}


async def test_a_body_that_does_not_come_is_given_up_counted_and_gives_its_place_back(tmp_path):
    write(tmp_path, "slow", requests_per_minute=600, concurrent_requests=1)
    terms = Terms(body_seconds=0.3)
    async with gateway_stack(tmp_path, tmp_path, terms=terms) as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(stack.url.rpartition(":")[2]))
        credential = f"authorization: Bearer {key_of('slow')}"
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n{credential}\r\n\r\n"
        writer.write(head.encode() + b'{"model": ')
        answer = await asyncio.wait_for(reader.readuntil(b'"request_timeout"'), 60)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"x-ratelimit-remaining-requests: 599" in answer.lower()
        usage = await stack.http.get("/v1/usage", headers=bearer("slow"))
        assert usage.json()["requests_per_minute"]["used"] >= 1


# Concurrency


async def test_no_more_than_the_limit_run_at_the_same_time(world):
    before = len(world.mock.requests)
    tasks = await world.hold("five", 50)
    async with asyncio.timeout(60):
        while sum(task.done() for task in tasks) < 45:
            await asyncio.sleep(0.01)
    await world.mock.arrived(before + 5)
    refused = [task.result() for task in tasks if task.done()]
    assert {code_of(one) for one in refused} == {(429, "concurrency_limit_exceeded")}
    assert {one.headers["retry-after"] for one in refused} == {"1"}
    assert len(world.mock.requests) - before == 5
    world.mock.go_on.set()
    assert sum(one.status_code == 200 for one in await asyncio.gather(*tasks)) == 5
    assert (await world.usage("five"))["concurrent_requests"]["used"] == 1  # the one that asks


@pytest.mark.parametrize("how", ["aborted in the stream", "given up before the answer", "no JSON", "unknown model"])
async def test_a_request_that_ends_badly_gives_its_place_back(world, how):
    world.mock.go_on.clear()
    before = len(world.mock.requests)
    if how == "aborted in the stream":
        body = chat(stream=True, fault={"hold_after": 1})
        async with world.http.stream("POST", "/v1/chat/completions", json=body, headers=bearer("leases")) as answer:
            await anext(answer.aiter_lines())
    elif how == "given up before the answer":
        asking = asyncio.create_task(world.ask("leases", chat(fault={"before": "silence"})))
        await world.mock.arrived(before + 1)
        asking.cancel()
        await asyncio.wait({asking})
    elif how == "no JSON":
        assert (
            await world.http.post("/v1/chat/completions", content=b"[", headers=bearer("leases"))
        ).status_code == 400
    else:
        assert (await world.ask("leases", chat(model="nobody"))).status_code == 404
    world.mock.go_on.set()

    async def passes():
        return (await world.ask("leases")).status_code == 200

    await world.settles(passes)


async def test_one_request_after_another_never_meets_the_place_of_the_one_before(world):
    """A client who has read the last byte may ask again at once."""
    statuses = [(await world.ask("turns-taken", chat(stream=number % 2 == 0))).status_code for number in range(60)]
    assert set(statuses) == {200}


# Tokens


async def test_parallel_requests_reserve_before_they_run_and_are_charged_what_they_cost(world):
    before = await world.day("hundred")
    tasks = await world.hold("hundred", 5, max_tokens=85)  # the second would fit after 50 s
    async with asyncio.timeout(60):
        while sum(task.done() for task in tasks) < 4:
            await asyncio.sleep(0.01)
    refused = [task.result() for task in tasks if task.done()]
    assert {code_of(one) for one in refused} == {(429, "tokens_limit_exceeded")}
    world.mock.go_on.set()
    answers = await asyncio.gather(*tasks)
    assert sum(one.status_code == 200 for one in answers) == 1
    assert await world.day("hundred") - before == 60
    assert (await world.usage("hundred"))["tokens_per_minute"]["used"] <= 60


async def test_a_guess_is_no_larger_than_the_limit(world):
    answer = await world.ask("guess")
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-remaining-tokens"] == "0"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"max_tokens": 200}, "limit_never_fits", None),
        ({"max_tokens": 1, "max_completion_tokens": 700}, "limit_never_fits", None),
        ({"max_tokens": 30, "n": 4}, "limit_never_fits", None),
        ({"max_tokens": -1}, "invalid_field", "max_tokens"),
        ({"max_completion_tokens": None}, "invalid_field", "max_completion_tokens"),
        ({"max_tokens": 1.5}, "invalid_field", "max_tokens"),
        ({"max_tokens": 10**30}, "invalid_field", "max_tokens"),
        ({"n": 0}, "invalid_field", "n"),
    ],
)
async def test_a_cap_that_cannot_be_is_refused_and_says_why(world, fields, code, param):
    answer = await world.ask("caps", chat(**fields))
    assert code_of(answer) == (400, code)
    assert answer.json()["error"]["param"] == param
    check_headers(answer, requests=False)


async def test_a_picture_is_not_counted_as_text(world):
    url = "data:image/png;base64," + base64.b64encode(os.urandom(750_000)).decode()
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    answer = await world.ask("picture", chat(parts, max_tokens=10))
    assert answer.status_code == 200
    assert 39_000 <= int(answer.headers["x-ratelimit-remaining-tokens"]) < 50_000


async def test_what_is_left_is_never_below_nothing(world):
    dear = chat(fault={"completion_tokens": 5_000}, max_tokens=100)
    answers = await asyncio.gather(*(world.ask("debt", dear) for _ in range(10)))
    assert {one.status_code for one in answers} == {200, 429}
    later = await world.ask("debt")
    assert code_of(later) == (429, "tokens_limit_exceeded")
    assert int(later.headers["retry-after"]) > 100
    for one in (*answers, later):
        check_headers(one)
    used = (await world.usage("debt"))["tokens_per_minute"]
    assert (used["remaining"], used["used"] > used["limit"]) == (0, True)


async def test_a_stream_that_does_not_fit_is_refused_before_it_begins(world):
    await world.ask("grid-tokens", chat(fault={"completion_tokens": 100_000}))
    answer = await world.ask("grid-tokens", chat(stream=True))
    assert code_of(answer) == (429, "tokens_limit_exceeded")
    assert answer.headers["content-type"] == "application/json"


async def test_who_leaves_a_stream_pays_for_the_prompt_and_for_what_was_delivered(world):
    before = await world.day("abort")
    for _ in range(10):
        world.mock.go_on.clear()
        fault = {"hold_after": 5, "repeat": 100, "usage": "last"}
        body = chat(stream=True, max_tokens=1000, fault=fault)
        async with world.http.stream("POST", "/v1/chat/completions", json=body, headers=bearer("abort")) as answer:
            seen = 0
            async for line in answer.aiter_lines():
                seen += '"content"' in line
                if seen >= 5:
                    break
    world.mock.go_on.set()

    async def settled():
        return (await world.usage("abort"))["daily_tokens"]["used"] - before < 1000

    await world.settles(settled)
    # A prompt of about 8 tokens and 5 pieces of a few each, ten times.
    assert 10 * (8 + 5) <= await world.day("abort") - before <= 10 * (8 + 30)


async def test_a_failed_answer_costs_a_request_and_no_tokens(world):
    before = await world.usage("errors")
    for fault in ({"status": 400}, {"status": 500}, {"before": "close"}):
        assert (await world.ask("errors", chat(fault=fault))).status_code >= 400
    after = await world.usage("errors")
    assert after["daily_tokens"]["used"] == before["daily_tokens"]["used"]
    assert after["requests_per_minute"]["used"] > before["requests_per_minute"]["used"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_that_does_not_say_what_it_cost_is_charged_by_estimate(world, stream):
    before = await world.day("silent")
    whole = {"body": '{"choices": [{"message": {"content": "uno"}}]}', "content_type": "application/json"}
    body = {"usage": "none"} if stream else whole
    answer = await world.ask("silent", chat(stream=stream, max_tokens=100, fault=body))
    assert answer.status_code == 200
    assert 9 <= await world.day("silent") - before <= 110


async def test_a_day_that_is_used_up_says_so_as_openai_does(world):
    assert (await world.ask("day", chat(max_tokens=40))).status_code == 200
    answer = await world.ask("day", chat(max_tokens=40))
    assert code_of(answer) == (429, "daily_tokens_exceeded")
    assert answer.json()["error"]["type"] == "insufficient_quota"
    assert answer.headers["x-should-retry"] == "false"
    left = 86_400 - time.time() % 86_400
    assert abs(int(answer.headers["retry-after"]) - left) < 60
    assert listed(answer.headers["ratelimit"])["tenant-daily-tokens"]["r"] == 0


async def test_a_request_that_must_wait_for_tokens_passes_after_that(world):
    answer = await world.ask("waits", chat(max_tokens=100, fault={"completion_tokens": 6_000}))
    while answer.status_code == 200:  # on a very slow machine the first one is forgotten by now
        answer = await world.ask("waits", chat(max_tokens=100, fault={"completion_tokens": 3_000}))
    assert code_of(answer) == (429, "tokens_limit_exceeded")
    assert "108 are needed and 0 are left" in answer.json()["error"]["message"]
    await asyncio.sleep(int(answer.headers["retry-after"]))
    assert (await world.ask("waits", chat(max_tokens=100))).status_code == 200


# The agent and its turns


async def test_a_question_to_the_agent_reserves_little_and_gets_it_back(world):
    answer = await world.ask("agent", chat("¿Cuántos?", model="sabueso"))
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-remaining-tokens"] == "0"  # all of 300, until it ends
    usage = await world.usage("agent")
    assert usage["daily_tokens"]["used"] == 0
    assert usage["models"]["sabueso"]["daily_tokens"]["used"] == 150


async def test_turns_of_the_agent_are_never_refused_and_charged_to_all_who_pay(world):
    token = SIGNER.sign(Identity("turns", "app", ("agent",)), 60)
    for _ in range(5):
        answer = await world.http.post(
            "/v1/chat/completions", json=chat(max_tokens=5000), headers={"authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 200
        assert "x-ratelimit-limit-tokens" not in answer.headers
    usage = await world.usage("turns")
    assert usage["daily_tokens"]["used"] == usage["models"]["mini-1"]["daily_tokens"]["used"] == 300
    # The tenant's own questions wait for it.
    assert code_of(await world.ask("turns", chat(model="sabueso"))) == (429, "tokens_limit_exceeded")


async def test_our_own_embeddings_and_rerank_are_charged_what_they_read(world):
    before = await world.day("own")
    answer = await world.ask("own", {"model": "small@1", "input": ["uno", "dos"]}, path="/v1/embeddings")
    assert answer.status_code == 200
    assert await world.day("own") - before == answer.json()["usage"]["total_tokens"]
    answer = await world.ask("own", {"query": "uno", "documents": ["dos", "tres"]}, path="/v1/rerank")
    assert answer.status_code == 200
    assert await world.day("own") > before


# Whose limit it is


@pytest.mark.parametrize("tenant", ["own-short", "own-whole"])
async def test_limits_of_our_own_models_hold_by_whatever_name_they_are_asked_for(world, tenant):
    embed, rank = {"input": "uno"}, {"query": "uno", "documents": ["dos"]}
    for model in ("small", "small@1"):  # so that their names are known
        await world.ask("own", {"model": model, **embed}, path="/v1/embeddings")
    await world.ask("own", rank, path="/v1/rerank")
    answers = [
        await world.ask(tenant, {"model": model, **embed}, path="/v1/embeddings") for model in ("small@1", "small")
    ]
    answers += [
        await world.ask(tenant, {**named, **rank}, path="/v1/rerank")
        for named in ({"model": "length"}, {}, {"model": "length@1"})
    ]
    assert [one.status_code for one in answers] == [200, 429, 200, 429, 429]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/v1/usage", "/mcp"])
async def test_an_address_with_an_end_of_line_is_another_address(world, path):
    answer = await world.http.post(f"{path}%0A", json=chat(), headers=bearer("own"))
    assert code_of(answer) == (404, "unknown_url")


async def test_a_keys_own_limits_hold_within_its_tenants(world):
    first, second = [await world.ask("keys", key="small") for _ in range(2)]
    assert (first.status_code, code_of(second)) == (200, (429, "rate_limit_exceeded"))
    assert second.json()["error"]["message"].startswith("This key's limit of 1 requests a minute")
    assert set(listed(first.headers["ratelimit"])) == {"tenant-requests", "key-requests", "key-daily-tokens"}
    assert (await world.ask("keys", key="other")).status_code == 200
    own = (await world.usage("keys", key="other"))["key_limits"]
    assert own["requests_per_minute"] == {"limit": None, "used": None, "remaining": None, "reset_seconds": None}


async def test_a_models_own_limits_hold_for_that_model(world):
    dear = chat(model="big-1", fault={"completion_tokens": 10_000})
    assert (await world.ask("keys", dear, key="other")).status_code == 200
    refused = await world.ask("keys", chat(model="big-1"), key="other")
    assert code_of(refused) == (429, "tokens_limit_exceeded")
    assert "This model's limit of 50 tokens a minute" in refused.json()["error"]["message"]
    assert (await world.ask("keys", key="other")).status_code == 200
    usage = await world.usage("keys", key="other")
    assert usage["models"]["big-1"]["tokens_per_minute"]["remaining"] == 0


# Every answer


SHAPES = {
    "chat": ("/v1/chat/completions", chat()),
    "stream": ("/v1/chat/completions", chat(stream=True)),
    "embeddings": ("/v1/embeddings", {"model": "small@1", "input": "uno"}),
    "rerank": ("/v1/rerank", {"query": "uno", "documents": ["dos"]}),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("outcome", ["ok", "requests", "tokens", "concurrency", "malformed", "too large"])
async def test_every_answer_of_every_kind_tells_the_limits(world, shape, outcome):
    path, body = SHAPES[shape]
    expected, tenant = 200, "grid-ok"
    running = []
    if outcome in ("requests", "tokens", "concurrency"):
        expected, tenant = 429, f"grid-{outcome}"
    if outcome == "requests":
        await world.ask(tenant)
    elif outcome == "tokens":
        await world.ask(tenant, chat(fault={"completion_tokens": 100_000}))
    elif outcome == "concurrency":
        running = await world.hold(tenant)
    elif outcome == "malformed":
        expected, body = 400, {**body, "model": 5}
    elif outcome == "too large":
        expected, body = 413, {**body, "user": "x" * 5000}
    answer = await world.ask(tenant, body, path=path)
    world.mock.go_on.set()
    await asyncio.gather(*running)
    assert answer.status_code == expected
    check_headers(answer)
    if expected != 200:
        kinds = {
            "requests": "rate_limit_exceeded",
            "tokens": "tokens_limit_exceeded",
            "concurrency": "concurrency_limit_exceeded",
            "malformed": "missing_model",
            "too large": "request_too_large",
        }
        assert code_of(answer) == (expected, kinds[outcome])


async def test_metrics_tell_what_the_limits_said_and_name_nobody(world):
    text = (await world.http.get("/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith("sabueso_gateway_limiter_")]
    assert any('decisions_total{decision="tokens"}' in line for line in lines)
    assert any(line.startswith("sabueso_gateway_limiter_active_leases 0.0") for line in lines)
    assert not any(tenant in line for line in lines for tenant in ("grid-ok", "mini-1", "app"))


async def test_readiness_says_how_the_limits_are_counted(world):
    ready = (await world.http.get("/readyz")).json()
    assert (ready["status"], ready["limits"]) == ("ok", "ok")
