"""Settings of the gateway."""

from pathlib import Path

from pydantic import Field, SecretStr

from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """What an operator can set."""

    port: int = Field(default=8080, ge=0, le=65535, description="Port of the HTTP API.")
    orchestrator_address: str = Field(default="localhost:50051", description="Orchestrator, `host:port`.")
    retrieval_address: str = Field(default="localhost:50051", description="Retrieval, `host:port`.")
    ingestion_address: str = Field(default="localhost:50051", description="Ingestion, `host:port`.")
    embedding_address: str = Field(default="localhost:50051", description="Embedding, `host:port`.")
    reranking_address: str = Field(default="localhost:50051", description="Reranking, `host:port`.")
    web_tool_address: str = Field(default="localhost:50051", description="Web tool, `host:port`.")
    tool_cache_address: str = Field(default="localhost:50051", description="Tool cache, `host:port`.")
    valkey_url: str = Field(default="redis://localhost:6379", description="Valkey or Redis that counts the limits.")
    tenants_dir: Path = Field(default=Path(".sabueso/tenants"), description="Folder of the tenants' files.")
    model_url: str = Field(
        default="http://localhost:8000/v1",
        pattern="^https?://",
        description="OpenAI-compatible model pool, with its `/v1`.",
    )
    model_api_key: SecretStr = Field(
        default=SecretStr(""), description="Key that the model pool asks for; empty for none."
    )
    model_connect_timeout_seconds: float = Field(
        default=2, gt=0, le=60, description="Time to connect to the model pool."
    )
    model_read_timeout_seconds: float = Field(
        default=120, gt=0, le=3600, description="Longest silence of the model pool, before and within an answer."
    )
    answer_deadline_seconds: float = Field(
        default=60, gt=0, le=600, description="Time for an agent's answer when the caller sets no `deadline_ms`."
    )
    limiter_timeout_seconds: float = Field(
        default=0.25, gt=0, le=10, description="Longest wait for Valkey before a limit is counted in this process."
    )
    replica_count: int = Field(
        default=1, ge=1, le=1000, description="Gateways that share the limits; each grants its share if Valkey is lost."
    )
