"""Where there is something to save: the same variables as the services have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Places(BaseSettings):
    """What is not said is neither saved nor restored. Read from the environment, then from what `make up` writes."""

    model_config = SettingsConfigDict(env_prefix="SABUESO_", env_file=".sabueso/env", extra="ignore", frozen=True)

    tenants_dir: Path | None = Field(default=None, description="Folder of the tenants' files.")
    vector_store: str = Field(
        default="",
        pattern=r"^(|edge:.+|qdrant:https?://.+)$",
        description="`qdrant:<url>` (its HTTP port) or `edge:<folder>`.",
    )
    qdrant_api_key: SecretStr = Field(default=SecretStr(""), description="Key of the Qdrant server.")
    valkey_url: SecretStr = Field(default=SecretStr(""), description="Valkey of gateways, orchestrators and ingestion.")
    spool_dir: Path | None = Field(default=None, description="Folder of ingestion for files that wait.")
    results_dsn: SecretStr = Field(default=SecretStr(""), description="PostgreSQL of evaluation's results.")

    @classmethod
    def read(cls, **said: str | Path | None) -> Self:
        """The environment's, with what was `said` on the command line in its place."""
        return cls(**{name: value for name, value in said.items() if value is not None})  # pyright: ignore[reportArgumentType]


def databases(places: Places, said: Mapping[str, str]) -> dict[str, str]:
    """DSN by name: `results`, where there is one, and those that were said."""
    results = places.results_dsn.get_secret_value()
    return ({"results": results} if results.startswith("postgres") else {}) | dict(said)
