"""API keys: who is asking, and what the key may do."""

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from services.gateway.errors import ApiError
from services.runtime import context
from services.runtime.context import ALL_LABELS, Identity
from services.runtime.errors import Unauthenticated
from services.runtime.identity import Signer
from services.runtime.tenants import Key, Tenant, TenantDirectory

# A signed identity is used again for this long; it stays valid three times as long, so that no call outlives it.
_REUSE_SECONDS = 300
_VALID_SECONDS = 3 * _REUSE_SECONDS


@dataclass(frozen=True)
class Caller:
    """Who a request is made for. `internal`: one of our own services, on behalf of the tenant."""

    tenant: Tenant
    identity: Identity
    token: str
    signer: Signer = field(repr=False)
    internal: bool = False

    def require(self, scope: str) -> None:
        """Raises a 403 when the key lacks `scope`."""
        if scope not in self.identity.scopes and not self.internal:
            raise ApiError(403, f"This key lacks the scope `{scope}`.", code="insufficient_scope")

    def narrow(self, labels: Sequence[str] | None) -> None:
        """From here on the request acts for a person who holds no more than `labels`; None changes nothing.

        An application has one key and many users: it says whose labels count. They never open more than the key does.
        """
        if labels is None:
            return
        held = self.identity.labels
        kept = tuple(one for one in dict.fromkeys(labels) if one != ALL_LABELS and (ALL_LABELS in held or one in held))
        identity = replace(self.identity, labels=kept)
        context.enter(context.CallContext(identity, self.signer.sign(identity, _VALID_SECONDS)))


class KeyRing:
    """All tenants' keys by their SHA-256. Follows the tenants' files."""

    def __init__(self, tenants: TenantDirectory, signer: Signer) -> None:
        self._tenants = tenants
        self._signer = signer
        self._version = ""
        self._keys: dict[str, tuple[Tenant, Key]] = {}
        self._tokens: dict[str, tuple[float, str]] = {}

    def owner_of(self, key: str) -> Caller | None:
        """Whose key it is, or None."""
        self._refresh()
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        found = self._keys.get(digest)
        # The look-up is by digest, so its timing says nothing of the key; the comparison is the belt to those braces.
        if found is None or not hmac.compare_digest(found[1].sha256, digest):
            return None
        tenant, record = found
        identity = Identity(tenant.id, record.id, record.scopes, record.labels)
        return Caller(tenant, identity, self._token(digest, identity), self._signer)

    def bearer_of(self, token: str) -> Caller | None:
        """Who a signed identity speaks for, or None. One of our services sends it, such as the orchestrator."""
        try:
            identity = self._signer.verify(token)
        except Unauthenticated:
            return None
        tenant = self._tenants.get(identity.tenant)
        return None if tenant is None else Caller(tenant, identity, token, self._signer, internal=True)

    def _token(self, digest: str, identity: Identity) -> str:
        reuse_until, token = self._tokens.get(digest, (0.0, ""))
        if reuse_until <= time.monotonic():
            token = self._signer.sign(identity, _VALID_SECONDS)
            self._tokens[digest] = time.monotonic() + _REUSE_SECONDS, token
        return token

    def _refresh(self) -> None:
        if self._version != self._tenants.version:
            self._version = self._tenants.version
            self._keys = {key.sha256: (tenant, key) for tenant in self._tenants.all().values() for key in tenant.keys}
            self._tokens = {}
