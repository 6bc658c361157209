"""What the admin API shows: keys without their secrets, limits as declared, replaced and in force."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from services.gateway.access.grants import moment_of, seconds_of
from services.gateway.access.records import IssuedKey, Secret
from services.gateway.access.snapshot import Snapshot
from services.runtime.tenants import Ceilings, Key, Limits, Scope, Tenant

State = Literal["active", "expired", "revoked"]


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class SecretView(_View):
    """One text that opens a key, by its first characters."""

    prefix: str = Field(description="Its first characters; empty, where the tenant's file does not say them.")
    source: Literal["file", "issued"]
    state: State
    created_at: datetime | None = None
    expires_at: datetime | None = None


class KeyView(_View):
    """A key. Its secrets are never shown again."""

    object: Literal["api_key"] = "api_key"
    tenant: str
    id: str
    source: Literal["file", "issued"] = Field(description="`file`: the tenant's file declares it.")
    state: State = Field(description="`active`, while one of its secrets opens it.")
    description: str = ""
    scopes: Sequence[Scope]
    models: Sequence[str]
    labels: Sequence[str]
    limits: Ceilings = Field(description="In force now, overrides included.")
    expires_at: datetime | None = None
    created_at: datetime | None = None
    created_by: str = ""
    revoked_at: datetime | None = None
    secrets: Sequence[SecretView]


class NewKeyView(KeyView):
    """A key with its new secret, which is shown here and never again."""

    key: str = Field(description="The secret. It is not kept: store it now.")


class KeyList(_View):
    """A page of keys."""

    object: Literal["list"] = "list"
    data: Sequence[KeyView]
    has_more: bool
    after: str | None = Field(description="Ask for the next page with `?after=` this.")


class OverrideView(_View):
    """Limits in place of those of the file."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None
    daily_tokens: int | None = None
    body_bytes: int | None = None
    models: Mapping[str, Ceilings] = {}
    expires_at: datetime | None = None
    set_at: datetime | None = None
    set_by: str = ""


class LimitsView(_View):
    """Limits of a tenant or of one of its keys."""

    object: Literal["limits"] = "limits"
    tenant: str
    key: str | None = None
    declared: Limits | Ceilings = Field(description="As the file, or whoever made the key, says.")
    override: OverrideView | None = Field(description="What replaces some of them for now.")
    effective: Limits | Ceilings = Field(description="In force now.")
    keys_with_overrides: Sequence[str] = Field(default=(), description="Keys of the tenant whose limits are replaced.")


class TenantView(_View):
    """A tenant in a list."""

    id: str
    priority: str
    models: Sequence[str]
    declared_key_count: int
    issued_key_count: int
    issuers: Sequence[str] = Field(description="Identity providers whose tokens open it.")
    limits: Limits = Field(description="In force now.")


class TenantDetails(_View):
    """All that a tenant's file says, without secrets."""

    model_config = ConfigDict(frozen=True, extra="allow")

    object: Literal["tenant"] = "tenant"
    id: str


class TenantUse(_View):
    """Limits and what is used of them, as GET /v1/usage says them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    object: Literal["usage"] = "usage"
    tenant: str
    exact: bool = Field(description="False while limits are counted in each process by itself.")


class FilesView(_View):
    """Whether the tenants' files can be used as they are now."""

    valid: bool
    reason: str | None = Field(default=None, description="File, field and reason; the last good state is in force.")
    failed_reloads: int


class TenantList(_View):
    """All tenants that the asker manages."""

    object: Literal["list"] = "list"
    data: Sequence[TenantView]
    files: FilesView | None = Field(description="Only for those who manage all tenants.")


def view_of(
    tenant: Tenant, key_id: str, limits: Ceilings, snapshot: Snapshot, issued: IssuedKey | None, now: float
) -> KeyView | None:
    """A key by its id, as the file and the snapshot say; None when neither knows it."""
    declared = next((key for key in tenant.keys if key.id == key_id), None)
    rights = declared or issued
    if rights is None or (declared is None and issued is not None and issued.declared):
        return None
    secrets = [*_of_file(declared, snapshot, now), *_of_record(issued, rights, now)]
    states = {secret.state for secret in secrets}
    revoked_at = issued.revoked_at if issued is not None else None
    if declared is not None and revoked_at is None:
        since = snapshot.revoked_since(declared.sha256)
        revoked_at = since if since is not None and states == {"revoked"} else None
    return KeyView(
        tenant=tenant.id,
        id=key_id,
        source="issued" if declared is None else "file",
        state="active" if "active" in states else "revoked" if "revoked" in states else "expired",
        description="" if issued is None else issued.description,
        scopes=rights.scopes,
        models=rights.models,
        labels=rights.labels,
        limits=limits,
        expires_at=rights.expires_at,
        created_at=None if issued is None or declared is not None else issued.created_at,
        created_by="" if issued is None or declared is not None else issued.created_by,
        revoked_at=revoked_at,
        secrets=secrets,
    )


def _of_file(declared: Key | None, snapshot: Snapshot, now: float) -> list[SecretView]:
    if declared is None:
        return []
    revoked, expires = seconds_of(snapshot.revoked_since(declared.sha256)), seconds_of(declared.expires_at)
    end = min(revoked, expires)
    state: State = "revoked" if revoked <= now else "expired" if expires <= now else "active"
    expires_at = None if end == float("inf") else moment_of(end)
    return [SecretView(prefix=declared.prefix, source="file", state=state, expires_at=expires_at)]


def _of_record(issued: IssuedKey | None, rights: Key | IssuedKey, now: float) -> list[SecretView]:
    if issued is None:
        return []
    return [_secret(secret, issued, seconds_of(rights.expires_at), now) for secret in issued.secrets]


def _secret(secret: Secret, issued: IssuedKey, key_expires: float, now: float) -> SecretView:
    end = min(seconds_of(secret.expires_at), key_expires)
    state: State = "revoked" if seconds_of(issued.revoked_at) <= now else "expired" if end <= now else "active"
    return SecretView(
        prefix=secret.prefix,
        source="issued",
        state=state,
        created_at=secret.created_at,
        expires_at=None if end == float("inf") else moment_of(end),
    )
