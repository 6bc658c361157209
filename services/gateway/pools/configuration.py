"""The pools' file: which model servers there are, and how they are to be treated."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from services.runtime import yaml_files
from services.runtime.settings import WrongSetting

AGENT = "sabueso"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _server_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("it must look like http://host:port/v1")
    if parts.username is not None:
        raise ValueError("a credential belongs into `api_key_file`")
    _ = parts.port  # raises ValueError on one that is no port
    return url.rstrip("/")


Url = Annotated[str, AfterValidator(_server_url)]
ModelName = Annotated[str, Field(min_length=1, max_length=200)]


class ReplicaAddress(_Part):
    """One model server."""

    url: Url = Field(description="OpenAI-compatible server, with its `/v1`.")
    weight: float = Field(default=1, gt=0, le=1000, description="Its share, compared with the others.")


class Timeouts(_Part):
    """Each phase has its own; a stream that goes on is never ended."""

    connect_seconds: float = Field(default=2, gt=0, le=60)
    first_token_seconds: float = Field(default=120, gt=0, le=3600, description="Streams: until the first content.")
    idle_seconds: float = Field(default=120, gt=0, le=3600, description="Streams: longest silence after that.")
    total_seconds: float = Field(default=600, gt=0, le=7200, description="Answers in one piece: until their end.")


class Retries(_Part):
    """Only before the first byte went to the client, and on another replica."""

    most: int = Field(default=2, ge=0, le=10, description="Further attempts of one request.")
    budget: float = Field(default=0.2, ge=0, le=1, description="Retries as a part of all requests.")


class Health(_Part):
    """How a replica is watched, and when it is left alone for a while."""

    path: str = Field(default="/health", pattern="^/", description="Answers 2xx while the server is well.")
    interval_seconds: float = Field(default=5, gt=0, le=300, description="Between two probes.")
    timeout_seconds: float = Field(default=2, gt=0, le=60)
    load_interval_seconds: float = Field(default=1, gt=0, le=60, description="Between two looks at its /metrics.")
    failures: int = Field(default=3, ge=1, le=100, description="Failures in a row that eject it.")
    ejection_seconds: float = Field(default=5, gt=0, le=600, description="The first time; doubles up to ten times it.")


class Shedding(_Part):
    """When fewer requests than `max_in_flight` are sent, so that a replica does not drown in its own queue."""

    waiting: int = Field(default=8, ge=0, description="Requests that wait inside the server; 0 turns it off.")
    first_token_multiple: float = Field(
        default=8, ge=0, description="Time to the first token, compared with its best; 0 turns it off."
    )
    first_token_floor_seconds: float = Field(default=2, ge=0, description="Quicker ones are never too slow.")


class PoolConfiguration(_Part):
    """Replicas that serve the same models."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="For metrics and logs.")
    replicas: tuple[ReplicaAddress, ...] = ()
    dns: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9._-]+:\d{1,5})?$",
        description="`name:port` of a headless service: every address of the name is a replica.",
    )
    dns_url: str = Field(
        default="http://{}/v1", pattern=r"^https?://\{\}(/.*)?$", description="URL of one of those addresses."
    )
    dns_interval_seconds: float = Field(default=10, gt=0, le=600)
    api_key_file: Path | None = Field(default=None, description="File with the key that the servers ask for.")
    models: tuple[ModelName, ...] = Field(default=(), description="Served names; empty: the servers are asked.")
    aliases: Mapping[ModelName, ModelName] = Field(
        default_factory=dict[str, str], description="Further names, each of a served one."
    )
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    hedge_after_ms: int = Field(
        default=0, ge=0, le=600_000, description="Ask a second replica after so much silence; 0 is never."
    )
    fallback: ModelName | None = Field(default=None, description="Model that answers when this pool cannot.")
    max_in_flight: int = Field(default=256, ge=1, le=100_000, description="Requests at one replica; others wait.")
    affinity: Literal["none", "prefix", "session"] = Field(
        default="prefix", description="`prefix`: prompts that begin alike meet the same replica's cache."
    )
    health: Health = Health()
    shedding: Shedding = Shedding()

    @model_validator(mode="after")
    def _has_servers(self) -> "PoolConfiguration":
        if bool(self.replicas) == bool(self.dns):
            raise ValueError("give either `replicas` or `dns`")
        urls = [replica.url for replica in self.replicas]
        if len(set(urls)) < len(urls):
            raise ValueError("replicas: the same url twice")
        return self


class PoolsFile(_Part):
    """All pools. A model that several serve is shared between them."""

    pools: tuple[PoolConfiguration, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_clear(self) -> "PoolsFile":
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError(f"pools: names must differ, not {', '.join(names)}")
        served = {model for pool in self.pools for model in pool.models}
        if AGENT in served or AGENT in self.aliases():
            raise ValueError(f"`{AGENT}` is the agent's name")
        for alias in self.aliases():
            if alias in served:
                raise ValueError(f"aliases: `{alias}` is a served model")
            if self.resolve(alias) in self.aliases():
                raise ValueError(f"aliases: `{alias}` leads in a circle")
        return self

    def aliases(self) -> dict[str, str]:
        """All of them; the first pool's where two give the same name."""
        return {alias: target for pool in reversed(self.pools) for alias, target in pool.aliases.items()}

    def resolve(self, model: str) -> str:
        """The served name behind an alias; other names as they are."""
        aliases = self.aliases()
        for _ in aliases:
            model = aliases.get(model, model)
        return model


class BadPoolsFile(WrongSetting):
    """The pools' file cannot be used; the message names the field and the reason."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "SABUESO_POOLS_FILE")


def load(path: Path) -> PoolsFile:
    """Reads the file. Raises BadPoolsFile."""
    try:
        return yaml_files.read(path, PoolsFile)
    except OSError as error:
        raise BadPoolsFile(f"{path.name}: it cannot be read: {error.strerror}") from None
    except yaml_files.WrongYaml as error:
        raise BadPoolsFile(f"{path.name}: {error}") from None


def fingerprint(path: Path) -> str:
    """Changes with the file's content. Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def key_of(pool: PoolConfiguration) -> str:
    """The key for the pool's servers; empty for none. Raises BadPoolsFile."""
    if pool.api_key_file is None:
        return ""
    try:
        key = pool.api_key_file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise BadPoolsFile(f"pools.{pool.name}.api_key_file: it cannot be read: {type(error).__name__}") from None
    if not key.isprintable():
        raise BadPoolsFile(f"pools.{pool.name}.api_key_file: a key is one line")
    return key
