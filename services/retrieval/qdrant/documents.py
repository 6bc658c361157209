"""The registry's documents on a Qdrant server."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence

from services.retrieval import refusals
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.cells import Cell, Cells
from services.retrieval.qdrant.collections import TURNS, QdrantCollections
from services.retrieval.qdrant.loose import Generations, Loose
from services.retrieval.qdrant.rows import (
    CollectionRow,
    DocumentRow,
    Target,
    Version,
    document_fields,
    document_id,
    document_row,
    documents_of,
)
from services.retrieval.store import Document, Reader
from services.runtime.errors import NotFound, Overloaded


class QdrantDocuments:
    """All methods raise DependencyFailed."""

    def __init__(self, cells: Cells, loose: Loose, collections: QdrantCollections) -> None:
        self._cells = cells
        self._loose = loose
        self._collections = collections

    async def read(self, tenant: str, id: str) -> tuple[Cell, DocumentRow | None]:
        """The document's cell; None when there is no such document."""
        cell = await self._cells.read(document_id(tenant, id))
        return cell, document_row(cell.fields) if cell.is_there else None

    async def seen(self, reader: Reader, id: str) -> tuple[Cell, Document, Version]:
        """A document as the reader sees it, and the version that counts. Raises NotFound."""
        before = None
        for _ in range(TURNS):
            cell, row = await self.read(reader.tenant, id)
            if row is None or not reader.may_read(row.header.labels):
                break
            _, known = await self._collections.find(reader.tenant, row.header.collection)
            if known is None or (cell.revision, known.edition) == before:
                break
            document = row.seen(known.edition)
            if document is not None:
                return cell, document, row.versions[known.edition]
            # The collection may have been switched to other vectors between the two reads.
            before = cell.revision, known.edition
        raise refusals.no_document(id)

    async def check(self, reader: Reader, document: Document) -> Target:
        """Where to write the document. Raises NotFound, ModelMismatch, NotPermitted and InvalidField."""
        refusals.check_labels(reader, document)
        target = await self._collections.target(reader.tenant, document)
        _, row = await self.read(reader.tenant, document.document_id)
        _check_open(reader, row, document.document_id)
        return target

    async def commit(self, reader: Reader, document: Document, generation: str, target: Target) -> bool:
        """Makes `generation`, which is noted as loose, the one that readers see; True when it replaced another.

        Of two that store the same document at once, the one that began later wins. Raises what `check` raises, and
        Overloaded when the points would have to be elsewhere by now.
        """
        tenant, id = reader.tenant, document.document_id
        version = Version(generation, target.placement, document.chunk_count)
        new = document_fields(tenant, DocumentRow(document, {target.edition: version}))
        for _ in range(TURNS):
            await self._collections.claim(tenant, document, target)
            cell, row = await self.read(tenant, id)
            _check_open(reader, row, id)
            versions = dict(row.versions) if row else dict[str, Version]()
            known = versions.get(target.edition)
            if known is not None and known.generation > generation:
                await self._loose.delete_or_leave(Generations(tenant, id, [version]))
                return True
            # Ours may be among them: a replica of the registry that lags behind did not show that we were heard.
            old = Generations(tenant, id, [one for one in versions.values() if one.generation != generation])
            await self._loose.note(old)
            mine = await self._cells.swap(cell, new)
            if mine is None:
                continue
            if not mine.is_there:  # it is deleted again
                await self._loose.delete_or_leave(Generations(tenant, id, [*old.versions, version]))
                return True
            if await self._collections.still_holds(tenant, document, target):
                await self._loose.delete_or_leave(old)
                await self._loose.forget(tenant, [generation])
                return row is not None
            # As it was: the old points are still there.
            undone = await (self._cells.swap(mine, cell.fields) if cell.is_there else self._cells.remove(mine))
            if undone:
                await self._loose.forget(tenant, [one.generation for one in old.versions])
        raise refusals.changed_meanwhile(document.collection)

    async def delete(self, reader: Reader, id: str) -> int:
        """Deletes a document; its chunks' number. Raises NotFound."""
        for _ in range(TURNS):
            cell, document, _ = await self.seen(reader, id)
            old = Generations(reader.tenant, id, list(document_row(cell.fields).versions.values()))
            await self._loose.note(old)
            if await self._cells.remove(cell):
                await self._loose.delete_or_leave(old)
                return document.chunk_count
        raise Overloaded(f"`{id}` changes all the time; try again.")

    async def page(self, reader: Reader, collection: str, after: str, limit: int) -> list[Document]:
        """Documents with an id above `after`, by id."""
        # Qdrant cannot order by a keyword: the ids of all documents are read, and the rest of those that are wanted.
        known = await self._collections.rows(reader.tenant)
        editions = [row.edition for name, row in known.items() if collection in ("", name)]
        if not editions:
            return []
        mine = asked.all_of(documents_of(reader.tenant, editions, reader))
        cells = self._cells.each(mine, ["document_id"], page=10_000)
        ids = sorted([id async for cell in cells if (id := cell.fields["document_id"]) > after])
        found: list[Document] = []
        while ids and len(found) < limit:
            some, ids = ids[: limit - len(found)], ids[limit - len(found) :]
            found += [one for one in await self._whole(reader, some, known) if collection in ("", one.collection)]
        return found

    async def _whole(self, reader: Reader, ids: Sequence[str], known: Mapping[str, CollectionRow]) -> list[Document]:
        cells = await self._cells.read_all([document_id(reader.tenant, id) for id in ids])
        found: list[Document] = []
        for id in ids:
            cell = cells.get(document_id(reader.tenant, id))
            row = document_row(cell.fields) if cell else None
            of = known.get(row.header.collection) if row else None
            document = row.seen(of.edition) if row and of and reader.may_read(row.header.labels) else None
            if document is not None:
                found.append(document)
                continue
            with contextlib.suppress(NotFound):  # it was changed since
                found.append((await self.seen(reader, id))[1])
        return found

    async def generations(self, reader: Reader, ids: Iterable[str]) -> dict[str, str]:
        """The generation that counts, by document; without those that are closed to the reader."""
        wanted = [document_id(reader.tenant, id) for id in ids]
        known, cells = await asyncio.gather(self._collections.rows(reader.tenant), self._cells.read_all(wanted))
        found: dict[str, str] = {}
        for cell in cells.values():
            row = document_row(cell.fields)
            collection = known.get(row.header.collection)
            version = row.versions.get(collection.edition) if collection else None
            if version is not None and reader.may_read(row.header.labels):
                found[row.header.document_id] = version.generation
        return found


def _check_open(reader: Reader, row: DocumentRow | None, id: str) -> None:
    if row is not None and not reader.may_read(row.header.labels):
        raise refusals.closed_document(id)
