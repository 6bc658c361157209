"""Collections and documents as cells of the registry on a Qdrant server."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter
from qdrant_client import models

from services.retrieval.payload import OPEN, TENANT_FIELD, open_to, point_id
from services.retrieval.placement import Placement, placement
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.replication import Replication
from services.retrieval.store import Collection, Distribution, Document, Index, Migration, MigrationState, Reader


@dataclass(frozen=True)
class Spread:
    """What of a distribution is fixed once there are vectors; 0 and None: as the service has it for all."""

    shard_number: int = 0
    on_disk: bool | None = None

    def placement(self, model: str, index: Index, learned_sparse: bool) -> Placement:
        """The place of vectors that are spread like this."""
        plain = placement(model, index, learned_sparse)
        return replace(plain, shard_number=self.shard_number, on_disk=self.on_disk)


def spread_of(wanted: Distribution | None) -> Spread:
    """The fixed part of a distribution."""
    return Spread() if wanted is None else Spread(wanted.shard_number, wanted.on_disk)


@dataclass(frozen=True)
class CollectionRow:
    """A collection without its counts. `edition` names its vectors that count, `next_edition` those of a migration.

    While it is `switching` no document may be committed: the end of a migration is being decided. `spread` is how the
    vectors of the edition are spread, `next_spread` those of the migration; the settings hold what is wished.
    """

    settings: Collection
    edition: str
    places: Sequence[Placement] = ()
    next_edition: str = ""
    switching: bool = False
    spread: Spread = Spread()
    next_spread: Spread = Spread()

    @property
    def migration(self) -> Migration | None:
        """The one that is running."""
        found = self.settings.migration
        return found if found is not None and found.state is MigrationState.RUNNING else None


@dataclass(frozen=True)
class Version:
    """A document's points of one edition."""

    generation: str
    placement: Placement
    chunk_count: int


@dataclass(frozen=True)
class DocumentRow:
    """A document with its versions, by edition."""

    header: Document
    versions: Mapping[str, Version] = field(default_factory=dict[str, Version])

    def seen(self, edition: str) -> Document | None:
        """As readers of this edition see it."""
        version = self.versions.get(edition)
        if version is None:
            return None
        where = version.placement
        return replace(
            self.header,
            embedding_model=where.model,
            learned_sparse=where.learned_sparse,
            chunk_count=version.chunk_count,
        )


@dataclass(frozen=True)
class Target:
    """Where a document's points have to be written."""

    edition: str
    placement: Placement
    replication: Replication = field(default=Replication(), compare=False)


_COLLECTION = TypeAdapter(CollectionRow)
_DOCUMENT = TypeAdapter(DocumentRow)


def collection_id(tenant: str, name: str) -> str:
    """Of the collection's cell."""
    return point_id("collection", tenant, name)


def document_id(tenant: str, id: str) -> str:
    """Of the document's cell."""
    return point_id("document", tenant, id)


def collection_fields(tenant: str, row: CollectionRow) -> dict[str, Any]:
    """The cell of a collection."""
    written = _COLLECTION.dump_python(row, mode="json")
    return {"kind": "collection", TENANT_FIELD: tenant, "collection": row.settings.name, "row": written}


def collection_row(fields: Mapping[str, Any]) -> CollectionRow:
    """What `collection_fields` wrote."""
    return _COLLECTION.validate_python(fields["row"])


def document_fields(tenant: str, row: DocumentRow) -> dict[str, Any]:
    """The cell of a document."""
    header = row.header
    return {
        "kind": "document",
        TENANT_FIELD: tenant,
        "document_id": header.document_id,
        "collection": header.collection,
        "language": header.language,
        "labels": list(header.labels) or [OPEN],
        "editions": list(row.versions),
        "models": sorted({version.placement.model for version in row.versions.values()}),
        "updated": header.update_time.timestamp(),
        "row": _DOCUMENT.dump_python(row, mode="json"),
    }


def document_row(fields: Mapping[str, Any]) -> DocumentRow:
    """What `document_fields` wrote."""
    return _DOCUMENT.validate_python(fields["row"])


def of_kind(kind: str, tenant: str = "") -> list[models.Condition]:
    """Cells of a kind, of a tenant or of all."""
    found: list[models.Condition] = [asked.equals("kind", kind)]
    return [*found, asked.equals(TENANT_FIELD, tenant)] if tenant else found


def documents_of(tenant: str, editions: Iterable[str], reader: Reader | None = None) -> list[models.Condition]:
    """Documents with a version in one of the editions; those that are open to the reader, where one is given."""
    found = [*of_kind("document", tenant), asked.any_of("editions", list(editions))]
    if reader is not None and not reader.sees_all:
        found.append(asked.any_of("labels", open_to(reader)))
    return found


def unmigrated(tenant: str, row: CollectionRow) -> models.Filter:
    """Documents of a collection that have no version in its next edition."""
    return asked.all_of(documents_of(tenant, [row.edition]), [asked.equals("editions", row.next_edition)])
