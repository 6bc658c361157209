"""Settings of the SQL tool."""

from pathlib import Path

from pydantic import Field

from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """See ServerSettings for those that every service has."""

    tenants_dir: Path = Field(default=Path("tenants"), description="Folder of the tenants' YAML files.")
    secrets_dir: Path = Field(
        default=Path("secrets"), description="Folder of the files that hold the reader roles' DSNs, one DSN a file."
    )
    statement_timeout_seconds: float = Field(
        default=5, gt=0, le=300, description="Time that a statement may take; the caller's deadline may shorten it."
    )
    max_cost: float = Field(
        default=1e6, gt=0, description="Ceiling of the planner's total cost; dearer statements are refused unrun."
    )
    default_rows: int = Field(default=200, ge=1, le=1000, description="Rows of an answer when the caller names none.")
    max_result_bytes: int = Field(
        default=1024 * 1024, ge=1024, le=16 * 1024 * 1024, description="Size of an answer's values; the rest is cut."
    )
    max_cell_bytes: int = Field(
        default=64 * 1024, ge=64, le=16 * 1024 * 1024, description="Size of one value, in text form; the rest is cut."
    )
    pool_size: int = Field(default=4, ge=1, le=100, description="Connections to a tenant's database, at most.")
    connect_timeout_seconds: float = Field(
        default=3, gt=0, le=60, description="Time to open a connection, or to wait for a free one."
    )
    catalog_seconds: float = Field(
        default=60, ge=0, le=3600, description="How long tables, columns and the role's rights are remembered."
    )
    description_tokens: int = Field(
        default=2000, ge=100, le=32000, description="Size of the schema's description when the caller names none."
    )
    refuse_start_on_excess: bool = Field(
        default=True,
        description="End when a tenant's role may do more than read. False: only that tenant is refused.",
    )
    review_max_age_days: int = Field(
        default=365,
        ge=0,
        description="Verified queries reviewed longer ago are logged and counted; they still run. 0: off.",
    )
    tool_cache_address: str = Field(
        default="", description="`host:port` of tool_cache, told of changed tables. Empty: nobody listens for changes."
    )
