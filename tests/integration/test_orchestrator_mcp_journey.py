"""A foreign tool from an MCP client, through our own MCP server and the orchestrator, to its server and back."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx2
import openai
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.integration.foreign_server import Foreign, foreign_server
from tests.integration.gateway_stack import gateway_stack, key_of
from tests.integration.test_orchestrator import calling, saying, world
from tests.integration.test_orchestrator_mcp import ARGUMENTS, crm


@asynccontextmanager
async def journey(tmp_path, **settings):
    """A client of the tenant `demo`, the foreign server and the world behind the gateway."""
    for name in ("world", "gateway", "web"):
        (tmp_path / name).mkdir()
    async with foreign_server(Foreign()) as (foreign, url):
        tenant = {"id": "demo", "mcp": [crm(foreign, url, names=("find", "add", "fails", "slow"))]}
        async with (
            world(tmp_path / "world", tenant=tenant, **settings) as it,
            gateway_stack(tmp_path / "gateway", tmp_path / "web", orchestrator_address=it.address) as stack,
            httpx2.AsyncClient(base_url=stack.url, headers=stack.headers(), timeout=60, trust_env=False) as http,
            Client(streamable_http_client(f"{stack.url}/mcp", http_client=http)) as client,
        ):
            yield client, foreign, stack, it


def conversation(it):
    """What the model saw last of what was said."""
    return [one["content"] for one in it.model.requests[-1]["messages"] if one["role"] != "system"]


async def test_foreign_tools_are_listed_and_called_with_what_they_say_of_themselves(tmp_path):
    async with journey(tmp_path) as (client, foreign, _, _):
        tools = {one.name: one for one in (await client.list_tools()).tools}
        find, add = tools["crm__find"], tools["crm__add"]
        assert find.title == "Crm find"
        assert (find.annotations.read_only_hint, find.annotations.open_world_hint) == (True, True)
        assert (add.annotations.read_only_hint, add.annotations.destructive_hint) == (False, True)
        assert (tools["sql_query"].annotations.read_only_hint, tools["sql_query"].annotations.open_world_hint) == (
            True,
            False,
        )
        found = await client.call_tool("crm__find", ARGUMENTS)
        failed = await client.call_tool("crm__fails", ARGUMENTS)
        assert (found.is_error, found.structured_content) == (False, {"text": "find: Müller", "truncated": False})
        assert json.loads(failed.content[0].text)["error"] == "crm says: No customer Müller."
        assert foreign.calls == [("find", ARGUMENTS), ("fails", ARGUMENTS)]


async def test_a_client_that_gives_up_ends_the_call_at_the_other_end(tmp_path):
    async with journey(tmp_path) as (client, foreign, _, _):
        running = asyncio.create_task(client.call_tool("crm__slow", ARGUMENTS))
        await asyncio.wait_for(foreign.started.wait(), 30)
        running.cancel()
        await asyncio.wait_for(foreign.cancelled.wait(), 30)
        await asyncio.gather(running, return_exceptions=True)


async def test_an_answer_cites_a_foreign_tool_over_http(tmp_path):
    async with journey(tmp_path) as (_, _, stack, it):
        it.model.replies = [calling(("crm__find", json.dumps(ARGUMENTS))), saying("Es Müller [1].")]
        told = (await stack.ask("¿Quién?", sabueso={"strategy": "react"})).json()
    (said,) = told["choices"][0]["message"]["annotations"]
    assert said["tool_citation"]["quote"] == "find: Müller"
    assert told["sabueso"]["steps"][0]["calls"][0]["tool"] == "crm__find"


async def test_responses_follow_one_another_through_all_of_it(tmp_path):
    async with journey(tmp_path, valkey_url="memory:") as (_, _, stack, it):
        it.model.replies = [saying("Hola, Ana."), saying("Te llamas Ana."), saying("Sí.")]

        async def respond(**fields):
            body = {"model": "sabueso", "sabueso": {"strategy": "react"}, **fields}
            return await stack.http.post("/v1/responses", json=body, headers=stack.headers())

        first = (await respond(input="Soy Ana.")).json()
        second = (await respond(input="¿Cómo me llamo?", previous_response_id=first["id"])).json()
        assert conversation(it) == ["Soy Ana.", "Hola, Ana.", "¿Cómo me llamo?"]
        assert second["sabueso"]["answer_id"] == second["id"].replace("resp_", "ans_")
        gone = await stack.http.delete(f"/v1/responses/{first['id']}", headers=stack.headers())
        assert gone.status_code == 200
        lost = await respond(input="¿Y?", previous_response_id=first["id"])
        assert (lost.status_code, lost.json()["error"]["code"]) == (404, "previous_answer_not_found")
        await respond(input="¿Y?", previous_response_id=second["id"])
        assert conversation(it) == ["¿Cómo me llamo?", "Te llamas Ana.", "¿Y?"]
        rated = await stack.http.post(
            "/v1/feedback",
            json={"answer_id": second["sabueso"]["answer_id"], "rating": "up"},
            headers=stack.headers(),
        )
        assert rated.status_code == 201


async def test_the_stock_client_reads_and_deletes_a_response_through_all_of_it(tmp_path, valkey_url):
    settings = {"valkey_url": valkey_url, "session_timeout_seconds": 10}
    async with journey(tmp_path, **settings) as (_, _, stack, it):
        client = openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=key_of("demo"), max_retries=0)
        async with client:
            it.model.replies = [calling(("crm__find", json.dumps(ARGUMENTS))), saying("Es Müller [1].")]
            extras = {"sabueso": {"strategy": "react", "include_evidence": True}}
            told = await client.responses.create(
                model="sabueso", input="¿Quién?", metadata={"case": "7"}, extra_body=extras
            )
            again = await client.responses.retrieve(told.id)
            without_times = [
                {**one.to_dict(), "sabueso": {**one.sabueso, "timings_ms": None}, "completed_at": None}
                for one in (told, again)
            ]
            assert without_times[0] == without_times[1]
            assert again.output_text == "Es Müller [1]."
            (shown,) = again.sabueso["evidence"]
            assert (shown["mark"], shown["tool"], shown["cited"]) == (1, "crm__find", True)
            await client.responses.delete(told.id)
            for gone in (client.responses.retrieve(told.id), client.responses.delete(told.id)):
                with pytest.raises(openai.NotFoundError):
                    await gone


async def test_the_times_that_are_told_are_those_that_passed(tmp_path):
    async with journey(tmp_path, valkey_url="memory:") as (_, _, stack, it):
        it.model.replies = [calling(("crm__find", json.dumps(ARGUMENTS))), saying("Es Müller [1].")]
        loop = asyncio.get_running_loop()
        started = loop.time()
        answer = await stack.ask("¿Quién?", sabueso={"strategy": "react", "session_id": "s"})
        waited_ms = (loop.time() - started) * 1000
    timings = answer.json()["sabueso"]["timings_ms"]
    said = dict(one.split(";dur=") for one in answer.headers["server-timing"].split(", "))
    assert {name: float(ms) for name, ms in said.items()} == timings
    total, gateway = timings.pop("total"), timings.pop("gateway")
    assert sum(timings.values()) == pytest.approx(total, abs=0.3)
    assert 0 < total < total + gateway <= waited_ms + 0.1
    (step,) = answer.json()["sabueso"]["steps"]
    assert step["calls"][0]["duration_ms"] <= total
