"""Settings of the evaluation service."""

from pathlib import Path

from pydantic import Field, SecretStr

from services.evaluation.online.config import OnlineSettings
from services.runtime.settings import ServerSettings


class Settings(ServerSettings, OnlineSettings):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Which sets are asked of which gateway, who judges, and where results are kept."""

    golden_dir: Path = Field(default=Path("golden"), description="Folder with a folder for each golden set.")
    gateway_url: str = Field(
        default="http://localhost:8080", pattern=r"^https?://[^\s]+$", description="The gateway that is asked."
    )
    gateway_keys_dir: Path = Field(
        default=Path("secrets"),
        description="Folder with each tenant's API key, `<tenant>.key`, and where wanted a DSN for expected SQL, "
        "`<tenant>.dsn`.",
    )
    runs_dir: Path = Field(default=Path("runs"), description="Folder for answers, scores and reports of runs.")
    results_dsn: SecretStr = Field(
        default=SecretStr("memory:"),
        description="PostgreSQL that keeps results, `postgresql://…`. `memory:` keeps them in this process only.",
    )
    run_gauge_tenants: str = Field(
        default="",
        pattern=r"^([a-z0-9][a-z0-9_-]*( *, *[a-z0-9][a-z0-9_-]*){0,49})?$",
        description="Tenants, at most 50, with commas between, of whose runs Prometheus is told with their name as the "
        "label `tenant`; of all others that label is empty.",
    )
    evaluation_concurrency: int = Field(default=4, ge=1, le=64, description="Questions of a run asked at a time.")
    max_waiting_runs: int = Field(default=4, ge=0, le=100, description="Runs of a tenant that wait; more are refused.")
    max_run_seconds: float = Field(
        default=4 * 3600, ge=1, le=7 * 24 * 3600, description="Time for a run; then it has failed."
    )
    judge_url: str = Field(
        default="", pattern=r"^(https?://.+)?$", description="OpenAI-compatible URL of the judge; empty: no judge."
    )
    judge_name: str = Field(default="", description="Name of the judging model.")
    judge_api_key: SecretStr = Field(default=SecretStr("none"), description="Its key.")
    judge_concurrency: int = Field(default=4, ge=1, le=256, description="Questions put to the judge at a time.")
    judge_calls_per_run: int = Field(default=20_000, ge=0, description="Calls of the judge for a run; 0: any number.")
    embedding_address: str = Field(
        default="localhost:50051", description="`host:port` of the embedding service, for answer relevance."
    )
