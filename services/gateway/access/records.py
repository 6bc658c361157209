"""What the admin API keeps: issued keys, revoked secrets and limits that replace those of the files for a while."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from services.runtime.tenants import SCOPES, Ceilings, Label, Limits, Name, Scope

Kind = Literal["keys", "revoked", "limits"]
KINDS: tuple[Kind, ...] = ("keys", "revoked", "limits")


def _with_zone(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("it needs a time zone, such as 2027-01-01T00:00:00Z")
    return value.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_with_zone)]


class _Record(BaseModel):
    # A newer gateway may have written more than this one knows.
    model_config = ConfigDict(frozen=True, extra="ignore")

    def to_bytes(self) -> bytes:
        """As it is stored; defaults are left out."""
        return self.model_dump_json(exclude_defaults=True).encode()


class Secret(_Record):
    """One text that opens a key. A key has two while it is rotated."""

    sha256: str
    prefix: str
    created_at: Moment
    expires_at: Moment | None = None


class IssuedKey(_Record):
    """A key that the admin API made, or further secrets of one that a tenant's file declares (`declared`)."""

    tenant: Name
    id: Name
    declared: bool = False
    description: str = ""
    scopes: tuple[Scope, ...] = SCOPES
    models: tuple[str, ...] = ("*",)
    limits: Ceilings = Ceilings()
    labels: tuple[Label, ...] = ()
    secrets: tuple[Secret, ...]
    expires_at: Moment | None = None
    created_at: Moment
    created_by: str = ""
    revoked_at: Moment | None = None

    @property
    def field(self) -> str:
        """Where it is kept."""
        return key_field(self.tenant, self.id)


class Revocation(_Record):
    """A secret that opens nothing from a moment on."""

    tenant: str
    key: str
    since: Moment
    by: str = ""


class Override(_Record):
    """Limits in place of those of the files, for a tenant or for one of its keys. None leaves a limit as it is."""

    requests_per_minute: int | None = Field(default=None, ge=0)
    tokens_per_minute: int | None = Field(default=None, ge=0)
    concurrent_requests: int | None = Field(default=None, ge=0)
    daily_tokens: int | None = Field(default=None, ge=0)
    body_bytes: int | None = Field(default=None, ge=1)
    models: Mapping[str, Ceilings] = Field(default_factory=dict[str, Ceilings])
    expires_at: Moment | None = None
    set_at: Moment | None = None
    set_by: str = ""

    def changes(self) -> dict[str, Any]:
        """The limits that it names."""
        names = ("requests_per_minute", "tokens_per_minute", "concurrent_requests", "daily_tokens", "body_bytes")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def of_tenant(self, limits: Limits) -> Limits:
        """`limits` with these in place."""
        return limits.model_copy(update={**self.changes(), "models": {**limits.models, **self.models}})

    def of_key(self, limits: Ceilings) -> Ceilings:
        """`limits` with these in place."""
        changes = {name: value for name, value in self.changes().items() if name in Ceilings.model_fields}
        return limits.model_copy(update=changes)


def key_field(tenant: str, key: str) -> str:
    """Where a key, or the override of its limits, is kept."""
    return f"{tenant}/{key}"
