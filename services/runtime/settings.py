"""Settings that every service has. Read once, at start, from the environment."""

import contextlib
import logging
import os
import sys
from collections.abc import Generator
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

log = logging.getLogger(__name__)

PREFIX = "SABUESO_"
_EX_CONFIG = 78  # of sysexits.h: a restart will not help


class WrongSetting(Exception):
    """What a setting names cannot be used: a model, a folder. The message says why; `setting` is the variable."""

    def __init__(self, message: str, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


@contextlib.contextmanager
def checked() -> Generator[None]:
    """Ends the process with status 78, and the reason in the log, when something inside raises WrongSetting."""
    try:
        yield
    except WrongSetting as error:
        log.error("a setting is wrong", extra={"setting": error.setting, "reason": str(error)})
        raise SystemExit(_EX_CONFIG) from None


class ServerSettings(BaseSettings):
    """Base class: each service adds its own fields. The environment variable is `SABUESO_` + the name in capitals."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field(default="[::]", description="Address to listen on; `127.0.0.1` for one machine.")
    port: int = Field(default=50051, ge=0, le=65535, description="Port of the service.")
    metrics_port: int = Field(default=9090, ge=0, le=65535, description="Port of /metrics; 0 turns it off.")
    identity_secret: SecretStr = Field(
        description="Shared by all services; signs the tenant in every call. 32 bytes or more."
    )
    identity_secret_fallbacks: SecretStr = Field(
        default=SecretStr(""),
        description="Further identity secrets that are believed, one a line, while one is replaced by another.",
    )
    shutdown_grace_seconds: float = Field(
        default=20, ge=0, le=3600, description="Time that running calls get after SIGTERM."
    )
    max_connection_age_seconds: float = Field(
        default=300, ge=1, le=86400, description="Age at which clients are asked to reconnect, to find new replicas."
    )
    log_level: str = Field(
        default="INFO",
        pattern="^(DEBUG|INFO|WARNING|ERROR)$",
        description="Least level that is logged. Prompts and documents are never logged.",
    )
    otlp_endpoint: str = Field(
        default="",
        pattern=r"^(https?://.+)?$",
        description="OpenTelemetry collector, such as `http://otel:4317`. Empty: no tracing.",
    )

    otlp_protocol: Literal["grpc", "http/protobuf"] = Field(
        default="grpc",
        description="How the collector is spoken to; Langfuse takes `http/protobuf` at `…/api/public/otel`.",
    )
    otlp_headers: SecretStr = Field(
        default=SecretStr(""),
        description="Headers for the collector, `name=value` with commas between, such as `Authorization=Basic …`.",
    )

    @classmethod
    def read(cls) -> Self:
        """Reads the environment; on a mistake prints each wrong variable and ends the process with status 78."""
        try:
            settings = cls()  # pyright: ignore[reportCallIssue]
            _refuse_unknown(cls)
            return settings
        except ValidationError as error:
            lines = [f"{PREFIX}{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors()]
        except ValueError as error:
            lines = [str(error)]
        for line in lines:
            print(f"settings: {line}", file=sys.stderr)
        raise SystemExit(_EX_CONFIG)


def _refuse_unknown(cls: type[BaseSettings]) -> None:
    """A misspelt variable would otherwise pass silently (pydantic-settings ignores what it does not know)."""
    known = {PREFIX + name.upper() for name in cls.model_fields}
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    if unknown:
        raise ValueError(f"unknown settings: {', '.join(unknown)}; known are: {', '.join(sorted(known))}")
