"""`/mcp` as its clients see it: the stock MCP client in both forms of the protocol, and what curl would send."""

import asyncio
import json
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
import pytest_asyncio
import yaml
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from services.gateway.mcp.notices import LocalNotices
from tests.integration.gateway_stack import Agent, events_of, gateway_stack, key_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACCEPT = {"accept": "application/json, text/event-stream"}
BOTH_FORMS = pytest.mark.parametrize("mode", ["legacy", "auto"])
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def notices():
    return LocalNotices()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory, notices):
    folder = tmp_path_factory.mktemp("tenants")
    async with gateway_stack(folder, tmp_path_factory.mktemp("web"), notices=notices) as stack:
        stack.folder = folder
        yield stack


@pytest.fixture(autouse=True)
def fresh_agent(stack):
    Agent.__init__(stack.agent)


@asynccontextmanager
async def connected(stack, mode="legacy", tenant="demo", key="all", **options):
    """The stock client, connected."""
    headers = stack.headers(tenant, key)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(f"{stack.url}/mcp", http_client=http), mode=mode, **options) as client,
    ):
        yield client


def message(method, params=None, id_=1):
    return {"jsonrpc": "2.0", "method": method} | ({"id": id_} if id_ else {}) | ({"params": params} if params else {})


def calling(query, id_=1, **params):
    return message("tools/call", {"name": "web_search", "arguments": {"query": query}, **params}, id_)


INITIALIZE = message(
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}},
)


async def post(stack, body, *, tenant="demo", key="all", session=None, **headers):
    headers = ACCEPT | stack.headers(tenant, key) | {name.replace("_", "-"): one for name, one in headers.items()}
    if session:
        headers["mcp-session-id"] = session
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await stack.http.post(
        "/mcp", content=content, headers={"content-type": "application/json"} | headers, timeout=60
    )


async def opened(stack, tenant="demo"):
    """The name of a new session."""
    response = await post(stack, INITIALIZE, tenant=tenant)
    assert response.status_code == 200
    return response.headers["mcp-session-id"]


