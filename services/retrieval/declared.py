"""Creates the collections that tenants' files declare, at the start and whenever a file changes."""

import asyncio
import logging
from dataclasses import replace

from services.retrieval.store import ALL_LABELS, Chunking, Collection, Distribution, Reader, Store, Strategy
from services.runtime import tasks
from services.runtime.errors import ServiceError
from services.runtime.tenants import Collection as Declared
from services.runtime.tenants import TenantDirectory

log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 2.0


class DeclaredCollections:
    """Adds and changes, never deletes: a collection that leaves the file keeps its documents."""

    def __init__(self, store: Store, tenants: TenantDirectory | None) -> None:
        self._store = store
        self._tenants = tenants
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Creates what is declared now, then watches the files."""
        if self._tenants is not None:
            await self._create(self._tenants)
            self._watching = asyncio.create_task(self._watch(self._tenants))

    async def stop(self) -> None:
        """Watches no more."""
        await tasks.end(self._watching)

    async def _watch(self, tenants: TenantDirectory) -> None:
        pending = False
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            pending = tenants.reload() or pending
            if pending:
                try:
                    await self._create(tenants)
                    pending = False
                except ServiceError as error:
                    log.warning("declared collections are not created yet", extra={"reason": str(error)})

    async def _create(self, tenants: TenantDirectory) -> None:
        for tenant in tenants.all().values():
            reader = Reader(tenant.id, (ALL_LABELS,))
            there = {one.name: one for one in await self._store.list_collections(reader)}
            for name, declared in tenant.collections.items():
                known = there.get(name) or Collection(name)
                wanted = replace(
                    known,
                    description=declared.description,
                    language=declared.language,
                    chunking=_chunking(declared),
                    distribution=_distribution(declared) or known.distribution,
                )
                if name not in there or wanted != known:
                    known = await self._store.put_collection(reader, wanted)
                if known.differs:
                    log.warning("a collection is not as its file says", extra={"reason": known.differs})


def _distribution(declared: Declared) -> Distribution | None:
    wish = declared.distribution
    if wish is None:
        return None
    return Distribution(wish.shard_number, wish.replication_factor, wish.write_consistency_factor, wish.on_disk)


def _chunking(declared: Declared) -> Chunking:
    cut = declared.chunking
    return Chunking(Strategy(cut.strategy), cut.max_tokens, cut.min_tokens, cut.overlap_tokens, cut.parent_tokens)
