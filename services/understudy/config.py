"""Settings of the understudy. It serves HTTP only, so what is about gRPC has no effect here."""

from pydantic import Field, SecretStr

from services.runtime.settings import ServerSettings


class Settings(ServerSettings):
    """Each field is the environment variable `SABUESO_` + its name in capitals."""

    port: int = Field(default=8000, ge=0, le=65535, description="Port of the HTTP API and of /metrics.")
    metrics_port: int = Field(
        default=0, ge=0, le=65535, description="A second port for the process's own metrics; 0 turns it off."
    )
    identity_secret: SecretStr = Field(
        default=SecretStr(""), description="Not used: the understudy knows no tenants, as vLLM knows none."
    )
    model_name: str = Field(
        default="meta-llama/Llama-3.1-70B-Instruct", min_length=1, description="Name that it is served under."
    )
    latency_profile: str = Field(
        default="instant",
        pattern="^(instant|h100-tp4|h100-tp2)$",
        description="Timing of the answers: `instant`, or that of 4 (`h100-tp4`) or 2 (`h100-tp2`) H100.",
    )
    max_running: int = Field(default=64, ge=1, le=4096, description="Requests worked on at a time; others wait.")
    max_waiting: int = Field(
        default=1024, ge=0, le=65536, description="Requests that may wait; more are refused with 503."
    )
    max_model_len: int = Field(
        default=131_072, ge=256, le=10_000_000, description="Ceiling of prompt and answer together, in tokens."
    )
