"""The SQLite file beside the embedded engine: its tables, its format, its connections."""

import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

# Goes up whenever the folder's contents are written in another way, the shards and token vectors included.
FORMAT = 2

_SCHEMA = f"""
CREATE TABLE collections (
  tenant TEXT, name TEXT, model TEXT NOT NULL, edition TEXT NOT NULL, next_edition TEXT NOT NULL,
  settings TEXT NOT NULL, migration TEXT NOT NULL, PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
CREATE TABLE documents (
  tenant TEXT, document_id TEXT, collection TEXT NOT NULL, language TEXT NOT NULL, labels TEXT NOT NULL,
  update_time REAL NOT NULL, header TEXT NOT NULL, PRIMARY KEY (tenant, document_id)
) WITHOUT ROWID;
CREATE INDEX documents_by_collection ON documents (tenant, collection, document_id);
CREATE INDEX documents_by_collection_and_language ON documents (tenant, collection, language, labels);
CREATE INDEX documents_by_language ON documents (tenant, language, labels);
CREATE TABLE versions (
  tenant TEXT, document_id TEXT, edition TEXT, generation TEXT NOT NULL, shard TEXT NOT NULL, model TEXT NOT NULL,
  learned_sparse INTEGER NOT NULL, chunk_count INTEGER NOT NULL, PRIMARY KEY (tenant, document_id, edition)
) WITHOUT ROWID;
CREATE INDEX versions_by_edition ON versions (edition);
CREATE INDEX versions_by_shard ON versions (shard);
CREATE TABLE places (edition TEXT, shard TEXT, PRIMARY KEY (edition, shard)) WITHOUT ROWID;
CREATE TABLE unmigrated (
  tenant TEXT, document_id TEXT, collection TEXT NOT NULL, PRIMARY KEY (tenant, document_id)
) WITHOUT ROWID;
CREATE INDEX unmigrated_by_collection ON unmigrated (tenant, collection, document_id);
CREATE TABLE hidden (tenant TEXT, edition TEXT, PRIMARY KEY (tenant, edition)) WITHOUT ROWID;
CREATE TABLE loose (generation TEXT PRIMARY KEY, shard TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX loose_by_shard ON loose (shard);
CREATE TABLE shards (
  name TEXT PRIMARY KEY, placement TEXT NOT NULL, directory TEXT NOT NULL, dimensions INTEGER NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = {FORMAT};
"""


class UnknownFormat(RuntimeError):
    """The folder was written by another version of sabueso."""


class RegistryFile:
    """Blocking; each thread gets a connection of its own. Writes must come from one thread."""

    def __init__(self, path: Path) -> None:
        """Raises UnknownFormat."""
        self._path = path
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        (found,) = self.connection.execute("PRAGMA user_version").fetchone()
        is_new = not self.connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        if is_new:
            self.connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        elif found != FORMAT:
            self.close()
            raise UnknownFormat(
                f"{path.parent} was written by another version of sabueso (format {found}; this one reads {FORMAT}):"
                " delete the folder and ingest again, or run the version that wrote it"
            )

    @property
    def connection(self) -> sqlite3.Connection:
        """That of this thread."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            # Other threads never use it but to close it.
            found = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            found.execute("PRAGMA journal_mode=WAL")
            found.execute("PRAGMA synchronous=FULL")
            self._local.connection = found
            with self._lock:
                self._opened.append(found)
        return found

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """All of it or nothing."""
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def close(self) -> None:
        """Closes the connections of all threads; none of them may be at work."""
        with self._lock:
            for connection in self._opened:
                connection.close()
            self._opened.clear()
