"""The tenants' files: one YAML a tenant, read by every service that needs a part of it, reloaded when it changes."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Mapping
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from services.runtime import tasks, yaml_files
from services.runtime.settings import WrongSetting

log = logging.getLogger(__name__)

Label = Annotated[str, Field(pattern=r"^(\*|[\w.@-][\w.:@ -]{0,99})$")]
_TOOLS = ("vector_search", "sql_query", "web_search", "calculate")
# The tools whose call is one free text; what is said in SQL or in a URL is never nearly the same.
_SEMANTIC_TOOLS = ("vector_search", "web_search")
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Scope = Literal["agent", "models", "search", "documents", "tools", "data", "admin"]
SCOPES: tuple[Scope, ...] = ("agent", "models", "search", "documents", "tools")


class Ceilings(_Part):
    """Limits of one model or one key, within those of the tenant. 0 means none of its own."""

    requests_per_minute: int = Field(default=0, ge=0, description="Requests a minute.")
    tokens_per_minute: int = Field(default=0, ge=0, description="Model tokens a minute.")
    concurrent_requests: int = Field(default=0, ge=0, description="Requests at the same time.")
    daily_tokens: int = Field(default=0, ge=0, description="Model tokens a day (UTC).")


class Key(_Part):
    """An API key of the tenant; only its SHA-256 is kept."""

    id: Name = Field(description="Name of the key, for logs and rotation.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the key, in hex.")
    prefix: str = Field(default="", max_length=24, description="Its first characters, to recognise it by.")
    scopes: tuple[Scope, ...] = Field(
        default=SCOPES,
        description="What the key may do: `tools` calls single ones, `data` reports loads, `admin` manages keys.",
    )
    models: tuple[str, ...] = Field(default=("*",), description="Served model names, within the tenant's; `*` is all.")
    limits: Ceilings = Ceilings()
    expires_at: datetime | None = Field(default=None, description="From then on it opens nothing (ISO 8601).")
    labels: tuple[Label, ...] = Field(
        default=(),
        description="Opens documents that bear one of these, `*` every one; those without are open to all.",
    )


LimitName = Literal["requests", "tokens", "concurrency", "daily_tokens"]
StoreLoss = Literal["local", "open", "closed"]


class Limits(_Part):
    """Ceilings of a tenant. 0 means unlimited."""

    requests_per_minute: int = Field(default=600, ge=0, description="Requests a minute.")
    tokens_per_minute: int = Field(default=400_000, ge=0, description="Model tokens a minute.")
    concurrent_requests: int = Field(default=32, ge=0, description="Requests at the same time.")
    body_bytes: int = Field(default=20 * 1024 * 1024, ge=1, description="Size of one request.")
    daily_tokens: int = Field(default=0, ge=0, description="Model tokens a day (UTC).")
    models: Mapping[str, Ceilings] = Field(
        default_factory=dict[str, Ceilings],
        description="Limits of single models by served name, within the tenant's.",
    )
    on_store_loss: Mapping[LimitName, StoreLoss] = Field(
        default_factory=dict[LimitName, StoreLoss],
        description="While Valkey is lost: count a share in each gateway (`local`, the default), let pass, or refuse.",
    )


class Tool(_Part):
    """What a tenant says of one of the model's tools."""

    enabled: bool = True
    description: str = Field(default="", description="Replaces the default description.")
    cache_ttl_seconds: int = Field(
        default=300, ge=0, le=2_592_000, description="How long results are remembered; 0 is off."
    )
    semantic_similarity: float = Field(
        default=0,
        ge=0,
        le=1,
        description="Least cosine similarity at which the result of a question in other words serves; 0 is off.",
    )
    examples: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = Field(
        default=(), max_length=200, description="Questions that it answers, in the users' words: the router learns it."
    )


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


