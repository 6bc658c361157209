"""Connections to the tenants' databases: one small pool a tenant, opened when first used, as the reader role."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from services.runtime.errors import DependencyFailed, Overloaded
from services.runtime.tenants import SqlSource
from services.sql_tool.cells import TEXT_TYPES

log = logging.getLogger(__name__)

# Generic in the stubs only.
Connection: TypeAlias = "PoolConnectionProxy[Any]"
Pool: TypeAlias = "asyncpg.Pool[Any]"

# Names without quotes must not be escapable, and values must come out as ISO 8601 in UTC.
_SESSION = {
    "application_name": "sabueso-sql-tool",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "default_transaction_read_only": "on",
    "lock_timeout": "500ms",
    "idle_in_transaction_session_timeout": "30s",
    "jit": "off",
}
_AUTHENTICATION = (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)
# What a database that is away, starting, stopping or full answers, and what a cut connection looks like.
UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server's last words came while the driver began something
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InvalidCatalogNameError,
    *_AUTHENTICATION,
)


@dataclass(frozen=True)
class Pooling:
    """Bounds of a tenant's pool; times in seconds."""

    size: int = 4
    connect_timeout: float = 3
    statement_timeout: float = 5


class Connections:
    """The pools of all tenants. The DSNs are files in `secrets_dir`."""

    def __init__(self, secrets_dir: Path, pooling: Pooling) -> None:
        self._secrets_dir = secrets_dir
        self._pooling = pooling
        self._pools: dict[tuple[str, str], Pool] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def session(self, source: SqlSource) -> AsyncGenerator[Connection]:
        """A connection of the reader role; given back clean.

        Raises DependencyFailed (postgresql) when there is none to be had, Overloaded when all are in use.
        """
        pool, connection = await self._acquire(source)
        try:
            yield connection
        finally:
            # A connection that is lost cannot be reset; the pool replaces it.
            with contextlib.suppress(*UNREACHABLE):
                await pool.release(connection, timeout=self._pooling.connect_timeout)

    async def close(self) -> None:
        """Ends all connections."""
        for pool in self._pools.values():
            pool.terminate()
        self._pools.clear()

    async def _acquire(self, source: SqlSource) -> tuple[Pool, Connection]:
        try:
            pool = await self._pool(source)
            return pool, await self._from(pool)
        except _AUTHENTICATION:
            # The password may have been rotated: the file is read again, once.
            await self._forget(source)
        except UNREACHABLE as error:
            raise _failed(error) from None
        try:
            pool = await self._pool(source)
            return pool, await self._from(pool)
        except UNREACHABLE as error:
            raise _failed(error) from None

    async def _from(self, pool: Pool) -> Connection:
        try:
            return await pool.acquire(timeout=self._pooling.connect_timeout)
        except TimeoutError:
            if pool.get_size() >= pool.get_max_size() and pool.get_idle_size() == 0:
                raise Overloaded("All connections to the tenant's database are in use.") from None
            raise

    async def _pool(self, source: SqlSource) -> Pool:
        key = (source.dsn_secret, source.database_schema)
        if (pool := self._pools.get(key)) is not None:
            return pool
        async with self._opening:
            if (pool := self._pools.get(key)) is None:
                pool = await self._open(source)
                self._pools[key] = pool
            return pool

    async def _open(self, source: SqlSource) -> Pool:
        schema = source.database_schema.replace('"', '""')
        settings = _SESSION | {
            "search_path": f'pg_catalog, "{schema}", pg_temp',
            "statement_timeout": str(round(self._pooling.statement_timeout * 1000)),
        }
        return await asyncpg.create_pool(
            self._dsn(source.dsn_secret),
            min_size=0,
            max_size=self._pooling.size,
            timeout=self._pooling.connect_timeout,
            # Statements of a model hardly ever repeat, and a cached one breaks when the table changes.
            statement_cache_size=0,
            server_settings=settings,
            init=_exact_values,
        )

    async def _forget(self, source: SqlSource) -> None:
        pool = self._pools.pop((source.dsn_secret, source.database_schema), None)
        if pool is not None:
            pool.terminate()

    def _dsn(self, name: str) -> str:
        if Path(name).name != name:
            log.error("a DSN's secret must be a file name", extra={"secret": name})
            raise DependencyFailed("The tenant's database is not configured.", dependency="postgresql")
        try:
            return (self._secrets_dir / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            log.error("a DSN's secret cannot be read", extra={"secret": name})
            raise DependencyFailed("The tenant's database is not configured.", dependency="postgresql") from None


async def _exact_values(connection: Any) -> None:
    for name in TEXT_TYPES:
        await connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=str, format="text")


def _failed(error: BaseException) -> DependencyFailed:
    log.warning("no connection to a tenant's database", extra={"cause": type(error).__name__})
    return DependencyFailed("The tenant's database does not answer.", dependency="postgresql")
