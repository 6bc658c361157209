import json

import pytest

from services.gateway.access.callers import Caller
from services.gateway.errors import ApiError
from services.gateway.line import Line
from services.gateway.mcp.changes import Changes
from services.gateway.mcp.endpoint import McpEndpoint
from services.gateway.mcp.notices import LocalNotices
from services.gateway.mcp.running import Running
from services.gateway.mcp.sessions import Sessions
from services.runtime.context import Identity
from services.runtime.tenants import Tenant, TenantDirectory
from services.runtime.testing import SECRET, SIGNER


class Echo:
    """A transport that answers with what it was sent."""

    def __init__(self, status=200):
        self.status = status

    async def __call__(self, scope, receive, send):
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
def serve(tmp_path):
    """Sends one POST through an endpoint; gives the status, the headers and the body."""
    (tmp_path / "acme.yaml").write_text("id: acme")
    tenants = TenantDirectory(tmp_path)

    async def post(body=b"{}", *, headers=(), transport=None, tenant=None, **options):
        endpoint = McpEndpoint(
            transport or Echo(),
            Sessions(SECRET),
            Running(),
            Changes(tenants, lambda: False),
            LocalNotices(),
            **options,
        )
        pieces = [body[: len(body) // 2], body[len(body) // 2 :]]
        sent = []

        async def receive():
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message):
            sent.append(message)

        identity = Identity("acme", "k", ("tools",))
        caller = Caller(tenant or Tenant(id="acme"), identity, SIGNER.sign(identity), SIGNER)
        named = [(name.encode(), value.encode()) for name, value in {"host": "gw:8080", **dict(headers)}.items()]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": named, "query_string": b""}
        line = Line(scope | {"headers": [*named, (b"transfer-encoding", b"chunked")]}, receive, send)
        scope["state"] = {"caller": caller, "line": line}
        await line.serve(endpoint(scope, line.receive, line.send))
        answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], answered, b"".join(one.get("body", b"") for one in sent)

    return post


@pytest.mark.parametrize(
    ("allowed", "host", "good"),
    [
        ("", "anything:1", True),
        ("gw:8080", "gw:8080", True),
        ("gw:8080", "GW:8080", True),
        ("gw:8080", "gw:8081", False),
        ("gw:*, tools.example", "gw:8081", True),
        ("gw:*, tools.example", "tools.example", True),
        ("gw:*", "gw.evil.example:80", False),
        ("gw:*", "", False),
        ("[::1]:*", "[::1]:8080", True),
    ],
)
async def test_only_named_hosts_are_served_where_some_are_named(serve, allowed, host, good):
    if good:
        assert (await serve(headers={"host": host}, allowed_hosts=allowed))[0] == 200
        return
    with pytest.raises(ApiError) as caught:
        await serve(headers={"host": host}, allowed_hosts=allowed)
    assert (caught.value.status_code, caught.value.code) == (421, "host_not_allowed")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"method": "tools/list"}', b'["initialize"]', b'{"initialize"', b"\xff"]
)
async def test_what_is_not_for_the_endpoint_passes_as_it_came(serve, body):
    status, headers, passed = await serve(body)
    assert (status, passed) == (200, body)
    assert "mcp-session-id" not in headers


@pytest.mark.parametrize(("status", "opens"), [(200, True), (400, False), (406, False)])
async def test_a_handshake_opens_a_session_where_it_succeeds(serve, status, opens):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize"}).encode()
    _, headers, passed = await serve(body, transport=Echo(status))
    assert passed == body
    assert Sessions(SECRET).holds(headers.get("mcp-session-id", ""), "acme") == opens


async def test_the_tenants_own_limit_of_a_body_counts_where_it_is_smaller(serve):
    small = Tenant.model_validate({"id": "acme", "limits": {"body_bytes": 100}})
    assert (await serve(b"x" * 100, tenant=small))[0] == 200
    with pytest.raises(ApiError) as caught:
        await serve(b"x" * 101, tenant=small)
    assert caught.value.status_code == 413


async def test_pages_of_the_gateway_itself_may_call_and_others_may_not(serve):
    with pytest.raises(ApiError) as caught:
        await serve(headers={"origin": "https://evil.example"})
    assert caught.value.code == "origin_not_allowed"
    assert (await serve(headers={"origin": "http://gw:8080"}))[0] == 200
