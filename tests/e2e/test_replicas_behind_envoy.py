"""Three gateways behind Envoy and three orchestrators behind each: none keeps anything that another one needs.

The rest of the stack is there once. The model is the understudy with the speed of four H100, so that there is a middle
in which to hang up and to kill.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from contextlib import AsyncExitStack, ExitStack, contextmanager

import httpx2
import openai
import psutil
import pytest
import pytest_asyncio

from local import ports
from tests.e2e import envoy
from tests.e2e.test_answers import EN
from tests.integration.limited_tenants import bearer, chat, code_of, write

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow, pytest.mark.timeout(300, func_only=True)]
COUNT = 3
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
RATE = 10


class Fleet:
    """The replicas, and clients of Envoy and of each gateway."""

    def __init__(self, url, key, http, gateways, processes, metrics_ports):
        self.url, self.key, self.http, self.gateways = url, key, http, gateways
        self.gateway_processes, self.orchestrator_processes = processes
        self._metrics_ports = metrics_ports
        self.headers = {"authorization": f"Bearer {key}"}

    def openai(self, http=None, key=None):
        return openai.AsyncOpenAI(
            base_url=f"{(http or self.http).base_url}/v1".replace("//v1", "/v1"),
            api_key=key or self.key,
            max_retries=0,
            http_client=httpx2.AsyncClient(trust_env=False, timeout=60),
        )

    async def ask(self, http=None, *, question=EN, **extras):
        body = {"model": "sabueso", "messages": [{"role": "user", "content": question}], "sabueso": extras}
        body["store"] = True
        return await (http or self.http).post("/v1/chat/completions", json=body, headers=self.headers)

    @contextlib.asynccontextmanager
    async def stream(self):
        """An uncached answer, event by event, with the gateway that gives it."""
        body = {
            "model": "sabueso",
            "messages": [{"role": "user", "content": EN}],
            "stream": True,
            "sabueso": {"cache": "off", "include_steps": True, "strategy": "react"},
        }
        async with self.http.stream("POST", "/v1/chat/completions", json=body, headers=self.headers) as answer:
            yield answer.headers.get(envoy.SERVED_BY, "") if answer.status_code == 200 else "", answer.aiter_lines()

    async def calls(self, code):
        """How many questions each orchestrator has ended with this code; None for one that is gone."""
        return [await self._calls(port, code) for port in self._metrics_ports]

    async def _calls(self, port, code):
        try:
            text = (await self.http.get(f"http://127.0.0.1:{port}/metrics")).text
        except httpx2.TransportError:
            return None
        lines = re.findall(r"^sabueso_call_duration_seconds_count\{(.*)\} ([\d.]+)$", text, re.MULTILINE)
        return sum(float(n) for labels, n in lines if f'code="{code}"' in labels and 'method="Run"' in labels)


async def reaches(condition, seconds=90):
    """Waits for a fact, whatever the machine is busy with."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


