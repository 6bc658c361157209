"""A PostgreSQL database, by pg_dump and pg_restore of a version that fits; counts of rows are of the same snapshot."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg

from services.cli.backup.part import Refused, Saved

_Answer = TypeVar("_Answer")

_FILE = "database.dump"
_CONNECT_SECONDS = 10
# Where Debian and Red Hat keep the programs of several versions.
_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
_TABLES = """
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'
    ORDER BY 1
"""


class Database:
    """One database. Restored without owners and grants: those belong to the server."""

    def __init__(self, name: str, dsn: str, *, folders: Sequence[str] = ()) -> None:
        """`name`: by which its DSN is said at a restore too. `folders`: of PostgreSQL's programs, besides the PATH."""
        self.name = f"postgres-{name}"
        self._dsn = dsn
        self._folders = folders

    def save(self, folder: Path) -> Saved:
        return self._run(self._save(folder))

    async def _save(self, folder: Path) -> Saved:
        connection = await self._connect()
        try:
            version = connection.get_server_version().major
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                snapshot = await connection.fetchval("SELECT pg_export_snapshot()")
                # The counts and the dump see the same rows.
                words = ["--format=custom", f"--snapshot={snapshot}", f"--file={folder / _FILE}"]
                await asyncio.to_thread(self._execute, "pg_dump", version, words)
                counts = await self._counts(connection)
        finally:
            await connection.close()
        return Saved(counts, {"version": str(version)})

    async def _connect(self) -> "asyncpg.Connection[asyncpg.Record]":
        return await asyncpg.connect(self._dsn, timeout=_CONNECT_SECONDS)

    async def _counts(self, connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, int]:
        tables = [str(row[0]) for row in await connection.fetch(_TABLES)]
        return {table: int(await connection.fetchval(f"SELECT count(*) FROM {table}")) for table in tables}

    def _run(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        try:
            return asyncio.run(work)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            raise Refused(f"{self.name} cannot be asked: {type(error).__name__}: {error}") from None

    def occupied(self) -> str:
        counts = self._run(self._look())
        rows = sum(counts.values())
        return f"{len(counts)} tables with {rows} rows in {self.name}" if counts else ""

    async def _look(self) -> dict[str, int]:
        connection = await self._connect()
        try:
            return await self._counts(connection)
        finally:
            await connection.close()

    def restore(self, folder: Path, saved: Saved, *, replace: bool) -> None:
        version = self._run(self._server_version())
        source = int(saved.facts.get("version", 0))
        if version < source:
            raise Refused(f"{self.name} was saved from PostgreSQL {source}; this server is {version}")
        clean = ["--clean", "--if-exists"] if replace else []
        words = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", *clean]
        self._execute("pg_restore", version, [*words, str(folder / _FILE)])

    async def _server_version(self) -> int:
        connection = await self._connect()
        try:
            return connection.get_server_version().major
        finally:
            await connection.close()

    def check(self, saved: Saved) -> list[str]:
        there = self._run(self._look())
        return [
            f"{table} of {self.name} has {there.get(table, 'no table with')} rows; {expected} were saved"
            for table, expected in saved.counts.items()
            if there.get(table) != expected
        ]

    def _execute(self, program: str, server: int, words: Sequence[str]) -> None:
        """Runs a program of PostgreSQL's on the database. The password goes by the environment, not for all to read."""
        parts = urlsplit(self._dsn)
        bare = parts._replace(netloc=re.sub(r"^([^:@]*):[^@]*@", r"\1@", parts.netloc))
        environment = {"PGPASSWORD": unquote(parts.password or ""), "PGCONNECT_TIMEOUT": str(_CONNECT_SECONDS)}
        command = [
            find_program(program, server, [*os.get_exec_path(), *self._folders]),
            "--dbname",
            urlunsplit(bare),
            *words,
        ]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refused(f"{program} of {self.name} failed: {done.stderr.strip()[-500:]}")


def find_program(name: str, server: int, folders: Sequence[str]) -> str:
    """The oldest one that is not older than the server, whose dialect a newer one may miss. Raises Refused."""
    everywhere = [*folders, *(str(path) for one in _FOLDERS for path in Path("/").glob(one))]
    versions = {path: _version_of(path) for folder in everywhere if (path := shutil.which(name, path=folder))}
    fitting = [path for path, version in versions.items() if version >= server]
    if fitting:
        return min(fitting, key=lambda path: versions[path])
    if not versions:
        raise Refused(f"{name} is not on the PATH: install PostgreSQL's client programs (postgresql-client-{server})")
    newest = max(versions.values())
    raise Refused(f"{name} is of version {newest}, the server of {server}: install postgresql-client-{server}")


def _version_of(program: str) -> int:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"(\d+)(\.|devel|beta|rc|\s|$)", done.stdout.partition(")")[2])
    return int(found[1]) if found else 0
