"""Limits that replace those of the files for a while, and the views of them."""

from typing import Any

from services.gateway.access.administration import Admin, Administration
from services.gateway.access.grants import moment_of, seconds_of
from services.gateway.access.issuing import check_models
from services.gateway.access.oidc import entry_of
from services.gateway.access.records import Override, key_field
from services.gateway.access.views import LimitsView, OverrideView
from services.gateway.errors import ApiError
from services.runtime.tenants import Ceilings, Tenant, TenantDirectory


class Overriding:
    """Overrides of tenants and of keys. Only those who manage all tenants replace a tenant's own limits."""

    def __init__(self, administration: Administration, tenants: TenantDirectory) -> None:
        self._admin = administration
        self._tenants = tenants

    def show(self, tenant: Tenant, key_id: str | None, now: float) -> LimitsView:
        """Limits of a tenant, or of a key or person of it. Raises a 404."""
        if key_id is None:
            declared = self._tenants.all().get(tenant.id, tenant).limits
            effective, field = tenant.limits, tenant.id
        else:
            declared = self._declared(tenant, key_id)
            effective = self._admin.grants.in_force(tenant.id, key_id, declared, now)
            field = key_field(tenant.id, key_id)
        override = self._admin.snapshot.override(field)
        if override is not None and seconds_of(override.expires_at) <= now:
            override = None
        beginning = f"{tenant.id}/"
        fields = self._admin.snapshot.overrides() if key_id is None else ()
        return LimitsView(
            tenant=tenant.id,
            key=key_id,
            declared=declared,
            override=None if override is None else OverrideView(**override.model_dump()),
            effective=effective,
            keys_with_overrides=sorted(one.removeprefix(beginning) for one in fields if one.startswith(beginning)),
        )

    async def put(self, admin: Admin, tenant: Tenant, key_id: str | None, asked: dict[str, Any], now: float) -> None:
        """Replaces limits until `expires_at`, or until they are cleared. Raises 400, 403 and 404."""
        await self._admin.look()
        self._check(admin, tenant, key_id)
        override = Override(**asked, set_at=moment_of(now), set_by=admin.name)
        if seconds_of(override.expires_at) <= now:
            raise ApiError(400, "expires_at: it has passed.", code="invalid_field", param="expires_at")
        if key_id is not None:
            for name in ("body_bytes", "models"):
                if asked.get(name):
                    message = f"{name}: a key has no such limit; set it for the tenant."
                    raise ApiError(400, message, code="invalid_field", param=name)
        check_models(tenant, list(override.models))
        if not override.changes() and not override.models:
            raise ApiError(400, "body: it names no limit.", code="invalid_field")
        await self._admin.write("limits", _field(tenant, key_id), override.to_bytes())
        expires_at = None if override.expires_at is None else override.expires_at.isoformat()
        facts = {"key": key_id, "limits": override.changes(), "models": sorted(override.models)}
        self._admin.record("limits.set", admin, tenant.id, **facts, expires_at=expires_at)

    async def clear(self, admin: Admin, tenant: Tenant, key_id: str | None) -> None:
        """The limits of the file hold again. Raises 403 and 404."""
        await self._admin.look()
        self._check(admin, tenant, key_id)
        await self._admin.write("limits", _field(tenant, key_id), None)
        self._admin.record("limits.clear", admin, tenant.id, key=key_id)

    def _check(self, admin: Admin, tenant: Tenant, key_id: str | None) -> None:
        if key_id is not None:
            self._declared(tenant, key_id)
        elif not admin.everywhere:
            message = "A tenant's own limits are replaced only by who manages all tenants; you may limit its keys."
            raise ApiError(403, message, code="not_permitted")

    def _declared(self, tenant: Tenant, key_id: str) -> Ceilings:
        for key in tenant.keys:
            if key.id == key_id:
                return key.limits
        if (entry := entry_of(key_id, tenant.oidc)) is not None:
            return entry.limits
        if (issued := self._admin.snapshot.key(key_field(tenant.id, key_id))) is not None:
            return issued[0].limits
        raise ApiError(404, f"The tenant `{tenant.id}` has no key `{key_id[:64]}`.", code="not_found")


def _field(tenant: Tenant, key_id: str | None) -> str:
    return tenant.id if key_id is None else key_field(tenant.id, key_id)