@contextmanager
def running(module, environment, log):
    """A process that is ended with the block."""
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", module], env=environment, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment_of(stack, service):
    """What the stack's own process of this service was started with."""
    return psutil.Process(stack.pid(service)).environ()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(stack, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    tenants = folder / "tenants"
    shutil.copytree(stack.home / "tenants", tenants)
    write(tenants, "counted", requests_per_minute=RATE)
    front, model, *others = ports.pick(2 + 3 * COUNT, ports.random_start())
    gateways, orchestrators, metrics = others[:COUNT], others[COUNT : 2 * COUNT], others[2 * COUNT :]
    url = f"http://127.0.0.1:{front}"
    async with AsyncExitStack() as open_ones:
        enter = ExitStack()
        open_ones.callback(enter.close)
        slow = environment_of(stack, "understudy") | {
            "SABUESO_PORT": str(model), "SABUESO_LATENCY_PROFILE": "h100-tp4"
        }  # fmt: skip
        enter.enter_context(running("services.understudy.server", slow, folder / "understudy.log"))
        shared = {"SABUESO_TENANTS_DIR": str(tenants)}
        agents = [
            enter.enter_context(running("services.orchestrator.server", one, folder / f"orchestrator-{number}.log"))
            for number, one in enumerate(
                environment_of(stack, "orchestrator")
                | shared
                | {"SABUESO_PORT": str(port), "SABUESO_METRICS_PORT": str(seen), "SABUESO_MODEL_URL": f"{url}/v1"}
                for port, seen in zip(orchestrators, metrics, strict=True)
            )
        ]
        every = "ipv4:///" + ",".join(f"127.0.0.1:{port}" for port in orchestrators)
        doors = [
            enter.enter_context(running("services.gateway.server", one, folder / f"gateway-{number}.log"))
            for number, one in enumerate(
                environment_of(stack, "gateway")
                | shared
                | {
                    "SABUESO_PORT": str(port),
                    "SABUESO_MODEL_URL": f"http://127.0.0.1:{model}/v1",
                    "SABUESO_ORCHESTRATOR_ADDRESS": every,
                    "SABUESO_REPLICA_COUNT": str(COUNT),
                }
                for port in gateways
            )
        ]
        enter.enter_context(_envoy(folder, front, gateways))
        limits = httpx2.Limits(max_connections=200, max_keepalive_connections=0)
        clients = [
            await open_ones.enter_async_context(
                httpx2.AsyncClient(base_url=base, trust_env=False, timeout=60, limits=limits)
            )
            for base in (url, *(f"http://127.0.0.1:{port}" for port in gateways))
        ]
        fleet = Fleet(url, stack.env["SABUESO_API_KEY"], clients[0], clients[1:], (doors, agents), metrics)
        await reaches(lambda: _all_serve(fleet), 300)
        yield fleet


@contextmanager
def _envoy(folder, port, gateways):
    path = folder / "envoy.json"
    path.write_text(json.dumps(envoy.configuration(port, gateways)))
    command = [envoy.binary(), "-c", str(path), "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"]
    with (folder / "envoy.log").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={"PATH": os.environ["PATH"]})
    try:
        yield
    finally:
        process.kill()
        process.wait(10)


async def _all_serve(fleet):
    for process in (*fleet.gateway_processes, *fleet.orchestrator_processes):
        assert process.poll() is None, "a replica did not start; its log says why"
    try:
        answers = [await one.get("/readyz") for one in fleet.gateways]
        ready = all(one.status_code == 200 for one in answers)
        return ready and None not in await fleet.calls("OK") and (await fleet.http.get("/readyz")).status_code == 200
    except httpx2.TransportError:
        return False


async def test_questions_are_spread_over_all_gateways_and_all_orchestrators(fleet):
    before = await fleet.calls("OK")
    answers = [await fleet.ask() for _ in range(2 * COUNT)]
    assert {one.status_code for one in answers} == {200}
    assert all("47" in one.json()["choices"][0]["message"]["content"] for one in answers)
    gateways = {one.headers[envoy.SERVED_BY] for one in answers}

    async def each_has_answered():
        gateways.add((await fleet.ask()).headers[envoy.SERVED_BY])
        asked = all(now > then for now, then in zip(await fleet.calls("OK"), before, strict=True))
        return asked and len(gateways) == COUNT

    await reaches(each_has_answered, 200)


async def test_a_conversation_goes_on_at_any_gateway_and_is_read_at_any(fleet):
    last = None
    for number, gateway in enumerate(fleet.gateways):
        async with fleet.openai(gateway) as client:
            asked = "What does the travel policy say about accommodation?" if number == 0 else "And about meals?"
            found = await client.responses.create(model="sabueso", input=asked, previous_response_id=last)
            assert found.previous_response_id == last
            last = found.id
    texts = set()
    for gateway in fleet.gateways:
        async with fleet.openai(gateway) as client:
            texts.add((await client.responses.retrieve(last)).output_text)
    assert len(texts) == 1
    async with fleet.openai(fleet.gateways[1]) as client:
        await client.responses.delete(last)
    async with fleet.openai(fleet.gateways[2]) as client:
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(last)


async def test_an_answer_is_judged_at_another_gateway_than_the_one_that_gave_it(fleet):
    answer_id = (await fleet.ask(fleet.gateways[0])).json()["sabueso"]["answer_id"]
    judged = {"answer_id": answer_id, "rating": "up"}
    kept = await fleet.gateways[1].post("/v1/feedback", json=judged, headers=fleet.headers)
    assert kept.status_code == 201, kept.text
    listed = await fleet.gateways[2].get("/v1/feedback?format=jsonl", headers=fleet.headers)
    assert answer_id in listed.text


