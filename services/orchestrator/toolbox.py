"""Puts together a tenant's tools: descriptions, the schema of its tables, its collections, what its file allows."""

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Generic, Protocol, TypeVar, cast

import yaml

from services.orchestrator.dispatch import ToolSet
from services.orchestrator.documents import Collection, DocumentQuery, Documents
from services.orchestrator.model import Message, Model, Spent
from services.orchestrator.query_transform import DocumentSearch, SearchPolicy, Transform
from services.orchestrator.query_writer import QueryWriter
from services.orchestrator.result_cache import FORMAT_VERSION
from services.orchestrator.results import Degraded, Found, Pages, Passages, Rows
from services.orchestrator.tools import (
    NAMES,
    SERVICES,
    Arguments,
    SqlQuery,
    Tool,
    VectorSearch,
    WebSearch,
    vector_search_of,
)
from services.runtime.errors import DeadlineExceeded, InvalidField, NotFound, ServiceError, Unauthenticated
from services.runtime.tenants import Tenant, TenantDirectory

Value = TypeVar("Value")

_LOOKUP_TIMEOUT_SECONDS = 2
_MAX_TENANTS = 1_000
# A service that did not answer is asked again after this time; until then its tool is missing at no cost.
_RETRY_SECONDS = 3


@dataclass(frozen=True)
class Schema:
    """The tables that may be read, as text for the model. `version` changes with them."""

    text: str
    version: str


class Database(Protocol):
    """Tables of the current tenant. Both methods raise ServiceError; NotFound when there are none."""

    async def query(self, sql: str, params_json: str, timeout_seconds: float) -> Rows: ...

    async def schema(self, timeout_seconds: float) -> Schema: ...


class Web(Protocol):
    """The public web. Raises ServiceError."""

    async def search(self, query: str, timeout_seconds: float) -> Pages: ...


@dataclass(frozen=True)
class _Searching:
    """How one run searches documents. `seconds` bound one call; `version` is what of it changes results."""

    search: DocumentSearch
    collections: tuple[str, ...]
    route: bool
    seconds: float
    version: tuple[object, ...]


@dataclass(frozen=True)
class ToolTimeouts:
    """Seconds that one call of a tool may take."""

    vector_search: float = 5
    sql_query: float = 8
    web_search: float = 10


class Recent(Generic[Value]):
    """Values by tenant that are asked for again when they are older than `ttl_seconds`, failures sooner."""

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl = ttl_seconds
        self._known: OrderedDict[str, tuple[float, Value | ServiceError]] = OrderedDict()

    async def get(self, tenant: str, load: Callable[[float], Awaitable[Value]], *, fresh: bool = False) -> Value:
        """The value of `tenant`; `fresh` asks in any case. Raises what `load` raises, as ServiceError."""
        until, value = self._known.get(tenant, (0.0, None))
        if fresh or value is None or until < time.monotonic():
            try:
                async with asyncio.timeout(_LOOKUP_TIMEOUT_SECONDS):
                    value, ttl = await load(_LOOKUP_TIMEOUT_SECONDS), self._ttl
            except TimeoutError:
                value, ttl = DeadlineExceeded("no answer in time", stage="toolbox"), _RETRY_SECONDS
            except ServiceError as error:
                value, ttl = error, _RETRY_SECONDS
            self._known[tenant] = time.monotonic() + ttl, value
            if len(self._known) > _MAX_TENANTS:
                self._known.popitem(last=False)
        if isinstance(value, ServiceError):
            raise value.with_traceback(None)  # it is raised again and again: the trail must not grow
        return value


def default_descriptions() -> Mapping[str, str]:
    """The texts of tools.yaml by tool name."""
    text = files("services.orchestrator").joinpath("tools.yaml").read_text(encoding="utf-8")
    return cast(dict[str, str], yaml.safe_load(text))


