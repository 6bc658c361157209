"""The registry's collections."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from services.retrieval import refusals
from services.retrieval.edge.registry_file import RegistryFile
from services.retrieval.edge.registry_rows import (
    COLLECTION,
    COLLECTION_COLUMNS,
    collection,
    hide_edition,
    open_condition,
    progressed,
    text,
)
from services.retrieval.payload import new_generation
from services.retrieval.store import NEVER, Collection, Reader


class CollectionRegistry:
    """Blocking. Reads may come from any thread, writes from one."""

    def __init__(self, file: RegistryFile) -> None:
        self._file = file

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._file.connection

    def require(self, tenant: str, names: Sequence[str]) -> None:
        """Raises NotFound for the first name that the tenant does not have."""
        for name in names:
            found = self._connection.execute("SELECT 1 FROM collections WHERE tenant = ? AND name = ?", (tenant, name))
            if found.fetchone() is None:
                raise refusals.no_collection(name)

    def find(self, tenant: str, name: str) -> tuple[Collection, str]:
        """A collection and the edition that counts; `document_count` is 1 where there are any. Raises NotFound."""
        row = self._connection.execute(
            f"SELECT {COLLECTION_COLUMNS}, EXISTS (SELECT 1 FROM documents d WHERE d.tenant = c.tenant"
            " AND d.collection = c.name), edition FROM collections c WHERE tenant = ? AND name = ?",
            (tenant, name),
        ).fetchone()
        if row is None:
            raise refusals.no_collection(name)
        return collection(*row[:-1]), row[-1]

    def put(self, tenant: str, wanted: Collection) -> None:
        """Creates or changes it. Raises InvalidField."""
        settings = text(COLLECTION, replace(wanted, model="", migration=None, document_count=0, update_time=NEVER))
        with self._file.transaction() as connection:
            new = (tenant, wanted.name, "", new_generation(), "", settings, "")
            made = connection.execute("INSERT OR IGNORE INTO collections VALUES (?, ?, ?, ?, ?, ?, ?)", new)
            if made.rowcount:
                return
            known, edition = self.find(tenant, wanted.name)
            refusals.check_index(known, wanted.index)
            if not known.document_count and known.index != wanted.index:
                connection.execute("DELETE FROM places WHERE edition = ?", (edition,))
            where = (settings, tenant, wanted.name)
            connection.execute("UPDATE collections SET settings = ? WHERE tenant = ? AND name = ?", where)

    def delete(self, reader: Reader, name: str) -> int:
        """Removes it with its documents; their number. Raises NotFound and NotPermitted."""
        it = (reader.tenant, name)
        with self._file.transaction() as connection:
            self.require(reader.tenant, [name])
            is_open, labels = open_condition(reader)
            closed = f"SELECT 1 FROM documents d WHERE d.tenant = ? AND d.collection = ? AND NOT {is_open}"
            if connection.execute(closed, (*it, *labels)).fetchone():
                raise refusals.closed_collection(name)
            hide_edition(connection, *it, "edition")
            hide_edition(connection, *it, "next_edition")
            connection.execute("DELETE FROM collections WHERE tenant = ? AND name = ?", it)
            connection.execute("DELETE FROM unmigrated WHERE tenant = ? AND collection = ?", it)
            return connection.execute("DELETE FROM documents WHERE tenant = ? AND collection = ?", it).rowcount

    def all(self, reader: Reader, name: str = "") -> list[Collection]:
        """Those of the tenant by name, or the one; counts are of the documents that are open to the reader."""
        is_open, labels = open_condition(reader)
        of_it = "WHERE one.tenant = c.tenant AND one.collection = c.name"
        rows = self._connection.execute(
            f"SELECT {COLLECTION_COLUMNS}, count(d.document_id), coalesce(max(d.update_time), 0),"
            f" (SELECT count(*) FROM documents one {of_it}), (SELECT count(*) FROM unmigrated one {of_it})"
            " FROM collections c LEFT JOIN documents d ON d.tenant = c.tenant AND d.collection = c.name AND"
            f" {is_open} WHERE c.tenant = ? AND (? = '' OR c.name = ?) GROUP BY c.name ORDER BY c.name",
            (*labels, reader.tenant, name, name),
        )
        return [progressed(collection(*row[:5]), *row[5:]) for row in rows]

    def models(self, tenant: str, names: Sequence[str]) -> dict[str, str]:
        """The model of each collection. Raises NotFound."""
        self.require(tenant, names)
        rows = self._connection.execute("SELECT name, model FROM collections WHERE tenant = ?", (tenant,))
        return {name: model for name, model in rows if not names or name in names}

    def languages(self, reader: Reader, names: Sequence[str]) -> list[str]:
        """Languages of the documents in the collections (none: all), in order; the unknown one is empty."""
        is_open, labels = open_condition(reader)
        found: set[str] = set()
        for where, values in [("d.collection = ? AND", (name,)) for name in names] or [("", ())]:
            # From one value to the next along the index: a DISTINCT would walk over every document.
            query = f"SELECT min(d.language) FROM documents d WHERE d.tenant = ? AND {where} {is_open} AND d.language "
            known = (reader.tenant, *values, *labels)
            (language,) = self._connection.execute(f"{query} >= ''", known).fetchone()
            while language is not None:
                found.add(language)
                (language,) = self._connection.execute(f"{query} > ?", (*known, language)).fetchone()
        return sorted(found)
