"""Takes a corpus through all stages on a scratch database, each case as a role that may read just what it allows."""

import hashlib
import secrets
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from services.runtime.errors import DependencyFailed, ServiceError
from services.runtime.tenants import SqlSource
from services.sql_tool import catalog, grants, parameters
from services.sql_tool.allowlist import AllowList
from services.sql_tool.catalog import Catalog
from services.sql_tool.connections import Connections, Pooling
from services.sql_tool.corpus import Case, Verdict, approve, rejected
from services.sql_tool.database import Limits, PostgresDatabase

_COLUMNS = """
    SELECT n.nspname || '.' || c.relname AS table, array_agg(a.attname::text ORDER BY a.attnum) AS columns
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'm', 'p', 'f') GROUP BY 1
"""
_PREFIX = "sabueso_check_"
_CONNECT_SECONDS = 10
LIMITS = Limits(timeout_seconds=2, max_rows=1000, max_bytes=1024 * 1024, max_cost=1e6)

Say = Callable[[str], None]


async def judge(cases: Sequence[Case], dsn: str, say: Say, limits: Limits = LIMITS) -> list[Verdict]:
    """One verdict a case, from parsing to the last row.

    A `dsn` that may create roles gets one for each different allow-list, made as the service's command makes them, and
    dropped again; as that takes rights from PUBLIC, use a scratch database. Otherwise statements are planned as the
    DSN's own role, and not run. `say` is told which, and what else a reader should know. Raises DependencyFailed when
    the database does not answer.
    """
    try:
        admin = await asyncpg.connect(dsn, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise DependencyFailed(
            f"The database of --dsn does not answer ({type(error).__name__}).", dependency="postgresql"
        ) from None
    try:
        known = {row["table"]: row["columns"] for row in await admin.fetch(_COLUMNS)}
        sources = {case.id: _source(case, known) for case in cases}
        different = list(dict.fromkeys(source.dsn_secret for source in sources.values() if source is not None))
        by_name = {source.dsn_secret: source for source in sources.values() if source is not None}
        may_create: bool = await admin.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
            connections = Connections(Path(folder), Pooling(size=1, statement_timeout=limits.timeout_seconds + 1))
            roles = _roles(admin, dsn, by_name, Path(folder), may_create, say)
            async with roles:
                try:
                    trial = _Trial(connections, limits, run=may_create)
                    known_catalogs = {name: await trial.catalog(by_name[name]) for name in different}
                    return [await trial.verdict(case, sources[case.id], known_catalogs) for case in cases]
                finally:
                    await connections.close()
    finally:
        await admin.close(timeout=_CONNECT_SECONDS)


def _source(case: Case, known: Mapping[str, Sequence[str]]) -> SqlSource | None:
    """The case's allow-list as a tenant's source; None when it names no table that exists."""
    tables: dict[str, Any] = {}
    for name in case.tables:
        namespace, _, table = name.rpartition(".")
        every = known.get(f"{namespace or 'public'}.{table}", ())
        listed = case.columns.get(name, every)
        columns: dict[str, dict[str, str]] = {column: {} for column in every if column in listed}
        if columns:
            tables[name] = {"columns": columns}
    if not tables:
        return None
    identity = hashlib.sha256(repr(tables).encode()).hexdigest()[:16]
    return SqlSource.model_validate({"dsn_secret": identity, "tables": tables})


@asynccontextmanager
async def _roles(
    admin: Any, dsn: str, sources: Mapping[str, SqlSource], folder: Path, may_create: bool, say: Say
) -> AsyncGenerator[None]:
    """Writes a DSN for every source into `folder`."""
    if not may_create:
        say("The role of --dsn may not create roles: statements are planned as this role, and not run.")
        for name in sources:
            (folder / name).write_text(dsn, encoding="utf-8")
        yield
        return
    prefix = _PREFIX + secrets.token_hex(4)
    say(f"Each allow-list is tried as a role of its own ({prefix}…), dropped at the end.")
    made: list[str] = []
    try:
        for number, (name, source) in enumerate(sources.items(), 1):
            role, password = f"{prefix}_{number}", secrets.token_urlsafe(18)
            made.append(role)
            for statement in grants.statements(source, role):
                await admin.execute(statement)
            await admin.execute(f"ALTER ROLE {grants.quoted(role)} PASSWORD '{password}'")
            path = folder / name
            path.touch(mode=0o600)
            path.write_text(_dsn_of(dsn, role, password), encoding="utf-8")
        yield
    finally:
        for role in made:
            await admin.execute(f"DROP OWNED BY {grants.quoted(role)}; DROP ROLE {grants.quoted(role)}")


def _dsn_of(dsn: str, role: str, password: str) -> str:
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(role)}:{quote(password)}@{host}"))


class _Trial:
    def __init__(self, connections: Connections, limits: Limits, *, run: bool) -> None:
        self._connections = connections
        self._database = PostgresDatabase(connections)
        self._limits = limits
        self._run = run

    async def catalog(self, source: SqlSource) -> Catalog:
        self._connections.trust(source, source.dsn_secret, True)
        async with self._connections.session(source) as connection:
            return await catalog.read(connection, "check", source)

    async def verdict(self, case: Case, source: SqlSource | None, catalogs: Mapping[str, Catalog]) -> Verdict:
        try:
            if source is None:
                approve(case, AllowList("public", {}))
                return Verdict(case.id, "allow")
            known = catalogs[source.dsn_secret]
            statement = approve(case, known.allowed)
            values = parameters.parse(case.params_json)
            if self._run:
                await self._database.run(source, known, statement, values, self._limits)
            else:
                await self._database.plan(source, known, statement, values, self._limits)
        except DependencyFailed:
            raise
        except ServiceError as error:
            return rejected(case, error)
        return Verdict(case.id, "allow")
