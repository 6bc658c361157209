"""Connections to the tenants' databases: a small pool for each address, opened when first used, as the reader role."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

import asyncpg

from services.runtime.errors import DependencyFailed, Overloaded, ServiceError
from services.runtime.tenants import SqlSource
from services.sql_tool import codecs
from services.sql_tool.codecs import PgType
from services.sql_tool.lag import PRIMARY_PLACE, Lag
from services.sql_tool.meter import Meter

log = logging.getLogger(__name__)

# Generic in the stubs only.
Pool: TypeAlias = "asyncpg.Pool[Any]"

# Names without quotes must not be escapable, and values must come out as ISO 8601 in UTC.
_SESSION = {
    "application_name": "sabueso-sql-tool",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmloption": "content",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "default_transaction_read_only": "on",
    "row_security": "on",
    "lock_timeout": "500ms",
    "idle_in_transaction_session_timeout": "30s",
    "work_mem": "16MB",
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
# How long an address that did not answer is left alone while there are others.
_DOWN_SECONDS = 5.0


class BoundedConnection(asyncpg.Connection):  # pyright: ignore[reportMissingTypeArgument]
    """A connection that reads no more than its `meter` lets pass, exchanges all values as text, and forgets all."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.meter = Meter(protocol, transport)
        transport.set_protocol(self.meter)
        self._type_settings = protocol.get_settings()
        self.types: dict[int, PgType] = {}

    def get_reset_query(self) -> str:
        """Run before another call gets the connection. The driver's own leaves temporary tables, roles and more."""
        return "DISCARD ALL"

    def learn(self, types: Mapping[int, PgType]) -> None:
        """From now on values of these types travel as text; `set_type_codec` cannot do that for arrays and rows."""
        for oid, kind in types.items():
            self._type_settings.add_python_codec(
                oid, kind.name, kind.schema, [], "scalar", codecs.encode, codecs.decoder(kind), "text"
            )
        self.types.update(types)

    async def learn_own(self) -> None:
        """Reads the types that are not PostgreSQL's own: enumerations, domains, rows of tables, extensions' types."""
        rows: Any = await self.fetch(f"{codecs.TYPES} WHERE {codecs.OWN}")
        self.learn(codecs.read_types(rows, self.types))


# What the pool hands out stands for one, and has all that it has.
Connection: TypeAlias = BoundedConnection


@dataclass(frozen=True)
class Pooling:
    """Bounds of a tenant's pool; times in seconds."""

    size: int = 4
    connect_timeout: float = 3
    statement_timeout: float = 5


@dataclass
class _Address:
    """One DSN of a source. `trusted`: its role was audited."""

    pool: "Pool | None" = None
    dsn: str = ""
    trusted: bool = False
    down_until: float = 0


