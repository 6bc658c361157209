"""Keys and tenants through whole gateways: nothing leaks, nothing is believed, nothing is mixed up."""

import asyncio
import hashlib
import json
import time
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import grpc
import httpx2
import pytest
import yaml
from grpc import aio

from services.runtime import api_keys
from services.understudy.faults import Script, faulty
from tests.integration.gateway_process import KEY, gateway_process
from tests.integration.gateway_stack import gateway_stack, key_of
from tests.integration.oidc_provider import provider_on_loopback

# A busy machine is not a lost store.
PATIENT = {"SABUESO_LIMITER_TIMEOUT_SECONDS": "10"}
CHAT = {"model": "mini-1", "messages": [{"role": "user", "content": "hola"}]}


@pytest.fixture
async def stack(tmp_path):
    async with gateway_stack(tmp_path, tmp_path) as stack:
        yield stack


def tenant_file(folder, tenant, **fields):
    keys = [
        {**rest, "sha256": hashlib.sha256(key.encode()).hexdigest()}
        for key, rest in ((one["key"], {k: v for k, v in one.items() if k != "key"}) for one in fields.pop("keys", []))
    ]
    (folder / f"{tenant}.yaml").write_text(yaml.safe_dump({"id": tenant, "keys": keys, **fields}))


async def used(stack, tenant):
    answer = (await stack.get("/v1/usage", tenant)).json()
    return answer["requests_per_minute"]["used"]


async def test_the_same_request_of_two_tenants_reaches_the_model_twice_and_looks_like_the_first(stack):
    answers = []
    for tenant in ("demo", "sixty", "demo"):
        answer = await stack.http.post("/v1/chat/completions", json=CHAT, headers=stack.headers(tenant))
        assert answer.status_code == 200
        answers.append(answer)
    assert len(stack.pool.bodies) == 3
    assert len({frozenset(answer.headers) for answer in answers}) == 1
    assert not any("cache" in name or "hit" in name for answer in answers for name in answer.headers)


async def test_what_a_client_says_of_its_tenant_priority_or_limits_is_neither_believed_nor_passed_on(stack):
    forged = {
        "x-tenant-id": "sixty",
        "x-tenant": "sixty",
        "x-sabueso-tenant": "sixty",
        "x-sabueso-identity": "eyJ",
        "x-priority": "high",
        "x-request-priority": "0",
        "x-requests-limit": "1000000",
        "x-ratelimit-limit-requests": "1000000",
        "ratelimit-policy": '"a";q=1000000',
        "x-forwarded-for": "10.0.0.1",
        "x-forwarded-user": "root",
        "x-real-ip": "10.0.0.1",
        "forwarded": "for=10.0.0.1",
        "x-user-id": "root",
    }
    body = {**CHAT, "user": "sixty", "metadata": {"tenant": "sixty"}, "priority": 7}
    before = await used(stack, "sixty")
    for _ in range(3):
        answer = await stack.http.post("/v1/chat/completions", json=body, headers=forged | stack.headers("single"))
        assert answer.status_code == 200
        assert answer.headers["x-ratelimit-limit-requests"] == "600"
    assert await used(stack, "single") >= 3
    assert await used(stack, "sixty") <= before + 1
    for sent, headers in zip(stack.pool.bodies, stack.pool.headers, strict=True):
        assert json.loads(sent) == body
        assert not set(forged) & set(headers)
        assert "sixty" not in str(headers)
        assert key_of("single") not in str(headers)


