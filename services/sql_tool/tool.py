"""The SQL tool: finds the tenant's database, guards the statement, runs it, and describes what there is to ask."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.runtime.errors import DeadlineExceeded, InvalidField, NotFound
from services.runtime.tenants import SqlSource, TenantDirectory
from services.sql_tool import guard, parameters, schema
from services.sql_tool.catalog import Catalog
from services.sql_tool.database import Database, Limits, Plan, Result
from services.sql_tool.guard import Approved

MAX_ROWS = 1000
_MAX_EXAMPLES = 8
_MAX_SAMPLED_COLUMNS = 20
_EXAMPLES_SECONDS = 3600.0
_LEAST_SECONDS = 0.02


@dataclass(frozen=True)
class Bounds:
    """Defaults and ceilings. Times in seconds, `cost` in the planner's units."""

    statement_seconds: float = 5
    cost: float = 1e6
    rows: int = 200
    result_bytes: int = 1024 * 1024
    catalog_seconds: float = 60
    description_tokens: int = 2000


@dataclass
class _Known:
    """What is remembered of a tenant's database."""

    source: SqlSource
    catalog: Catalog
    until: float
    examples: Mapping[str, Sequence[str]] | None = None
    examples_until: float = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SqlTool:
    """Read-only SQL for every tenant that has a SQL source."""

    def __init__(self, tenants: TenantDirectory, database: Database, bounds: Bounds) -> None:
        self._tenants = tenants
        self._database = database
        self._bounds = bounds
        self._known: dict[str, _Known] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def query(
        self, tenant_id: str, sql: str, params_json: str = "", max_rows: int = 0, seconds_left: float | None = None
    ) -> tuple[Result, tuple[str, ...]]:
        """Rows, and the tables that were read. `max_rows` 0 means the default.

        Raises InvalidField, NotPermitted, SqlError, NotFound, DeadlineExceeded, Overloaded and DependencyFailed.
        """
        if not 0 <= max_rows <= MAX_ROWS:
            raise InvalidField(f"`max_rows` is from 1 to {MAX_ROWS}; 0 means the default.", field="max_rows")
        known, statement, values = await self._checked(tenant_id, sql, params_json)
        limits = self._limits(seconds_left, max_rows)
        result = await self._database.run(known.source, known.catalog, statement, values, limits)
        return result, statement.tables

    async def explain(
        self, tenant_id: str, sql: str, params_json: str = "", seconds_left: float | None = None
    ) -> tuple[Plan, tuple[str, ...]]:
        """The plan and the tables that it would read. Raises as `query` does."""
        known, statement, values = await self._checked(tenant_id, sql, params_json)
        limits = self._limits(seconds_left, 0)
        return await self._database.plan(known.source, known.catalog, statement, values, limits), statement.tables

    async def describe(self, tenant_id: str, question: str = "", max_tokens: int = 0) -> tuple[schema.Description, str]:
        """The schema for a model, and its version. Raises InvalidField, NotFound and DependencyFailed."""
        if max_tokens < 0:
            raise InvalidField("`max_tokens` is not negative; 0 means the default.", field="max_tokens")
        known = await self._knowledge(tenant_id)
        budget = max_tokens or self._bounds.description_tokens
        examples = await self._examples(known)
        return schema.describe(known.source, known.catalog, examples, budget, question), known.catalog.version

    async def _checked(self, tenant_id: str, sql: str, params_json: str) -> tuple[_Known, Approved, list[object]]:
        values = parameters.parse(params_json)
        known = await self._knowledge(tenant_id)
        # Long statements take tens of milliseconds to parse; other calls go on meanwhile.
        statement = await asyncio.to_thread(guard.check, sql, known.catalog.allowed)
        parameters.check_count(values, statement.parameter_count)
        return known, statement, values

    def _limits(self, seconds_left: float | None, max_rows: int) -> Limits:
        seconds = self._bounds.statement_seconds
        if seconds_left is not None:
            seconds = min(seconds, seconds_left)
        if seconds < _LEAST_SECONDS:
            raise DeadlineExceeded("No time is left to run the statement.", stage="sql")
        return Limits(seconds, max_rows or self._bounds.rows, self._bounds.result_bytes, self._bounds.cost)

    async def _knowledge(self, tenant_id: str) -> _Known:
        """The tenant's catalog; read again when it is old or the tenant's file changed."""
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            raise NotFound(f"There is no tenant `{tenant_id}`.", tenant=tenant_id)
        source = tenant.sql
        if source is None:
            raise NotFound(f"Tenant `{tenant_id}` has no SQL source.", tenant=tenant_id)
        if known := self._fresh(tenant_id, source):
            return known
        async with self._locks.setdefault(tenant_id, asyncio.Lock()):
            if known := self._fresh(tenant_id, source):
                return known
            catalog = await self._database.catalog(tenant_id, source)
            until = time.monotonic() + self._bounds.catalog_seconds
            known = _Known(source, catalog, until)
            before = self._known.get(tenant_id)
            if before is not None and before.catalog.version == catalog.version:
                known.examples, known.examples_until = before.examples, before.examples_until
            self._known[tenant_id] = known
            return known

    def _fresh(self, tenant_id: str, source: SqlSource) -> _Known | None:
        known = self._known.get(tenant_id)
        return known if known and known.source == source and time.monotonic() < known.until else None

    async def _examples(self, known: _Known) -> Mapping[str, Sequence[str]]:
        async with known.lock:
            if known.examples is None or time.monotonic() > known.examples_until:
                columns = schema.columns_without_values(known.source, known.catalog)[:_MAX_SAMPLED_COLUMNS]
                known.examples = await self._database.examples(known.source, columns, _MAX_EXAMPLES)
                known.examples_until = time.monotonic() + _EXAMPLES_SECONDS
            return known.examples
