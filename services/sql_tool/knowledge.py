"""What is known of the tenants' databases: catalog, sample values, verdicts on verified queries. Read when needed."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from services.runtime.errors import NotFound, ServiceError
from services.runtime.tenants import SqlSource, TenantDirectory
from services.sql_tool import hints, schema, verified_checks
from services.sql_tool.catalog import Catalog
from services.sql_tool.database import Database, Limits
from services.sql_tool.guard import Approved
from services.sql_tool.schema_text import SchemaText
from services.sql_tool.verified_checks import Verdict
from services.sql_tool.verified_metrics import DEFECTIVE, OVERDUE

log = logging.getLogger(__name__)

_MAX_EXAMPLES = 8
_MAX_SAMPLED_COLUMNS = 20
_EXAMPLES_SECONDS = 3600.0
# How long a source that did not answer is left out of descriptions and lists of several sources without asking again.
_LOST_SECONDS = 5.0
# Sources that are read at the same time when the service starts.
_WARM_UP_SOURCES = 8


@dataclass(frozen=True)
class Bounds:
    """Defaults and ceilings. Times in seconds, `cost` in the planner's units."""

    statement_seconds: float = 5
    cost: float = 1e6
    rows: int = 200
    result_bytes: int = 1024 * 1024
    catalog_seconds: float = 60
    description_tokens: int = 2000
    review_max_age_days: int = 365