async def test_a_person_of_an_identity_provider_asks_as_one_with_a_key_does(tmp_path):
    async with provider_on_loopback() as provider:
        entry = provider.entry(scope_claim="scope", labels_claim="roles", limits={"requests_per_minute": 9})
        tenant_file(tmp_path, "sso", oidc=[entry])
        async with gateway_stack(tmp_path, tmp_path) as stack:
            token = provider.token(tenant="sso", scope="agent models search", roles=["hr"])
            headers = {"authorization": f"Bearer {token}"}
            usage = (await stack.http.get("/v1/usage", headers=headers)).json()
            assert (usage["tenant"], usage["scopes"]) == ("sso", ["agent", "models", "search"])
            assert usage["key"].startswith("oidc:")
            assert usage["key_limits"]["requests_per_minute"]["limit"] == 9
            found = await stack.http.post("/v1/search", json={"query": "q"}, headers=headers)
            assert found.status_code == 200
            assert stack.library.labels == [("hr",)]
            assert (await stack.http.get("/v1/documents", headers=headers)).status_code == 403
            assert (await stack.http.post("/v1/chat/completions", json=CHAT, headers=headers)).status_code == 200
            assert token not in str(stack.pool.headers)
            expired = {"authorization": f"Bearer {provider.token(tenant='sso', exp=int(time.time()) - 60)}"}
            refused = await stack.http.get("/v1/usage", headers=expired)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"


class RawCollector(grpc.GenericRpcHandler):
    """Keeps what arrives as it arrives."""

    def __init__(self):
        self.received = []

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(self._take)

    async def _take(self, request, context):
        self.received.append(request)
        return b""


