"""SQLite file beside the embedded engine: collections, documents, and which stored version of each one counts.

A version of a document is a generation. Its points are written first; one transaction here then makes it the one
that readers see. Generations that no document names are listed as loose from before their first point is written
until after their last one is deleted: whatever a crash leaves behind is found again.
"""

import json
import sqlite3
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from services.retrieval.payload import no_collection, no_document
from services.retrieval.store import Collection, Document

_SCHEMA = """
CREATE TABLE IF NOT EXISTS collections (
  tenant TEXT, name TEXT, description TEXT NOT NULL, language TEXT NOT NULL, PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS documents (
  tenant TEXT, document_id TEXT, collection TEXT NOT NULL, language TEXT NOT NULL, generation TEXT NOT NULL,
  model TEXT NOT NULL, chunk_count INTEGER NOT NULL, update_time REAL NOT NULL, header TEXT NOT NULL,
  PRIMARY KEY (tenant, document_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS documents_by_collection ON documents (tenant, collection, language);
CREATE INDEX IF NOT EXISTS documents_by_language ON documents (tenant, language);
CREATE TABLE IF NOT EXISTS loose (generation TEXT PRIMARY KEY, model TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shards (
  model TEXT PRIMARY KEY, directory TEXT NOT NULL, dimensions INTEGER NOT NULL
) WITHOUT ROWID;
"""
_COLUMNS = "document_id, collection, language, model, chunk_count, update_time, header"


