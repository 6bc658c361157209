"""How much of its limits a tenant has used, for people and programs to read."""

from collections.abc import Iterable
from typing import Any

from services.gateway.limits.decision import Limiter, Standing, StoreLost
from services.gateway.limits.plan import Limit, every_limit
from services.runtime.tenants import Ceilings, Tenant

# What each kind is called in a tenant's file.
_NAMES = {
    "requests": "requests_per_minute",
    "tokens": "tokens_per_minute",
    "daily_tokens": "daily_tokens",
    "concurrency": "concurrent_requests",
}


async def usage_of(limiter: Limiter, tenant: Tenant, principal: str, key_limits: Ceilings) -> dict[str, Any]:
    """Every limit of the tenant, of one key and of single models, and what is used of each; takes nothing.

    Each is `{limit, used, remaining, reset_seconds}`, all null where there is no limit; `used` and `remaining` are null
    while nobody knows. `exact` is false while the store is lost, and limits are a process' share.
    """
    plan = every_limit(tenant, principal, key_limits)
    try:
        standings = await limiter.look(tenant.id, plan)
    except StoreLost:
        standings = ()
    known = {(one.limit.scope, one.limit.owner, one.limit.kind): one for one in standings}

    def meters(limits: Iterable[Limit]) -> dict[str, Any]:
        found = {one.kind: meter(one, known.get((one.scope, one.owner, one.kind))) for one in limits}
        return {name: found.get(kind, meter(None, None)) for kind, name in _NAMES.items()}

    models = dict.fromkeys(one.owner for one in plan if one.scope == "model")
    return {
        "object": "usage",
        "tenant": tenant.id,
        "key": principal,
        "exact": not limiter.degraded,
        "limits": tenant.limits.model_dump(),
        **meters(one for one in plan if one.scope == "tenant"),
        "key_limits": meters(one for one in plan if one.scope == "key"),
        "models": {name: meters(one for one in plan if one.scope == "model" and one.owner == name) for name in models},
    }


def meter(limit: Limit | None, standing: Standing | None) -> dict[str, Any]:
    """One limit's state."""
    if standing is None:
        most = None if limit is None else limit.most
        return {"limit": most, "used": None, "remaining": None, "reset_seconds": None}
    return {
        "limit": standing.limit.most,
        "used": standing.used,
        "remaining": standing.remaining,
        "reset_seconds": round(standing.reset_seconds, 3),
    }