class Toolbox:
    """Makes the tools of a run."""

    def __init__(
        self,
        tenants: TenantDirectory,
        documents: Documents,
        database: Database,
        web: Web,
        *,
        model: Model,
        timeouts: ToolTimeouts,
        search: SearchPolicy | None = None,
        schema_ttl_seconds: float = 60,
        collections_ttl_seconds: float = 10,
    ) -> None:
        self._tenants = tenants
        self._documents = documents
        self._database = database
        self._web = web
        self._model = model
        self._timeouts = timeouts
        self._search = search or SearchPolicy(search_seconds=timeouts.vector_search)
        self._descriptions = default_descriptions()
        self._schemas = Recent[Schema](schema_ttl_seconds)
        self._collections = Recent[Sequence[Collection]](collections_ttl_seconds)

    async def open(
        self,
        tenant_id: str,
        *,
        collections: Sequence[str] = (),
        only: Sequence[str] = (),
        transform: Transform | None = None,
        history: Sequence[Message] = (),
        labels: Sequence[str] = (),
    ) -> ToolSet:
        """The tools of a tenant, in the order in which the model sees them.

        `transform`: None is the default of this service. `history`: what queries may lean on. `labels` open documents
        to the caller: results are remembered for callers with the same ones only.
        Raises Unauthenticated (tenant), InvalidField (`only` names what there is not) and NotFound (collection).
        """
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            raise Unauthenticated(f"There is no tenant `{tenant_id}`.")
        names = self._allowed(tenant, only)
        spent = Spent()
        policy = replace(self._search, transform=transform) if transform else self._search
        searching = _Searching(
            DocumentSearch(self._documents, QueryWriter(self._model, spent), policy, history),
            tuple(collections),
            policy.route,
            policy.seconds(history),
            (policy.transform.value, policy.rewrite, policy.route, sorted(labels)),
        )
        built = await asyncio.gather(*(self._built(tenant, name, searching) for name in names))
        tools = {tool.name: tool for tool in built if isinstance(tool, Tool)}
        lost = {name: gone for name, gone in zip(names, built, strict=True) if isinstance(gone, Degraded)}
        return ToolSet(tools, lost, spent)

    def _allowed(self, tenant: Tenant, only: Sequence[str]) -> list[str]:
        has = {"vector_search": True, "sql_query": tenant.sql is not None, "web_search": not tenant.web.sovereign}
        names = [name for name in NAMES if has[name] and tenant.tool(name).enabled]
        for wanted in only:
            if wanted not in names:
                raise InvalidField(
                    f"`{wanted}` is not a tool of this tenant; there are: {', '.join(names)}.", field="options.tools"
                )
        return [name for name in names if not only or name in only]

    async def _built(self, tenant: Tenant, name: str, searching: _Searching) -> Tool | Degraded | None:
        """The tool; why it is lost; or None when the tenant has nothing for it."""
        try:
            match name:
                case "vector_search":
                    return await self._vector_search(tenant, searching)
                case "sql_query":
                    return await self._sql_query(tenant)
                case _:
                    return self._web_search(tenant)
        except ServiceError as error:
            if isinstance(error, NotFound) and name == "sql_query":
                return None
            if isinstance(error, NotFound) and "collection" in error.metadata:
                raise
            return Degraded(SERVICES[name], error.message.rstrip("."))

    async def _vector_search(self, tenant: Tenant, searching: _Searching) -> Tool:
        known = await self._known(tenant, searching.collections)
        route = searching.route and not searching.collections and len(known) > 1

        async def call(arguments: VectorSearch, seconds: float) -> Found:
            one = (arguments.collection,) if arguments.collection else searching.collections
            query = DocumentQuery(arguments.query, arguments.top_k, one, route and not one)
            return await searching.search.find(query, seconds)

        collections = [[one.name, one.document_count, one.update_seconds] for one in known]
        tool = self._tool(
            tenant,
            "vector_search",
            call,
            arguments=vector_search_of(tuple(one.name for one in known)),
            result=Passages,
            appendix="\n".join(["Collections:", *map(_line, known)]) if known else "",
            data_version=json.dumps([searching.version, collections]),
        )

        def context(arguments: VectorSearch) -> str:
            return searching.search.context(arguments.query)

        return replace(tool, timeout_seconds=searching.seconds, cache_context=context)

    async def _known(self, tenant: Tenant, wanted: tuple[str, ...]) -> list[Collection]:
        """The collections that may be searched. Raises NotFound for one that is wanted and is not there."""
        known = await self._collections.get(tenant.id, self._documents.collections)
        if not set(wanted) <= {one.name for one in known}:  # it may be newer than what is remembered
            known = await self._collections.get(tenant.id, self._documents.collections, fresh=True)
        for name in wanted:
            if name not in {one.name for one in known}:
                raise NotFound(
                    f"There is no collection `{name}`; there are: {', '.join(one.name for one in known) or 'none'}.",
                    collection=name,
                )
        return [one for one in known if not wanted or one.name in wanted]

    async def _sql_query(self, tenant: Tenant) -> Tool:
        schema = await self._schemas.get(tenant.id, self._database.schema)

        async def call(arguments: SqlQuery, seconds: float) -> Found:
            params_json = json.dumps(arguments.params, ensure_ascii=False)
            return await self._database.query(arguments.query, params_json, seconds)

        return self._tool(
            tenant,
            "sql_query",
            call,
            arguments=SqlQuery,
            result=Rows,
            appendix=schema.text,
            data_version=schema.version,
        )

    def _web_search(self, tenant: Tenant) -> Tool:
        async def call(arguments: WebSearch, seconds: float) -> Found:
            return await self._web.search(arguments.query, seconds)

        return self._tool(tenant, "web_search", call, arguments=WebSearch, result=Pages)

    def _tool(
        self,
        tenant: Tenant,
        name: str,
        call: Callable[..., Awaitable[Found]],
        *,
        arguments: type[Arguments],
        result: type[Found],
        appendix: str = "",
        data_version: str = "",
    ) -> Tool:
        own = tenant.tool(name)
        description = own.description or self._descriptions[name]
        version = hashlib.sha256(
            "\0".join((FORMAT_VERSION, self._tenants.version, description, appendix, data_version)).encode()
        )
        return Tool(
            name=name,
            service=SERVICES[name],
            description=f"{description}\n{appendix}" if appendix else description,
            arguments=arguments,
            result=result,
            call=call,
            timeout_seconds=getattr(self._timeouts, name),
            cache_ttl_seconds=own.cache_ttl_seconds,
            cache_version=version.hexdigest()[:32],
        )


def _line(collection: Collection) -> str:
    return f"- {collection.name}: {collection.description}" if collection.description else f"- {collection.name}"
