"""The tenants' files: one YAML a tenant, read by every service that needs a part of it, reloaded when it changes."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from services.runtime.settings import WrongSetting

log = logging.getLogger(__name__)

Label = Annotated[str, Field(pattern=r"^(\*|[\w.@-][\w.:@ -]{0,99})$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Key(_Part):
    """An API key of the tenant; only its SHA-256 is kept."""

    id: Name = Field(description="Name of the key, for logs and rotation.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the key, in hex.")
    scopes: tuple[str, ...] = Field(
        default=("agent", "models", "search", "documents"), description="What the key may do."
    )
    labels: tuple[Label, ...] = Field(
        default=(),
        description="Opens documents that bear one of these, `*` every one; those without are open to all.",
    )


class Limits(_Part):
    """Ceilings of a tenant. 0 means unlimited."""

    requests_per_minute: int = Field(default=600, ge=0, description="Requests a minute.")
    tokens_per_minute: int = Field(default=400_000, ge=0, description="Model tokens a minute; not enforced yet.")
    concurrent_requests: int = Field(default=32, ge=0, description="Requests at the same time.")
    body_bytes: int = Field(default=20 * 1024 * 1024, ge=1, description="Size of one request.")
    daily_tokens: int = Field(default=0, ge=0, description="Model tokens a day; not enforced yet.")


class Tool(_Part):
    """What a tenant says of one of the model's tools."""

    enabled: bool = True
    description: str = Field(default="", description="Replaces the default description.")
    cache_ttl_seconds: int = Field(default=300, ge=0, description="How long results are remembered; 0 is off.")


class Chunking(_Part):
    """How documents are cut, in tokens of the embedding model; 0 means the default of ingestion."""

    strategy: Literal["structure", "fixed", "sentences", "recursive", "semantic", "code"] = "structure"
    max_tokens: int = Field(default=0, ge=0, le=8192, description="Largest passage.")
    min_tokens: int = Field(default=0, ge=0, le=8192, description="Smaller neighbours are joined up to this size.")
    overlap_tokens: int | None = Field(default=None, ge=0, le=4096, description="Repeated between neighbours.")
    parent_tokens: int = Field(default=0, ge=0, le=8192, description="Size of what is read in its place; 0: itself.")

    @model_validator(mode="after")
    def _overlap_fits(self) -> "Chunking":
        if self.max_tokens and self.overlap_tokens is not None and self.overlap_tokens >= self.max_tokens:
            raise ValueError("overlap_tokens must be smaller than max_tokens")
        return self


class Collection(_Part):
    """A set of documents that is created for the tenant."""

    description: str = ""
    language: str = Field(default="", pattern="^([a-z]{2})?$", description="Empty: each document says its own.")
    chunking: Chunking = Chunking()


class Column(_Part):
    """A column that may be read."""

    description: str = Field(default="", description="Meaning, for the model; name synonyms in both languages.")
    unit: str = Field(default="", description="Unit of a number, such as EUR.")
    values: Mapping[str, str] = Field(default_factory=dict, description="Values of an enumeration and their meaning.")
    references: str = Field(default="", pattern=r"^([a-z0-9_]+\.[a-z0-9_]+)?$", description="`table.column`.")


class Table(_Part):
    """A table that may be read; columns that are not listed may not."""

    description: str = ""
    columns: Mapping[str, Column] = Field(min_length=1)


class SqlSource(_Part):
    """The tenant's database."""

    dsn_secret: str = Field(min_length=1, description="File in the secrets folder that holds the reader role's DSN.")
    database_schema: str = Field(default="public", alias="schema")
    tables: Mapping[str, Table] = Field(min_length=1)


class Web(_Part):
    """What of the public web a tenant may reach."""

    sovereign: bool = Field(default=False, description="True: the web tool does not exist for this tenant.")
    allowed_domains: tuple[str, ...] = Field(default=(), description="Empty: all but the denied.")
    denied_domains: tuple[str, ...] = ()


