"""Runs approved statements in a read-only transaction that is always rolled back, within limits of time, cost, size."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg

from services.runtime.errors import DeadlineExceeded, DependencyFailed, ServiceError
from services.runtime.tenants import SqlSource
from services.sql_tool import catalog, rights, sqlstates, statements
from services.sql_tool.catalog import Catalog
from services.sql_tool.cells import Cell, ColumnType, Kind
from services.sql_tool.connections import UNREACHABLE, Connection, Connections
from services.sql_tool.guard import Approved
from services.sql_tool.meter import Meter
from services.sql_tool.rights import Finding, Findings, quoted
from services.sql_tool.statements import Limits, Plan

log = logging.getLogger(__name__)

_EXAMPLE_SECONDS = 1.0
_ROLLBACK_SECONDS = 2.0
_MOST_REASONS = 20
# A plan in JSON; VERBOSE writes constants out, and one of them may be huge.
_PLAN_BYTES = 2 * 1024 * 1024
# What rows take on the wire besides their values.
_WIRE_BYTES = 64 * 1024
# PostgreSQL 17 and later can end a transaction, however many statements it has.
_TRANSACTION_TIMEOUT_SINCE = 17


@dataclass(frozen=True)
class Column:
    """A result column; names may repeat."""

    name: str
    type: str


@dataclass(frozen=True)
class Result:
    """Rows in the server's order. `truncated_by` is `rows`, `bytes`, `cell` (a value was cut) or empty."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    truncated_by: str
    seconds: float
    plan_cost: float = 0
    value_bytes: int = 0


class Database(Protocol):
    """What the tool needs of a tenant's database. All methods raise DependencyFailed and DeadlineExceeded."""

    async def catalog(self, tenant_id: str, source: SqlSource) -> Catalog:
        """The tenant's allowed tables as they are. Raises DependencyFailed when the role may do too much."""
        ...

    async def run(
        self, source: SqlSource, known: Catalog, statement: Approved, values: Sequence[object], limits: Limits
    ) -> Result:
        """Runs the statement. Raises InvalidField, NotPermitted (cost, table) and SqlError too."""
        ...

    async def plan(
        self, source: SqlSource, known: Catalog, statement: Approved, values: Sequence[object], limits: Limits
    ) -> Plan:
        """Plans without running. Raises as `run` does."""
        ...

    async def examples(
        self, source: SqlSource, columns: Sequence[tuple[str, str, str]], count: int
    ) -> Mapping[str, list[str]]:
        """Values of each (schema, table, column) that has at most `count`, by `schema.table.column`."""
        ...


