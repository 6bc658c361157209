"""Settings of the tool cache."""

from pydantic import Field, SecretStr

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
    valkey_pause_seconds: float = Field(
        default=0.5, gt=0, le=60, description="After a failure Valkey is left alone for so long."
    )
    valkey_connections: int = Field(default=32, ge=1, le=1024, description="Connections to Valkey at the same time.")
    max_value_bytes: int = Field(
        default=1024 * 1024, ge=1, le=16 * 1024 * 1024, description="Larger results are not stored."
    )
    max_stored_bytes: int = Field(
        default=512 * 1024, ge=1, le=16 * 1024 * 1024, description="Nor are results that are larger when compressed."
    )
    lease_seconds: float = Field(
        default=15,
        ge=0.1,
        le=600,
        description="How long equal calls wait for one whose caller died. Longer than any tool may take.",
    )
    max_waiting: int = Field(
        default=256,
        ge=1,
        le=10_000,
        description="Calls that wait for another's result; more run their tool themselves.",
    )
    embedding_address: str = Field(
        default="localhost:50051", description="`host:port` of the embedding service, for near-equal questions."
    )
    semantic_timeout_seconds: float = Field(
        default=0.5, gt=0, le=10, description="Time to look for a near-equal question; after that it is a miss."
    )
    semantic_time_zone: str = Field(
        default="UTC", description="IANA time zone of `today` and `last month` in questions."
    )
    semantic_verifier_url: str = Field(
        default="",
        pattern=r"^(https?://.+)?$",
        description="OpenAI-compatible base URL of a model that confirms near-equal questions; empty: none. When it "
        "fails the question counts as another one.",
    )
    semantic_verifier_model: str = Field(default="", description="Its model name.")
    semantic_verifier_api_key: SecretStr = Field(default=SecretStr(""), description="Its key.")
    semantic_verifier_timeout_seconds: float = Field(default=1, gt=0, le=30, description="Time for its answer.")