async def test_sixty_requests_through_envoy_are_counted_as_one_gateway_would(fleet):
    since = time.monotonic()
    body = chat(model=MODEL, max_tokens=1)
    answers = await asyncio.gather(
        *(fleet.http.post("/v1/chat/completions", json=body, headers=bearer("counted")) for _ in range(60))
    )
    more = int((time.monotonic() - since) * RATE / 60)  # what comes back meanwhile, on a slow machine
    admitted = sum(one.status_code == 200 for one in answers)
    assert RATE <= admitted <= RATE + more
    assert {code_of(one) for one in answers if one.status_code != 200} == {(429, "rate_limit_exceeded")}
    assert len({one.headers[envoy.SERVED_BY] for one in answers}) > 1


async def test_a_key_that_one_gateway_issues_and_another_revokes_is_known_and_refused_by_all(fleet):
    key = f"fleet-{uuid.uuid4().hex[:8]}"
    asked = {"id": key, "scopes": ["agent"]}
    made = await fleet.gateways[0].post("/v1/admin/keys/demo", json=asked, headers=fleet.headers)
    assert made.status_code == 201, made.text
    holder = {"authorization": f"Bearer {made.json()['key']}"}

    async def everywhere(status):
        found = [await one.get("/v1/usage", headers=holder) for one in fleet.gateways]
        return {one.status_code for one in found} == {status}

    await reaches(lambda: everywhere(200))
    gone = await fleet.gateways[1].delete(f"/v1/admin/keys/demo/{key}", headers=fleet.headers)
    assert gone.status_code < 300, gone.text
    await reaches(lambda: everywhere(401))


async def test_a_client_that_hangs_up_ends_the_run_at_the_one_orchestrator_that_has_it(fleet):
    before = await fleet.calls("CANCELLED")
    async with fleet.stream() as (_, lines):
        await anext(lines)

    async def one_has_noticed():
        return sum(await fleet.calls("CANCELLED")) == sum(before) + 1

    await reaches(one_has_noticed)

    async def nothing_is_held():
        usage = (await fleet.gateways[2].get("/v1/usage", headers=fleet.headers)).json()
        return usage["concurrent_requests"]["used"] <= 1  # the look itself

    await reaches(nothing_is_held)


async def read_through(fleet, begun):
    """Reads one stream; the gateway that gave it (empty: none did), and whether it came to its end."""
    gateway, text = "", ""
    try:
        async with fleet.stream() as (gateway, lines):
            async for line in lines:
                if not text:
                    begun.append(gateway)
                text += line
    except httpx2.TransportError:
        return gateway, False
    return gateway, text.endswith("data: [DONE]")


async def test_a_gateway_that_is_killed_takes_its_own_streams_with_it_and_no_others(fleet):
    """One gateway fewer from here on."""
    begun = []
    reading = [asyncio.create_task(read_through(fleet, begun)) for _ in range(4 * COUNT)]
    await reaches(lambda: asyncio.sleep(0, len(begun) >= 2 * COUNT))
    fleet.gateway_processes[0].kill()
    killed = f":{fleet.gateways[0].base_url.port}"
    found = await asyncio.gather(*reading)
    others = [ended for gateway, ended in found if gateway and not gateway.endswith(killed)]
    assert len(others) >= 2 * COUNT
    assert all(others)
    answers = await asyncio.gather(*(fleet.ask() for _ in range(2 * COUNT)))
    assert {one.status_code for one in answers} == {200}


async def test_an_orchestrator_that_is_killed_takes_its_own_runs_with_it_and_the_next_question_is_answered(fleet):
    begun = []
    reading = [asyncio.create_task(read_through(fleet, begun)) for _ in range(4 * COUNT)]
    await reaches(lambda: asyncio.sleep(0, len(begun) >= 2 * COUNT))
    fleet.orchestrator_processes[0].kill()
    found = await asyncio.gather(*reading)
    assert sum(ended for _, ended in found) >= len(found) // 2
    answers = await asyncio.gather(*(fleet.ask(cache="off") for _ in range(3 * COUNT)))
    assert {one.status_code for one in answers} == {200}
    assert (await fleet.calls("OK"))[0] is None
