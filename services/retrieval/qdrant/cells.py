"""The registry's points as cells that change only from the state in which they were read.

Qdrant has no transactions, but it applies one operation after the other, and a change may be bound to a filter. Each
cell bears the revision that wrote it, and a change asks for the one that was read. What came of it is read afterwards.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qdrant_client import models

from services.retrieval.payload import new_generation
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.calls import answered
from services.retrieval.qdrant.places import Places

_PAGE = 1000
# Revisions that a cell remembers: a writer finds its own among them though others have written since.
_REMEMBERED = 16
_STRONG = models.WriteOrdering.STRONG


@dataclass(frozen=True)
class Cell:
    """A point of the registry as it was read. Without fields and revision where there is none."""

    id: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    revision: str = ""
    past: Sequence[str] = ()

    @property
    def is_there(self) -> bool:
        """Whether there is such a point."""
        return self.revision != ""

    def comes_after(self, revision: str) -> bool:
        """Whether this state is that of `revision` or grew from it."""
        return revision in (self.revision, *self.past)


class Cells:
    """All methods raise DependencyFailed."""

    def __init__(self, places: Places) -> None:
        self._client = places.client
        self._name = places.registry

    async def read(self, id: str) -> Cell:
        """The cell as it is now."""
        return (await self.read_all([id])).get(id, Cell(id))

    async def read_all(self, ids: Sequence[str], fields: Sequence[str] = ()) -> dict[str, Cell]:
        """Those of the cells that there are, by id; only these `fields`, none means all."""
        if not ids:
            return {}
        records = await answered(self._client.retrieve, self._name, list(ids), with_payload=list(fields) or True)
        return {str(record.id): _cell(record) for record in records}

    async def swap(self, cell: Cell, fields: Mapping[str, Any]) -> Cell | None:
        """Writes the cell unless it has changed since it was read; the cell as written, None when it has changed.

        A cell that is not there was deleted, before or after the change: at the same time, that is.
        """
        revision = new_generation()
        past = [cell.revision, *cell.past][:_REMEMBERED] if cell.is_there else []
        written = {**fields, "revision": revision, "past": past}
        if cell.is_there:
            await answered(
                self._client.overwrite_payload,
                self._name,
                written,
                points=models.FilterSelector(filter=_only(cell)),
                wait=True,
                ordering=_STRONG,
            )
        else:
            point = models.PointStruct(id=cell.id, vector={}, payload=written)
            insert = models.UpdateMode.INSERT_ONLY
            await answered(self._client.upsert, self._name, [point], wait=True, ordering=_STRONG, update_mode=insert)
        found = await self.read(cell.id)
        if not found.is_there:
            return found
        return Cell(cell.id, fields, revision, past) if found.comes_after(revision) else None

    async def remove(self, cell: Cell) -> bool:
        """Deletes the cell unless it has changed since it was read; False when it has."""
        selector = models.FilterSelector(filter=_only(cell))
        await answered(self._client.delete, self._name, selector, wait=True, ordering=_STRONG)
        return not (await self.read(cell.id)).comes_after(cell.revision)

    async def put(self, cells: Mapping[str, Mapping[str, Any]]) -> None:
        """Writes cells, by id, whatever was there."""
        if cells:
            points = [
                models.PointStruct(id=id, vector={}, payload={**fields, "revision": new_generation(), "past": []})
                for id, fields in cells.items()
            ]
            await answered(self._client.upsert, self._name, points, wait=True, ordering=_STRONG)

    async def drop(self, ids: Sequence[str]) -> None:
        """Deletes cells, whatever is there."""
        if ids:
            selector = models.PointIdsList(points=list(ids))
            await answered(self._client.delete, self._name, selector, wait=True, ordering=_STRONG)

    async def drop_matching(self, matching: models.Filter) -> None:
        """Deletes all cells that match."""
        selector = models.FilterSelector(filter=matching)
        await answered(self._client.delete, self._name, selector, wait=True, ordering=_STRONG)

    async def each(
        self, matching: models.Filter, fields: Sequence[str] = (), page: int = _PAGE
    ) -> AsyncGenerator[Cell]:
        """All that match, in no order; only these `fields`, none means all."""
        offset: Any = None
        while True:
            records, offset = await answered(
                self._client.scroll, self._name, matching, limit=page, offset=offset, with_payload=list(fields) or True
            )
            for record in records:
                yield _cell(record)
            if offset is None:
                return

    async def latest(self, matching: models.Filter) -> Cell | None:
        """The one that matches with the highest `updated`."""
        order = models.OrderBy(key="updated", direction=models.Direction.DESC)
        records, _ = await answered(self._client.scroll, self._name, matching, limit=1, order_by=order)
        return _cell(records[0]) if records else None

    async def count(self, matching: models.Filter) -> int:
        """How many match."""
        return (await answered(self._client.count, self._name, matching, exact=True)).count

    async def values(self, field: str, matching: models.Filter) -> list[str]:
        """The values that a field has among those that match, in order; a thousand at most."""
        found = await answered(self._client.facet, self._name, field, matching, limit=_PAGE, exact=True)
        return sorted(str(hit.value) for hit in found.hits)


def _cell(record: models.Record) -> Cell:
    fields = dict(record.payload or {})
    revision, past = fields.pop("revision", ""), fields.pop("past", [])
    return Cell(str(record.id), fields, revision, past)


def _only(cell: Cell) -> models.Filter:
    return asked.all_of([models.HasIdCondition(has_id=[cell.id]), asked.equals("revision", cell.revision)])
