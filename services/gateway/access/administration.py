"""Who manages what, how a change is written, and the record of it in the log."""

import logging
from dataclasses import dataclass

from services.gateway.access.callers import Caller
from services.gateway.access.feed import Feed
from services.gateway.access.grants import Grants
from services.gateway.access.records import Kind
from services.gateway.access.store import ANYTHING, AccessStore, StoreFull, StoreLost
from services.gateway.errors import ApiError, retry_after
from services.runtime.tenants import Tenant

audit = logging.getLogger("sabueso.audit")
# Who changed what is kept whatever else the operator wants to see in the log.
audit.setLevel(logging.INFO)


@dataclass(frozen=True)
class Admin:
    """Who asks for a change. `everywhere`: of the tenant whose admins manage all tenants."""

    caller: Caller
    everywhere: bool

    @property
    def name(self) -> str:
        """For the record."""
        return f"{self.caller.tenant.id}/{self.caller.identity.principal}"

    def manages(self, tenant: str) -> bool:
        """Whether a tenant is this one's to manage."""
        return self.everywhere or tenant == self.caller.tenant.id


class Administration:
    """What all parts of the admin API need."""

    def __init__(self, store: AccessStore, feed: Feed, grants: Grants, *, admin_tenant: str = "") -> None:
        """`admin_tenant`: its admins manage all tenants; empty, where everybody manages only the own one."""
        self.snapshot = feed.snapshot
        self.grants = grants
        self._store = store
        self._feed = feed
        self._admin_tenant = admin_tenant

    def admin(self, caller: Caller) -> Admin:
        """Raises a 403 when the caller is none."""
        caller.require("admin")
        return Admin(caller, bool(self._admin_tenant) and caller.tenant.id == self._admin_tenant)

    def tenant(self, admin: Admin, tenant_id: str, now: float) -> Tenant:
        """A tenant with the limits in force. Raises a 403 for those of others, whether they exist or not."""
        if not admin.manages(tenant_id):
            message = f"This key manages the tenant `{admin.caller.tenant.id}` and no other."
            raise ApiError(403, message, code="not_permitted")
        tenant = self.grants.tenant(tenant_id, now)
        if tenant is None:
            raise ApiError(404, f"There is no tenant `{tenant_id[:64]}`.", code="not_found")
        return tenant

    async def look(self) -> None:
        """Takes over what others have changed. Raises a 503 when that cannot be known."""
        if not await self._feed.look():
            raise _store_lost()

    async def write(self, kind: Kind, field: str, value: bytes | None, expected: bytes | None = ANYTHING) -> None:
        """Writes one entry, in force here at once. Raises a 409 when another admin was quicker, and a 503."""
        try:
            written = await self._store.write(kind, field, value, expected=expected)
        except StoreFull:
            message = "This installation holds as many keys and limits of this kind as it may."
            raise ApiError(409, message, code="too_many_entries") from None
        except StoreLost:
            raise _store_lost() from None
        await self._feed.look()
        if not written:
            message = "Somebody else changed it at the same moment. Look at it again, and repeat the change."
            raise ApiError(409, message, code="changed_meanwhile")

    def record(self, action: str, admin: Admin, tenant: str, **facts: object) -> None:
        """Notes a change in the audit log: who, what, whose. `facts` hold no secrets."""
        audit.info("access changed", extra={"action": action, "admin": admin.name, "tenant": tenant, **facts})


def _store_lost() -> ApiError:
    message = (
        "The store of keys and limits does not answer. What was asked for may have happened: look before you retry."
    )
    return ApiError(503, message, code="access_store_unavailable", headers=retry_after(1))
