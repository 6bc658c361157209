"""One approved statement on a connection: prepared, planned and fetched within limits of cost, rows and bytes."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import asyncpg

from services.runtime.errors import DependencyFailed, NotPermitted, SqlError
from services.sql_tool import cells, parameters
from services.sql_tool.catalog import Catalog
from services.sql_tool.cells import Cell, ColumnType
from services.sql_tool.codecs import Cut, PgType
from services.sql_tool.connections import Connection
from services.sql_tool.guard import Approved
from services.sql_tool.parameters import ParameterType

# Small first, so that a few huge rows do not fill the memory before they are counted.
_FIRST_BATCH, _NEXT_BATCH = 64, 256


@dataclass(frozen=True)
class Limits:
    """What one statement may take: seconds, rows, bytes of values, and the planner's cost."""

    timeout_seconds: float
    max_rows: int
    max_bytes: int
    max_cost: float


@dataclass(frozen=True)
class Plan:
    """The planner's estimates and the relations that it would read."""

    total_cost: float
    row_estimate: float
    relations: frozenset[str]


async def prepare(connection: Connection, statement: Approved, values: Sequence[object]) -> tuple[Any, list[object]]:
    """The driver's statement, and the values as it takes them, of the types that the server infers.

    Raises InvalidField (params) and DependencyFailed.
    """
    parameters.check_count(values, statement.parameter_count)
    prepared = await _known(connection, statement.sql)
    if prepared is None:  # a type is younger than the connection
        await connection.learn_own()
        prepared = await _known(connection, statement.sql)
    if prepared is None:
        raise DependencyFailed("The tenant's database has a type that is not known.", dependency="postgresql")
    types = [_parameter_type(connection.types[kind.oid]) for kind in prepared.get_parameters()]
    return prepared, parameters.coerce(values, types)


async def _known(connection: Connection, sql: str) -> Any:
    """The prepared statement; None when the connection does not know all of its types."""
    try:
        prepared: Any = await connection.prepare(sql)
    except asyncpg.UnsupportedClientFeatureError:  # the driver cannot put rows of its own together
        return None
    used = {attribute.type.oid for attribute in prepared.get_attributes()}
    used |= {kind.oid for kind in prepared.get_parameters()}
    return prepared if used <= connection.types.keys() else None


def _parameter_type(kind: PgType) -> ParameterType:
    column = cells.column_type(kind)
    return ParameterType(column.name, column.array, column.foreign)


def columns_of(connection: Connection, prepared: Any) -> list[tuple[str, ColumnType]]:
    """Names and types of the result's columns; names may repeat."""
    return [
        (attribute.name, cells.column_type(connection.types[attribute.type.oid]))
        for attribute in prepared.get_attributes()
    ]


async def plan(
    connection: Connection, known: Catalog, statement: Approved, arguments: Sequence[object], limits: Limits
) -> Plan:
    """What running it would read and cost. Raises NotPermitted (table, cost) and SqlError (too large)."""
    text = await connection.fetchval(f"EXPLAIN (FORMAT JSON, VERBOSE) {statement.sql}", *arguments)
    if text is None or isinstance(text, Cut):
        raise too_large()
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


async def fetch(
    connection: Connection,
    prepared: Any,
    arguments: Sequence[object],
    columns: Sequence[tuple[str, ColumnType]],
    limits: Limits,
) -> tuple[list[list[Cell]], int, str]:
    """Rows, their size in bytes, and what cut them: `rows`, `bytes`, `cell`, or nothing.

    The portal is left where it is: the transaction is rolled back with it.
    """
    rows: list[list[Cell]] = []
    size = 0
    cut = False
    cursor = await prepared.cursor(*arguments)
    batch = min(_FIRST_BATCH, limits.max_rows + 1)
    while records := await cursor.fetch(batch):
        for record in records:
            if len(rows) == limits.max_rows:
                return rows, size, "rows"
            row = [cells.cell(value, kind) for value, (_, kind) in zip(record, columns, strict=True)]
            row_size = sum([one.size for one in row])
            if size + row_size > limits.max_bytes:
                return rows, size, "bytes"
            size += row_size
            rows.append(row)
            cut = cut or any([one.cut for one in row])
        if len(records) < batch:
            break
        batch = min(_NEXT_BATCH, limits.max_rows + 1 - len(rows))
    if connection.meter.exhausted:
        return rows, size, "bytes"
    return rows, size, "cell" if cut else ""


def too_large() -> SqlError:
    """What a model is told of a value, a message or a plan that was cut off on its way."""
    return SqlError(
        "The statement makes a value or a message that is too large.",
        sqlstate="54000",
        code="too_large",
        hint="Select fewer or shorter values, such as left(x, 200).",
    )