class Registry:
    """Blocking; each thread gets a connection of its own. Writes must come from one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._connection.executescript(_SCHEMA)

    @property
    def _connection(self) -> sqlite3.Connection:
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
    def _transaction(self) -> Generator[sqlite3.Connection]:
        connection = self._connection
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

    def shards(self) -> list[tuple[str, str, int]]:
        """Model, directory and dimensions of each shard."""
        return self._connection.execute("SELECT model, directory, dimensions FROM shards").fetchall()

    def put_shard(self, model: str, directory: str, dimensions: int) -> None:
        """From now on the shard of `model` is in `directory`."""
        self._connection.execute("REPLACE INTO shards VALUES (?, ?, ?)", (model, directory, dimensions))

    def begin(self, generation: str, model: str) -> None:
        """Notes that points of `generation` may exist from now on."""
        self._connection.execute("INSERT INTO loose VALUES (?, ?)", (generation, model))

    def commit(self, tenant: str, document: Document, generation: str) -> None:
        """Makes `generation` the one that readers see. Raises NotFound when the collection has gone."""
        with self._transaction() as connection:
            self.require_collections(tenant, [document.collection])
            _loosen(connection, "tenant = ? AND document_id = ?", (tenant, document.document_id))
            connection.execute("DELETE FROM loose WHERE generation = ?", (generation,))
            connection.execute(
                "REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    tenant,
                    document.document_id,
                    document.collection,
                    document.language,
                    generation,
                    document.embedding_model,
                    document.chunk_count,
                    document.update_time.timestamp(),
                    _header(document),
                ),
            )

    def loose(self) -> list[tuple[str, str]]:
        """Generation and model of all that no document names: being written, replaced, deleted or given up."""
        return self._connection.execute("SELECT generation, model FROM loose").fetchall()

    def forget(self, generation: str) -> None:
        """The points of a loose generation are gone."""
        self._connection.execute("DELETE FROM loose WHERE generation = ?", (generation,))

    def generations(self, tenant: str, document_ids: Iterable[str]) -> dict[str, str]:
        """The generation that counts, by document."""
        wanted = list(document_ids)
        marks = ",".join("?" * len(wanted))
        return dict(
            self._connection.execute(
                f"SELECT document_id, generation FROM documents WHERE tenant = ? AND document_id IN ({marks})",
                (tenant, *wanted),
            ).fetchall()
        )

    def document(self, tenant: str, document_id: str) -> tuple[Document, str]:
        """A document and its generation. Raises NotFound."""
        row = self._connection.execute(
            f"SELECT {_COLUMNS}, generation FROM documents WHERE tenant = ? AND document_id = ?", (tenant, document_id)
        ).fetchone()
        if row is None:
            raise no_document(document_id)
        return _document(row[:-1]), row[-1]

    def documents(self, tenant: str, collection: str, after: str, limit: int) -> list[Document]:
        """A page of documents, by id."""
        where = "tenant = ? AND document_id > ?" + (" AND collection = ?" if collection else "")
        values = [tenant, after, *([collection] if collection else []), limit]
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM documents WHERE {where} ORDER BY document_id LIMIT ?", values
        )
        return [_document(row) for row in rows]

    def delete_document(self, tenant: str, document_id: str) -> int:
        """Readers no longer see it. Its chunks' number; raises NotFound."""
        with self._transaction() as connection:
            document, _ = self.document(tenant, document_id)
            _loosen(connection, "tenant = ? AND document_id = ?", (tenant, document_id))
        return document.chunk_count

    def require_collections(self, tenant: str, names: Sequence[str]) -> None:
        """Raises NotFound for the first name that the tenant does not have."""
        for name in names:
            found = self._connection.execute("SELECT 1 FROM collections WHERE tenant = ? AND name = ?", (tenant, name))
            if found.fetchone() is None:
                raise no_collection(name)

    def put_collection(self, tenant: str, collection: Collection) -> None:
        """Creates or changes it."""
        row = (tenant, collection.name, collection.description, collection.language)
        self._connection.execute("REPLACE INTO collections VALUES (?, ?, ?, ?)", row)

    def delete_collection(self, tenant: str, name: str) -> int:
        """Removes it with its documents; their number. Raises NotFound."""
        with self._transaction() as connection:
            self.require_collections(tenant, [name])
            connection.execute("DELETE FROM collections WHERE tenant = ? AND name = ?", (tenant, name))
            return _loosen(connection, "tenant = ? AND collection = ?", (tenant, name))

    def collections(self, tenant: str) -> list[Collection]:
        """All of the tenant, by name."""
        rows = self._connection.execute(
            "SELECT c.name, c.description, c.language, count(d.document_id), coalesce(max(d.update_time), 0)"
            " FROM collections c LEFT JOIN documents d ON d.tenant = c.tenant AND d.collection = c.name"
            " WHERE c.tenant = ? GROUP BY c.name ORDER BY c.name",
            (tenant,),
        )
        return [
            Collection(name, description, language, count, datetime.fromtimestamp(latest, UTC))
            for name, description, language, count, latest in rows
        ]

    def languages(self, tenant: str, collections: Sequence[str]) -> list[str]:
        """Languages of the documents in the collections (none: all), in order; the unknown one is empty."""
        found: set[str] = set()
        for where, values in [("collection = ? AND", (name,)) for name in collections] or [("", ())]:
            # From one value to the next along the index: a DISTINCT would walk over every document.
            query = f"SELECT min(language) FROM documents WHERE tenant = ? AND {where} language "
            (language,) = self._connection.execute(f"{query} >= ''", (tenant, *values)).fetchone()
            while language is not None:
                found.add(language)
                (language,) = self._connection.execute(f"{query} > ?", (tenant, *values, language)).fetchone()
        return sorted(found)


def _loosen(connection: sqlite3.Connection, where: str, values: Sequence[str]) -> int:
    """Removes documents, so that their generations are loose; how many there were."""
    connection.execute(f"INSERT INTO loose SELECT generation, model FROM documents WHERE {where}", values)
    return connection.execute(f"DELETE FROM documents WHERE {where}", values).rowcount


def _header(document: Document) -> str:
    return json.dumps(
        {
            "title": document.title,
            "source": document.source,
            "metadata": dict(document.metadata),
            "content_hash": document.content_hash,
        },
        ensure_ascii=False,
    )


def _document(row: Sequence[object]) -> Document:
    document_id, collection, language, model, chunk_count, update_time, header = row
    return Document(
        document_id=str(document_id),
        collection=str(collection),
        language=str(language),
        embedding_model=str(model),
        chunk_count=int(str(chunk_count)),
        update_time=datetime.fromtimestamp(float(str(update_time)), UTC),
        **json.loads(str(header)),
    )
