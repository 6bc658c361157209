"""Runs statements on PostgreSQL, as a role that may only read."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from services.evaluation.answered import Json
from services.evaluation.tools.statements import Rows, StatementFailed

# Given and taken as text, so that a value may be written as JSON has it.
_AS_TEXT = ("date", "timestamp", "timestamptz", "time", "interval", "numeric", "uuid")
_MAX_ROWS = 10_000


class PostgresExecutes:
    """Executes over one connection, one statement at a time. Made by `connected`."""

    def __init__(self, connection: Any, timeout_seconds: float) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        self._one_at_a_time = asyncio.Lock()

    async def rows(self, statement: str, values: Sequence[Json]) -> Rows:
        """See Executes. At most 10,000 rows are looked at; a statement with more fails."""
        async with self._one_at_a_time:
            transaction = self._connection.transaction(readonly=True)
            await transaction.start()
            try:
                prepared = await self._connection.prepare(statement, timeout=self._timeout_seconds)
                cursor = await prepared.cursor(*values, timeout=self._timeout_seconds)
                found = await cursor.fetch(_MAX_ROWS + 1, timeout=self._timeout_seconds)
                columns = len(prepared.get_attributes())
            # A wrong number or type of values is an InterfaceError or what Python makes of it.
            except (asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError, ValueError, TypeError) as error:
                raise StatementFailed(str(error) or type(error).__name__) from None
            finally:
                # Never committed: that also takes back settings which the statement may have changed.
                await transaction.rollback()
        if len(found) > _MAX_ROWS:
            raise StatementFailed(f"more than {_MAX_ROWS} rows")
        return Rows(columns, [tuple(row) for row in found])


@asynccontextmanager
async def connected(dsn: str, timeout_seconds: float = 10) -> AsyncGenerator[PostgresExecutes]:
    """A connection for the time of a run; `dsn` is best a reader's. Raises asyncpg's errors and OSError."""
    connection: Any = await asyncpg.connect(dsn, timeout=timeout_seconds)
    try:
        for name in _AS_TEXT:
            await connection.set_type_codec(name, encoder=str, decoder=_read(name), schema="pg_catalog", format="text")
        await connection.execute(f"SET statement_timeout = {int(timeout_seconds * 1000)}")
        yield PostgresExecutes(connection, timeout_seconds)
    finally:
        await connection.close(timeout=5)


def _read(name: str) -> Any:
    return float if name == "numeric" else str
