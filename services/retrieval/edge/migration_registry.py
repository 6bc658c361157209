"""The registry's migrations: the next edition of a collection, document by document, and the switch to it."""

import sqlite3
from dataclasses import replace

from services.retrieval import refusals
from services.retrieval.edge.collection_registry import CollectionRegistry
from services.retrieval.edge.registry_file import RegistryFile
from services.retrieval.edge.registry_rows import (
    COLLECTION,
    CURRENT,
    DOCUMENT_COLUMNS,
    MIGRATION,
    Target,
    documents,
    hide_edition,
    put_version,
    text,
)
from services.retrieval.payload import new_generation
from services.retrieval.placement import placement
from services.retrieval.store import ALL_LABELS, Collection, Document, Migration, MigrationState, Reader


class MigrationRegistry:
    """Blocking. Reads may come from any thread, writes from one."""

    def __init__(self, file: RegistryFile, collections: CollectionRegistry) -> None:
        self._file = file
        self._collections = collections

    def running(self) -> list[tuple[str, Collection]]:
        """Tenant and collection of each."""
        rows = self._file.connection.execute("SELECT tenant, name FROM collections WHERE next_edition != ''")
        return [(tenant, self._one(tenant, name)) for tenant, name in rows.fetchall()]

    def _one(self, tenant: str, name: str) -> Collection:
        return self._collections.all(Reader(tenant, (ALL_LABELS,)), name)[0]

    def begin(self, tenant: str, name: str, migration: Migration) -> Collection:
        """Starts from the beginning, whatever was done before. Raises NotFound."""
        it = (tenant, name)
        started = text(MIGRATION, replace(migration, state=MigrationState.RUNNING, reason=""))
        with self._file.transaction() as connection:
            self._collections.require(tenant, [name])
            hide_edition(connection, tenant, name, "next_edition")
            connection.execute(
                "UPDATE collections SET next_edition = ?, migration = ? WHERE tenant = ? AND name = ?",
                (new_generation(), started, *it),
            )
            connection.execute("DELETE FROM unmigrated WHERE tenant = ? AND collection = ?", it)
            connection.execute(
                "INSERT INTO unmigrated SELECT tenant, document_id, collection FROM documents"
                " WHERE tenant = ? AND collection = ?",
                it,
            )
        return self._one(tenant, name)

    def next_document(self, tenant: str, name: str) -> str | None:
        """The id of a document without second version. Raises NotFound."""
        self._collections.require(tenant, [name])
        query = "SELECT min(document_id) FROM unmigrated WHERE tenant = ? AND collection = ?"
        return self._file.connection.execute(query, (tenant, name)).fetchone()[0]

    def target(self, tenant: str, document: Document) -> Target | None:
        """Where the second version goes; None when it is not asked for any more."""
        row = self._file.connection.execute(
            f"SELECT c.migration, c.next_edition, {DOCUMENT_COLUMNS} FROM {CURRENT} JOIN unmigrated u"
            " ON u.tenant = d.tenant AND u.document_id = d.document_id WHERE d.tenant = ? AND d.document_id = ?",
            (tenant, document.document_id),
        ).fetchone()
        if row is None or next(documents([row[2:]])) != document:
            return None
        migration = MIGRATION.validate_json(row[0])
        return Target(row[1], placement(migration.model, migration.index, migration.learned_sparse))

    def commit(self, tenant: str, document: Document, second: Document, generation: str, target: Target) -> None:
        """Makes `generation` the second version of `document`, if it is asked for still."""
        with self._file.transaction() as connection:
            if self.target(tenant, document) == target:
                put_version(connection, tenant, second, generation, target)
                one = (tenant, document.document_id)
                connection.execute("DELETE FROM unmigrated WHERE tenant = ? AND document_id = ?", one)

    def end(self, tenant: str, name: str, state: MigrationState, reason: str) -> bool:
        """Switches over, or gives up; False when none is running or a document lacks its second version."""
        with self._file.transaction() as connection:
            found = connection.execute(
                "SELECT next_edition FROM collections WHERE tenant = ? AND name = ?", (tenant, name)
            ).fetchone()
            if found is None:
                raise refusals.no_collection(name)
            known = self._one(tenant, name)
            if not found[0] or known.migration is None:
                return False
            ended = replace(known.migration, state=state, reason=reason)
            if state is not MigrationState.DONE:
                self._give_up(connection, tenant, name, ended)
            elif self.next_document(tenant, name) is not None:
                return False
            else:
                self._switch(connection, tenant, known, ended)
        return True

    def _give_up(self, connection: sqlite3.Connection, tenant: str, name: str, ended: Migration) -> None:
        hide_edition(connection, tenant, name, "next_edition")
        connection.execute("DELETE FROM unmigrated WHERE tenant = ? AND collection = ?", (tenant, name))
        connection.execute(
            "UPDATE collections SET next_edition = '', migration = ? WHERE tenant = ? AND name = ?",
            (text(MIGRATION, ended), tenant, name),
        )

    def _switch(self, connection: sqlite3.Connection, tenant: str, known: Collection, ended: Migration) -> None:
        hide_edition(connection, tenant, known.name, "edition")
        (settings,) = connection.execute(
            "SELECT settings FROM collections WHERE tenant = ? AND name = ?", (tenant, known.name)
        ).fetchone()
        changed = text(COLLECTION, replace(COLLECTION.validate_json(settings), index=ended.index))
        connection.execute(
            "UPDATE collections SET edition = next_edition, next_edition = '', model = ?, settings = ?, migration = ?"
            " WHERE tenant = ? AND name = ?",
            (ended.model, changed, text(MIGRATION, ended), tenant, known.name),
        )
