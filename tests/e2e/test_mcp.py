"""The demo's tools through the whole stack, with the stock MCP client in both forms of the protocol."""

import json
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

# Without the whole stack: tests/integration/test_gateway_mcp*.py.
pytestmark = pytest.mark.slow

IN_2025 = {"signed_from": "2025-01-01", "signed_before": "2026-01-01", "regions": ["EU"], "above_eur": 100_000}
BOTH_FORMS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@asynccontextmanager
async def connected(stack, mode, key="SABUESO_API_KEY"):
    headers = {"authorization": f"Bearer {stack.env[key]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(f"{stack.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def found(client, tool, arguments):
    """What a tool found, for programs; the client has held it against the tool's schema."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error is False, result.content[0].text
    assert json.loads(result.content[0].text)
    return result.structured_content


@BOTH_FORMS
async def test_the_demos_tools_are_listed_and_answer(stack, mode):
    async with connected(stack, mode) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert {"vector_search", "sql_query", "web_search", "contracts_signed", "payments_by_status"} <= set(tools)
        assert "contracts" in tools["sql_query"].description
        assert "regions" in tools["contracts_signed"].input_schema["properties"]

        documents = await found(client, "vector_search", {"query": "penalización por retraso", "top_k": 3})
        assert 1 <= len(documents["passages"]) <= 3
        assert all(one["document_id"] and one["chunk_id"] and one["text"] for one in documents["passages"])

        sql = "SELECT count(*) AS contracts FROM contracts WHERE amount > $1"
        rows = await found(client, "sql_query", {"query": sql, "params": [100_000]})
        assert (rows["columns"], rows["row_count"]) == (["contracts"], 1)
        assert rows["rows"][0][0] >= 47

        signed = await found(client, "contracts_signed", IN_2025)
        assert (signed["rows"][0][0], float(signed["rows"][0][1])) == (47, 8_300_000)

        pages = await found(client, "web_search", {"query": "CPI euro area"})
        assert all(one["url"].startswith("http") for one in pages["results"])


async def test_the_guards_of_the_tools_hold_for_mcp_too(stack):
    async with connected(stack, "legacy") as client:
        refused = await client.call_tool("sql_query", {"query": "DELETE FROM contracts"})
        other = await client.call_tool("sql_query", {"query": "SELECT * FROM pg_shadow"})
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("drop_tables", {})
    assert [refused.is_error, other.is_error] == [True, True]
    assert unknown.value.code == -32602


async def test_a_tenant_has_its_own_tools_and_no_others(stack):
    async with connected(stack, "auto", "SABUESO_OTHER_API_KEY") as client:
        names = {one.name for one in (await client.list_tools()).tools}
        assert "vector_search" in names
        assert "contracts_signed" not in names
        documents = await found(client, "vector_search", {"query": "penalización por retraso", "top_k": 3})
    assert all("CT-" not in one["document_id"] for one in documents["passages"])
