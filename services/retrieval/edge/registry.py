"""Collections, documents, and which stored version of each one counts, in an SQLite file beside the embedded engine.

A version of a document is a generation: its points are written first; one transaction here then makes it one that
readers see. An edition is all of a collection's versions of one model and index. A collection names the edition that
counts, and while it is migrated the next one. Generations that no version names are listed as loose from before their
first point is written until after their last one is deleted: whatever a crash leaves behind is found again.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.retrieval import refusals
from services.retrieval.edge.collection_registry import CollectionRegistry
from services.retrieval.edge.migration_registry import MigrationRegistry
from services.retrieval.edge.registry_file import RegistryFile
from services.retrieval.edge.registry_rows import (
    CURRENT,
    DOCUMENT,
    DOCUMENT_COLUMNS,
    PLACEMENT,
    Target,
    documents,
    labels_text,
    open_condition,
    put_version,
    remove_document,
    text,
)
from services.retrieval.edge.requests import Scope
from services.retrieval.placement import Placement, placement
from services.retrieval.store import Document, Reader

_HIDDEN = (
    "SELECT edition FROM hidden WHERE tenant = ?"
    " UNION ALL SELECT next_edition FROM collections WHERE tenant = ? AND next_edition != ''"
)


@dataclass(frozen=True)
class ShardRow:
    """A shard's folder."""

    placement: Placement
    directory: str
    dimensions: int