class Connections:
    """The pools of all tenants. The DSNs are files in `secrets_dir`."""

    def __init__(self, secrets_dir: Path, pooling: Pooling) -> None:
        self._secrets_dir = secrets_dir
        self._pooling = pooling
        self._addresses: dict[tuple[str, str], _Address] = {}
        self._opening = asyncio.Lock()
        self._turn = 0
        self._lag = Lag()
        self._built_in: dict[int, dict[int, PgType]] = {}

    @asynccontextmanager
    async def session(self, source: SqlSource) -> AsyncGenerator[Connection]:
        """A connection of the reader role to a replica that is near enough, or else to the primary; given back clean.

        Only trusted addresses serve. Raises DependencyFailed (postgresql) when there is none to be had, Overloaded when
        all connections of the first that answers are in use.
        """
        pool, connection = await self._first(source)
        try:
            yield connection
        finally:
            await self._give_back(pool, connection)

    @asynccontextmanager
    async def session_at(self, source: SqlSource, secret: str) -> AsyncGenerator[Connection]:
        """A connection to the address in the file `secret`, trusted or not. Raises as `session` does."""
        pool, connection = await self._acquire(source, secret)
        try:
            yield connection
        finally:
            await self._give_back(pool, connection)

    def trust(self, source: SqlSource, secret: str, trusted: bool) -> None:
        """Says whether the role at this address was audited and may do no more than it should."""
        self._address(source, secret).trusted = trusted

    def note_change(self, source: SqlSource, place: int) -> None:
        """The primary told of a change that is before `place` (bytes) in its log: replicas without it are not read."""
        self._lag.told(source, place)

    def dsn(self, source: SqlSource) -> str:
        """The primary's DSN. Raises DependencyFailed when the file is not there."""
        return self._dsn(source.dsn_secret)

    async def close(self) -> None:
        """Ends all connections."""
        for address in self._addresses.values():
            if address.pool is not None:
                address.pool.terminate()
        self._addresses.clear()

    def _address(self, source: SqlSource, secret: str) -> _Address:
        return self._addresses.setdefault((secret, source.database_schema), _Address())

    async def _first(self, source: SqlSource) -> tuple[Pool, Connection]:
        failure = DependencyFailed("The tenant's database does not answer.", dependency="postgresql")
        late: list[str] = []
        for secret in self._order(source):
            if not self._address(source, secret).trusted:
                continue
            try:
                pool, connection = await self._acquire(source, secret)
            except DependencyFailed as error:
                failure = error
                continue
            if secret == source.dsn_secret or await self._is_near(source, pool, connection):
                log.debug("a source is read", extra={"source": source.name, "secret": secret})
                return pool, connection
            late.append(secret)
        if late and source.replica_max_lag_seconds:
            log.warning("replicas are too far behind, and their primary is away", extra={"source": source.name})
            text = "The replicas of the tenant's database are too far behind, and the primary does not answer."
            raise DependencyFailed(text, dependency="postgresql")
        if late:
            return await self._acquire(source, late[0])
        raise failure

    async def _is_near(self, source: SqlSource, pool: Pool, connection: Connection) -> bool:
        """Whether the replica is near enough to its primary. If not, the connection is given back."""
        near = not self._lag.matters(source)
        try:
            near = near or await self._lag.allows(source, connection, lambda: self._primary_place(source))
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            log.warning("a replica does not say how far it is", extra={"cause": type(error).__name__})
        finally:
            if not near:
                await self._give_back(pool, connection)
        return near

    async def _primary_place(self, source: SqlSource) -> int | None:
        primary = self._address(source, source.dsn_secret)
        if not primary.trusted or primary.down_until > time.monotonic():
            return None
        try:
            async with self.session_at(source, source.dsn_secret) as connection:
                return await connection.fetchval(PRIMARY_PLACE, timeout=self._pooling.connect_timeout)
        except (ServiceError, *UNREACHABLE, asyncpg.PostgresError):
            return None

    def _order(self, source: SqlSource) -> list[str]:
        """Replicas in turn, then the primary; those that did not answer just now come last."""
        replicas = list(source.replica_dsn_secrets)
        if replicas:
            self._turn += 1
            first = self._turn % len(replicas)
            replicas = replicas[first:] + replicas[:first]
        now = time.monotonic()
        return sorted([*replicas, source.dsn_secret], key=lambda secret: self._address(source, secret).down_until > now)

    async def _acquire(self, source: SqlSource, secret: str) -> tuple[Pool, Connection]:
        address = self._address(source, secret)
        try:
            try:
                pool = await self._pool(source, secret)
                return pool, await self._from(pool)
            except UNREACHABLE:
                # The password may have been rotated, or the database moved: the file is read again, once.
                if address.pool is None or self._dsn(secret) == address.dsn:
                    raise
                address.pool.terminate()
                address.pool = None
                pool = await self._pool(source, secret)
                return pool, await self._from(pool)
        except UNREACHABLE as error:
            address.down_until = time.monotonic() + _DOWN_SECONDS
            log.warning("no connection to a tenant's database", extra={"cause": type(error).__name__, "secret": secret})
            raise DependencyFailed("The tenant's database does not answer.", dependency="postgresql") from None

    async def _from(self, pool: Pool) -> Connection:
        """A connection that is alive. Those that were lost while they lay idle are given up, one after the other."""
        for _ in range(self._pooling.size):
            connection = await self._any_from(pool)
            try:
                await connection.execute("SELECT 1", timeout=self._pooling.connect_timeout)
                return connection
            except (*UNREACHABLE, asyncpg.PostgresError):
                with contextlib.suppress(asyncpg.InterfaceError):  # the pool noticed first
                    connection.terminate()
                await self._give_back(pool, connection)
            except BaseException:  # the caller went
                await self._give_back(pool, connection)
                raise
        return await self._any_from(pool)

    async def _any_from(self, pool: Pool) -> Connection:
        try:
            return cast(Connection, await pool.acquire(timeout=self._pooling.connect_timeout))
        except TimeoutError:
            if pool.get_size() >= pool.get_max_size() and pool.get_idle_size() == 0:
                raise Overloaded("All connections to the tenant's database are in use.") from None
            raise

    async def _give_back(self, pool: Pool, connection: Connection) -> None:
        # A connection that is lost cannot be reset; the pool replaces it.
        with contextlib.suppress(*UNREACHABLE, asyncpg.PostgresError):
            await pool.release(cast(Any, connection), timeout=self._pooling.connect_timeout)

    async def _pool(self, source: SqlSource, secret: str) -> Pool:
        address = self._address(source, secret)
        if address.pool is not None:
            return address.pool
        async with self._opening:
            if address.pool is None:
                dsn = self._dsn(secret)
                if address.dsn and _without_password(dsn) != _without_password(address.dsn):
                    address.trusted = False  # another server or role than the one that was audited
                address.dsn = dsn
                address.pool = await self._open(source, dsn)
            return address.pool

    async def _open(self, source: SqlSource, dsn: str) -> Pool:
        schema = source.database_schema.replace('"', '""')
        settings = _SESSION | {
            "search_path": f'pg_catalog, "{schema}", pg_temp',
            "statement_timeout": str(round(self._pooling.statement_timeout * 1000)),
        }
        return await asyncpg.create_pool(
            dsn,
            min_size=0,
            max_size=self._pooling.size,
            timeout=self._pooling.connect_timeout,
            # Statements of a model hardly ever repeat, and a cached one breaks when the table changes.
            statement_cache_size=0,
            server_settings=settings,
            connection_class=BoundedConnection,
            init=self._teach,
        )

    async def _teach(self, connection: Any) -> None:
        """Tells a new connection the types that every database of this version has, and the tenant's own."""
        version: int = connection.get_server_version().major
        if version not in self._built_in:
            rows = await connection.fetch(f"{codecs.TYPES} WHERE {codecs.BUILT_IN}")
            self._built_in[version] = codecs.read_types(rows, {})
        connection.learn(self._built_in[version])
        await connection.learn_own()

    def _dsn(self, name: str) -> str:
        if Path(name).name != name:
            log.error("a DSN's secret must be a file name", extra={"secret": name})
            raise DependencyFailed("The tenant's database is not configured.", dependency="postgresql")
        try:
            return (self._secrets_dir / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            log.error("a DSN's secret cannot be read", extra={"secret": name})
            raise DependencyFailed("The tenant's database is not configured.", dependency="postgresql") from None


def _without_password(dsn: str) -> str:
    parts = urlsplit(dsn)
    return f"{parts.username}@{parts.netloc.rpartition('@')[2]}{parts.path}?{parts.query}"
