"""Puts together a tenant's tools: descriptions, the schema of its tables, its collections, what its file allows."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from services.orchestrator.arguments import TypedForm, listed, short_name
from services.orchestrator.dispatch import ToolSet
from services.orchestrator.documents import Collection, DocumentQuery, Documents
from services.orchestrator.external.toolmaking import ExternalTools, Remote
from services.orchestrator.internal_terms import internal_terms
from services.orchestrator.model import Message, Model, Spent
from services.orchestrator.query_transform import DocumentSearch, SearchPolicy, Transform
from services.orchestrator.query_writer import QueryWriter
from services.orchestrator.recent import Recent
from services.orchestrator.result_cache import MAX_SOURCES
from services.orchestrator.results import Degraded, Found, Pages, Passages, Rows
from services.orchestrator.sql_tools import Database, SqlTools
from services.orchestrator.tool_maker import ToolMaker, ToolTimeouts
from services.orchestrator.tools import NAMES, SERVICES, Tool, VectorSearch, WebSearch, vector_search_of
from services.runtime.errors import InvalidField, NotFound, ServiceError, Unauthenticated
from services.runtime.tenants import McpServer, Tenant, TenantDirectory

# What tables are chosen by, where they are too many: the question, and what it may lean on.
_ABOUT_MESSAGES, _ABOUT_CHARS = 2, 2_000


class Web(Protocol):
    """The public web. Raises ServiceError."""

    async def search(self, query: str, internal_terms: Sequence[str], timeout_seconds: float) -> Pages:
        """Pages in the engine's order. `internal_terms` must not leave with the query."""
        ...