class Distribution(_Part):
    """How a Qdrant cluster spreads a collection; 0, and nothing for `on_disk`: as the retrieval service has it for all.

    Copies may change at any time; shards and `on_disk` of a collection with documents need a migration.
    """

    shard_number: int = Field(default=0, ge=0, le=256, description="Parts that may be on different nodes.")
    replication_factor: int = Field(default=0, ge=0, le=16, description="Copies of each part, on as many nodes.")
    write_consistency_factor: int = Field(
        default=0, ge=0, le=16, description="Copies that must have a write before it is acknowledged; 0: the majority."
    )
    on_disk: bool | None = Field(default=None, description="Vectors and graph are read from disk.")

    @model_validator(mode="after")
    def _enough_copies(self) -> "Distribution":
        if self.replication_factor and self.write_consistency_factor > self.replication_factor:
            raise ValueError("write_consistency_factor must not be above replication_factor: no write would succeed")
        return self


class Collection(_Part):
    """A set of documents that is created for the tenant."""

    description: str = ""
    language: str = Field(default="", pattern="^([a-z]{2})?$", description="Empty: each document says its own.")
    chunking: Chunking = Chunking()
    distribution: Distribution | None = Field(default=None, description="On a Qdrant cluster; nothing: as for all.")


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


ParameterType = Literal[
    "text", "integer", "numeric", "boolean", "date", "timestamp", "text[]", "integer[]", "numeric[]", "date[]"
]
ToolName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{2,63}$")]
Value = str | int | float | bool | date | tuple[str, ...] | tuple[int, ...] | tuple[float, ...] | tuple[date, ...]


class Parameter(_Part):
    """A parameter of a verified query. Those of a query fill $1, $2 and so on in the order of the file."""

    type: ParameterType
    description: str = Field(default="", description="Meaning and unit, for the model.")
    values: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="The only values, each with its synonyms: `active: [vigente, en vigor]`."
    )
    minimum: int | float | str | date | None = Field(
        default=None, description="Smallest number, or first day (ISO 8601)."
    )
    maximum: int | float | str | date | None = Field(
        default=None, description="Largest number, or last day (ISO 8601)."
    )
    default: Value | None = Field(default=None, description="Without one the parameter must be given.")


class Example(_Part):
    """A question that a verified query answers, with the arguments that answer it."""

    question: str = Field(min_length=1, max_length=500)
    arguments: Mapping[str, Value] = Field(default_factory=dict)


class VerifiedQuery(_Part):
    """A reviewed statement of the tenant: a tool of its own, with typed parameters."""

    description: str = Field(min_length=1, description="What it answers, when to use it and what it is NOT for.")
    sql: str = Field(min_length=1, description="One SELECT with $1, $2 … It passes the same guard as a model's.")
    parameters: Mapping[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")], Parameter] = Field(
        default_factory=dict
    )
    examples: tuple[Example, ...] = ()
    owner: str = Field(min_length=1, description="Who answers for it: a team or an address.")
    reviewed_on: date = Field(description="Day of the last review.")

    @model_validator(mode="after")
    def _examples_fit(self) -> "VerifiedQuery":
        for example in self.examples:
            if unknown := sorted(set(example.arguments) - set(self.parameters)):
                raise ValueError(f"examples: `{example.question}` names unknown parameters: {', '.join(unknown)}")
        return self


class SqlSource(_Part):
    """A database of the tenant."""

    name: Name = Field(default="main", description="Name for the model where a tenant has several sources.")
    description: str = Field(default="", description="What it holds, for the model; needed where there are several.")
    dsn_secret: str = Field(min_length=1, description="File in the secrets folder that holds the reader role's DSN.")
    replica_dsn_secrets: tuple[str, ...] = Field(
        default=(), description="Read replicas: asked in turn, and before `dsn_secret`, which serves when none answers."
    )
    replica_max_lag_seconds: float = Field(
        default=0,
        ge=0,
        le=86_400,
        description="A replica that is further behind, or cannot show how far, is not read, even when the primary is "
        "away. 0: any lag will do, but changes that were told of are waited for at the primary.",
    )
    database_schema: str = Field(default="public", alias="schema")
    tables: Mapping[str, Table] = Field(min_length=1)
    verified_queries: Mapping[ToolName, VerifiedQuery] = Field(default_factory=dict)
    audit_parameters: Literal["hashed", "plain", "none"] = Field(
        default="hashed", description="How the audit log holds the values of parameters."
    )


