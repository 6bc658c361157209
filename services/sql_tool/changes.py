"""Hears from the tenants' databases which tables changed, and has the results that were made from them forgotten.

Whoever loads data says so, in the transaction of the load:

    SELECT pg_notify('sabueso_changes', 'public.contracts,public.payments')      -- `*` stands for all tables

or lets triggers do it; `python -m services.sql_tool.grants FILE --notify` prints them. Notifications that nobody heard
are lost, so after each new connection all results of the source are forgotten.
"""

import asyncio
import contextlib
import functools
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import asyncpg

from services.runtime.errors import ServiceError
from services.runtime.tenants import SqlSource, TenantDirectory
from services.sql_tool.connections import UNREACHABLE
from services.sql_tool.lag import PRIMARY_PLACE
from services.sql_tool.questions import REACH, REACHING
from services.sql_tool.rights import split

log = logging.getLogger(__name__)

CHANNEL = "sabueso_changes"
_ALL = "*"
# Of the cache's contract.
_MOST_SOURCES = 64
_LOOK_SECONDS = 2.0
_CONNECT_SECONDS = 10.0
_ALIVE_SECONDS = 30.0
_LONGEST_WAIT_SECONDS = 30.0

_TRIGGER_FUNCTION = f"""\
CREATE OR REPLACE FUNCTION sabueso.notify_change() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN PERFORM pg_notify('{CHANNEL}', TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME); RETURN NULL; END $body$"""
# Triggers see what is said of their own table: of a view, of partitions and children each table needs its own.
_TRIGGERS = """\
DO $do$ DECLARE one record; BEGIN
  FOR one IN {reaching} SELECT DISTINCT c.oid::regclass AS name FROM reach
             JOIN pg_class c ON c.oid = reach.oid WHERE c.relkind IN ('r', 'p')
  LOOP
    EXECUTE format('CREATE OR REPLACE TRIGGER sabueso_notify_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE '
                   'ON %s FOR EACH STATEMENT EXECUTE FUNCTION sabueso.notify_change()', one.name);
  END LOOP;
END $do$"""


# Source, and a place (bytes) in its primary's log before which the change is.
NoteChange = Callable[[SqlSource, int], None]


class Invalidate(Protocol):
    """What forgets results: the tool cache."""

    async def __call__(self, tenant_id: str, sources: Sequence[str]) -> None:
        """Forgets the results that were made from one of `sources`, at most 64. Raises ServiceError."""
        ...


def triggers(source: SqlSource) -> list[str]:
    """Statements for the owner of the tables: each then says when it changed, once a transaction. Safe to run again.

    A materialized view has none: send the notification after REFRESH.
    """
    names = [split(name, source.database_schema) for name in source.tables]
    reaching = REACHING.replace("$1", _literals(schema for schema, _ in names))
    reaching = reaching.replace("$2", _literals(table for _, table in names))
    return [
        "CREATE SCHEMA IF NOT EXISTS sabueso",
        _TRIGGER_FUNCTION,
        "REVOKE EXECUTE ON FUNCTION sabueso.notify_change() FROM PUBLIC",
        _TRIGGERS.replace("{reaching}", " ".join(reaching.split())),
    ]


def _literals(names: Iterable[str]) -> str:
    return "ARRAY[" + ", ".join("'" + name.replace("'", "''") + "'" for name in names) + "]"


