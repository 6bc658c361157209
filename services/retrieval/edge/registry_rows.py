"""Rows of the registry's tables, and the steps that several of its parts take."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from services.retrieval.placement import Placement
from services.retrieval.store import Collection, Document, Migration, MigrationState, Reader

COLLECTION = TypeAdapter(Collection)
DOCUMENT = TypeAdapter(Document)
MIGRATION = TypeAdapter(Migration)
PLACEMENT = TypeAdapter(Placement)

# Documents with the version that counts.
CURRENT = (
    "documents d CROSS JOIN collections c ON c.tenant = d.tenant AND c.name = d.collection CROSS JOIN versions v"
    " ON v.tenant = d.tenant AND v.document_id = d.document_id AND v.edition = c.edition"
)
DOCUMENT_COLUMNS = "d.header, v.model, v.learned_sparse, v.chunk_count"
COLLECTION_COLUMNS = "c.settings, c.model, c.migration"


@dataclass(frozen=True)
class Target:
    """Where a document's points have to be written."""

    edition: str
    placement: Placement


def documents(rows: Iterable[Sequence[Any]]) -> Iterator[Document]:
    """From DOCUMENT_COLUMNS."""
    for header, model, learned_sparse, chunk_count in rows:
        known = DOCUMENT.validate_json(header)
        yield replace(known, embedding_model=model, learned_sparse=bool(learned_sparse), chunk_count=chunk_count)


def collection(settings: str, model: str, migration: str, count: int = 0, updated: float = 0) -> Collection:
    """From COLLECTION_COLUMNS, the number of documents and when the last of them was stored."""
    return replace(
        COLLECTION.validate_json(settings),
        model=model,
        migration=MIGRATION.validate_json(migration) if migration else None,
        document_count=count,
        update_time=datetime.fromtimestamp(updated, UTC),
    )


def progressed(one: Collection, total_count: int, open_count: int) -> Collection:
    """With how far its migration is, if one is running."""
    if one.migration is None or one.migration.state is not MigrationState.RUNNING:
        return one
    return replace(one, migration=replace(one.migration, done_count=total_count - open_count, total_count=total_count))


def text(adapter: TypeAdapter[Any], value: object) -> str:
    """As it is kept in a column."""
    return adapter.dump_json(value).decode()


def labels_text(document: Document) -> str:
    """Labels as they are kept in a column."""
    return json.dumps(sorted(set(document.labels)), ensure_ascii=False)


def open_condition(reader: Reader) -> tuple[str, tuple[str, ...]]:
    """SQL that holds for the documents `d` that are open to the reader, and its values."""
    if reader.sees_all:
        return "1", ()
    marks = ",".join("?" * len(reader.labels))
    held = f"EXISTS (SELECT 1 FROM json_each(d.labels) held WHERE held.value IN ({marks}))"
    return f"(d.labels = '[]' OR {held})", reader.labels


def remove_document(connection: sqlite3.Connection, tenant: str, document_id: str) -> None:
    """Takes it and all its versions away; their points are loose."""
    it = "tenant = ? AND document_id = ?", (tenant, document_id)
    connection.execute(f"INSERT INTO loose SELECT generation, shard FROM versions WHERE {it[0]}", it[1])
    for table in ("versions", "documents", "unmigrated"):
        connection.execute(f"DELETE FROM {table} WHERE {it[0]}", it[1])


def put_version(
    connection: sqlite3.Connection, tenant: str, document: Document, generation: str, target: Target
) -> None:
    """Makes a loose generation the document's version in an edition."""
    shard = target.placement.name
    kind = (document.embedding_model, document.learned_sparse, document.chunk_count)
    row = (tenant, document.document_id, target.edition, generation, shard, *kind)
    connection.execute("DELETE FROM loose WHERE generation = ?", (generation,))
    connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", (target.edition, shard))


def hide_edition(connection: sqlite3.Connection, tenant: str, name: str, column: str) -> None:
    """No search may look at this edition of a collection again; its versions are deleted bit by bit."""
    connection.execute(
        f"INSERT INTO hidden SELECT tenant, {column} FROM collections WHERE tenant = ? AND name = ? AND {column} != ''",
        (tenant, name),
    )
