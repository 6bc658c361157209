"""The life of keys: made, changed, rotated, revoked."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from services.gateway.access.administration import Admin, Administration
from services.gateway.access.grants import moment_of, seconds_of
from services.gateway.access.records import IssuedKey, Revocation, Secret, key_field
from services.gateway.access.views import KeyView, view_of
from services.gateway.errors import ApiError
from services.runtime import api_keys
from services.runtime.api_keys import NewKey
from services.runtime.tenants import Ceilings, Key, Label, Scope, Tenant

MOST_KEYS_PER_TENANT = 10_000
_MOST_SECRETS = 4
# Keys that open nothing any more stay in lists for so long.
_REMEMBERED = timedelta(days=30)
_FORGOTTEN_AT_ONCE = 10


@dataclass(frozen=True)
class Rights:
    """What a new key is to be."""

    id: str
    description: str
    scopes: tuple[Scope, ...]
    models: tuple[str, ...]
    labels: tuple[Label, ...]
    limits: Ceilings
    expires_at: float


class Issuing:
    """Keys of tenants. Declared ones are changed in the tenant's file; here they are rotated and revoked."""

    def __init__(self, administration: Administration) -> None:
        self._admin = administration

    def keys_of(self, tenant: Tenant, now: float) -> Sequence[KeyView]:
        """All keys of a tenant by id."""
        issued = {key.id: key for key in self._admin.snapshot.keys_of(tenant.id)}
        ids = sorted({*issued, *(key.id for key in tenant.keys)})
        return [view for id_ in ids if (view := self._view(tenant, id_, issued.get(id_), now)) is not None]

    def key(self, tenant: Tenant, key_id: str, now: float) -> KeyView:
        """One key. Raises a 404."""
        found = self._admin.snapshot.key(key_field(tenant.id, key_id))
        view = self._view(tenant, key_id, None if found is None else found[0], now)
        if view is None:
            raise ApiError(404, f"The tenant `{tenant.id}` has no key `{key_id[:64]}`.", code="not_found")
        return view

    async def create(self, admin: Admin, tenant: Tenant, rights: Rights, now: float) -> NewKey:
        """Makes a key. Raises a 409 when there is one of that name."""
        await self._admin.look()
        check_models(tenant, rights.models)
        if rights.expires_at <= now:
            raise ApiError(400, "expires_at: it has passed.", code="invalid_field", param="expires_at")
        if self._declared(tenant, rights.id) or self._admin.snapshot.key(key_field(tenant.id, rights.id)):
            message = f"id: there is, or was, a key `{rights.id}`; what is counted for one must not be another's."
            raise ApiError(409, message, code="already_exists", param="id")
        await self._make_room(tenant, now)
        new = api_keys.mint()
        issued = IssuedKey(
            tenant=tenant.id,
            secrets=(_secret(new, now),),
            created_at=moment_of(now),
            created_by=admin.name,
            **{**rights.__dict__, "expires_at": _moment_or_none(rights.expires_at)},
        )
        await self._admin.write("keys", issued.field, issued.to_bytes(), None)
        scopes = list(issued.scopes)
        self._admin.record("key.create", admin, tenant.id, key=issued.id, prefix=new.prefix, scopes=scopes)
        return new

    async def update(self, admin: Admin, tenant: Tenant, key_id: str, changes: dict[str, Any], now: float) -> None:
        """Sets fields of an issued key. Raises 404, and 409 for keys of files."""
        await self._admin.look()
        self.key(tenant, key_id, now)
        if self._declared(tenant, key_id):
            message = (
                "The tenant's file declares this key: change it there. Limits can be replaced by /v1/admin/limits."
            )
            raise ApiError(409, message, code="declared_in_file")
        check_models(tenant, changes.get("models", ()))
        found = self._admin.snapshot.key(key_field(tenant.id, key_id))
        assert found is not None
        issued, stored = found
        changed = IssuedKey.model_validate({**issued.model_dump(), **changes})
        await self._admin.write("keys", issued.field, changed.to_bytes(), stored)
        self._admin.record("key.update", admin, tenant.id, key=key_id, changed=sorted(changes))

    async def rotate(self, admin: Admin, tenant: Tenant, key_id: str, overlap_seconds: int, now: float) -> NewKey:
        """Gives a key a new secret; those before open it for `overlap_seconds` more. Raises 404 and 409."""
        await self._admin.look()
        view, declared = self.key(tenant, key_id, now), self._declared(tenant, key_id)
        if view.state != "active":
            message = f"The key is {view.state}: nothing can take over from it. Make another one."
            raise ApiError(409, message, code=f"key_{view.state}")
        found = self._admin.snapshot.key(key_field(tenant.id, key_id))
        before = () if found is None or found[0].revoked_at else found[0].secrets
        kept = [secret for secret in before if seconds_of(secret.expires_at) > now]
        if len(kept) >= _MOST_SECRETS:
            message = f"It has {len(kept)} secrets that still work; wait until one has expired, or revoke the key."
            raise ApiError(409, message, code="too_many_secrets")
        end = now + overlap_seconds
        new = api_keys.mint()
        kept = [_ending(secret, end) for secret in kept]
        issued, stored = (_companion(admin, tenant, key_id, now), None) if found is None else found
        secrets = (*kept, _secret(new, now))
        changed = issued.model_copy(update={"secrets": secrets, "revoked_at": None})
        await self._admin.write("keys", issued.field, changed.to_bytes(), stored)
        if declared is not None:
            await self._end(admin, tenant, declared, end)
        facts = {"key": key_id, "prefix": new.prefix, "overlap_seconds": overlap_seconds}
        self._admin.record("key.rotate", admin, tenant.id, **facts)
        return new

    async def revoke(self, admin: Admin, tenant: Tenant, key_id: str, now: float) -> None:
        """From now on nothing opens the key. Raises a 404."""
        await self._admin.look()
        self.key(tenant, key_id, now)
        if (declared := self._declared(tenant, key_id)) is not None:
            await self._end(admin, tenant, declared, now)
        if (found := self._admin.snapshot.key(key_field(tenant.id, key_id))) is not None:
            issued, stored = found
            if issued.revoked_at is None:
                changed = issued.model_copy(update={"revoked_at": moment_of(now)})
                await self._admin.write("keys", issued.field, changed.to_bytes(), stored)
        self._admin.record("key.revoke", admin, tenant.id, key=key_id)

    async def _end(self, admin: Admin, tenant: Tenant, declared: Key, end: float) -> None:
        """A secret of a file opens nothing from `end` on."""
        if seconds_of(self._admin.snapshot.revoked_since(declared.sha256)) <= end:
            return
        revocation = Revocation(tenant=tenant.id, key=declared.id, since=moment_of(end), by=admin.name)
        await self._admin.write("revoked", declared.sha256, revocation.to_bytes())

    async def _make_room(self, tenant: Tenant, now: float) -> None:
        if self._admin.snapshot.count_of(tenant.id) < MOST_KEYS_PER_TENANT:
            return
        dead = list(_dead(self._admin.snapshot.keys_of(tenant.id), now - _REMEMBERED.total_seconds()))
        for key in dead[:_FORGOTTEN_AT_ONCE]:
            await self._admin.write("keys", key.field, None)
        if not dead:
            message = f"The tenant has {MOST_KEYS_PER_TENANT} keys, and may have no more."
            raise ApiError(409, message, code="too_many_keys")

    def _view(self, tenant: Tenant, key_id: str, issued: IssuedKey | None, now: float) -> KeyView | None:
        limits = self._admin.grants.limits_of(tenant, key_id, now)
        return view_of(tenant, key_id, limits, self._admin.snapshot, issued, now)

    def _declared(self, tenant: Tenant, key_id: str) -> Key | None:
        return next((key for key in tenant.keys if key.id == key_id), None)


