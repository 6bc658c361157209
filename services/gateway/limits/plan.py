"""Which limits a request counts against: those of its tenant, its key and its model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from services.runtime.tenants import Ceilings, LimitName, Limits, StoreLoss, Tenant

Scope = Literal["tenant", "key", "model"]
# The limits that are counted in model tokens.
TOKEN_KINDS: tuple[LimitName, ...] = ("tokens", "daily_tokens")
# Unit and window of each kind, as the header RateLimit-Policy says them.
_UNITS: Mapping[LimitName, str] = {
    "requests": ";w=60",
    "tokens": ';qu="tokens";w=60',
    "daily_tokens": ';qu="tokens";w=86400',
    "concurrency": ';qu="concurrent-requests"',
}
_MOST_PLANS = 10_000


@dataclass(frozen=True, slots=True)
class Limit:
    """One ceiling. `owner`: the key or the model that it is set for; of the tenant's own, empty.

    `name` is the same for every tenant, such as `tenant-requests`; `policy` is its part of the header RateLimit-Policy.
    """

    scope: Scope
    kind: LimitName
    owner: str
    most: int
    on_loss: StoreLoss = "local"
    name: str = field(init=False, compare=False)
    policy: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.scope}-{self.kind.replace('_', '-')}")
        object.__setattr__(self, "policy", f'"{self.name}";q={self.most}{_UNITS[self.kind]}')

    def store_key(self, tenant: str) -> str:
        """Name in the store. All limits of a tenant share a hash tag, and so a slot of a cluster."""
        owner = f":{self.owner}" if self.owner else ""
        return f"sabueso:limits:{{{tenant}}}:{self.scope}{owner}:{self.kind}"

    def cost(self, tokens: int) -> int:
        """What a request of `tokens` takes: never more than the whole limit, or it would wait for ever."""
        return min(tokens, self.most) if self.kind in TOKEN_KINDS else 1

    def share(self, count: int) -> "Limit":
        """What one of `count` processes grants by itself, rounded up."""
        return replace(self, most=-(-self.most // count))


def plan_for(tenant: Tenant, principal: str, key_limits: Ceilings, model: str = "") -> tuple[Limit, ...]:
    """The limits of a request to `model`, or to none."""
    limits = tenant.limits
    found = [*_ceilings("tenant", "", limits, limits), *_ceilings("key", principal, key_limits, limits)]
    if name := _limited(model, limits):
        found += _ceilings("model", name, limits.models[name], limits)
    return tuple(found)


def _limited(model: str, limits: Limits) -> str:
    """The name under which a model has limits, with its revision or without; empty when it has none."""
    if not (limited := limits.models):
        return ""
    return next((name for name in (model, model.partition("@")[0]) if name in limited), "")


class Plans:
    """Plans that were made before: a caller's stays the same until its limits change."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[Limits, Ceilings, tuple[Limit, ...]]] = {}

    def plan(self, tenant: Tenant, principal: str, key_limits: Ceilings, model: str = "") -> tuple[Limit, ...]:
        """As `plan_for`."""
        key = tenant.id, principal, _limited(model, tenant.limits)
        known = self._known.get(key)
        if known is not None and known[0] is tenant.limits and known[1] is key_limits:
            return known[2]
        if len(self._known) >= _MOST_PLANS:
            self._known.clear()
        made = plan_for(tenant, principal, key_limits, key[2])
        self._known[key] = tenant.limits, key_limits, made
        return made


def every_limit(tenant: Tenant, principal: str, key_limits: Ceilings) -> tuple[Limit, ...]:
    """The limits of the tenant, of one key, and of every model that has some."""
    limits = tenant.limits
    models = [one for model, own in limits.models.items() for one in _ceilings("model", model, own, limits)]
    return (*plan_for(tenant, principal, key_limits), *models)


def smallest_token_limit(plan: tuple[Limit, ...]) -> Limit | None:
    """The one that the fewest tokens fill; None when tokens are not limited."""
    return min((one for one in plan if one.kind in TOKEN_KINDS), key=lambda one: one.most, default=None)


def _ceilings(scope: Scope, owner: str, own: Ceilings | Limits, of: Limits) -> Iterator[Limit]:
    loss: Mapping[LimitName, StoreLoss] = of.on_store_loss
    sizes: tuple[tuple[LimitName, int], ...] = (
        ("requests", own.requests_per_minute),
        ("tokens", own.tokens_per_minute),
        ("concurrency", own.concurrent_requests),
        ("daily_tokens", own.daily_tokens),
    )
    for kind, most in sizes:
        if most:
            yield Limit(scope, kind, owner, most, loss.get(kind, "local"))