@asynccontextmanager
async def collecting():
    collector, server = RawCollector(), aio.server()
    server.add_generic_rpc_handlers((collector,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def until(fact, seconds=60):
    """When it was so."""
    async with asyncio.timeout(seconds):
        while not await fact():
            await asyncio.sleep(0.05)


def canaries(folder):
    """Keys that work, that have expired, and whose limit is one request a minute."""
    good, old, few = (api_keys.mint().text for _ in range(3))
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    keys = [{"id": "good", "key": good}, {"id": "old", "key": old, "expires_at": past}]
    tenant_file(folder, "canary", keys=keys)
    tenant_file(folder, "canary-few", keys=[{"id": "few", "key": few}], limits={"requests_per_minute": 1})
    return good, old, few


async def let_the_canaries_sing(http, mock, good, old, few):
    """Every way in which a key may end up somewhere; the answers."""

    async def ask(key="", path="/v1/chat/completions", **options):
        headers = {"authorization": f"Bearer {key}"} | options.pop("headers", {})
        return await http.post(path, json=CHAT, headers=headers, **options)

    answers = [await ask(good), await ask(old), await ask(few), await ask(few)]
    assert [answer.status_code for answer in answers] == [200, 401, 200, 429]
    secret = good.split("-", 3)[3]
    malformed = (good + "x", secret, good[3:], f"{good},{good}", f"eyJ{good}.{good}.{good}")
    answers += [await ask(key) for key in malformed]
    answers += [await ask(headers={"authorization": scheme}) for scheme in (good, f"Basic {good}", f"Bearer {good} x")]
    assert {answer.status_code for answer in answers[4:]} == {401}
    for script in (Script(status=500), Script(ending="reset", after_chunks=0), Script(status=401)):
        mock.queue(*[script] * 4)
        answers.append(await ask(good))
        assert answers[-1].status_code >= 400
    mock.script = Script()
    for path in (f"/v1/models?api_key={good}", f"/v1/models?x={good}", f"/v1/models/{good}", f"/v1/usage/{good}"):
        answers.append(await http.get(path, headers={"authorization": f"Bearer {good}"}))
        assert answers[-1].status_code == 400
    answers.append(await http.get(f"/{good}?api_key={good}"))
    answers.append(await http.get("/v1/models", headers={"x-api-key": good, "cookie": f"key={good}"}))
    answers.append(await http.post(f"/v1/admin/keys/{good}", headers={"authorization": f"Bearer {good}"}, json={}))
    answers.append(await http.get("/v1/usage", headers={"authorization": f"Bearer {good}"}))
    return answers


async def test_no_key_is_in_any_log_span_metric_answer_or_request_to_a_model(tmp_path, valkey_url):
    good, old, few = canaries(tmp_path)
    log = tmp_path / "log"
    async with faulty(Script()) as mock, collecting() as (collector, endpoint):
        settings = {"SABUESO_LOG_LEVEL": "DEBUG", "SABUESO_OTLP_ENDPOINT": endpoint, **PATIENT}
        with log.open("wb") as stderr:
            async with gateway_process(tmp_path, valkey_url, mock.url, log=stderr, **settings) as gateway:
                async with httpx2.AsyncClient(base_url=gateway.url, timeout=60, trust_env=False) as http:
                    answers = await let_the_canaries_sing(http, mock, good, old, few)
                    metrics = (await http.get("/metrics")).text
                gateway.process.terminate()
                await asyncio.wait_for(gateway.process.wait(), 60)
        requests = [(record.headers, record.body) for record in mock.requests]
    told = {
        "the log": log.read_text(),
        "spans": b"".join(collector.received).decode("latin-1"),
        "metrics": metrics,
        "answers": "".join(f"{answer.headers}{answer.text}" for answer in answers),
        "requests to the model": str(requests),
    }
    assert "request" in told["the log"]
    assert "chat" in told["spans"]
    for where, text in told.items():
        for key in (good, old, few):
            secret = key.split("-", 3)[3]
            assert secret not in text, where
            assert hashlib.sha256(key.encode()).hexdigest() not in text, where


@asynccontextmanager
async def two_gateways(folder, valkey_url):
    """Two processes that share a store, and an admin of a tenant that no other test has."""
    tenant = f"t-{uuid.uuid4().hex[:12]}"
    chief, reader = api_keys.mint().text, api_keys.mint().text
    keys = [{"id": "chief", "key": chief, "scopes": ["admin"]}, {"id": "reader", "key": reader}]
    tenant_file(folder, tenant, keys=keys)
    async with gateway_process(folder, valkey_url, "http://127.0.0.1:9", **PATIENT) as one:
        async with gateway_process(folder, valkey_url, "http://127.0.0.1:9", **PATIENT) as other:
            yield one.http, other.http, tenant, chief, reader


@pytest.mark.slow
async def test_what_one_gateway_changes_holds_in_all(tmp_path, valkey_url):
    async with two_gateways(tmp_path, valkey_url) as (one, other, tenant, chief, reader):

        async def admin(method, path, **options):
            headers = {"authorization": f"Bearer {chief}"}
            answer = await one.request(method, f"/v1/admin{path}", headers=headers, **options)
            assert answer.is_success, answer.text
            return answer.json()

        async def status_at_other(key):
            return (await other.get("/v1/usage", headers={"authorization": f"Bearer {key}"})).status_code

        made = (await admin("POST", f"/keys/{tenant}", json={"id": "ci"}))["key"]
        assert await status_at_other(made) == 200  # at once: an unknown key is looked up
        assert await status_at_other(reader) == 200
        for key_id, key in (("ci", made), ("reader", reader)):
            await admin("DELETE", f"/keys/{tenant}/{key_id}")
            since = time.monotonic()
            await until(lambda key=key: _is(status_at_other(key), 401))
            print(f"revoked everywhere after {time.monotonic() - since:.2f} s")
        await admin("PUT", f"/limits/{tenant}/chief", json={"requests_per_minute": 123})

        async def is_limited():
            answer = await other.get("/v1/usage", headers={"authorization": f"Bearer {chief}"})
            return answer.json()["key_limits"]["requests_per_minute"]["limit"] == 123

        await until(is_limited)


async def _is(call, expected):
    return await call == expected


@pytest.mark.slow
async def test_a_gateway_that_has_never_seen_the_store_says_so_of_issued_keys_and_serves_the_others(
    tmp_path, unused_tcp_port
):
    away = f"redis://127.0.0.1:{unused_tcp_port}"
    async with gateway_process(tmp_path, away, "http://127.0.0.1:9") as gateway:
        issued = await gateway.http.get("/v1/usage", headers={"authorization": f"Bearer {api_keys.mint().text}"})
        assert (issued.status_code, issued.json()["error"]["code"]) == (503, "keys_unavailable")
        assert int(issued.headers["retry-after"]) >= 1
        unknown = await gateway.http.get("/v1/usage", headers={"authorization": "Bearer sk-other"})
        assert unknown.status_code == 401
        assert (await gateway.http.get("/v1/usage")).status_code == 200
        assert KEY not in issued.text
