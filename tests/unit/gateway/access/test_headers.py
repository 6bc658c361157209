import pytest

from services.gateway.access.headers import is_reserved, strip

CLAIMS = [
    "x-tenant", "x-tenant-id", "x-tenant-name", "tenant-id", "x-sabueso-tenant", "x-sabueso-priority", "x-priority",
    "x-priority-class", "x-request-priority", "x-tokens-limit", "x-rate-limit", "x-daily-quota",
    "x-ratelimit-limit-requests", "ratelimit-policy", "ratelimit", "forwarded", "x-forwarded-for", "x-forwarded-user",
    "x-forwarded-email", "x-forwarded-proto", "x-real-ip", "x-remote-user", "remote-user", "x-auth-request-email",
    "x-user-id", "x-gateway-inference-objective", "x-consumer-username", "x-original-url",
]  # fmt: skip
PLAIN = [
    "accept", "accept-encoding", "content-type", "content-length", "host", "user-agent", "x-request-id", "traceparent",
    "tracestate", "x-session-id", "x-stainless-lang", "openai-organization", "mcp-session-id", "mcp-protocol-version",
    "last-event-id", "expect", "limit",
]  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_what_only_we_may_state_is_stripped_and_goes_no_further(name):
    scope = {"headers": [(name.encode(), b"1"), (b"accept", b"*/*")]}
    strip(scope)
    assert scope["headers"] == [(b"accept", b"*/*")]
    assert is_reserved(name.encode())


@pytest.mark.parametrize("name", PLAIN)
def test_ordinary_headers_stay(name):
    headers = [(name.encode(), b"1")]
    scope = {"headers": headers}
    strip(scope)
    assert scope["headers"] is headers
    assert not is_reserved(name.encode())


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key", "cookie", "proxy-authorization"])
def test_credentials_are_read_here_and_go_no_further(name):
    scope = {"headers": [(name.encode(), b"secret")]}
    strip(scope)
    assert scope["headers"]
    assert is_reserved(name.encode())