class Tenant(_Part):
    """All that one installation knows of one tenant."""

    id: Name
    keys: tuple[Key, ...] = ()
    limits: Limits = Limits()
    models: tuple[str, ...] = Field(default=("*",), description="Served model names; `*` is all.")
    tools: Mapping[str, Tool] = Field(default_factory=dict)
    collections: Mapping[Name, Collection] = Field(default_factory=dict)
    sql: SqlSource | None = None
    web: Web = Web()

    @model_validator(mode="after")
    def _tools_are_known(self) -> "Tenant":
        unknown = sorted(set(self.tools) - {"vector_search", "sql_query", "web_search"})
        if unknown:
            raise ValueError(f"tools: unknown {', '.join(unknown)}; known are vector_search, sql_query, web_search")
        return self

    def tool(self, name: str) -> Tool:
        """What the tenant says of a tool, or the defaults."""
        return self.tools.get(name, Tool())


class BadTenantFile(WrongSetting):
    """A tenant's file cannot be used; the message names file, field and reason."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "SABUESO_TENANTS_DIR")


def load(directory: Path) -> dict[str, Tenant]:
    """All tenants by id. Raises BadTenantFile for the first file that is wrong, and when there is none."""
    tenants: dict[str, Tenant] = {}
    owners: dict[str, str] = {}
    for path in sorted(directory.glob("*.y*ml")):
        tenant = _load_one(path)
        if tenant.id in tenants:
            raise BadTenantFile(f"{path.name}: id: `{tenant.id}` is used by another file too")
        for key in tenant.keys:
            if key.sha256 in owners:
                raise BadTenantFile(f"{path.name}: keys: `{key.id}` is also a key of tenant `{owners[key.sha256]}`")
            owners[key.sha256] = tenant.id
        tenants[tenant.id] = tenant
    if not tenants:
        raise BadTenantFile(f"{directory}: no tenant file (*.yaml); set SABUESO_TENANTS_DIR")
    return tenants


def _load_one(path: Path) -> Tenant:
    try:
        return Tenant.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise BadTenantFile(f"{path.name}: line {line}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadTenantFile(f"{path.name}: it is not text in UTF-8") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise BadTenantFile(f"{path.name}: {where}: {first['msg']}") from None


class TenantDirectory:
    """The tenants as of now: reloads when a file changed, and keeps the last good state when the new one is wrong."""

    def __init__(self, directory: Path, *, look_seconds: float = 2) -> None:
        """`look_seconds`: time between two looks while it is watched. Raises BadTenantFile."""
        self._directory = directory
        self._look_seconds = look_seconds
        self._seen = self._fingerprint()
        self._tenants = load(directory)
        self._watching: asyncio.Task[None] | None = None
        self.failed_reloads = 0

    @property
    def version(self) -> str:
        """Changes with the files; part of cache keys."""
        return self._seen

    def reload(self) -> bool:
        """Reads the files again if they changed. True when new tenants are in force."""
        before = self._seen
        try:
            self._seen = self._fingerprint()
            if self._seen == before:
                return False
            self._tenants = load(self._directory)
        except BadTenantFile as error:
            self.failed_reloads += 1
            log.error("tenant files are wrong; the last good ones stay in force", extra={"reason": str(error)})
            return False
        except OSError as error:  # a file is being replaced just now, or the folder is away
            self._seen = before
            log.warning("tenant files cannot be read", extra={"reason": type(error).__name__})
            return False
        log.info("tenant files were read again")
        return True

    def watch(self) -> None:
        """Begins to reload every few seconds, in a task of its own, until `close`."""
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Watches no more."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            self.reload()

    def all(self) -> Mapping[str, Tenant]:
        """Every tenant by id."""
        return self._tenants

    def get(self, tenant_id: str) -> Tenant | None:
        """The tenant, or None."""
        return self._tenants.get(tenant_id)

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(self._directory.glob("*.y*ml")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()
