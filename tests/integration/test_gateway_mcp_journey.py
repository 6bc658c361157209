"""From the MCP client through the gateway and the orchestrator to the tools' services, and back."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from services.runtime import errors
from tests.integration.gateway_stack import gateway_stack
from tests.integration.test_orchestrator import REVIEWED_SQL, with_verified, world

COUNT = {"query": "SELECT count(*) FROM contracts WHERE amount > $1", "params": [100000]}


@asynccontextmanager
async def journey(tmp_path):
    """A client of the tenant `demo`, and the world behind the gateway."""
    for name in ("world", "gateway", "web"):
        (tmp_path / name).mkdir()
    async with (
        world(tmp_path / "world", tenant={"id": "demo", "sql": REVIEWED_SQL}) as it,
        gateway_stack(tmp_path / "gateway", tmp_path / "web", orchestrator_address=it.address) as stack,
        httpx2.AsyncClient(
            base_url=stack.url, headers=stack.headers("demo", "hr"), timeout=60, trust_env=False
        ) as http,
    ):
        with_verified(it)
        async with Client(streamable_http_client(f"{stack.url}/mcp", http_client=http)) as client:
            yield client, it, http


async def test_every_tool_is_listed_called_and_answers_by_its_schema(tmp_path):
    async with journey(tmp_path) as (client, it, _):
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert list(tools) == ["vector_search", "sql_query", "web_search", "calculate", "contract_total"]
        assert tools["sql_query"].description.endswith("CREATE TABLE contracts (\n  id text\n);")
        calls = {
            "vector_search": {"query": "condiciones especiales"},
            "sql_query": COUNT,
            "web_search": {"query": "IPC zona euro"},
            "contract_total": {"year": 2025},
            "calculate": {"expression": "2 + 3"},
        }
        results = {name: await client.call_tool(name, arguments) for name, arguments in calls.items()}
        assert [one.is_error for one in results.values()] == [False] * 5
        found = {name: one.structured_content for name, one in results.items()}
        assert found["vector_search"]["passages"][0]["chunk_id"] == "c-7#1"
        assert found["sql_query"]["rows"][0][:2] == [47, "8300000.00"]
        assert found["web_search"]["results"][0]["url"] == "https://ec.europa.eu"
        assert found["contract_total"]["params"] == [2025]
        assert "5" in found["calculate"]["text"]
        assert json.loads(results["vector_search"].content[0].text)["passages"][0]["n"] == 1
        assert it.tools.tenants == {"demo"}


async def test_what_goes_wrong_is_told_as_the_model_would_be(tmp_path):
    async with journey(tmp_path) as (client, it, _):
        it.tools.failing["Query"] = errors.SqlError("There is no column `totl`.", hint="Perhaps `total`.")
        failed = await client.call_tool("sql_query", COUNT)
        wrong = await client.call_tool("sql_query", {"query": ""})
        unfit = await client.call_tool("contract_total", {"year": "x"})
        with pytest.raises(MCPError, match="There is no tool `drop_tables`") as caught:
            await client.call_tool("drop_tables", {})
        assert [one.is_error for one in (failed, wrong, unfit)] == [True] * 3
        said = [json.loads(one.content[0].text) for one in (failed, wrong, unfit)]
        assert said[0] == {"error": "There is no column `totl`.", "tool": "sql_query", "hint": "Perhaps `total`."}
        assert said[1]["error"].startswith("invalid arguments: query: ")
        assert said[2]["error"].startswith("invalid arguments: year: ")
        assert caught.value.code == -32602


async def test_a_call_that_is_given_up_cancels_the_statement(tmp_path):
    async with journey(tmp_path) as (client, it, _):
        it.tools.hanging.add("Query")
        running = asyncio.create_task(client.call_tool("sql_query", COUNT))
        async with asyncio.timeout(30):
            while not it.tools.count("Query"):
                await asyncio.sleep(0.01)
            running.cancel()
            while "Query" not in it.tools.cancelled:
                await asyncio.sleep(0.01)
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("modern", [False, True])
async def test_half_a_character_reaches_no_tool(tmp_path, modern):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": "web_search", "arguments": {"query": "\ud800"}} | ({"_meta": meta} if modern else {})
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "web_search"}
    usual = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with journey(tmp_path) as (_, it, http):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = await http.post("/mcp", content=json.dumps(body), headers=usual | (headers if modern else {}))
    assert "surrogate" in response.text or (response.status_code, response.json()["error"]["code"]) == (400, -32700)
    assert it.tools.count("WebSearch") == 0
