"""What one key opens: the tenants' files, the issued keys and the overrides put together."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from services.gateway.access.oidc import entry_of
from services.gateway.access.records import IssuedKey, Override, key_field
from services.gateway.access.snapshot import Snapshot
from services.runtime.context import Identity
from services.runtime.tenants import Ceilings, Key, Tenant, TenantDirectory

NEVER = float("inf")
# Grants are kept for those who come again; beyond this many all are made anew.
_MOST_GRANTS = 20_000


@dataclass(slots=True)
class Grant:
    """What a secret opens. Times are Unix seconds; it opens nothing from the earlier one on."""

    sha256: str
    tenant: Tenant
    identity: Identity
    limits: Ceilings
    models: tuple[str, ...]
    expires_at: float = NEVER
    revoked_at: float = NEVER


class Grants:
    """Grants by the SHA-256 of a secret, as of now. Follows files and snapshot."""

    def __init__(self, tenants: TenantDirectory, snapshot: Snapshot) -> None:
        self._tenants = tenants
        self._snapshot = snapshot
        self._files_version = ""
        self._revision = -1
        self._declared: dict[str, tuple[str, Key]] = {}
        self._grants: dict[str, Grant] = {}
        self._in_force: dict[str, Tenant] = {}
        self._next_expiry = NEVER

    def find(self, sha256: str, now: float) -> Grant | None:
        """What the secret with that digest opens, or has opened. None when nobody knows it."""
        self._follow(now)
        grant = self._grants.get(sha256)
        if grant is None and (grant := self._make(sha256, now)) is not None:
            if len(self._grants) >= _MOST_GRANTS:
                self._grants.clear()
            self._grants[sha256] = grant
        return grant

    def tenant(self, tenant_id: str, now: float) -> Tenant | None:
        """The tenant with the limits that are in force now, or None."""
        self._follow(now)
        known = self._in_force.get(tenant_id)
        if known is None and (declared := self._tenants.get(tenant_id)) is not None:
            override = self._override(tenant_id, now)
            known = declared if override is None else _with_limits(declared, override.of_tenant(declared.limits))
            self._in_force[tenant_id] = known
        return known

    def limits_of(self, tenant: Tenant, principal: str, now: float) -> Ceilings:
        """Limits of a key or person by the id, overrides included; none of its own when it is not known."""
        declared = self._declared_key(tenant.id, principal) or entry_of(principal, tenant.oidc)
        if declared is not None:
            return self.in_force(tenant.id, principal, declared.limits, now)
        issued = self._snapshot.key(key_field(tenant.id, principal))
        return self.in_force(tenant.id, principal, Ceilings() if issued is None else issued[0].limits, now)

    def in_force(self, tenant_id: str, principal: str, limits: Ceilings, now: float) -> Ceilings:
        """`limits` of a key or person with the override that holds now."""
        override = self._override(key_field(tenant_id, principal), now)
        return limits if override is None else override.of_key(limits)

    def next_end(self, now: float) -> float:
        """When the next of all keys expires, in Unix seconds; 0 where none will."""
        declared = (seconds_of(key.expires_at) for tenant in self._tenants.all().values() for key in tenant.keys)
        ahead = (end for end in chain(declared, self._snapshot.ends()) if now < end < NEVER)
        return min(ahead, default=0.0)

    def _follow(self, now: float) -> None:
        if self._files_version != self._tenants.version:
            self._files_version = self._tenants.version
            self._declared = {
                key.sha256: (tenant.id, key) for tenant in self._tenants.all().values() for key in tenant.keys
            }
        elif self._revision == self._snapshot.revision and now < self._next_expiry:
            return
        self._revision = self._snapshot.revision
        self._grants, self._in_force = {}, {}
        ends = (override.expires_at for override in self._snapshot.overrides().values())
        self._next_expiry = min((end for at in ends if (end := seconds_of(at)) > now), default=NEVER)

    def _make(self, sha256: str, now: float) -> Grant | None:
        if (found := self._declared.get(sha256)) is not None:
            tenant_id, key = found
            return self._grant(sha256, tenant_id, key.id, key, seconds_of(key.expires_at), now)
        if (issued := self._snapshot.find(sha256)) is None:
            return None
        secret = next(one for one in issued.secrets if one.sha256 == sha256)
        rights: Key | IssuedKey = issued
        if issued.declared:
            declared = self._declared_key(issued.tenant, issued.id)
            if declared is None:  # the file no longer has it, and the file is what counts
                return None
            rights = declared
        expires_at = min(seconds_of(secret.expires_at), seconds_of(rights.expires_at))
        grant = self._grant(sha256, issued.tenant, issued.id, rights, expires_at, now)
        if grant is not None:
            grant.revoked_at = min(grant.revoked_at, seconds_of(issued.revoked_at))
        return grant

    def _grant(
        self, sha256: str, tenant_id: str, key_id: str, rights: Key | IssuedKey, expires_at: float, now: float
    ) -> Grant | None:
        tenant = self.tenant(tenant_id, now)
        if tenant is None:
            return None
        return Grant(
            sha256,
            tenant,
            Identity(tenant_id, key_id, rights.scopes, rights.labels),
            self.in_force(tenant_id, key_id, rights.limits, now),
            rights.models,
            expires_at,
            seconds_of(self._snapshot.revoked_since(sha256)),
        )

    def _declared_key(self, tenant_id: str, key_id: str) -> Key | None:
        tenant = self._tenants.get(tenant_id)
        return None if tenant is None else next((key for key in tenant.keys if key.id == key_id), None)

    def _override(self, field: str, now: float) -> Override | None:
        override = self._snapshot.override(field)
        return override if override is not None and seconds_of(override.expires_at) > now else None


def seconds_of(moment: datetime | None) -> float:
    """Unix seconds; never, for None."""
    return NEVER if moment is None else moment.timestamp()


def moment_of(seconds: float) -> datetime:
    """The moment in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def _with_limits(tenant: Tenant, limits: object) -> Tenant:
    return tenant.model_copy(update={"limits": limits})