@dataclass(frozen=True)
class _Opening:
    """What one run asks of its tools. `seconds` bound one document search; `version` is what of it changes results.

    `said` and `internal`: what the company's own data has been heard in, which must not leave with a web query.
    """

    question: str
    history: Sequence[Message]
    search: DocumentSearch
    collections: tuple[str, ...]
    route: bool
    seconds: float
    version: tuple[object, ...]
    said: tuple[str, ...]
    internal: list[Passages | Rows]

    @property
    def about(self) -> str:
        """What the run is about, for whoever chooses by it."""
        asked = [one.text for one in self.history if one.role == "user"][-_ABOUT_MESSAGES:]
        return "\n".join([*asked, self.question])[-_ABOUT_CHARS:]


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
        remote: Remote | None = None,
        calculator: Callable[[ToolMaker, Tenant], Tool] | None = None,
        schema_ttl_seconds: float = 60,
        collections_ttl_seconds: float = 10,
    ) -> None:
        """`remote`: servers of foreign tools; `calculator` makes the tool `calculate`. Without them there are none."""
        self._tenants = tenants
        self._documents = documents
        self._web = web
        self._model = model
        self._search = search or SearchPolicy(search_seconds=timeouts.vector_search)
        self._maker = ToolMaker(timeouts)
        self._sql = SqlTools(database, self._maker, schema_ttl_seconds)
        self._external = ExternalTools(remote, self._maker) if remote else None
        self._calculator = calculator
        self._collections = Recent[Sequence[Collection]](collections_ttl_seconds)

    def names(self, tenant_id: str) -> Sequence[str]:
        """Tools that the tenant's file allows, in the order in which the model sees them. Raises Unauthenticated."""
        return self._allowed(self._tenant(tenant_id), ())

    async def open(
        self,
        tenant_id: str,
        *,
        collections: Sequence[str] = (),
        only: Sequence[str] = (),
        transform: Transform | None = None,
        history: Sequence[Message] = (),
        labels: Sequence[str] = (),
        question: str = "",
        said: Sequence[str] = (),
    ) -> ToolSet:
        """The tools of a tenant, in the order in which the model sees them.

        `transform`: None is the default of this service. `history`: what queries may lean on. `labels` open documents
        to the caller: results are remembered for callers with the same ones only. `question`: what large descriptions
        are cut by. `said`: texts with internal data, besides the answers in `history`.
        Raises Unauthenticated (tenant), InvalidField (`only` names what there is not) and NotFound (collection).
        """
        tenant = self._tenant(tenant_id)
        names = self._allowed(tenant, only)
        spent, internal = Spent(), list[Passages | Rows]()
        policy = replace(self._search, transform=transform) if transform else self._search
        opening = _Opening(
            question,
            history,
            DocumentSearch(self._documents, QueryWriter(self._model, spent), policy, history),
            tuple(collections),
            policy.route,
            policy.seconds(history),
            (policy.transform.value, policy.rewrite, policy.route, sorted(labels)),
            # Earlier answers were made from what the company has.
            (*said, *(one.text for one in history if one.role == "assistant")),
            internal,
        )
        owners = {name: server for server in tenant.mcp for name in map(server.tool_name, server.tools)}
        ours = [[name] for name in names if name in NAMES]
        verified = [name for name in names if name not in NAMES and name not in owners]
        built = await asyncio.gather(
            *(self._built(tenant, group, opening) for group in (*ours, *([verified] if verified else ()))),
            *(
                self._foreign(tenant, server, [name for name in names if owners.get(name) is server])
                for server in tenant.mcp
            ),
        )
        made = {name: one for group in built for name, one in group.items()}
        found = {name: made[name] for name in names if name in made}
        tools = {name: tool for name, tool in found.items() if isinstance(tool, Tool)}
        lost = {name: gone for name, gone in found.items() if isinstance(gone, Degraded)}
        return ToolSet(tools, lost, spent, internal)

    def _tenant(self, tenant_id: str) -> Tenant:
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            raise Unauthenticated(f"There is no tenant `{tenant_id}`.")
        return tenant

    def _allowed(self, tenant: Tenant, only: Sequence[str]) -> list[str]:
        has = {
            "vector_search": True,
            "sql_query": bool(tenant.sql),
            "web_search": not tenant.web.sovereign,
            "calculate": self._calculator is not None,
        }
        verified = sorted(name for source in tenant.sql for name in source.verified_queries)
        servers = [server for server in tenant.mcp if server.enabled and self._external]
        foreign = sorted(server.tool_name(tool) for server in servers for tool in server.tools)
        known = (*NAMES, *verified, *foreign)
        names = [name for name in known if has.get(name, True) and tenant.tool(name).enabled]
        for wanted in only:
            if wanted not in names:
                raise InvalidField(
                    f"`{short_name(wanted)}` is not a tool of this tenant; there are: {listed(names)}.",
                    field="options.tools",
                )
        return [name for name in names if not only or name in only]

    async def _foreign(self, tenant: Tenant, server: McpServer, names: Sequence[str]) -> Mapping[str, Tool | Degraded]:
        if self._external is None or not names:
            return {}
        return await self._external.of(tenant, server, names)

    async def _built(self, tenant: Tenant, names: Sequence[str], opening: _Opening) -> Mapping[str, Tool | Degraded]:
        """One of our tools, or all reviewed queries; why they are lost; nothing where the tenant has nothing for it."""
        try:
            match names[0]:
                case "vector_search":
                    return {names[0]: await self._vector_search(tenant, opening)}
                case "sql_query":
                    return {names[0]: await self._sql.query(tenant, opening.about)}
                case "web_search":
                    return {names[0]: self._web_search(tenant, opening)}
                case "calculate" if self._calculator:
                    return {names[0]: self._calculator(self._maker, tenant)}
                case _:
                    return await self._sql.verified(tenant, names)
        except ServiceError as error:
            service = SERVICES.get(names[0], "sql_tool")
            if isinstance(error, NotFound) and service == "sql_tool":
                return {}
            if isinstance(error, NotFound) and "collection" in error.metadata:
                raise
            return dict.fromkeys(names, Degraded(service, error.message.rstrip(".")))

    async def _vector_search(self, tenant: Tenant, opening: _Opening) -> Tool:
        known = await self._known(tenant, opening.collections)
        route = opening.route and not opening.collections and len(known) > 1

        async def call(arguments: VectorSearch, seconds: float) -> Found:
            one = (arguments.collection,) if arguments.collection else opening.collections
            query = DocumentQuery(arguments.query, arguments.top_k, one, route and not one)
            return await opening.search.find(query, seconds)

        def context(arguments: VectorSearch) -> str:
            return opening.search.context(arguments.query)

        def sources(arguments: VectorSearch, found: Found) -> Sequence[str]:
            one = (arguments.collection,) if arguments.collection else opening.collections
            names = one or ("*", *(collection.name for collection in known))
            return [f"collection:{name}" for name in names[: None if one else MAX_SOURCES]]

        collections = [[one.name, one.description, one.document_count, one.update_seconds] for one in known]
        tool = self._maker.make(
            tenant,
            "vector_search",
            call,
            form=TypedForm(vector_search_of(tuple(one.name for one in known))),
            result=Passages,
            appendix="\n".join(["Collections:", *map(_line, known)]) if known else "",
            data_version=json.dumps([opening.version, collections]),
        )
        return replace(
            tool,
            timeout_seconds=opening.seconds,
            cache_context=context,
            cache_sources=sources,
            semantic_argument="query",
        )

    async def _known(self, tenant: Tenant, wanted: tuple[str, ...]) -> list[Collection]:
        """The collections that may be searched. Raises NotFound for one that is wanted and is not there."""
        known = await self._collections.get(tenant.id, self._documents.collections)
        if not set(wanted) <= {one.name for one in known}:  # it may be newer than what is remembered
            known = await self._collections.get(tenant.id, self._documents.collections, fresh=True)
        for name in wanted:
            if name not in {one.name for one in known}:
                there = listed([one.name for one in known])
                raise NotFound(
                    f"There is no collection `{short_name(name)}`; there are: {there}.", collection=short_name(name)
                )
        return [one for one in known if not wanted or one.name in wanted]

    def _web_search(self, tenant: Tenant, opening: _Opening) -> Tool:
        async def call(arguments: WebSearch, seconds: float) -> Found:
            terms = internal_terms(opening.internal, opening.said, arguments.query)
            return await self._web.search(arguments.query, terms, seconds)

        tool = self._maker.make(tenant, "web_search", call, form=TypedForm(WebSearch), result=Pages)
        return replace(tool, semantic_argument="query")


def _line(collection: Collection) -> str:
    return f"- {collection.name}: {collection.description}" if collection.description else f"- {collection.name}"