class Registry:
    """Blocking. Reads may come from any thread, writes from one."""

    def __init__(self, path: Path) -> None:
        """Raises UnknownFormat."""
        self._file = RegistryFile(path)
        self.collections = CollectionRegistry(self._file)
        self.migrations = MigrationRegistry(self._file, self.collections)

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._file.connection

    def close(self) -> None:
        """No thread may be at work."""
        self._file.close()

    def shards(self) -> list[ShardRow]:
        """All that there are."""
        rows = self._connection.execute("SELECT placement, directory, dimensions FROM shards")
        return [ShardRow(PLACEMENT.validate_json(kind), *rest) for kind, *rest in rows]

    def put_shard(self, row: ShardRow) -> None:
        """From now on the shard of this placement is in this folder."""
        values = (row.placement.name, text(PLACEMENT, row.placement), row.directory, row.dimensions)
        self._connection.execute("REPLACE INTO shards VALUES (?, ?, ?, ?)", values)

    def forget_unused_shards(self) -> list[str]:
        """Names of shards that hold no point; they are not listed any more."""
        rows = self._connection.execute(
            "DELETE FROM shards WHERE NOT EXISTS (SELECT 1 FROM versions v WHERE v.shard = shards.name)"
            " AND NOT EXISTS (SELECT 1 FROM loose l WHERE l.shard = shards.name) RETURNING name"
        )
        return [name for (name,) in rows.fetchall()]

    def target(self, reader: Reader, document: Document) -> Target:
        """Where to write the document. Raises NotFound, ModelMismatch, NotPermitted and InvalidField."""
        refusals.check_labels(reader, document)
        known, edition = self.collections.find(reader.tenant, document.collection)
        if known.document_count and known.model != document.embedding_model:
            raise refusals.other_model(known.name, known.model, document.embedding_model)
        it = (reader.tenant, document.document_id)
        row = self._connection.execute("SELECT labels FROM documents WHERE tenant = ? AND document_id = ?", it)
        (labels,) = row.fetchone() or ("[]",)
        if not reader.may_read(json.loads(labels)):
            raise refusals.closed_document(document.document_id)
        return Target(edition, placement(document.embedding_model, known.index, document.learned_sparse))

    def begin(self, generation: str, shard: str) -> None:
        """Notes that points of `generation` may exist from now on."""
        self._connection.execute("INSERT INTO loose VALUES (?, ?)", (generation, shard))

    def commit(self, reader: Reader, document: Document, generation: str, target: Target) -> bool:
        """Makes `generation` the one that readers see; True when it replaced another.

        Raises what `target` raises, and Overloaded when the points would have to be elsewhere by now.
        """
        tenant, document_id, name = reader.tenant, document.document_id, document.collection
        with self._file.transaction() as connection:
            if self.target(reader, document) != target:
                raise refusals.changed_meanwhile(name)
            replaced = self._is_there(tenant, document_id)
            remove_document(connection, tenant, document_id)
            columns = (labels_text(document), document.update_time.timestamp(), text(DOCUMENT, document))
            row = (tenant, document_id, name, document.language, *columns)
            connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            put_version(connection, tenant, document, generation, target)
            model = (document.embedding_model, tenant, name)
            connection.execute("UPDATE collections SET model = ? WHERE tenant = ? AND name = ?", model)
            connection.execute(
                "INSERT INTO unmigrated SELECT tenant, ?, name FROM collections"
                " WHERE tenant = ? AND name = ? AND next_edition != ''",
                (document_id, tenant, name),
            )
        return replaced

    def _is_there(self, tenant: str, document_id: str) -> bool:
        query = "SELECT 1 FROM documents WHERE tenant = ? AND document_id = ?"
        return self._connection.execute(query, (tenant, document_id)).fetchone() is not None

    def loose(self, excluded: Iterable[str], limit: int) -> list[tuple[str, str]]:
        """Generation and shard of points to be deleted: replaced, deleted, given up, or of a hidden edition."""
        if self._connection.execute("SELECT 1 FROM hidden").fetchone():
            self._loosen_hidden(limit)
        skipped = list(excluded)
        marks = ",".join("?" * len(skipped))
        query = f"SELECT generation, shard FROM loose WHERE generation NOT IN ({marks}) LIMIT ?"
        return self._connection.execute(query, (*skipped, limit)).fetchall()

    def _loosen_hidden(self, limit: int) -> None:
        with self._file.transaction() as connection:
            versions = connection.execute(
                "SELECT v.generation, v.shard, v.tenant, v.document_id, v.edition FROM hidden h JOIN versions v"
                " ON v.edition = h.edition LIMIT ?",
                (limit,),
            ).fetchall()
            connection.executemany("INSERT INTO loose VALUES (?, ?)", [row[:2] for row in versions])
            one = "tenant = ? AND document_id = ? AND edition = ?"
            connection.executemany(f"DELETE FROM versions WHERE {one}", [row[2:] for row in versions])
            gone = "edition IN (SELECT edition FROM hidden) AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.edition ="
            connection.execute(f"DELETE FROM places WHERE {gone} places.edition)")
            connection.execute(f"DELETE FROM hidden WHERE {gone} hidden.edition)")

    def forget(self, generations: Iterable[str]) -> None:
        """The points of these loose generations are gone."""
        with self._file.transaction() as connection:
            connection.executemany("DELETE FROM loose WHERE generation = ?", [(one,) for one in generations])

    def scopes(self, tenant: str, names: Sequence[str], model: str) -> dict[str, Scope]:
        """What to search in which shard: the collections of these names (none: all) with vectors of `model`.

        Raises NotFound.
        """
        self.collections.require(tenant, names)
        hidden = [edition for (edition,) in self._connection.execute(_HIDDEN, (tenant, tenant))]
        marks = ",".join("?" * len(names))
        rows = self._connection.execute(
            "SELECT p.shard, json_group_array(c.edition), max(c.settings ->> '$.index.hnsw_ef'),"
            " max(c.settings ->> '$.index.oversampling'), max(c.settings ->> '$.index.rescore')"
            " FROM collections c JOIN places p ON p.edition = c.edition"
            f" WHERE c.tenant = ? AND c.model = ? {f'AND c.name IN ({marks})' if names else ''} GROUP BY p.shard",
            (tenant, model, *names),
        )
        return {
            shard: Scope(json.loads(editions) if names else (), hidden, ef, oversampling, bool(rescore))
            for shard, editions, ef, oversampling, rescore in rows
        }

    def generations(self, reader: Reader, document_ids: Iterable[str]) -> dict[str, str]:
        """The generation that counts, by document; without those that are closed to the reader."""
        wanted = list(document_ids)
        marks = ",".join("?" * len(wanted))
        is_open, labels = open_condition(reader)
        query = f"SELECT d.document_id, v.generation FROM {CURRENT} WHERE d.tenant = ? AND d.document_id IN ({marks})"
        values = (reader.tenant, *wanted, *labels)
        return dict(self._connection.execute(f"{query} AND {is_open}", values).fetchall())

    def document(self, reader: Reader, document_id: str) -> tuple[Document, str, str]:
        """A document, its generation that counts and that one's shard. Raises NotFound."""
        is_open, labels = open_condition(reader)
        row = self._connection.execute(
            f"SELECT {DOCUMENT_COLUMNS}, v.generation, v.shard FROM {CURRENT}"
            f" WHERE d.tenant = ? AND d.document_id = ? AND {is_open}",
            (reader.tenant, document_id, *labels),
        ).fetchone()
        if row is None:
            raise refusals.no_document(document_id)
        *columns, generation, shard = row
        return next(documents([columns])), generation, shard

    def documents(self, reader: Reader, collection: str, after: str, limit: int) -> list[Document]:
        """A page of documents, by id."""
        is_open, labels = open_condition(reader)
        where = f"d.tenant = ? AND d.document_id > ? AND {is_open}" + (" AND d.collection = ?" if collection else "")
        values = (reader.tenant, after, *labels, *([collection] if collection else []), limit)
        query = f"SELECT {DOCUMENT_COLUMNS} FROM {CURRENT} WHERE {where} ORDER BY d.document_id LIMIT ?"
        return list(documents(self._connection.execute(query, values)))

    def delete_document(self, reader: Reader, document_id: str) -> int:
        """Readers no longer see it. Its chunks' number; raises NotFound."""
        with self._file.transaction() as connection:
            document, _, _ = self.document(reader, document_id)
            remove_document(connection, reader.tenant, document_id)
        return document.chunk_count
