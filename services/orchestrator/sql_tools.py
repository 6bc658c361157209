"""The tools over a tenant's databases: free SQL, and one for each of its reviewed queries."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from services.orchestrator.arguments import ForeignForm, TypedForm
from services.orchestrator.recent import LOOKUP_TIMEOUT_SECONDS, Recent
from services.orchestrator.results import Found, Rows
from services.orchestrator.tool_maker import ToolMaker
from services.orchestrator.tools import SourcedSqlQuery, SqlQuery, Tool, sql_query_of
from services.runtime.errors import ServiceError
from services.runtime.tenants import Tenant

_MAX_EXAMPLES = 3
# Results of databases with replicas may be older than the last change; they are not kept for longer than that.
_LAGGING_TTL_SECONDS = 15
_REVIEWED = (
    "A reviewed query of this company: where it fits the question, use it rather than sql_query. NOT for anything that "
    "its parameters cannot say."
)


@dataclass(frozen=True)
class Schema:
    """The tables that may be read, as text for the model. `version` changes with them.

    `tables`: those that the text holds, `schema.table`; `sources`: names of all databases, the default one first.
    """

    text: str
    version: str
    tables: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifiedQuery:
    """A reviewed query with parameters. `examples`: questions, each with a JSON object that answers it.

    `version` changes with whatever may change its rows; `defect` says why it cannot run now.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    examples: tuple[tuple[str, str], ...] = ()
    version: str = ""
    defect: str = ""


class Database(Protocol):
    """Databases of the current tenant. All methods raise ServiceError; NotFound when there are none."""

    async def query(self, sql: str, params_json: str, source: str, timeout_seconds: float) -> Rows:
        """The rows of one SELECT. `source` empty: the tenant's first database."""
        ...

    async def schema(self, about: str, timeout_seconds: float) -> Schema:
        """The tables; where they are too many, those that fit `about` best."""
        ...

    async def verified_queries(self, timeout_seconds: float) -> Sequence[VerifiedQuery]:
        """The tenant's reviewed queries, by name."""
        ...

    async def run_verified(self, name: str, arguments_json: str, timeout_seconds: float) -> Rows:
        """The rows of a reviewed query."""
        ...


class SqlTools:
    """Makes them. What the service said of tables and queries serves for `ttl_seconds`."""

    def __init__(self, database: Database, maker: ToolMaker, ttl_seconds: float) -> None:
        self._database = database
        self._maker = maker
        self._schemas = Recent[Schema](ttl_seconds)
        self._queries = Recent[Sequence[VerifiedQuery]](ttl_seconds)

    async def query(self, tenant: Tenant, about: str) -> Tool:
        """sql_query, with the tables that it may read. Raises ServiceError."""
        schema = await self._schemas.get(tenant.id, partial(self._database.schema, ""))
        # Those of a large database do not fit into a prompt: the question chooses among them.
        if about and len(schema.tables) < sum(len(source.tables) for source in tenant.sql):
            with contextlib.suppress(ServiceError):
                schema = await self._database.schema(about, LOOKUP_TIMEOUT_SECONDS)

        async def call(arguments: SqlQuery, seconds: float) -> Found:
            source = arguments.source or "" if isinstance(arguments, SourcedSqlQuery) else ""
            params_json = json.dumps(arguments.params, ensure_ascii=False)
            return await self._database.query(arguments.query, params_json, source, seconds)

        form = TypedForm(sql_query_of(schema.sources))
        tool = self._maker.make(
            tenant, "sql_query", call, form=form, result=Rows, appendix=schema.text, data_version=schema.version
        )
        return _cached(tenant, tool)

    async def verified(self, tenant: Tenant, names: Sequence[str]) -> dict[str, Tool]:
        """A tool for each reviewed query of `names` that can run. Raises ServiceError."""
        known = await self._queries.get(tenant.id, self._database.verified_queries)
        return {one.name: self._tool(tenant, one) for one in known if one.name in names and not one.defect}

    def _tool(self, tenant: Tenant, query: VerifiedQuery) -> Tool:
        async def call(arguments: dict[str, Any], seconds: float) -> Found:
            return await self._database.run_verified(query.name, json.dumps(arguments, ensure_ascii=False), seconds)

        tool = self._maker.make(
            tenant,
            query.name,
            call,
            form=ForeignForm(query.schema),
            result=Rows,
            description=query.description.strip(),
            appendix="\n".join([_REVIEWED, *_examples(query)]),
            data_version=query.version,
        )
        return _cached(tenant, tool)


def _cached(tenant: Tenant, tool: Tool) -> Tool:
    """With what its results are made from. A replica may not have what a change of data has just been told of."""
    lags = any(source.replica_dsn_secrets for source in tenant.sql)
    seconds = min(tool.cache_ttl_seconds, _LAGGING_TTL_SECONDS) if lags else tool.cache_ttl_seconds
    return replace(tool, cache_sources=partial(_read, tenant), cache_ttl_seconds=seconds)


def _examples(query: VerifiedQuery) -> list[str]:
    said = [f"{arguments} ({question})" for question, arguments in query.examples[:_MAX_EXAMPLES]]
    return ["Examples: " + " · ".join(said)] if said else []


def _read(tenant: Tenant, arguments: Any, found: Found) -> Sequence[str]:
    """What rows were made from, as the cache names it."""
    if not isinstance(found, Rows):
        return ()
    source = found.source or (tenant.sql[0].name if tenant.sql else "")
    return [f"table:{source}/{table}" for table in found.tables]
