"""How the gateway's services, its limits and our key stand, as the gateway itself sees them."""

from collections.abc import Iterator, Mapping
from typing import Any

from services.cli.client import Client, Refused
from services.cli.doctor.findings import Finding, Status, warning, well, wrong
from services.cli.json_shapes import mapping

# What is lost with each, and whether that makes the installation useless.
_LOSSES = {
    "orchestrator": (Status.ERROR, "No question is answered."),
    "retrieval": (Status.ERROR, "Nothing is searched, no document is stored."),
    "embedding": (Status.ERROR, "Searches have no vectors, documents wait."),
    "ingestion": (Status.ERROR, "No document is taken."),
    "reranking": (Status.WARNING, "Answers of /v1/rerank fail; a search with a cross-encoder goes on without it."),
    "web_tool": (Status.WARNING, "Answers go without the web."),
    "tool_cache": (Status.WARNING, "Every tool runs anew: slower and dearer, not wrong."),
}
_STATES = {
    "unavailable": "Nobody listens there, or a NetworkPolicy or a wrong address stands between.",
    "not serving": "It runs and says that it is not ready: it warms up, drains, or lacks what it needs.",
    "deadline_exceeded": "It did not answer within a second: it hangs or has too little CPU.",
    "unimplemented": "Another program answers at its address.",
}
_NEARLY_USED_UP = 0.1
_SCOPES = {"agent": "ask", "search": "search", "documents": "ingest, documents and collections", "models": "the models"}


def services(ready: Mapping[str, Any]) -> Iterator[Finding]:
    """From what /readyz says; `status_code` is that of the answer."""
    if ready.get("status") == "draining":
        yield warning("gateway", "this replica is draining", fix="It is being replaced; run doctor again in a minute.")
        return
    found = mapping(ready.get("services"))
    if not found:
        yield wrong(
            "services", f"/readyz answers {ready.get('status_code')} and names no service", fix="Is it our gateway?"
        )
    for service, state in found.items():
        yield _service(service, str(state))
    for pool, state in mapping(ready.get("pools")).items():
        yield _pool(pool, str(state))
    if ready.get("limits") == "degraded":
        yield warning(
            "limits",
            "limits are counted by each gateway for itself",
            why="Valkey is lost: keys cannot be made or revoked, and limits are less exact.",
            fix="Look at Valkey and at SABUESO_VALKEY_URL of the gateway; docs/runbooks/.",
        )
    elif found:
        yield well("limits", "are exact")


def _service(service: str, state: str) -> Finding:
    if state == "ok":
        return well("services", f"{service} serves")
    status, loss = _LOSSES.get(service, (Status.WARNING, ""))
    why = " ".join(part for part in (_STATES.get(state, ""), loss) if part)
    name = service.replace("_", "-")
    fix = f"kubectl logs deploy/<release>-{name} --previous; on one machine `make logs SERVICE={service}`."
    return Finding("services", status, f"{service}: {state}", why, fix)


def _pool(pool: str, state: str) -> Finding:
    if state == "ok":
        return well("models", f"pool `{pool}`: all replicas answer")
    none = state.startswith("0 ")
    return (wrong if none else warning)(
        "models",
        f"pool `{pool}`: {state} answer",
        why="The model server is loading, unreachable or was put aside after failures.",
        fix="Look at its /health and its log; a 70B model takes minutes to load. Is SABUESO_MODEL_URL right (…/v1)?",
    )


class KeyRefused(Exception):
    """The key opens nothing: what needs it need not be tried."""


def key(client: Client) -> tuple[list[Finding], frozenset[str]]:
    """What the key may do and how much of its limits is left, with its scopes. Raises Failed, and KeyRefused."""
    try:
        usage = client.call("GET", "/usage")
    except Refused as error:
        if error.status_code == 401:
            raise KeyRefused(str(error)) from None
        raise
    scopes = frozenset(map(str, usage.get("scopes", ())))
    found = [well("key", f"`{usage.get('key')}` of tenant `{usage.get('tenant')}`: {', '.join(sorted(scopes))}")]
    if lacking := [does for scope, does in _SCOPES.items() if scope not in scopes]:
        found.append(
            warning("key", f"it does not open: {', '.join(lacking)}", fix="Doctor sees more with a key of all scopes.")
        )
    found += [*_used_up("tenant", usage), *_used_up("key", mapping(usage.get("key_limits")))]
    return found, scopes


def _used_up(whose: str, meters: Mapping[str, Any]) -> Iterator[Finding]:
    for name in ("requests_per_minute", "tokens_per_minute", "concurrent_requests", "daily_tokens"):
        meter = mapping(meters.get(name))
        limit, remaining = meter.get("limit"), meter.get("remaining")
        if limit and remaining is not None and remaining < _NEARLY_USED_UP * limit:
            yield warning(
                "key",
                f"{remaining} of {limit} {name.replace('_', ' ')} of the {whose} are left",
                why="More calls are answered 429 until it is full again.",
                fix="`sabueso limits show`, `sabueso limits set`.",
            )