def answer_of(response):
    """The one JSON-RPC message of an answer, in whichever form it came."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    (answer,) = [one for one in events_of(response.text) if "id" in one]
    return answer


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


# The stock client


@BOTH_FORMS
async def test_the_client_is_told_what_it_talks_to(stack, mode):
    async with connected(stack, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert client.server_info.name == "sabueso"
        assert "vector_search" in client.instructions
        assert client.server_capabilities.tools.list_changed is True


@BOTH_FORMS
async def test_the_tools_are_those_that_the_model_sees(stack, mode):
    async with connected(stack, mode) as client:
        tools = (await client.list_tools()).tools
    assert [one.name for one in tools] == ["vector_search", "web_search", "contract_total"]
    assert [one.title for one in tools] == ["Document search", "Web search", "Contract total"]
    assert tools[0].description == "What vector_search is for. NOT for the rest."
    assert tools[0].input_schema == {
        "type": "object",
        "properties": {"query": {"type": "string", "minLength": 1}, "top_k": {"type": "integer", "default": 5}},
        "required": ["query"],
        "additionalProperties": False,
    }
    assert all(one.annotations.read_only_hint for one in tools)
    assert [one.annotations.open_world_hint for one in tools] == [False, True, False]
    assert set(tools[2].output_schema["required"]) == {
        "columns", "rows", "row_count", "truncated", "statement", "params"
    }  # fmt: skip


async def test_another_tenant_sees_its_own_tools(stack):
    async with connected(stack, tenant="narrow") as client:
        assert [one.name for one in (await client.list_tools()).tools] == ["vector_search", "web_search"]


@BOTH_FORMS
@pytest.mark.parametrize("tool", ["vector_search", "web_search", "contract_total"])
async def test_a_tool_answers_with_text_and_with_fields_that_match_its_schema(stack, mode, tool):
    arguments = {"year": 2025} if tool == "contract_total" else {"query": "año 👩‍👩‍👧 漢字 \u2028"}
    async with connected(stack, mode) as client:
        await client.list_tools()  # from here on the client holds results against the schemas
        result = await client.call_tool(tool, arguments)
    assert result.is_error is False
    assert json.loads(result.content[0].text) == {"found": arguments.get("query", "no query")}
    assert result.meta["sabueso/call"] == {"from_cache": True, "duration_ms": 12}
    (request,) = [one for one in stack.agent.requests if one.name]
    assert (request.name, json.loads(request.arguments_json)) == (tool, arguments)


@BOTH_FORMS
async def test_a_failed_tool_is_a_result_that_says_so(stack, mode):
    async with connected(stack, mode) as client:
        await client.list_tools()
        result = await client.call_tool("web_search", {"query": "fail"})
        wrong = await client.call_tool("web_search", {"query": 7})
    assert result.is_error is True
    assert json.loads(result.content[0].text) == {"error": "timeout after 5s", "tool": "web_search"}
    assert wrong.is_error is True
    assert json.loads(wrong.content[0].text) == {
        "error": "invalid arguments: query: it is wrong", "tool": "web_search"
    }  # fmt: skip


@BOTH_FORMS
@pytest.mark.parametrize(
    ("tool", "query", "code", "data"),
    [
        ("nothing", "x", -32602, {"code": "not_found"}),
        ("web_search", "overloaded", -32603, {"code": "overloaded", "retry-after": "3"}),
        ("web_search", "bug", -32603, {"code": "internal_error"}),
        ("web_search", "stop half-way", -32603, {"code": "internal_error"}),
    ],
)
async def test_what_is_no_result_is_an_error_without_our_insides(stack, mode, tool, query, code, data):
    async with connected(stack, mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(tool, {"query": query})
    assert caught.value.code == code
    assert caught.value.data == data
    assert "postgres" not in caught.value.message


@BOTH_FORMS
async def test_progress_reaches_who_asked_for_it(stack, mode):
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, message))
        stack.agent.go_on.set()

    async with connected(stack, mode) as client:
        result = await client.call_tool("web_search", {"query": "wait"}, progress_callback=hear)
    assert result.is_error is False
    assert heard == [(1, "searching"), (2, "still searching")]


@BOTH_FORMS
async def test_a_call_that_the_client_gives_up_is_cancelled_at_the_tool(stack, mode):
    async with connected(stack, mode) as client:
        with anyio.CancelScope() as scope:

            async def give_up():
                await stack.agent.started.wait()
                scope.cancel()

            giving_up = asyncio.create_task(give_up())
            await client.call_tool("web_search", {"query": "hang"})
        await giving_up
        await asyncio.wait_for(stack.agent.cancelled.wait(), 30)
        assert (await client.call_tool("web_search", {"query": "next"})).is_error is False


@BOTH_FORMS
async def test_a_slow_call_holds_up_no_other(stack, mode):
    async with connected(stack, mode) as client, asyncio.TaskGroup() as group:
        slow = group.create_task(client.call_tool("web_search", {"query": "wait"}))
        await asyncio.wait_for(stack.agent.started.wait(), 30)
        async with asyncio.timeout(30):
            await client.call_tool("web_search", {"query": "quick"})
        assert not slow.done()
        stack.agent.go_on.set()
    assert slow.result().is_error is False


@BOTH_FORMS
async def test_a_changed_file_of_the_tenant_is_told_to_who_listens(stack, mode):
    told = asyncio.Event()

    async def hear(one):
        if getattr(one, "method", "") == "notifications/tools/list_changed":
            told.set()

    path = stack.folder / "sixty.yaml"
    before = path.read_text()
    web = {"denied_domains": [f"{mode}.example"]}  # each time another change: the files are read every two seconds
    after = yaml.safe_dump(yaml.safe_load(before) | {"web": web})
    async with connected(stack, mode, tenant="sixty", message_handler=hear) as client, asyncio.timeout(60):
        if mode == "auto":
            async with client.listen(tools_list_changed=True) as subscription:
                path.write_text(after)
                await anext(aiter(subscription))
        else:
            await until(lambda: listening(stack, "sixty"))
            path.write_text(after)
            await told.wait()


def listening(stack, tenant):
    return [one for one in stack.mcp.changes.streams() if one == tenant]


async def test_the_caller_is_who_the_tools_run_for(stack):
    async with connected(stack, key="hr") as client:
        await client.list_tools()
        await client.call_tool("vector_search", {"query": "x"})
        await client.call_tool("vector_search", {"query": "x"}, meta={"sabueso/labels": ["staff", "board"]})
        with pytest.raises(MCPError, match="sabueso/labels"):
            await client.call_tool("vector_search", {"query": "x"}, meta={"sabueso/labels": "staff"})
    identities = [identity for identity, _ in stack.agent.callers]
    assert {(one.tenant, one.principal) for one in identities} == {("demo", "hr")}
    assert [one.labels for one in identities] == [("hr", "staff"), ("hr", "staff"), ("staff",)]
    assert all(seconds > 5 for _, seconds in stack.agent.callers)


# Who may come in


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_nobody_comes_in_without_a_key(stack, method):
    response = await stack.http.request(method, "/mcp", headers=ACCEPT)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.json()["error"]["code"] == "invalid_api_key"


async def test_a_key_without_the_scope_calls_no_tools(stack):
    response = await post(stack, INITIALIZE, key="reader")
    assert (response.status_code, response.json()["error"]["code"]) == (403, "insufficient_scope")


async def test_each_message_counts_and_every_answer_says_so(stack):
    response = await post(stack, message("ping"))
    assert answer_of(response)["result"] == {}
    assert int(response.headers["x-ratelimit-remaining-requests"]) < 60_000
    assert response.headers["x-request-id"]


async def test_a_stream_that_only_listens_takes_no_ones_place(stack):
    headers = ACCEPT | stack.headers("single")
    async with stack.http.stream("GET", "/mcp", headers=headers) as listening:
        assert (await anext(listening.aiter_bytes())).startswith(b":")
        response = await post(stack, message("ping"), tenant="single")
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("https://chat.example", 200),
        ("https://CHAT.example", 200),
        ("https://chat.example.evil.example", 403),
        ("same", 200),
    ],
)
async def test_pages_of_other_sites_may_not_speak_through_a_browser(stack, origin, status):
    response = await post(stack, message("ping"), origin=stack.url if origin == "same" else origin)
    assert response.status_code == status
    if status == 403:
        assert response.json()["error"]["code"] == "origin_not_allowed"


# Sessions


async def test_a_session_is_opened_used_and_ended(stack):
    session = await opened(stack)
    assert (await post(stack, message("notifications/initialized", id_=None), session=session)).status_code == 202
    assert answer_of(await post(stack, message("tools/list"), session=session))["result"]["tools"]
    headers = stack.headers() | {"mcp-session-id": session}
    assert (await stack.http.delete("/mcp", headers=headers)).status_code == 204
    for response in (
        await post(stack, message("tools/list"), session=session),
        await stack.http.delete("/mcp", headers=headers),
        await stack.http.get("/mcp", headers=headers | ACCEPT),
    ):
        assert response.status_code == 404
        assert answer_of(response)["error"]["message"] == "Session not found"


@pytest.mark.parametrize("session", ["x", "../../etc/passwd", "é", "A" * 56, "A" * 5_000])
async def test_a_session_that_nobody_opened_is_not_found(stack, session):
    headers = ACCEPT | stack.headers() | {"content-type": "application/json"}
    sent = [*((name.encode(), one.encode()) for name, one in headers.items()), (b"mcp-session-id", session.encode())]
    response = await stack.http.post("/mcp", content=json.dumps(message("tools/list")), headers=sent)
    assert response.status_code == 404


async def test_a_session_of_another_tenant_is_not_found(stack):
    session = await opened(stack)
    assert (await post(stack, message("tools/list"), session=session, tenant="narrow")).status_code == 404
    ended = await stack.http.delete("/mcp", headers=stack.headers("narrow") | {"mcp-session-id": session})
    assert ended.status_code == 404
    assert (await post(stack, message("tools/list"), session=session)).status_code == 200


async def test_without_a_session_there_is_nothing_to_end(stack):
    assert (await stack.http.delete("/mcp", headers=stack.headers())).status_code == 400


async def test_any_gateway_serves_any_session_and_hears_of_its_cancellations(stack, notices, tmp_path_factory):
    folders = tmp_path_factory.mktemp("tenants"), tmp_path_factory.mktemp("web")
    async with gateway_stack(*folders, notices=notices) as other, asyncio.TaskGroup() as group:
        session = await opened(stack)
        running = group.create_task(post(other, calling("hang", 7), session=session))
        await asyncio.wait_for(other.agent.started.wait(), 30)
        cancelled = message("notifications/cancelled", {"requestId": 7, "reason": "no need"}, None)
        assert (await post(stack, cancelled, session=session)).status_code == 202
        await asyncio.wait_for(other.agent.cancelled.wait(), 30)
        assert answer_of(await running)["error"]["code"] == -32800
        await stack.http.delete("/mcp", headers=stack.headers() | {"mcp-session-id": session})
        assert (await post(other, message("ping"), session=session)).status_code == 404


async def test_a_cancellation_concerns_its_own_session_only(stack):
    mine, theirs = await opened(stack), await opened(stack)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(post(stack, calling("wait", 7), session=mine))
        await asyncio.wait_for(stack.agent.started.wait(), 30)
        cancelled = message("notifications/cancelled", {"requestId": 7}, None)
        await post(stack, cancelled, session=theirs)
        await post(stack, cancelled)
        for odd in ({}, {"requestId": None}, {"requestId": [7]}, [7]):
            odd_one = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": odd}
            assert (await post(stack, odd_one, session=mine)).status_code == 202
        stack.agent.go_on.set()
    assert "result" in answer_of(running.result())


async def test_the_end_of_a_session_ends_its_calls_and_streams(stack):
    session = await opened(stack)
    headers = ACCEPT | stack.headers() | {"mcp-session-id": session}
    async with stack.http.stream("GET", "/mcp", headers=headers) as stream, asyncio.TaskGroup() as group:
        pieces = stream.aiter_bytes()
        assert (await anext(pieces)).startswith(b":")
        running = group.create_task(post(stack, calling("hang"), session=session))
        await asyncio.wait_for(stack.agent.started.wait(), 30)
        await stack.http.delete("/mcp", headers=stack.headers() | {"mcp-session-id": session})
        async with asyncio.timeout(30):
            _ = [one async for one in pieces]
    assert answer_of(running.result())["error"]["code"] == -32800
    await asyncio.wait_for(stack.agent.cancelled.wait(), 30)


async def test_a_tenant_listens_so_often_and_no_more(stack):
    headers = ACCEPT | stack.headers("narrow")
    await until(lambda: not listening(stack, "narrow"))
    async with asyncio.timeout(60):
        async with (
            stack.http.stream("GET", "/mcp", headers=headers),
            stack.http.stream("GET", "/mcp", headers=headers),
            stack.http.stream("GET", "/mcp", headers=headers),
        ):
            refused = await stack.http.get("/mcp", headers=headers)
        await until(lambda: not listening(stack, "narrow"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_streams")
    assert int(refused.headers["retry-after"]) >= 1


async def test_streams_that_listen_end_when_the_process_drains(tmp_path):
    async with (
        gateway_stack(tmp_path, tmp_path / "web") as stack,
        stack.http.stream("GET", "/mcp", headers=ACCEPT | stack.headers()) as stream,
        connected(stack, "auto") as client,
        client.listen(tools_list_changed=True) as subscription,
    ):
        pieces = stream.aiter_bytes()
        assert (await anext(pieces)).startswith(b":")
        stack.readiness.draining = True
        async with asyncio.timeout(30):
            _ = [one async for one in pieces]
            _ = [one async for one in subscription]


# What curl would send


async def test_a_message_needs_no_session_and_no_handshake(stack):
    listed = answer_of(await post(stack, message("tools/list", id_="a"), mcp_protocol_version="2025-06-18"))
    assert listed["id"] == "a"
    assert len(listed["result"]["tools"]) == 3
    called = answer_of(await post(stack, calling("now"), accept="*/*"))
    assert called["result"]["structuredContent"]["results"][0]["title"] == "now"


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_every_version_with_a_handshake_is_spoken(stack, version):
    asked = INITIALIZE | {"params": INITIALIZE["params"] | {"protocolVersion": version}}
    result = answer_of(await post(stack, asked))["result"]
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {"listChanged": True}}
    listed = answer_of(await post(stack, message("tools/list"), mcp_protocol_version=version))
    assert len(listed["result"]["tools"]) == 3


async def test_a_version_that_is_not_known_is_answered_with_one_that_is(stack):
    asked = INITIALIZE | {"params": INITIALIZE["params"] | {"protocolVersion": "1999-01-01"}}
    assert answer_of(await post(stack, asked))["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (INITIALIZE, {"accept": "text/html"}, 406, -32600),
        (INITIALIZE, {"accept": "application/json"}, 406, -32600),
        (message("tools/list"), {"mcp_protocol_version": "1999-01-01"}, 400, -32602),
        (b"{", {}, 400, -32700),
        (b"\xff\xfe", {}, 400, -32700),
        (b"", {}, 400, -32700),
        ([message("tools/list"), message("ping", id_=2)], {}, 400, -32602),
        ({"jsonrpc": "1.0", "method": "ping", "id": 1}, {}, 400, -32602),
        (b"[" * 100_000, {}, 400, -32700),
    ],
)
async def test_what_is_not_one_good_message_is_refused_as_json_rpc(stack, body, headers, status, code):
    response = await post(stack, body, **headers)
    assert response.status_code == status
    error = response.json()
    assert (error["jsonrpc"], error["error"]["code"]) == ("2.0", code)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (message("tools/frobnicate"), -32601),
        (message("resources/list"), -32601),
        (message("tools/call", {"arguments": {}}), -32602),
        (message("tools/call", {"name": "web_search", "arguments": "x"}), -32602),
        (message("tools/list", {"cursor": "2"}), -32602),
        (message("initialize", {"protocolVersion": 7}), -32602),
    ],
)
async def test_what_a_message_gets_wrong_is_an_error_with_its_id(stack, body, code):
    answer = answer_of(await post(stack, body | {"id": "mine"}))
    assert (answer["id"], answer["error"]["code"]) == ("mine", code)


async def test_only_json_is_taken(stack):
    assert (await post(stack, INITIALIZE, content_type="text/plain")).status_code == 400


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
async def test_other_methods_are_refused_with_those_that_there_are(stack, method):
    response = await stack.http.request(method, "/mcp", headers=stack.headers())
    assert response.status_code == 405
    assert {"GET", "POST", "DELETE"} <= set(response.headers["allow"].split(", "))


async def test_a_listener_must_take_event_streams(stack):
    response = await stack.http.get("/mcp", headers=stack.headers() | {"accept": "application/json"})
    assert response.status_code == 406


async def test_large_arguments_pass_and_larger_ones_are_refused_in_the_usual_form(stack):
    assert "result" in answer_of(await post(stack, calling("x" * 1024 * 1024)))
    refused = await post(stack, calling("x" * 4 * 1024 * 1024))
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "request_too_large")
    refused = await post(stack, calling("x" * 3_000), tenant="small")
    assert refused.status_code == 413


def in_form(mode, body):
    """A call as that form of the protocol has it: the body, and the headers besides."""
    if mode == "legacy":
        return body, {}
    params = body["params"] | {"_meta": ENVELOPE}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": body["method"], "mcp-name": params["name"]}
    return body | {"params": params}, headers


@BOTH_FORMS
async def test_a_client_that_hangs_up_in_mid_call_cancels_the_tool(stack, mode):
    body, headers = in_form(mode, calling("hang"))
    async with httpx2.AsyncClient(base_url=stack.url, trust_env=False, timeout=60) as http:
        running = asyncio.create_task(http.post("/mcp", json=body, headers=ACCEPT | stack.headers() | headers))
        await asyncio.wait_for(stack.agent.started.wait(), 30)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await asyncio.wait_for(stack.agent.cancelled.wait(), 30)


async def test_nothing_is_left_of_requests_that_have_ended(stack):
    await until(lambda: not len(stack.mcp.running))


async def test_calls_are_counted_under_their_route(stack):
    await post(stack, message("ping"))
    metrics = (await stack.http.get("/metrics")).text
    assert 'sabueso_gateway_request_duration_seconds_count{route="/mcp",status="200"}' in metrics


async def test_no_key_and_no_argument_is_logged(stack, caplog):
    caplog.set_level("INFO")
    async with connected(stack) as client:
        await client.call_tool("web_search", {"query": "a secret question"})
    said = caplog.text + json.dumps([str(record.__dict__) for record in caplog.records])
    ours = "\n".join(line for line in said.splitlines() if "httpx" not in line)
    assert key_of("demo") not in ours
    assert "a secret question" not in ours
