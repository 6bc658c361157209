"""Which headers of a request go to a model's server, and which of its answer come back."""

from collections.abc import Iterable, Sequence

from opentelemetry import propagate, trace
from starlette.datastructures import Headers

from services.gateway.access.headers import is_reserved

# RFC 9110 §7.6.1, what we say ourselves, and the encoding: what is relayed must be readable here.
_NOT_FORWARDED = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"te", b"trailer", b"transfer-encoding",
    b"upgrade", b"host", b"content-length", b"expect", b"accept-encoding", b"x-request-id", b"traceparent",
    b"tracestate", b"x-session-id",
}  # fmt: skip
# What belongs to the server's connection, what we say ourselves, and its limits, which are ours and not the tenant's.
_NOT_RETURNED = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"trailer", b"transfer-encoding", b"upgrade", b"server",
    b"date", b"set-cookie", b"x-request-id", b"alt-svc",
}  # fmt: skip
_NOT_RETURNED_PREFIXES = (b"x-ratelimit-", b"ratelimit")


def forwarded(headers: Headers, request_id: str) -> list[tuple[bytes, bytes]]:
    """Headers for the server."""
    named = {name.strip().lower().encode("latin-1") for name in headers.get("connection", "").split(",")}
    kept = [
        (name, value)
        for name, value in headers.raw
        if name not in _NOT_FORWARDED and name not in named and not is_reserved(name)
    ]
    if trace.get_current_span() is not trace.INVALID_SPAN:
        # The gateway's own place in the trace, or the client's where this process traces nothing.
        place: dict[str, str] = {}
        propagate.inject(place)
        kept += [(name.encode(), value.encode()) for name, value in place.items()]
    kept += [(b"accept-encoding", b"identity"), (b"x-request-id", request_id.encode("latin-1"))]
    return kept


def returned(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers for the client, by lower-case names; those that come twice are joined."""
    found: dict[str, str] = {}
    dropped = _named(headers)
    for name, value in headers:
        if name in _NOT_RETURNED or name in dropped or name.startswith(_NOT_RETURNED_PREFIXES):
            continue
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _named(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    for name, value in headers:
        if name == b"connection":
            return {one.strip().lower() for one in value.split(b",")}
    return set()
