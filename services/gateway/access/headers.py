"""Request headers that only we may state: whoever sends them is not believed, and they go no further."""

from starlette.types import Scope

# Who somebody is, where they come from, what they may use up: facts of the key, never of a header.
_NAMES = frozenset(
    {
        b"forwarded", b"priority", b"remote-user", b"tenant", b"tenant-id", b"true-client-ip", b"x-client-ip",
        b"x-cluster-client-ip", b"x-consumer-id", b"x-email", b"x-groups", b"x-original-url", b"x-priority",
        b"x-real-ip", b"x-remote-user", b"x-request-priority", b"x-rewrite-url", b"x-roles", b"x-scopes", b"x-tenant",
        b"x-user", b"x-user-id",
    }
)  # fmt: skip
_PREFIXES = (
    b"x-auth-request-", b"x-authenticated-", b"x-consumer-", b"x-forwarded-", b"x-gateway-", b"x-llm-d-",
    b"x-priority", b"x-ratelimit-", b"x-sabueso-", b"x-tenant", b"ratelimit",
)  # fmt: skip
# The key is for us alone.
_CREDENTIALS = frozenset({b"authorization", b"proxy-authorization", b"api-key", b"x-api-key", b"cookie"})


def is_reserved(name: bytes) -> bool:
    """Whether a client's header of that name (in lower case) must not reach a model's server."""
    return name in _CREDENTIALS or _is_claim(name)


def strip(scope: Scope) -> None:
    """Takes out what clients claim of themselves, before anything reads it."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if any(_is_claim(name) for name, _ in headers):
        scope["headers"] = [(name, value) for name, value in headers if not _is_claim(name)]


def _is_claim(name: bytes) -> bool:
    if name in _NAMES or name.startswith(_PREFIXES):
        return True
    return name.startswith(b"x-") and name.endswith((b"-limit", b"-quota", b"-tenant", b"-tenant-id", b"-priority"))