def check_models(tenant: Tenant, models: Sequence[str]) -> None:
    """Raises a 400 for a model that the tenant may not call: what is said of it would never count."""
    for name in models:
        is_pattern = any(sign in name for sign in "*?[")
        if not is_pattern and not any(fnmatchcase(name, pattern) for pattern in tenant.models):
            message = f"models: `{name[:100]}` is none of the tenant's models."
            raise ApiError(400, message, code="invalid_field", param="models")


def _companion(admin: Admin, tenant: Tenant, key_id: str, now: float) -> IssuedKey:
    return IssuedKey(
        tenant=tenant.id, id=key_id, declared=True, secrets=(), created_at=moment_of(now), created_by=admin.name
    )


def _secret(new: NewKey, now: float) -> Secret:
    return Secret(sha256=new.sha256, prefix=new.prefix, created_at=moment_of(now))


def _ending(secret: Secret, end: float) -> Secret:
    return secret.model_copy(update={"expires_at": moment_of(min(seconds_of(secret.expires_at), end))})


def _moment_or_none(seconds: float) -> Any:
    return None if seconds == float("inf") else moment_of(seconds)


def _dead(keys: Iterable[IssuedKey], before: float) -> Iterator[IssuedKey]:
    for key in keys:
        if min(seconds_of(key.revoked_at), seconds_of(key.expires_at)) < before:
            yield key