@dataclass
class Known:
    """What is remembered of one source.

    `checked`: the verdicts are as new as the catalog. `statements` are verified queries that the guard approved for it.
    """

    source: SqlSource
    catalog: Catalog
    until: float
    text: SchemaText | None = None
    text_until: float = 0
    verdicts: Mapping[str, Verdict] | None = None
    checked: bool = False
    statements: dict[str, Approved] = field(default_factory=dict[str, Approved])
    text_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    verdicts_lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Knowledge:
    """The tenants' sources by tenant and name."""

    def __init__(self, tenants: TenantDirectory, database: Database, bounds: Bounds) -> None:
        self._tenants = tenants
        self._database = database
        self._bounds = bounds
        self._known: dict[tuple[str, str], Known] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._lost: dict[tuple[str, str], tuple[float, ServiceError]] = {}

    def sources(self, tenant_id: str, *, needed: bool = True) -> Sequence[SqlSource]:
        """In the order of the tenant's file; at least one if `needed`. Raises NotFound."""
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            raise NotFound(f"There is no tenant `{tenant_id}`.", tenant=tenant_id)
        if needed and not tenant.sql:
            raise NotFound(f"Tenant `{tenant_id}` has no SQL source.", tenant=tenant_id)
        return tenant.sql

    def source(self, tenant_id: str, name: str) -> SqlSource:
        """The source of that name, the first one when it is empty. Raises NotFound."""
        sources = self.sources(tenant_id)
        found = next((source for source in sources if not name or source.name == name), None)
        if found is None:
            near = hints.nearest(name[:64], [source.name for source in sources])
            raise NotFound(
                f"There is no source `{name[:64]}`. Sources are {', '.join(source.name for source in sources)}.",
                source=name[:64],
                hint=f"Did you mean `{near}`?" if near else "",
            )
        return found

    async def each(self, tenant_id: str, sources: Sequence[SqlSource]) -> list[Known | ServiceError]:
        """The sources with their catalogs, read at the same time; an error in the place of what was not to be had."""
        others = len(sources) > 1
        return list(await asyncio.gather(*(self._of_or_error(tenant_id, source, others) for source in sources)))

    async def _of_or_error(self, tenant_id: str, source: SqlSource, others: bool) -> Known | ServiceError:
        key = tenant_id, source.name
        until, error = self._lost.get(key, (0.0, None))
        if others and error is not None and time.monotonic() < until:
            return error
        try:
            known = await self.of(tenant_id, source)
        except ServiceError as lost:
            self._lost[key] = time.monotonic() + _LOST_SECONDS, lost
            return lost
        self._lost.pop(key, None)
        return known

    async def of(self, tenant_id: str, source: SqlSource) -> Known:
        """The source with its catalog; read again when it is old or the tenant's file changed.

        Raises DependencyFailed, Overloaded and DeadlineExceeded.
        """
        key = tenant_id, source.name
        if known := self._fresh(key, source):
            return known
        async with self._locks.setdefault(key, asyncio.Lock()):
            if known := self._fresh(key, source):
                return known
            catalog = await self._database.catalog(tenant_id, source)
            known = Known(source, catalog, time.monotonic() + self._bounds.catalog_seconds)
            before = self._known.get(key)
            if before is not None and before.catalog.version == catalog.version:
                known.text, known.text_until = before.text, before.text_until
                known.verdicts = before.verdicts
            self._known[key] = known
            self._forget_the_gone()
            return known

    def _forget_the_gone(self) -> None:
        there = {(tenant_id, source.name) for tenant_id, one in self._tenants.all().items() for source in one.sql}
        for key in {*self._known, *self._lost} - there:
            self._known.pop(key, None)
            self._lost.pop(key, None)

    def _fresh(self, key: tuple[str, str], source: SqlSource) -> Known | None:
        known = self._known.get(key)
        return known if known and known.source == source and time.monotonic() < known.until else None

    async def text(self, known: Known) -> SchemaText:
        """The schema for a model, with sample values; made once per version of the catalog and hour."""
        async with known.text_lock:
            if known.text is None or time.monotonic() > known.text_until:
                columns = schema.columns_without_values(known.source, known.catalog)[:_MAX_SAMPLED_COLUMNS]
                examples = await self._database.examples(known.source, columns, _MAX_EXAMPLES)
                known.text = await asyncio.to_thread(SchemaText, known.source, known.catalog, examples)
                known.text_until = time.monotonic() + _EXAMPLES_SECONDS
            return known.text

    async def verdicts(self, tenant_id: str, known: Known, *, fresh: bool = False) -> Mapping[str, Verdict]:
        """On each verified query. `fresh`: as new as the catalog. Raises as `of` does."""
        async with known.verdicts_lock:
            if known.verdicts is None or (fresh and not known.checked):
                limits = Limits(self._bounds.statement_seconds, 1, self._bounds.result_bytes, self._bounds.cost)
                before, known.verdicts = (
                    known.verdicts or {},
                    await verified_checks.check(self._database, known.source, known.catalog, limits),
                )
                known.checked = True
                self._report(tenant_id, known, before)
            return known.verdicts

    def _report(self, tenant_id: str, known: Known, before: Mapping[str, Verdict]) -> None:
        for name, verdict in (known.verdicts or {}).items():
            query = known.source.verified_queries[name]
            about = {"tenant": tenant_id, "query": name, "owner": query.owner}
            first = name not in before
            if verdict.defect and (first or before[name].defect != verdict.defect):
                log.error("a verified query cannot run", extra={**about, "defect": verdict.defect})
            if first and self._overdue(known.source, name):
                log.warning(
                    "a verified query has not been reviewed for long",
                    extra={**about, "reviewed_on": query.reviewed_on.isoformat()},
                )
        everything = list(self._known.values())
        DEFECTIVE.set(sum(bool(verdict.defect) for one in everything for verdict in (one.verdicts or {}).values()))
        OVERDUE.set(sum(self._overdue(one.source, name) for one in everything for name in one.source.verified_queries))

    def _overdue(self, source: SqlSource, name: str) -> bool:
        most = self._bounds.review_max_age_days
        today = datetime.now(UTC).date()
        return bool(most) and (today - source.verified_queries[name].reviewed_on).days > most

    async def warm_up(self) -> None:
        """Reads every source and checks its verified queries; what does not answer is logged and read when needed."""
        at_a_time = asyncio.Semaphore(_WARM_UP_SOURCES)

        async def read(tenant_id: str, source: SqlSource) -> None:
            async with at_a_time:
                try:
                    await self.verdicts(tenant_id, await self.of(tenant_id, source), fresh=True)
                except ServiceError as error:
                    log.warning(
                        "a source could not be read at start",
                        extra={"tenant": tenant_id, "source": source.name, "reason": error.reason},
                    )

        every = [(tenant_id, source) for tenant_id, tenant in self._tenants.all().items() for source in tenant.sql]
        await asyncio.gather(*(read(tenant_id, source) for tenant_id, source in every))
