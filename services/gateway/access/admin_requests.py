"""Bodies of the admin API."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from services.gateway.access.records import Moment
from services.runtime.tenants import SCOPES, Ceilings, Label, Name, Scope

# Above it the store's numbers would lose digits.
_MOST = 10**12
_Count = Annotated[int, Field(ge=0, le=_MOST)]
_Models = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(min_length=1, max_length=100)
]
_Scopes = Annotated[tuple[Scope, ...], Field(min_length=1)]
_Labels = Annotated[tuple[Label, ...], Field(max_length=200)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LimitCounts(_Request):
    """Limits of a key or model within those of the tenant; 0 is none of its own."""

    requests_per_minute: _Count = 0
    tokens_per_minute: _Count = 0
    concurrent_requests: _Count = 0
    daily_tokens: _Count = 0

    def ceilings(self) -> Ceilings:
        """As they are kept."""
        return Ceilings(**self.model_dump())


class NewKeyRequest(_Request):
    """A key to be made. Its secret is in the answer, and never shown again."""

    id: Name = Field(description="Name of the key: in logs, lists and counters. Never given twice.")
    description: str = Field(default="", max_length=200, description="For people: who uses it.")
    scopes: _Scopes = SCOPES
    models: _Models = Field(default=("*",), description="Served model names or patterns, within the tenant's.")
    labels: _Labels = Field(default=(), description="Opens documents that bear one of these, `*` every one.")
    limits: LimitCounts = LimitCounts()
    expires_at: Moment | None = Field(default=None, description="From then on it opens nothing.")


class KeyChanges(_Request):
    """Fields to be set; what is missing stays as it is."""

    description: str = Field(default="", max_length=200)
    scopes: _Scopes = SCOPES
    models: _Models = ("*",)
    labels: _Labels = ()
    limits: LimitCounts = LimitCounts()
    expires_at: Moment | None = Field(default=None, description="null: it does not expire.")


class RotateRequest(_Request):
    """How long the secret that there is goes on working."""

    overlap_seconds: int = Field(default=3600, ge=0, le=30 * 86_400)


class LimitsRequest(_Request):
    """Limits in place of those of the tenant's file; what is missing stays as the file says. 0 is unlimited."""

    requests_per_minute: _Count | None = None
    tokens_per_minute: _Count | None = None
    concurrent_requests: _Count | None = None
    daily_tokens: _Count | None = None
    body_bytes: int | None = Field(default=None, ge=1, le=1024**3)
    models: dict[str, LimitCounts] = Field(default_factory=dict[str, LimitCounts], max_length=100)
    expires_at: Moment | None = Field(default=None, description="The file's limits hold again from then on.")
