"""The registry's collections on a Qdrant server."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from services.retrieval import refusals
from services.retrieval.payload import TENANT_FIELD, new_generation, open_to
from services.retrieval.placement import Placement
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.cells import Cell, Cells
from services.retrieval.qdrant.loose import Edition, Loose
from services.retrieval.qdrant.places import Places
from services.retrieval.qdrant.replication import Replication, most, replication
from services.retrieval.qdrant.rows import (
    CollectionRow,
    Target,
    collection_fields,
    collection_id,
    collection_row,
    document_row,
    documents_of,
    of_kind,
    spread_of,
    unmigrated,
)
from services.retrieval.store import NEVER, Collection, Document, Reader
from services.runtime.errors import DependencyFailed

log = logging.getLogger(__name__)

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
        wished = row.settings.distribution
        differs = ""
        if wished is not None:
            differs = refusals.not_in_force(row.settings.name, wished, row.spread.shard_number, row.spread.on_disk)
        settings = replace(row.settings, differs=differs)
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
            plain = replace(wanted, model="", migration=None, document_count=0, update_time=NEVER, differs="")
            row = CollectionRow(plain, new_generation(), spread=spread_of(plain.distribution))
            if known is not None:
                row = await self._changed(reader.tenant, known, plain)
            if await self._cells.swap(cell, collection_fields(reader.tenant, row)) is not None:
                if wanted.distribution is not None:
                    for place in row.places:
                        await self._replicate(place)
                return await self.described(reader, row)
        raise refusals.changed_meanwhile(wanted.name)

    async def _changed(self, tenant: str, known: CollectionRow, wanted: Collection) -> CollectionRow:
        """What is in force of how vectors are spread changes only where there are none. Raises InvalidField."""
        held = await self.held_count(tenant, known)
        before = known.settings
        refusals.check_index(replace(before, document_count=held), wanted.index)
        wished = before.distribution if wanted.distribution is None else wanted.distribution
        settings = replace(wanted, model=before.model, migration=before.migration, distribution=wished)
        return replace(known, settings=settings, spread=known.spread if held else spread_of(wished))

    async def replicate_all(self) -> None:
        """Gives every place as many copies as the collections in it wish; what cannot be done is logged."""
        rows = [row for _, row in await self.everywhere()]
        for place in {place for row in rows for place in row.places}:
            await self._try_to_replicate(place)

    async def _try_to_replicate(self, place: Placement) -> None:
        try:
            await self._replicate(place)
        except DependencyFailed as error:
            log.warning("copies of passages could not be made", extra={"place": place.name, "reason": error.message})

    async def _replicate(self, place: Placement) -> None:
        if await self._places.dimensions(self._places.name(place)):
            rows = [row for _, row in await self.everywhere() if place in row.places]
            await self._places.replicate(place, most([self.replication_of(row) for row in rows]))

    def replication_of(self, row: CollectionRow) -> Replication:
        """What it wishes, or else the service."""
        return replication(row.settings.distribution, self._places.defaults)

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
        where = row.spread.placement(offered, row.settings.index, document.learned_sparse)
        return Target(row.edition, where, self.replication_of(row))

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
            if places is not row.places:
                await self._try_to_replicate(target.placement)
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
    return row.next_spread.placement(migration.model, migration.index, migration.learned_sparse)
