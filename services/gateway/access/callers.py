"""Whom a request is made for, and what that one may do."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from services.gateway.errors import ApiError
from services.runtime import context
from services.runtime.context import ALL_LABELS, Identity
from services.runtime.identity import Signer
from services.runtime.tenants import Ceilings, Tenant

# A signed identity is used again for the first span; it stays valid three times as long, so that no call outlives it.
REUSE_SECONDS = 300
VALID_SECONDS = 3 * REUSE_SECONDS
_UNLIMITED = Ceilings()


@dataclass(frozen=True)
class Caller:
    """Who a request is made for.

    `tenant.limits` and `key_limits` are those in force now, overrides included. `models`: patterns of served names,
    besides those of the tenant. `internal`: one of our own services, on behalf of the tenant.
    """

    tenant: Tenant
    identity: Identity
    token: str = field(repr=False)
    signer: Signer = field(repr=False)
    internal: bool = False
    key_limits: Ceilings = _UNLIMITED
    models: tuple[str, ...] = ("*",)

    def require(self, scope: str) -> None:
        """Raises a 403 when the key lacks `scope`."""
        if scope not in self.identity.scopes and not self.internal:
            raise ApiError(403, f"This key lacks the scope `{scope}`.", code="insufficient_scope")

    def may_call(self, model: str) -> bool:
        """Whether `model` is open to both the tenant and the key. What the agent asks is the operator's choice."""
        return self.internal or (_matches(model, self.tenant.models) and _matches(model, self.models))

    def narrow(self, labels: Sequence[str] | None) -> None:
        """From here on the request acts for a person who holds no more than `labels`; None changes nothing.

        An application has one key and many users: it says whose labels count. They never open more than the key does.
        """
        if labels is None:
            return
        held = self.identity.labels
        kept = tuple(one for one in dict.fromkeys(labels) if one != ALL_LABELS and (ALL_LABELS in held or one in held))
        identity = replace(self.identity, labels=kept)
        context.enter(context.CallContext(identity, self.signer.sign(identity, VALID_SECONDS)))


def _matches(model: str, patterns: Sequence[str]) -> bool:
    return any(pattern == "*" or fnmatchcase(model, pattern) for pattern in patterns)