class ChangeListener:
    """Listens to the primary of every source of every tenant, on connections of its own."""

    def __init__(
        self,
        tenants: TenantDirectory,
        dsn_of: Callable[[SqlSource], str],
        invalidate: Invalidate,
        *,
        note_change: NoteChange | None = None,
        coalesce_seconds: float = 0.05,
        first_wait_seconds: float = 0.5,
    ) -> None:
        """`dsn_of` raises ServiceError where there is none. Changes within `coalesce_seconds` are told together.

        `note_change` learns how far the primary's log was, before results are forgotten: replicas may lack the change.
        """
        self._tenants = tenants
        self._dsn_of = dsn_of
        self._invalidate = invalidate
        self._note_change = note_change
        self._coalesce_seconds = coalesce_seconds
        self._first_wait_seconds = first_wait_seconds
        self._listening: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to listen, and to follow the tenants' files, until `close`."""
        self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Listens no more."""
        tasks = [*self._listening.values(), *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.clear()

    async def _follow(self) -> None:
        while True:
            wanted = _sources(self._tenants)
            for key in self._listening.keys() - wanted.keys():
                self._listening.pop(key).cancel()
            for key in wanted.keys() - self._listening.keys():
                self._listening[key] = asyncio.create_task(self._keep_listening(*wanted[key]))
            await asyncio.sleep(_LOOK_SECONDS)

    async def _keep_listening(self, tenant_id: str, source: SqlSource) -> None:
        wait = self._first_wait_seconds
        while True:
            forget = functools.partial(self._invalidate, tenant_id)
            one = _Listening(source, forget, self._note_change, self._coalesce_seconds)
            try:
                await one.listen(self._dsn_of(source))
            except (*UNREACHABLE, asyncpg.PostgresError, ServiceError, ValueError) as error:
                if one.heard:
                    wait = self._first_wait_seconds
                log.warning("changes are not heard", extra={"tenant": tenant_id, "cause": type(error).__name__})
            # Not all at once when a database comes back.
            await asyncio.sleep(wait * random.uniform(0.5, 1))
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)


class _Listening:
    """One connection, until it is lost."""

    def __init__(
        self,
        source: SqlSource,
        invalidate: Callable[[Sequence[str]], Awaitable[None]],
        note_change: NoteChange | None,
        coalesce_seconds: float,
    ) -> None:
        self._source = source
        self._invalidate = invalidate
        self._note_change = note_change
        self._coalesce_seconds = coalesce_seconds
        self._names = [split(name, source.database_schema) for name in source.tables]
        self._reach: Mapping[str, set[str]] = {}
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self.heard = False

    async def listen(self, dsn: str) -> None:
        """Returns never; raises what the driver raises when the connection is lost, and ServiceError."""
        connection: Any = await asyncpg.connect(
            dsn, timeout=_CONNECT_SECONDS, command_timeout=_CONNECT_SECONDS, statement_cache_size=0
        )
        try:
            connection.add_termination_listener(self._wake)
            await connection.add_listener(CHANNEL, self._note)
            self._note(connection, 0, CHANNEL, _ALL)  # whatever was said while nobody listened
            self._reach = await self._read_reach(connection)
            while True:
                await self._tell(connection)
                self.heard = True
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_ALIVE_SECONDS):
                        await self._woken.wait()
                # A connection that is half open says nothing, and would say nothing for ever.
                await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    def _wake(self, _connection: Any) -> None:
        self._woken.set()

    def _note(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        self._changed.update(name.strip() for name in payload.split(",") if name.strip())
        self._woken.set()

    async def _tell(self, connection: Any) -> None:
        await asyncio.sleep(self._coalesce_seconds)
        self._woken.clear()
        changed, self._changed = self._changed, set[str]()
        if not changed:
            return
        if not changed <= self._reach.keys():
            self._reach = await self._read_reach(connection)  # a new partition, or none of our tables
        name = self._source.name
        tables = sorted({table for relation in changed for table in self._reach.get(relation, ())})
        sources = [f"table:{name}/{table}" for table in tables]
        if _ALL in changed or len(sources) > _MOST_SOURCES:
            sources = [f"source:{name}"]
        if sources:
            await self._note_place(connection)
            await self._invalidate(sources)

    async def _note_place(self, connection: Any) -> None:
        """What was told of is committed, so it is before this place."""
        if self._note_change is not None and self._source.replica_dsn_secrets:
            place: int | None = await connection.fetchval(PRIMARY_PLACE)
            if place is not None:
                self._note_change(self._source, place)

    async def _read_reach(self, connection: Any) -> Mapping[str, set[str]]:
        found: dict[str, set[str]] = {}
        for row in await connection.fetch(REACH, [name for name, _ in self._names], [name for _, name in self._names]):
            found.setdefault(row["relation"], set()).add(row["wanted"])
        return found


def _sources(tenants: TenantDirectory) -> Mapping[tuple[str, str], tuple[str, SqlSource]]:
    """By what changes when anything of the source does."""
    return {
        (tenant.id, source.model_dump_json()): (tenant.id, source)
        for tenant in tenants.all().values()
        for source in tenant.sql
    }
