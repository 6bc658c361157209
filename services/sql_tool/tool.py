"""The SQL tool: finds the tenant's database, guards the statement, runs it, and describes what there is to ask."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.runtime.errors import DeadlineExceeded, InvalidField, NotFound, NotPermitted, ServiceError
from services.runtime.tenants import SqlSource, TenantDirectory, VerifiedQuery
from services.sql_tool import guard, hints, parameters, schema_text, verified
from services.sql_tool.audit import AuditLog, Record
from services.sql_tool.catalog import Catalog
from services.sql_tool.codes import coded
from services.sql_tool.database import Database, Limits, Plan, Result
from services.sql_tool.guard import Approved
from services.sql_tool.knowledge import Bounds, Knowledge, Known
from services.sql_tool.repair import repairable
from services.sql_tool.schema_text import SchemaText
from services.sql_tool.verified_checks import Verdict

__all__ = ["MAX_ROWS", "Answer", "Bounds", "Described", "ListedQuery", "SqlTool", "VerifiedAnswer"]

MAX_ROWS = 1000
_LEAST_SECONDS = 0.02


@dataclass(frozen=True)
class Answer:
    """Rows with what they came from. `volatile`: the same statement may give others although nothing changed."""

    result: Result
    tables: tuple[str, ...]
    source: str
    volatile: bool


@dataclass(frozen=True)
class VerifiedAnswer:
    """What a verified query gave, with the statement and the values that were run."""

    answer: Answer
    sql: str
    params_json: str


@dataclass(frozen=True)
class Described:
    """The schema of all sources. `version` changes with any of them."""

    text: str
    tables: tuple[str, ...]
    version: str
    sources: Sequence[SqlSource]


@dataclass(frozen=True)
class ListedQuery:
    """A verified query with its verdict. `schema_json` is empty when its parameters are wrong, as `defect` says."""

    name: str
    query: VerifiedQuery
    schema_json: str
    source: str
    tables: tuple[str, ...]
    version: str
    defect: str


class SqlTool:
    """Read-only SQL for every tenant that has a SQL source."""

    def __init__(
        self, tenants: TenantDirectory, database: Database, bounds: Bounds, audit: AuditLog | None = None
    ) -> None:
        """Without `audit` the log's hashes of values can be compared within this process only."""
        self._database = database
        self._bounds = bounds
        self._audit = audit or AuditLog(secrets.token_bytes(32))
        self._knowledge = Knowledge(tenants, database, bounds)

    async def warm_up(self) -> None:
        """Reads every tenant's catalog and checks the verified queries; what does not answer is logged."""
        await self._knowledge.warm_up()

    async def query(
        self,
        tenant_id: str,
        sql: str,
        params_json: str = "",
        max_rows: int = 0,
        seconds_left: float | None = None,
        source: str = "",
    ) -> Answer:
        """Rows, and what was read. `max_rows` 0 means the default; `source` empty means the first.

        Raises InvalidField, NotPermitted, SqlError, NotFound, DeadlineExceeded, Overloaded and DependencyFailed, each
        with a `code` of codes.CODES.
        """
        with coded():
            if not 0 <= max_rows <= MAX_ROWS:
                raise InvalidField(f"`max_rows` is from 1 to {MAX_ROWS}; 0 means the default.", field="max_rows")
            one = self._knowledge.source(tenant_id, source)
            with self._audit.recording(one, sql) as record, coded():
                record.values = values = parameters.parse(params_json)
                limits = self._limits(seconds_left, max_rows)
                known = await self._knowledge.of(tenant_id, one)
                return await self._run(known, sql, values, limits, record)

    async def explain(
        self, tenant_id: str, sql: str, params_json: str = "", seconds_left: float | None = None, source: str = ""
    ) -> tuple[Plan, tuple[str, ...]]:
        """The plan and the tables that it would read. Raises as `query` does."""
        with coded():
            one = self._knowledge.source(tenant_id, source)
            with self._audit.recording(one, sql) as record, coded():
                record.values = values = parameters.parse(params_json)
                limits = self._limits(seconds_left, 0)
                known = await self._knowledge.of(tenant_id, one)
                with repairable(sql, one, known.catalog):
                    statement = await _approved(sql, known)
                    record.tables = statement.tables
                    parameters.check_count(values, statement.parameter_count)
                    plan = await self._database.plan(one, known.catalog, statement, values, limits)
                record.planned(plan)
                return plan, statement.tables

    async def describe(self, tenant_id: str, question: str = "", max_tokens: int = 0) -> Described:
        """The schemas of all sources for a model. Raises InvalidField, NotFound and DependencyFailed."""
        if max_tokens < 0:
            raise InvalidField("`max_tokens` is not negative; 0 means the default.", field="max_tokens")
        sources = self._knowledge.sources(tenant_id)
        budget = max_tokens or self._bounds.description_tokens
        texts: list[SchemaText | SqlSource] = []
        versions: list[str] = []
        lost: ServiceError | None = None
        for source, one in zip(sources, await self._knowledge.each(tenant_id, sources), strict=True):
            try:
                if isinstance(one, ServiceError):
                    raise one
                texts.append(await self._knowledge.text(one))
                versions.append(one.catalog.version)
            except ServiceError as error:
                texts.append(source)
                lost = error
        if lost is not None and not versions:
            raise lost
        found = await asyncio.to_thread(schema_text.describe_all, texts, budget, question)
        version = versions[0] if len(sources) == 1 else hashlib.sha256(repr(versions).encode()).hexdigest()[:16]
        return Described(found.text, found.tables, version, sources)

    async def verified_queries(self, tenant_id: str) -> list[ListedQuery]:
        """All of the tenant, by name; those of a database that does not answer have that as their defect.

        Raises NotFound (tenant).
        """
        listed: list[ListedQuery] = []
        sources = [one for one in self._knowledge.sources(tenant_id, needed=False) if one.verified_queries]
        for source, known in zip(sources, await self._knowledge.each(tenant_id, sources), strict=True):
            catalog, lost = None, ""
            verdicts: Mapping[str, Verdict] = {}
            try:
                if isinstance(known, ServiceError):
                    raise known
                catalog = known.catalog
                verdicts = await self._knowledge.verdicts(tenant_id, known, fresh=True)
            except ServiceError as error:
                lost = error.message
            for name in source.verified_queries:
                listed.append(_listed(source, name, catalog, verdicts.get(name) or Verdict(None, lost)))
        return sorted(listed, key=lambda one: one.name)

    async def run_verified(
        self, tenant_id: str, name: str, arguments_json: str = "", seconds_left: float | None = None
    ) -> VerifiedAnswer:
        """Runs a verified query. Raises as `query` does, and NotFound (name), NotPermitted (rule `verified_query`)."""
        with coded():
            source = self._source_of(tenant_id, name)
            query = source.verified_queries[name]
            with self._audit.recording(source, query.sql, name) as record, coded():
                limits = self._limits(seconds_left, 0)
                known = await self._knowledge.of(tenant_id, source)
                verdict = (await self._knowledge.verdicts(tenant_id, known)).get(name)
                if verdict is None or verdict.defect:
                    raise NotPermitted(
                        f"Verified query `{name}` does not fit the database at the moment.",
                        rule="verified_query",
                        name=name,
                        hint="Use sql_query, or another verified query.",
                    )
                values = verified.resolve(query, arguments_json)
                if name not in known.statements:
                    known.statements[name] = await _approved(query.sql, known)
                answer = await self._run(known, query.sql, values, limits, record, known.statements[name])
                return VerifiedAnswer(answer, query.sql, verified.params_json(values))

    def _source_of(self, tenant_id: str, name: str) -> SqlSource:
        sources = self._knowledge.sources(tenant_id)
        for source in sources:
            if name in source.verified_queries:
                return source
        near = hints.nearest(name[:64], [known for source in sources for known in source.verified_queries])
        raise NotFound(
            f"There is no verified query `{name[:64]}`.",
            name=name[:64],
            hint=f"Did you mean `{near}`?" if near else "",
        )

    async def _run(
        self,
        known: Known,
        sql: str,
        values: Sequence[object],
        limits: Limits,
        record: Record,
        statement: Approved | None = None,
    ) -> Answer:
        record.values = values
        with repairable(sql, known.source, known.catalog):
            statement = statement or await _approved(sql, known)
            record.tables = statement.tables
            parameters.check_count(values, statement.parameter_count)
            result = await self._database.run(known.source, known.catalog, statement, values, limits)
        record.done(result)
        return Answer(result, statement.tables, known.source.name, statement.volatile)

    def _limits(self, seconds_left: float | None, max_rows: int) -> Limits:
        seconds = self._bounds.statement_seconds
        if seconds_left is not None:
            seconds = min(seconds, seconds_left)
        if seconds < _LEAST_SECONDS:
            raise DeadlineExceeded("No time is left to run the statement.", stage="sql")
        return Limits(seconds, max_rows or self._bounds.rows, self._bounds.result_bytes, self._bounds.cost)


async def _approved(sql: str, known: Known) -> Approved:
    # Long statements take tens of milliseconds to parse; other calls go on meanwhile.
    return await asyncio.to_thread(guard.check, sql, known.catalog.allowed)


def _listed(source: SqlSource, name: str, catalog: Catalog | None, verdict: Verdict) -> ListedQuery:
    query = source.verified_queries[name]
    tables = verdict.statement.tables if verdict.statement else ()
    try:
        schema_json = json.dumps(verified.parameters_schema(query), ensure_ascii=False)
    except ValueError:
        schema_json = ""
    version = verified.version(source, query, catalog, tables)
    return ListedQuery(name, query, schema_json, source.name, tables, version, verdict.defect)
