"""Points that no reader may see: noted in the registry before they exist or stop to count, until they are deleted.

Whatever a crash leaves behind is found again by its note. A note says nothing of what counts: that is looked up.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from services.retrieval.payload import TENANT_FIELD, point_id
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.cells import Cell, Cells
from services.retrieval.qdrant.places import Places
from services.retrieval.qdrant.rows import (
    Version,
    collection_id,
    collection_row,
    document_id,
    document_row,
    documents_of,
    of_kind,
)
from services.runtime.errors import DependencyFailed

log = logging.getLogger(__name__)

# An upload that has not written for so long never will.
_ABANDONED_AFTER = timedelta(hours=1)


@dataclass(frozen=True)
class Generations:
    """Versions of one document."""

    tenant: str
    document_id: str
    versions: Sequence[Version]


@dataclass(frozen=True)
class Edition:
    """All of a collection's versions of one edition; `with_documents` when the collection goes."""

    tenant: str
    collection: str
    edition: str
    places: Sequence[str]
    with_documents: bool = False


class Loose:
    """All methods raise DependencyFailed."""

    def __init__(self, places: Places, cells: Cells) -> None:
        self._places = places
        self._cells = cells

    async def note(self, loose: Generations) -> None:
        """Points of these generations may exist and not count from now on. Noting again renews the note."""
        begun = datetime.now(UTC).isoformat()
        await self._cells.put(
            {
                _generation_id(loose.tenant, version.generation): {
                    "kind": "generation",
                    TENANT_FIELD: loose.tenant,
                    "document_id": loose.document_id,
                    "generation": version.generation,
                    "place": self._places.name(version.placement),
                    "begin_time": begun,
                }
                for version in loose.versions
            }
        )

    async def forget(self, tenant: str, generations: Iterable[str]) -> None:
        """These count, or are gone."""
        await self._cells.drop([_generation_id(tenant, one) for one in generations])

    async def delete(self, loose: Generations) -> None:
        """Deletes the points of these generations, and their notes."""
        by_place: dict[str, list[str]] = {}
        for version in loose.versions:
            by_place.setdefault(self._places.name(version.placement), []).append(version.generation)
        await self._delete(loose.tenant, by_place)

    async def delete_or_leave(self, loose: Generations) -> None:
        """As `delete`; when the server does not answer the notes stay, and a later sweep does it."""
        try:
            await self.delete(loose)
        except DependencyFailed:
            log.warning("points are left for a later sweep", extra={"generation_count": len(loose.versions)})

    async def _delete(self, tenant: str, by_place: Mapping[str, Sequence[str]]) -> None:
        for place, generations in by_place.items():
            mine = [asked.equals(TENANT_FIELD, tenant), asked.any_of("generation", generations)]
            await self._places.delete_points(place, mine)
        await self.forget(tenant, [one for generations in by_place.values() for one in generations])

    async def note_edition(self, loose: Edition) -> None:
        """Notes that the edition is about to count no more."""
        fields = {
            "kind": "edition",
            TENANT_FIELD: loose.tenant,
            "collection": loose.collection,
            "edition": loose.edition,
            "places": list(loose.places),
            "with_documents": loose.with_documents,
            "begin_time": datetime.now(UTC).isoformat(),
        }
        await self._cells.put({_edition_id(loose.edition): fields})

    async def forget_edition(self, edition: str) -> None:
        """It counts after all."""
        await self._cells.drop([_edition_id(edition)])

    async def delete_edition(self, loose: Edition) -> None:
        """Deletes the points of the edition, its documents if they go, and the note."""
        for place in loose.places:
            mine = [asked.equals(TENANT_FIELD, loose.tenant), asked.equals("edition", loose.edition)]
            await self._places.delete_points(place, mine)
        if loose.with_documents:
            in_it = [*documents_of(loose.tenant, [loose.edition]), asked.equals("collection", loose.collection)]
            await self._cells.drop_matching(asked.all_of(in_it))
        await self.forget_edition(loose.edition)

    async def sweep(self) -> None:
        """Deletes what uploads, deletions and migrations left behind when their process died."""
        limit = datetime.now(UTC) - _ABANDONED_AFTER
        for kind, judge in (("edition", self._judge_edition), ("generation", self._judge_generation)):
            noted = [cell async for cell in self._cells.each(asked.all_of(of_kind(kind)))]
            for cell in noted:
                if datetime.fromisoformat(cell.fields["begin_time"]) < limit:
                    await judge(cell)

    async def _judge_generation(self, cell: Cell) -> None:
        fields = cell.fields
        tenant, generation = fields[TENANT_FIELD], fields["generation"]
        if await self._counts(tenant, fields["document_id"], generation):
            await self.forget(tenant, [generation])
        else:
            await self._delete(tenant, {fields["place"]: [generation]})

    async def _counts(self, tenant: str, id: str, generation: str) -> bool:
        found = await self._cells.read(document_id(tenant, id))
        if not found.is_there:
            return False
        row = document_row(found.fields)
        known = await self._cells.read(collection_id(tenant, row.header.collection))
        return any(
            version.generation == generation and _is_used(known, edition) for edition, version in row.versions.items()
        )

    async def _judge_edition(self, cell: Cell) -> None:
        fields: Mapping[str, Any] = cell.fields
        tenant, name = fields[TENANT_FIELD], fields["collection"]
        loose = Edition(tenant, name, fields["edition"], fields["places"], fields["with_documents"])
        if _is_used(await self._cells.read(collection_id(tenant, name)), loose.edition):
            await self.forget_edition(loose.edition)
        else:
            await self.delete_edition(loose)


def _is_used(collection: Cell, edition: str) -> bool:
    if not collection.is_there:
        return False
    row = collection_row(collection.fields)
    return edition in (row.edition, row.next_edition)


def _generation_id(tenant: str, generation: str) -> str:
    return point_id("generation", tenant, generation)


def _edition_id(edition: str) -> str:
    return point_id("edition", edition)