class PostgresDatabase:
    """The tenants' PostgreSQL databases."""

    def __init__(self, connections: Connections, cell_bytes: int = 64 * 1024) -> None:
        """`cell_bytes`: size of one value in PostgreSQL's text form; the rest of it is cut."""
        self._connections = connections
        self._cell_bytes = cell_bytes
        self._said: set[tuple[str, str, str]] = set()

    async def catalog(self, tenant_id: str, source: SqlSource) -> Catalog:
        if excess := await self.audit(tenant_id, source):
            log.error(
                "the reader role may do more than read",
                extra={"tenant": tenant_id, "source": source.name, "reasons": excess[:_MOST_REASONS]},
            )
            raise DependencyFailed(
                f"The role of tenant {tenant_id} may do more than read; see the log.", dependency="postgresql"
            )
        async with self._connections.session(source) as connection, sqlstates.translated():
            return await catalog.read(connection, tenant_id, source)

    async def audit(self, tenant_id: str, source: SqlSource) -> list[str]:
        """What the role may do besides reading, at any of the source's addresses; those that may not do more serve.

        An address that does not answer is left out until it passes. Raises DependencyFailed when none answers.
        """
        secrets = [source.dsn_secret, *source.replica_dsn_secrets]
        found = await asyncio.gather(*(self._audit_at(source, secret) for secret in secrets), return_exceptions=True)
        excess: list[str] = []
        for secret, one in zip(secrets, found, strict=True):
            if isinstance(one, Findings):
                excess += [finding.what for finding in one.excess]
                self._warn(tenant_id, source, one.warnings)
            elif not isinstance(one, ServiceError):
                raise one
            self._connections.trust(source, secret, isinstance(one, Findings) and not one.excess)
        if failed := [one for one in found if isinstance(one, ServiceError)]:
            if len(failed) == len(found):
                raise failed[0]
        return list(dict.fromkeys(excess))

    async def _audit_at(self, source: SqlSource, secret: str) -> Findings:
        async with self._connections.session_at(source, secret) as connection, sqlstates.translated():
            return await rights.audit(connection, source)

    def _warn(self, tenant_id: str, source: SqlSource, warnings: Sequence[Finding]) -> None:
        """Once for each, not with every look."""
        for finding in warnings:
            said = (tenant_id, source.name, finding.what)
            if said not in self._said:
                self._said.add(said)
                log.warning(
                    "the reader role should be changed",
                    extra={"tenant": tenant_id, "source": source.name, "reason": finding.what},
                )

    async def run(
        self, source: SqlSource, known: Catalog, statement: Approved, values: Sequence[object], limits: Limits
    ) -> Result:
        async with self._transaction(source, limits, statement, known) as connection:
            started = time.perf_counter()
            prepared, arguments = await statements.prepare(connection, statement, values)
            columns = statements.columns_of(connection, prepared)
            plan = await statements.plan(connection, known, statement, arguments, limits)
            connection.meter.bound(self._cell_bytes, _wire_bytes(columns, limits.max_bytes))
            rows, size, truncated_by = await statements.fetch(connection, prepared, arguments, columns, limits)
            taken = time.perf_counter() - started
        described = [Column(name, kind.sql_name) for name, kind in columns]
        return Result(described, rows, truncated_by, taken, plan.total_cost, size)

    async def plan(
        self, source: SqlSource, known: Catalog, statement: Approved, values: Sequence[object], limits: Limits
    ) -> Plan:
        async with self._transaction(source, limits, statement, known) as connection:
            _, arguments = await statements.prepare(connection, statement, values)
            return await statements.plan(connection, known, statement, arguments, limits)

    async def examples(
        self, source: SqlSource, columns: Sequence[tuple[str, str, str]], count: int
    ) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        async with self._connections.session(source) as connection, sqlstates.translated():
            for schema, table, column in columns:
                try:
                    async with connection.transaction(readonly=True):
                        await connection.execute(f"SET LOCAL statement_timeout = {round(_EXAMPLE_SECONDS * 1000)}")
                        values = await connection.fetch(_distinct(schema, table, column), count + 1)
                except asyncpg.QueryCanceledError:
                    continue  # a large table: it goes without examples
                if len(values) <= count:
                    found[f"{schema}.{table}.{column}"] = [str(row[0]) for row in values]
        return found

    @asynccontextmanager
    async def _transaction(
        self, source: SqlSource, limits: Limits, statement: Approved, known: Catalog
    ) -> AsyncGenerator[Connection]:
        """A read-only transaction that is rolled back, on the client's clock too: a server can hang."""
        try:
            async with (
                asyncio.timeout(limits.timeout_seconds + 0.5),
                self._connections.session(source) as connection,
                _bounded(connection.meter),
                sqlstates.translated(statement.sql, known.allowed),
            ):
                transaction = connection.transaction(readonly=True)
                await transaction.start()
                try:
                    await connection.execute(_timeouts(connection, limits.timeout_seconds))
                    yield connection
                finally:
                    await _roll_back(connection, transaction)
        except TimeoutError:
            raise DeadlineExceeded("The statement took too long.", stage="sql") from None


@asynccontextmanager
async def _bounded(meter: Meter) -> AsyncGenerator[None]:
    """Says what a connection that was cut because of too much data means."""
    meter.bound(_PLAN_BYTES, _PLAN_BYTES)
    try:
        yield
    except ServiceError:
        if meter.overflowed:
            raise statements.too_large() from None
        raise
    finally:
        meter.bound()


def _wire_bytes(columns: Sequence[tuple[str, ColumnType]], value_bytes: int) -> int:
    """A bytea travels as two digits a byte."""
    return value_bytes * (2 if any(kind.kind is Kind.BYTES for _, kind in columns) else 1) + _WIRE_BYTES


def _timeouts(connection: Connection, seconds: float) -> str:
    milliseconds = max(1, round(seconds * 1000))
    text = f"SET LOCAL statement_timeout = {milliseconds}"
    if connection.get_server_version().major >= _TRANSACTION_TIMEOUT_SINCE:
        text += f"; SET LOCAL transaction_timeout = {milliseconds + 500}"
    return text


async def _roll_back(connection: Connection, transaction: Any) -> None:
    """Ends the transaction, or the connection when the server no longer answers."""
    try:
        if not connection.is_closed():
            async with asyncio.timeout(_ROLLBACK_SECONDS):
                await transaction.rollback()
    except (*UNREACHABLE, asyncpg.PostgresError):
        connection.terminate()


def _distinct(schema: str, table: str, column: str) -> str:
    name, source = quoted(column), f"{quoted(schema)}.{quoted(table)}"
    return f"SELECT DISTINCT {name}::text FROM {source} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT $1"
