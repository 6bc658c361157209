"""Connections to the PostgreSQL that keeps what evaluation finds, all of it in one schema."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from services.runtime.errors import DependencyFailed

SCHEMA = "evaluation"
# Of the advisory lock under which one of several starting processes makes the schema.
_LOCK = 7_240_110
_LOSSES = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


class PostgresPool:
    """A pool whose connections look into the schema. `dsn`: of a role that may create it, or owns it."""

    def __init__(self, dsn: str, name: str, *, max_connections: int, timeout_seconds: float) -> None:
        """`name` is what the server calls the connections."""
        self._dsn = dsn
        self._name = name
        self._max_connections = max_connections
        self._timeout_seconds = timeout_seconds
        self._pool: Any = None

    async def open(self) -> None:
        """Connects. Raises DependencyFailed."""
        try:
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=1,
                max_size=self._max_connections,
                timeout=self._timeout_seconds,
                command_timeout=self._timeout_seconds,
                server_settings={"search_path": SCHEMA, "application_name": self._name},
            )
        except _LOSSES as error:
            raise _lost("cannot be reached", error) from None

    @asynccontextmanager
    async def opening(self) -> AsyncGenerator[Any]:
        """Connects, and makes the schema; the tables are made within, by one process at a time.

        Raises DependencyFailed.
        """
        await self.open()
        async with self.transaction() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            yield connection

    async def close(self) -> None:
        """Closes the connections."""
        if self._pool is not None:
            await self._pool.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Any]:
        """A connection within a transaction. Raises DependencyFailed, also where the statements in it fail."""
        try:
            async with self._pool.acquire(timeout=self._timeout_seconds) as connection, connection.transaction():
                yield connection
        except _LOSSES as error:
            raise _lost("failed", error) from None


def _lost(what: str, error: Exception) -> DependencyFailed:
    return DependencyFailed(f"PostgreSQL {what} ({type(error).__name__}).", dependency="postgresql")
