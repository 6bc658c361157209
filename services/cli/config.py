"""Where the command line finds the gateway, and with which key."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Read from the environment, then from the file that `make up` writes."""

    model_config = SettingsConfigDict(env_prefix="SABUESO_", env_file=".sabueso/env", extra="ignore", frozen=True)

    url: str = Field(default="http://127.0.0.1:8080", description="Address of the gateway, without /v1.")
    api_key: SecretStr = Field(default=SecretStr(""), description="API key of the tenant.")
    ca_file: str = Field(
        default="",
        description="PEM file of the authority that signed the gateway's certificate; empty: the usual ones.",
    )
