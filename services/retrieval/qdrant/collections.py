"""The registry's collections on a Qdrant server."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from services.retrieval import refusals
from services.retrieval.payload import TENANT_FIELD, new_generation, open_to
from services.retrieval.placement import Placement, placement
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.cells import Cell, Cells
from services.retrieval.qdrant.loose import Edition, Loose
from services.retrieval.qdrant.places import Places
from services.retrieval.qdrant.rows import (
    CollectionRow,
    Target,
    collection_fields,
    collection_id,
    collection_row,
    document_row,
    documents_of,
    of_kind,
    unmigrated,
)
from services.retrieval.store import NEVER, Collection, Document, Reader

# How often a writer starts again when others are faster.
TURNS = 40
# A switch to a migration's vectors takes a few calls; writers wait for it, two seconds at most.
_SWITCH_PAUSE_SECONDS = 0.05


class QdrantCollections:
    """All methods raise DependencyFailed, and NotFound where they name a collection."""

    def __init__(self, places: Places, cells: Cells, loose: Loose) -> None:
        self._places = places
        self._cells = cells
        self._loose = loose

    async def find(self, tenant: str, name: str) -> tuple[Cell, CollectionRow | None]:
        """The collection, None when there is none."""
        cell = await self._cells.read(collection_id(tenant, name))
        return cell, collection_row(cell.fields) if cell.is_there else None

    async def require(self, tenant: str, name: str) -> tuple[Cell, CollectionRow]:
        """The collection."""
        cell, row = await self.find(tenant, name)
        if row is None:
            raise refusals.no_collection(name)
        return cell, row

    async def rows(self, tenant: str, required: Sequence[str] = ()) -> dict[str, CollectionRow]:
        """All of the tenant, by name. Raises NotFound when a required one is not among them."""
        mine = asked.all_of(of_kind("collection", tenant))
        found = [collection_row(cell.fields) async for cell in self._cells.each(mine)]
        by_name = {row.settings.name: row for row in sorted(found, key=lambda row: row.settings.name)}
        for name in required:
            if name not in by_name:
                raise refusals.no_collection(name)
        return by_name

    async def everywhere(self) -> list[tuple[str, CollectionRow]]:
        """Tenant and collection, of all tenants."""
        cells = self._cells.each(asked.all_of(of_kind("collection")))
        return [(cell.fields[TENANT_FIELD], collection_row(cell.fields)) async for cell in cells]

    async def languages(self, reader: Reader, names: Sequence[str]) -> list[str]:
        """Languages of the documents in the collections (none: all), in order."""
        known = await self.rows(reader.tenant)
        editions = [row.edition for name, row in known.items() if not names or name in names]
        if not editions:
            return []
        return await self._cells.values("language", asked.all_of(documents_of(reader.tenant, editions, reader)))

    async def described(self, reader: Reader, row: CollectionRow) -> Collection:
        """With its counts, of the documents that are open to the reader."""
        mine = asked.all_of(documents_of(reader.tenant, [row.edition], reader))
        count, latest = await asyncio.gather(self._cells.count(mine), self._cells.latest(mine))
        time = NEVER if latest is None else document_row(latest.fields).header.update_time
        settings = row.settings
        if row.migration is not None:
            total, waiting = await asyncio.gather(
                self.held_count(reader.tenant, row), self.unmigrated_count(reader.tenant, row)
            )
            migration = replace(row.migration, done_count=total - waiting, total_count=total)
            settings = replace(settings, migration=migration)
        return replace(settings, document_count=count, update_time=time)

    async def held_count(self, tenant: str, row: CollectionRow) -> int:
        """Its documents, of any labels."""
        return await self._cells.count(asked.all_of(documents_of(tenant, [row.edition])))

    async def unmigrated_count(self, tenant: str, row: CollectionRow) -> int:
        """Documents without second version."""
        return await self._cells.count(unmigrated(tenant, row))

    async def put(self, reader: Reader, wanted: Collection) -> Collection:
        """Creates or changes it. Raises InvalidField."""
        for _ in range(TURNS):
            cell, known = await self.find(reader.tenant, wanted.name)
            plain = replace(wanted, model="", migration=None, document_count=0, update_time=NEVER)
            row = CollectionRow(plain, new_generation())
            if known is not None:
                held = await self.held_count(reader.tenant, known)
                refusals.check_index(replace(known.settings, document_count=held), wanted.index)
                settings = replace(plain, model=known.settings.model, migration=known.settings.migration)
                row = replace(known, settings=settings)
            if await self._cells.swap(cell, collection_fields(reader.tenant, row)) is not None:
                return await self.described(reader, row)
        raise refusals.changed_meanwhile(wanted.name)

    async def delete(self, reader: Reader, name: str) -> int:
        """Deletes it with its documents; their number. Raises NotPermitted."""
        for _ in range(TURNS):
            cell, row = await self.require(reader.tenant, name)
            held = documents_of(reader.tenant, [row.edition])
            if not reader.sees_all:
                closed = asked.all_of(held, [asked.any_of("labels", open_to(reader))])
                if await self._cells.count(closed):
                    raise refusals.closed_collection(name)
            count = await self._cells.count(asked.all_of(held))
            going = self.editions(reader.tenant, row, with_documents=True)
            for edition in going:
                await self._loose.note_edition(edition)
            if await self._cells.remove(cell):
                # The current one last: with it go the documents, which name what the other one has.
                for edition in reversed(going):
                    await self._loose.delete_edition(edition)
                return count
            for edition in going:
                await self._loose.forget_edition(edition.edition)
        raise refusals.changed_meanwhile(name)

    def editions(self, tenant: str, row: CollectionRow, *, with_documents: bool = False) -> list[Edition]:
        """The collection's edition that counts and, if there is one, the next."""
        name = row.settings.name
        places = [self._places.name(one) for one in row.places]
        found = [Edition(tenant, name, row.edition, places, with_documents)]
        if row.next_edition and row.settings.migration is not None:
            where = self._places.name(migration_placement(row))
            found.append(Edition(tenant, name, row.next_edition, [where], with_documents))
        return found

    async def target(self, tenant: str, document: Document) -> Target:
        """Where to write the document. Raises ModelMismatch."""
        _, row = await self.require(tenant, document.collection)
        return await self._target(tenant, document, row)

    async def _target(self, tenant: str, document: Document, row: CollectionRow) -> Target:
        known, offered = row.settings.model, document.embedding_model
        if known != offered and await self.held_count(tenant, row):
            raise refusals.other_model(row.settings.name, known, offered)
        return Target(row.edition, placement(offered, row.settings.index, document.learned_sparse))

    async def claim(self, tenant: str, document: Document, target: Target) -> None:
        """Gives the collection the document's model and place, if it has not got them.

        Raises what `target` raises, and Overloaded when the points would have to be elsewhere by now.
        """
        name = document.collection
        for _ in range(TURNS):
            cell, row = await self.require(tenant, name)
            if row.switching:
                await asyncio.sleep(_SWITCH_PAUSE_SECONDS)
                continue
            if await self._target(tenant, document, row) != target:
                break
            model = document.embedding_model
            places = row.places if target.placement in row.places else [*row.places, target.placement]
            wanted = replace(row, settings=replace(row.settings, model=model), places=places)
            if wanted == row:
                return
            mine = await self._cells.swap(cell, collection_fields(tenant, wanted))
            if mine is None:
                continue
            # Documents of another model that were committed while we changed it: theirs was first.
            others = asked.all_of(documents_of(tenant, [row.edition]), [asked.equals("models", model)])
            if model == row.settings.model or not await self._cells.count(others):
                return
            await self._cells.swap(mine, cell.fields)
            break
        raise refusals.changed_meanwhile(name)

    async def still_holds(self, tenant: str, document: Document, target: Target) -> bool:
        """Whether a document that was just committed for `target` is one that readers see, now and after a switch."""
        _, row = await self.find(tenant, document.collection)
        return (
            row is not None
            and not row.switching
            and row.edition == target.edition
            and row.settings.model == document.embedding_model
        )


def migration_placement(row: CollectionRow) -> Placement:
    """Where the next edition's vectors are."""
    migration = row.settings.migration
    if migration is None:
        raise ValueError("the collection is not migrated")
    return placement(migration.model, migration.index, migration.learned_sparse)