def _says_something(term: str) -> str:
    if sum(map(str.isalnum, term)) < 2:
        raise ValueError(f"`{term}` must have two letters or digits at least: it would stand for any query")
    return term


InternalTerm = Annotated[str, Field(max_length=200), AfterValidator(_says_something)]


class Web(_Part):
    """What of the public web a tenant may reach."""

    sovereign: bool = Field(default=False, description="True: the web tool does not exist for this tenant.")
    allowed_domains: tuple[str, ...] = Field(default=(), description="Empty: all but the denied.")
    denied_domains: tuple[str, ...] = ()
    robots: bool = Field(default=True, description="Obey robots.txt.")
    internal_terms: tuple[InternalTerm, ...] = Field(
        default=(), description="Names and codes that must not leave in a query; `*` stands for any characters."
    )
    internal_data: Literal["refuse", "redact", "allow"] = Field(
        default="refuse",
        description="What becomes of a query that holds an internal term, or the identifier of a person or an account.",
    )


# What models take as a tool's name (OpenAI's rule).
_LONGEST_TOOL_NAME = 64
Pin = Annotated[
    str,
    Field(pattern=r"^([0-9a-f]{64})?$", description="SHA-256 of the tool as approved; `sabueso mcp pin` prints it."),
]


class McpServer(_Part):
    """A server of other people's tools (Model Context Protocol) that a tenant may use."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,30}$", description="Its tools are called `<name>__<tool>` by the model."
    )
    url: str = Field(
        default="",
        pattern=r"^(https?://[^\s/@?#]+(/[^\s#]*)?)?$",
        description="Where it is served (streamable HTTP); private addresses too. Redirects to other hosts fail.",
    )
    command: tuple[str, ...] = Field(
        default=(), description="In place of `url`: a program that speaks over stdio; needs SABUESO_MCP_STDIO."
    )
    token_secret: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,252})?$",
        description="File in the secrets folder with the bearer token; of a program: what `token_variable` is set to.",
    )
    token_variable: str = Field(
        default="", pattern=r"^([A-Z_][A-Z0-9_]{0,63})?$", description="Environment variable of a program."
    )
    tools: Mapping[Annotated[str, Field(min_length=1, max_length=128)], Pin] = Field(
        min_length=1, description="The tools that may be used, each with its pin; without one it waits for approval."
    )
    timeout_seconds: float = Field(default=10, gt=0, le=60, description="Time for one call.")
    max_result_chars: int = Field(default=24_000, ge=100, le=400_000, description="Longest result that is read.")
    enabled: bool = True

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> "McpServer":
        if bool(self.url) == bool(self.command):
            raise ValueError("name either `url` or `command`")
        if self.token_variable and not self.command:
            raise ValueError("`token_variable` is for programs; over HTTP the token is sent as `Authorization`")
        if self.token_secret and self.command and not self.token_variable:
            raise ValueError("say in `token_variable` where the program looks for its token")
        return self

    def tool_name(self, tool: str) -> str:
        """What the model calls a tool of this server."""
        return f"{self.name}__{re.sub('[^A-Za-z0-9_-]', '_', tool)}"


class Oidc(_Part):
    """An identity provider whose tokens (JWT) open this tenant in place of API keys."""

    issuer: str = Field(pattern=r"^https?://[^\s]+$", description="As `iss` says it, to the letter.")
    audience: str = Field(min_length=1, description="As `aud` says it.")
    jwks_url: str = Field(
        default="", pattern=r"^(https?://[^\s]+)?$", description="Its public keys; empty: its discovery document says."
    )
    algorithms: tuple[Literal["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"], ...] = Field(
        default=("RS256", "ES256"), min_length=1
    )
    tenant_claim: str = Field(default="tenant", min_length=1, description="The claim that names the tenant.")
    tenant_value: str = Field(default="", description="What it says for this tenant; empty: the tenant's id.")
    scope_claim: str = Field(default="", description="Claim with scopes; empty: `scopes` for everybody.")
    scopes: tuple[Scope, ...] = Field(default=SCOPES, description="What a token may do, at most.")
    labels_claim: str = Field(default="", description="Claim with the labels that its person holds; empty: none.")
    models: tuple[str, ...] = Field(default=("*",), description="Served model names, within the tenant's.")
    limits: Ceilings = Field(default=Ceilings(), description="Of each person (`sub`).")


class GuardSide(_Part):
    """What is looked for in what comes in, or in what goes out."""

    max_chars: int = Field(default=0, ge=0, description="Longest text; 0 is no limit of its own.")
    pii: Literal["off", "flag", "redact", "block"] = Field(
        default="off", description="Numbers and addresses of persons and accounts."
    )
    terms: tuple[InternalTerm, ...] = Field(default=(), description="Words that must not pass; `*` as in `web`.")
    injection: Literal["off", "flag", "block"] = Field(
        default="off", description="Texts that give orders to the model (input only)."
    )
    injection_score: float = Field(default=0.8, gt=0, le=1, description="From this score on.")


class Flow(_Part):
    """Allows what a kind of source says to go into the arguments of a tool, beyond what always may."""

    source: Literal["documents", "tables", "web", "external"] = Field(description="Where the run has read it.")
    tool: str = Field(min_length=1, max_length=128, description="Tool whose arguments it may go into; `*` is any.")
    allow: tuple[Literal["values", "addresses", "phrases"], ...] = Field(
        min_length=1, description="Short values; URLs, hosts and e-mail addresses; longer runs of words."
    )


class GuardTools(_Part):
    """What is done about text that tools bring in, and about what a model makes of it. All of it is untrusted."""

    injection: Literal["off", "scan", "redact", "block"] = Field(
        default="redact",
        description="Sentences that give orders to the model: told only, taken out, or with their whole source.",
    )
    injection_score: float = Field(default=0.8, gt=0, le=1, description="From this score on.")
    arguments: Literal["check", "off"] = Field(
        default="check", description="Calls whose arguments come from what tools returned are refused, but for `flows`."
    )
    flows: tuple[Flow, ...] = Field(default=(), max_length=100, description="What may go from where into which tool.")
    links: Literal["sources", "read", "all"] = Field(
        default="sources",
        description="Links of answers: to the sources that they cite, also to what the run has read, or to anywhere.",
    )
    images: bool = Field(default=False, description="Images in answers, under the same rule as links.")


class GuardDocuments(_Part):
    """What is looked for in documents when they are taken in."""

    injection: Literal["off", "flag", "block"] = Field(
        default="flag",
        description="Passages that give orders to a model: marked with a warning, or the whole document fails.",
    )
    injection_score: float = Field(default=0.8, gt=0, le=1, description="From this score on.")


class Guard(_Part):
    """What is checked: at the gateway's door, for the agent and for models alike, and of what tools bring in."""

    input: GuardSide = GuardSide()
    output: GuardSide = GuardSide()
    tools: GuardTools = GuardTools()
    documents: GuardDocuments = GuardDocuments()


