"""Runs statements on PostgreSQL, as a role that may only read."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from services.evaluation.answered import Json
from services.evaluation.tools.statements import Rows, StatementFailed
from services.runtime.errors import DependencyFailed

# Given and taken as text, so that a value may be written as JSON has it.
_AS_TEXT = ("date", "timestamp", "timestamptz", "time", "interval", "numeric", "uuid")
_MAX_ROWS = 10_000
# As the SQL service's own sessions: a day begins at the same time, and dates are read alike.
_SESSION = {"TimeZone": "UTC", "DateStyle": "ISO, YMD", "IntervalStyle": "iso_8601"}
# A server that is started again is there within that; a statement that ends its own connection does it every time.
_PATIENCE_SECONDS, _PAUSE_SECONDS, _TRIES = 60.0, 0.5, 3
_LOST = (
    OSError,
    asyncpg.InternalClientError,  # the server's last words came while the driver began something
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)
# A wrong number or type of values is an InterfaceError or what Python makes of it.
_REFUSED = (asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError, ValueError, TypeError)


class PostgresExecutes:
    """Executes over one connection, one statement at a time; one that is lost is made again. Made by `connected`."""

    def __init__(self, dsn: str, timeout_seconds: float, patience_seconds: float) -> None:
        self._dsn = dsn
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = patience_seconds
        self._connection: Any = None
        self._one_at_a_time = asyncio.Lock()

    async def open(self) -> None:
        """Connects. Raises asyncpg's errors and OSError."""
        connection: Any = await asyncpg.connect(self._dsn, timeout=self._timeout_seconds, server_settings=_SESSION)
        for name in _AS_TEXT:
            await connection.set_type_codec(name, encoder=str, decoder=_read(name), schema="pg_catalog", format="text")
        await connection.execute(f"SET statement_timeout = {int(self._timeout_seconds * 1000)}")
        self._connection = connection

    async def close(self) -> None:
        """Lets go."""
        if self._connection is not None:
            with contextlib.suppress(*_LOST, *_REFUSED):
                await self._connection.close(timeout=5)

    async def rows(self, statement: str, values: Sequence[Json]) -> Rows:
        """See Executes. At most 10,000 rows are looked at; a statement with more fails.

        Raises DependencyFailed where the database is lost and does not come back: a statement is not wrong for that.
        """
        async with self._one_at_a_time:
            for _ in range(_TRIES):
                await self._be_connected()
                try:
                    return await self._rows(statement, values)
                except _LOST:
                    # Whatever it was doing, the server has rolled it back.
                    self._connection.terminate()
                except asyncpg.InterfaceError as error:
                    if not self._connection.is_closed():
                        raise StatementFailed(str(error)) from None
        raise StatementFailed("it ends its connection")

    async def _be_connected(self) -> None:
        until = time.monotonic() + self._patience_seconds
        while self._connection.is_closed():
            try:
                await self.open()
            except (*_LOST, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                if time.monotonic() > until:
                    why = f"the database of the expected statements is lost ({type(error).__name__})"
                    raise DependencyFailed(why, dependency="postgresql") from None
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _rows(self, statement: str, values: Sequence[Json]) -> Rows:
        transaction = self._connection.transaction(readonly=True)
        await transaction.start()
        try:
            prepared = await self._connection.prepare(statement, timeout=self._timeout_seconds)
            cursor = await prepared.cursor(*values, timeout=self._timeout_seconds)
            found = await cursor.fetch(_MAX_ROWS + 1, timeout=self._timeout_seconds)
            columns = len(prepared.get_attributes())
        except _LOST as error:
            if isinstance(error, TimeoutError):  # which is an OSError
                raise StatementFailed(type(error).__name__) from None
            raise
        except _REFUSED as error:
            if self._connection.is_closed():
                raise asyncpg.InterfaceError("the connection is closed") from None
            raise StatementFailed(str(error) or type(error).__name__) from None
        finally:
            if not self._connection.is_closed():
                # Never committed: that also takes back settings which the statement may have changed.
                await transaction.rollback()
        if len(found) > _MAX_ROWS:
            raise StatementFailed(f"more than {_MAX_ROWS} rows")
        return Rows(columns, [tuple(row) for row in found])


@asynccontextmanager
async def connected(
    dsn: str, timeout_seconds: float = 10, *, patience_seconds: float = _PATIENCE_SECONDS
) -> AsyncGenerator[PostgresExecutes]:
    """A connection for the time of a run; `dsn` is best a reader's. Raises asyncpg's errors and OSError.

    `patience_seconds`: how long a database that is lost meanwhile is waited for.
    """
    executes = PostgresExecutes(dsn, timeout_seconds, patience_seconds)
    await executes.open()
    try:
        yield executes
    finally:
        await executes.close()


def _read(name: str) -> Any:
    return float if name == "numeric" else str
