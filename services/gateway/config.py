"""Settings of the gateway."""

from pathlib import Path
from typing import Literal

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
    limiter_lease_seconds: float = Field(
        default=30, ge=0.3, le=3600, description="Time after which a process that died holds no concurrency any more."
    )
    valkey_cluster: bool = Field(
        default=False, description="`SABUESO_VALKEY_URL` is a node of a cluster; limits of one tenant share a slot."
    )
    reserved_output_tokens: int = Field(
        default=1024, ge=0, le=1_000_000, description="Tokens set aside for an answer whose request names no maximum."
    )
    reserved_agent_tokens: int = Field(
        default=500, ge=0, le=1_000_000, description="Tokens set aside for a question to the agent."
    )
    body_timeout_seconds: float = Field(
        default=60, gt=0, le=3600, description="Time for the whole body of a request to a model; 408 after it."
    )
    # Access.
    admin_tenant: str = Field(
        default="",
        pattern=r"^([a-z0-9][a-z0-9_-]{0,63})?$",
        description="Tenant whose keys with the scope `admin` manage all tenants; empty: each manages its own only.",
    )
    # Tools API (MCP)
    mcp_session_seconds: int = Field(
        default=86_400, ge=60, le=2_592_000, description="Life of an MCP session; clients open a new one by themselves."
    )
    mcp_call_seconds: float = Field(default=60, gt=0, le=600, description="Longest wait for one tool called by MCP.")
    mcp_max_streams: int = Field(
        default=100, ge=0, le=100_000, description="MCP streams of one tenant that listen for changed tools."
    )
    mcp_allowed_hosts: str = Field(
        default="",
        description="`Host` headers that `/mcp` answers to, `name:port` or `name:*`, separated by commas; empty: any.",
    )
    mcp_allowed_origins: str = Field(
        default="", description="Origins of web pages that may call `/mcp`, besides the gateway's own; with commas."
    )
    # Model pools
    pools_file: Path | None = Field(
        default=None, description="YAML file of several model pools; it takes the place of the `MODEL_` settings."
    )
    model_dns: bool = Field(
        default=False, description="Every address of the host in `SABUESO_MODEL_URL` is a replica (headless service)."
    )
    model_max_in_flight: int = Field(
        default=256, ge=1, le=100_000, description="Requests at one replica at the same time; others wait."
    )
    queue_most_waiting: int = Field(
        default=1000, ge=0, le=1_000_000, description="Requests that may wait for a pool, of all tenants."
    )
    queue_most_waiting_per_tenant: int = Field(default=100, ge=1, le=1_000_000, description="And of one tenant.")
    queue_seconds: float = Field(default=30, gt=0, le=600, description="Longest wait for a place at a model.")
    max_runs: int = Field(
        default=256, ge=1, le=100_000, description="Answers of the agent that are worked on at the same time."
    )
    # Guard, traces and logs
    pii_analyzer: Literal["builtin", "presidio"] = Field(
        default="builtin",
        description="What recognises personal data; `presidio` finds names too and needs the group `pii`.",
    )
    genai_semconv: Literal["1.36", "1.41", "genai-0.1"] = Field(
        default="genai-0.1", description="Version of OpenTelemetry's conventions for generative AI that spans follow."
    )
    trace_content: bool = Field(
        default=False, description="Put prompts and answers into spans. They leave the building with the traces."
    )
    access_log: bool = Field(default=True, description="Log a line of JSON for each request, without its words.")
    # Streams
    stream_keep_alive_seconds: float = Field(
        default=15, gt=0, le=600, description="Silence of a model after which its stream gets a comment."
    )
    shutdown_notice_seconds: float = Field(
        default=1,
        ge=0,
        le=300,
        description="Between `not ready` and closed doors, before the grace; load balancers look elsewhere meanwhile.",
    )

    # Feedback on answers
    feedback_entries: int = Field(
        default=100_000, ge=1, le=10_000_000, description="Feedback that is kept of a tenant; the oldest goes first."
    )
    feedback_retention_days: int = Field(default=180, ge=1, le=3650, description="How long feedback is kept.")
