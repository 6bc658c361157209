"""The registry's migrations on a Qdrant server: the next edition of a collection, and the switch to it."""

from dataclasses import replace

from services.retrieval import refusals
from services.retrieval.payload import new_generation
from services.retrieval.qdrant.cells import Cell, Cells
from services.retrieval.qdrant.collections import TURNS, QdrantCollections, migration_placement
from services.retrieval.qdrant.documents import QdrantDocuments
from services.retrieval.qdrant.loose import Generations, Loose
from services.retrieval.qdrant.rows import (
    CollectionRow,
    DocumentRow,
    Target,
    Version,
    collection_fields,
    collection_row,
    document_fields,
    spread_of,
    unmigrated,
)
from services.retrieval.store import (
    ALL_LABELS,
    Collection,
    Document,
    Migration,
    MigrationState,
    Reader,
)


class QdrantMigrations:
    """All methods raise DependencyFailed, and NotFound where they name a collection."""

    def __init__(self, cells: Cells, loose: Loose, collections: QdrantCollections, documents: QdrantDocuments) -> None:
        self._cells = cells
        self._loose = loose
        self._collections = collections
        self._documents = documents

    async def running(self) -> list[tuple[str, Collection]]:
        """Tenant and collection of each."""
        rows = [(tenant, row) for tenant, row in await self._collections.everywhere() if row.migration]
        return [(tenant, await self._collections.described(_everything(tenant), row)) for tenant, row in rows]

    async def begin(self, tenant: str, name: str, migration: Migration) -> Collection:
        """Starts from the beginning, whatever was done before."""
        started = replace(migration, state=MigrationState.RUNNING, reason="")
        for _ in range(TURNS):
            cell, row = await self._collections.require(tenant, name)
            settings = replace(row.settings, migration=started)
            spread = spread_of(settings.distribution)
            changed = replace(
                row, settings=settings, next_edition=new_generation(), switching=False, next_spread=spread
            )
            if await self._change(tenant, cell, changed):
                return await self._collections.described(_everything(tenant), changed)
        raise refusals.changed_meanwhile(name)

    async def _change(self, tenant: str, cell: Cell, changed: CollectionRow) -> bool:
        """Writes the collection and deletes the editions that it names no more; False when it is not as it was."""
        kept = {changed.edition, changed.next_edition}
        before = self._collections.editions(tenant, collection_row(cell.fields))
        going = [one for one in before if one.edition not in kept]
        for edition in going:
            await self._loose.note_edition(edition)
        if await self._cells.swap(cell, collection_fields(tenant, changed)) is None:
            for edition in going:
                await self._loose.forget_edition(edition.edition)
            return False
        for edition in going:
            await self._loose.delete_edition(edition)
        return True

    async def next_document(self, tenant: str, name: str) -> str | None:
        """The id of a document without second version."""
        _, row = await self._collections.require(tenant, name)
        if row.migration is None:
            return None
        async for cell in self._cells.each(unmigrated(tenant, row), ["document_id"], page=1):
            return cell.fields["document_id"]
        return None

    async def target(self, tenant: str, document: Document) -> Target | None:
        """Where the second version goes; None when it is not asked for any more."""
        _, row = await self._documents.read(tenant, document.document_id)
        target, _ = await self._asked_for(tenant, document, row)
        return target

    async def _asked_for(
        self, tenant: str, document: Document, row: DocumentRow | None
    ) -> tuple[Target | None, CollectionRow | None]:
        _, known = await self._collections.find(tenant, document.collection)
        if row is None or known is None or known.migration is None or known.next_edition in row.versions:
            return None, known
        if row.seen(known.edition) != document:
            return None, known
        copies = self._collections.replication_of(known)
        return Target(known.next_edition, migration_placement(known), copies), known

    async def commit(self, tenant: str, document: Document, version: Version, target: Target) -> None:
        """Makes `version`, which is noted as loose, the second one of `document`, if it is asked for still."""
        id = document.document_id
        for _ in range(TURNS):
            cell, row = await self._documents.read(tenant, id)
            there = row.versions.get(target.edition) if row else None
            if there is not None and there.generation == version.generation:
                # A replica of the registry that lags behind did not show that we were heard.
                await self._loose.forget(tenant, [version.generation])
                return
            wanted, known = await self._asked_for(tenant, document, row)
            if row is None or known is None or wanted != target:
                break
            versions = {known.edition: row.versions[known.edition], target.edition: version}
            mine = await self._cells.swap(cell, document_fields(tenant, DocumentRow(row.header, versions)))
            if mine is None:
                continue
            if mine.is_there and await self._is_kept(tenant, document, target):
                await self._loose.forget(tenant, [version.generation])
                return
            break
        await self._loose.delete_or_leave(Generations(tenant, id, [version]))

    async def _is_kept(self, tenant: str, document: Document, target: Target) -> bool:
        _, known = await self._collections.find(tenant, document.collection)
        return known is not None and target.edition in (known.edition, known.next_edition)

    async def end(self, tenant: str, name: str, state: MigrationState, reason: str) -> bool:
        """Switches over, or gives up; False when none is running or a document lacks its second version."""
        for _ in range(TURNS):
            cell, row = await self._collections.require(tenant, name)
            if row.migration is None:
                return False
            described = await self._collections.described(_everything(tenant), row)
            if described.migration is None:
                return False
            ended = replace(described.migration, state=state, reason=reason)
            if state is not MigrationState.DONE:
                given_up = replace(row.settings, migration=ended)
                if await self._change(tenant, cell, replace(row, settings=given_up, next_edition="", switching=False)):
                    return True
                continue
            # From here on nothing is committed, so that what is counted stays true until the switch.
            switching = replace(row, switching=True)
            mine = await self._cells.swap(cell, collection_fields(tenant, switching))
            if mine is None or not mine.is_there:
                continue
            if await self._collections.unmigrated_count(tenant, switching):
                if await self._change(tenant, mine, replace(row, switching=False)):
                    return False
            elif await self._change(tenant, mine, _switched(switching, ended)):
                return True
        raise refusals.changed_meanwhile(name)


def _switched(row: CollectionRow, ended: Migration) -> CollectionRow:
    settings = replace(row.settings, model=ended.model, index=ended.index, migration=ended)
    return CollectionRow(settings, row.next_edition, [migration_placement(row)], spread=row.next_spread)


def _everything(tenant: str) -> Reader:
    return Reader(tenant, (ALL_LABELS,))
