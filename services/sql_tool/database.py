"""Runs approved statements in a read-only transaction that is always rolled back, within limits of time, cost, size."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import asyncpg

from services.runtime.errors import DeadlineExceeded, NotPermitted, SqlError
from services.runtime.tenants import SqlSource
from services.sql_tool import catalog, cells, parameters, sqlstates
from services.sql_tool.catalog import Catalog
from services.sql_tool.cells import Cell, ColumnType
from services.sql_tool.connections import UNREACHABLE, Connection, Connections
from services.sql_tool.guard import Approved
from services.sql_tool.parameters import ParameterType

# Small first, so that a few huge rows do not fill the memory before they are counted.
_FIRST_BATCH, _NEXT_BATCH = 64, 256
_EXAMPLE_SECONDS = 1.0
_ROLLBACK_SECONDS = 2.0


@dataclass(frozen=True)
class Limits:
    """What one statement may take: seconds, rows, bytes of values, and the planner's cost."""

    timeout_seconds: float
    max_rows: int
    max_bytes: int
    max_cost: float


@dataclass(frozen=True)
class Column:
    """A result column; names may repeat."""

    name: str
    type: str


@dataclass(frozen=True)
class Plan:
    """The planner's estimates and the relations that it would read."""

    total_cost: float
    row_estimate: float
    relations: frozenset[str]


@dataclass(frozen=True)
class Result:
    """Rows in the server's order. `truncated_by` is `rows`, `bytes` or empty."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    truncated_by: str
    seconds: float


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

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def catalog(self, tenant_id: str, source: SqlSource) -> Catalog:
        async with self._connections.session(source) as connection, sqlstates.translated():
            return await catalog.read(connection, tenant_id, source)

    async def run(
        self, source: SqlSource, known: Catalog, statement: Approved, values: Sequence[object], limits: Limits
    ) -> Result:
        async with self._transaction(source, limits) as connection:
            started = time.perf_counter()
            prepared, arguments = await _prepare(connection, statement, values)
            columns = _columns(prepared)
            await _plan(connection, known, statement, arguments, limits)
            rows, truncated_by = await _fetch(prepared, arguments, columns, limits)
            taken = time.perf_counter() - started
        return Result([Column(name, kind.sql_name) for name, kind in columns], rows, truncated_by, taken)

    async def plan(
        self, source: SqlSource, known: Catalog, statement: Approved, values: Sequence[object], limits: Limits
    ) -> Plan:
        async with self._transaction(source, limits) as connection:
            _, arguments = await _prepare(connection, statement, values)
            return await _plan(connection, known, statement, arguments, limits)

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
    async def _transaction(self, source: SqlSource, limits: Limits) -> AsyncGenerator[Connection]:
        """A read-only transaction that is rolled back, on the client's clock too: a server can hang."""
        try:
            async with asyncio.timeout(limits.timeout_seconds + 0.5):
                async with self._connections.session(source) as connection, sqlstates.translated():
                    transaction = connection.transaction(readonly=True)
                    await transaction.start()
                    try:
                        milliseconds = max(1, round(limits.timeout_seconds * 1000))
                        await connection.execute(f"SET LOCAL statement_timeout = {milliseconds}")
                        yield connection
                    finally:
                        await _roll_back(connection, transaction)
        except TimeoutError:
            raise DeadlineExceeded("The statement took too long.", stage="sql") from None


async def _roll_back(connection: Connection, transaction: Any) -> None:
    """Ends the transaction, or the connection when the server no longer answers."""
    try:
        if not connection.is_closed():
            async with asyncio.timeout(_ROLLBACK_SECONDS):
                await transaction.rollback()
    except (*UNREACHABLE, asyncpg.PostgresError):
        connection.terminate()


async def _prepare(connection: Connection, statement: Approved, values: Sequence[object]) -> tuple[Any, list[object]]:
    parameters.check_count(values, statement.parameter_count)
    prepared: Any = await connection.prepare(statement.sql)
    types = [_parameter_type(kind) for kind in prepared.get_parameters()]
    return prepared, parameters.coerce(values, types)


def _parameter_type(kind: asyncpg.Type) -> ParameterType:
    array = kind.kind == "array"
    name = kind.name.removesuffix("[]") if array else kind.name
    return ParameterType(name, array, foreign=kind.schema != "pg_catalog")


def _columns(prepared: Any) -> list[tuple[str, ColumnType]]:
    columns: list[tuple[str, ColumnType]] = []
    for attribute in prepared.get_attributes():
        kind = attribute.type
        if kind.kind in ("range", "multirange", "composite") or kind.name in ("record", "record[]"):
            raise SqlError(
                f"Column `{attribute.name}` has a value of several parts ({kind.name}).",
                sqlstate="0A000",
                hint="Cast it to text, or use to_jsonb(…).",
            )
        array = kind.kind == "array"
        columns.append((attribute.name, ColumnType(kind.name.removesuffix("[]") if array else kind.name, array)))
    return columns


async def _plan(
    connection: Connection, known: Catalog, statement: Approved, arguments: Sequence[object], limits: Limits
) -> Plan:
    text = await connection.fetchval(f"EXPLAIN (FORMAT JSON, VERBOSE) {statement.sql}", *arguments)
    root = cast(dict[str, Any], json.loads(text)[0]["Plan"])
    relations, foreign = set[str](), set[str]()
    for node in _nodes(root):
        if "Relation Name" in node:
            relations.add(f"{node.get('Schema', '')}.{node['Relation Name']}")
        if "Function Name" in node and node.get("Schema") != "pg_catalog":
            foreign.add(str(node["Function Name"]))
    if foreign or not relations <= known.readable:
        raise NotPermitted("The statement would read what is not permitted.", rule="table")
    cost = float(root["Total Cost"])
    if cost > limits.max_cost:
        raise NotPermitted(
            f"The statement is too dear: estimated cost {cost:.0f}, at most {limits.max_cost:.0f}.",
            rule="cost",
            hint="Filter more, join on keys, or aggregate in fewer steps.",
        )
    return Plan(cost, float(root["Plan Rows"]), frozenset(relations))


def _nodes(node: dict[str, Any]) -> Iterable[dict[str, Any]]:
    waiting = [node]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += at.get("Plans", [])


async def _fetch(
    prepared: Any, arguments: Sequence[object], columns: Sequence[tuple[str, ColumnType]], limits: Limits
) -> tuple[list[list[Cell]], str]:
    rows: list[list[Cell]] = []
    size = 0
    cursor = await prepared.cursor(*arguments)
    batch = min(_FIRST_BATCH, limits.max_rows + 1)
    while records := await cursor.fetch(batch):
        for record in records:
            if len(rows) == limits.max_rows:
                return rows, "rows"
            row = [cells.cell(value, kind) for value, (_, kind) in zip(record, columns, strict=True)]
            size += sum(one.size for one in row)
            if size > limits.max_bytes:
                return rows, "bytes"
            rows.append(row)
        if len(records) < batch:
            break
        batch = min(_NEXT_BATCH, limits.max_rows + 1 - len(rows))
    return rows, ""


def _distinct(schema: str, table: str, column: str) -> str:
    name, source = quoted(column), f"{quoted(schema)}.{quoted(table)}"
    return f"SELECT DISTINCT {name}::text FROM {source} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT $1"


def quoted(name: str) -> str:
    """A name as SQL text, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