class Evaluation(_Part):
    """Which of the tenant's answers are measured while people use them. Without it none ever leaves for that."""

    sample: float = Field(
        default=0,
        ge=0,
        le=1,
        description="Share of the answers, such as 0.05; 0 is none. By a hash of the answer's id.",
    )
    metrics: tuple[
        Literal["faithfulness", "answer_relevance", "context_precision", "context_precision_ranked", "completeness"],
        ...,
    ] = Field(default=("faithfulness", "answer_relevance"), description="What a judge measures; empty: nothing.")
    anonymise: bool = Field(
        default=True,
        description="Numbers and addresses of persons and accounts, and most names of persons, are taken out before "
        "they leave.",
    )


class Tenant(_Part):
    """All that one installation knows of one tenant."""

    id: Name
    keys: tuple[Key, ...] = ()
    oidc: tuple[Oidc, ...] = ()
    limits: Limits = Limits()
    priority: Literal["high", "normal", "low"] = Field(
        default="normal", description="Who is served first when requests wait for a model."
    )
    guard: Guard = Guard()
    models: tuple[str, ...] = Field(default=("*",), description="Served model names; `*` is all.")
    tools: Mapping[str, Tool] = Field(default_factory=dict)
    collections: Mapping[Name, Collection] = Field(default_factory=dict)
    sql: tuple[SqlSource, ...] = Field(default=(), description="One source, or a list of sources with names.")
    web: Web = Web()
    mcp: tuple[McpServer, ...] = Field(default=(), description="Servers of other people's tools.")
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="after")
    def _limits_match_something(self) -> "Tenant":
        for name in self.limits.models:
            if not any(fnmatchcase(name, pattern) for pattern in self.models):
                raise ValueError(f"limits.models: `{name}` is none of the tenant's models; its limit would never count")
        for key in self.keys:
            if key.expires_at is not None and key.expires_at.tzinfo is None:
                raise ValueError(f"keys: expires_at of `{key.id}` needs a time zone, such as 2027-01-01T00:00:00Z")
        return self

    @field_validator("sql", mode="before")
    @classmethod
    def _one_source_is_a_list(cls, value: object) -> object:
        if value is None:
            return ()
        return [cast(object, value)] if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _sources_can_be_told_apart(self) -> "Tenant":
        names = [source.name for source in self.sql]
        if len(set(names)) < len(names):
            raise ValueError(f"sql: source names must differ, not {', '.join(names)}")
        queries = [name for source in self.sql for name in source.verified_queries]
        if twice := sorted({name for name in queries if queries.count(name) > 1 or name in _TOOLS}):
            raise ValueError(f"sql: verified query names are taken: {', '.join(twice)}")
        return self

    def source(self, name: str = "") -> SqlSource | None:
        """The SQL source of that name; the first one where no name is given."""
        return next((source for source in self.sql if not name or source.name == name), None)

    @model_validator(mode="after")
    def _external_tools_can_be_told_apart(self) -> "Tenant":
        servers = [server.name for server in self.mcp]
        if len(set(servers)) < len(servers):
            raise ValueError(f"mcp: server names must differ, not {', '.join(servers)}")
        taken = {name: "a verified query" for source in self.sql for name in source.verified_queries}
        for server in self.mcp:
            for tool in server.tools:
                name = server.tool_name(tool)
                if len(name) > _LONGEST_TOOL_NAME:
                    raise ValueError(
                        f"mcp: `{name}` has {len(name)} characters; models take {_LONGEST_TOOL_NAME}. "
                        "Give the server a shorter name."
                    )
                if name in taken:
                    raise ValueError(f"mcp: `{tool}` of `{server.name}` would be `{name}`, as {taken[name]} is already")
                taken[name] = f"`{tool}` of `{server.name}`"
        return self

    @model_validator(mode="after")
    def _tools_are_known(self) -> "Tenant":
        queries = {name for source in self.sql for name in source.verified_queries}
        queries |= {server.tool_name(tool) for server in self.mcp for tool in server.tools}
        unknown = sorted(set(self.tools) - queries - set(_TOOLS))
        if unknown:
            known = ", ".join((*_TOOLS, *sorted(queries)))
            raise ValueError(f"tools: unknown {', '.join(unknown)}; known are {known}")
        exact = sorted(
            name for name, tool in self.tools.items() if tool.semantic_similarity and name not in _SEMANTIC_TOOLS
        )
        if exact:
            raise ValueError(f"tools: {', '.join(exact)}: results are exact, `semantic_similarity` must be 0")
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
        return yaml_files.read(path, Tenant)
    except yaml_files.WrongYaml as error:
        raise BadTenantFile(f"{path.name}: {error}") from None


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
        await tasks.end(self._watching)

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
