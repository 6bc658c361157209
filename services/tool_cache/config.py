"""Settings of the tool cache."""

from pydantic import Field

from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """Where results are remembered and how large they may be."""

    valkey_url: str = Field(
        default="redis://localhost:6379",
        pattern=r"^(rediss?|unix)://.+$|^memory:$",
        description="Valkey or Redis. `memory:` remembers in this process only.",
    )
    valkey_timeout_seconds: float = Field(
        default=0.25, gt=0, le=10, description="Time Valkey gets to answer; after that the caller goes on without."
    )
    valkey_connections: int = Field(default=32, ge=1, le=1024, description="Connections to Valkey at the same time.")
    max_value_bytes: int = Field(
        default=1024 * 1024, ge=1, le=16 * 1024 * 1024, description="Larger results are not stored."
    )
