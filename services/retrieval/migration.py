"""Gives collections another embedding model or index in the background; searches switch over in one step at the end."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.retrieval.store import (
    Collection,
    Document,
    Index,
    Migration,
    MigrationState,
    NewChunk,
    Reader,
    Store,
    StoredChunk,
)
from services.runtime import tasks
from services.runtime.context import ALL_LABELS
from services.runtime.errors import (
    DeadlineExceeded,
    DependencyFailed,
    InvalidField,
    LimitExceeded,
    NotFound,
    Overloaded,
    ServiceError,
)

log = logging.getLogger(__name__)

_PASSING = (Overloaded, DependencyFailed, DeadlineExceeded, LimitExceeded)
_BATCH_TEXTS = 32
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0


@dataclass(frozen=True)
class ServedModel:
    """The embedding model that documents get now."""

    name: str
    learned_sparse: bool


class PassageEmbedder(Protocol):
    """Embeds passages with the current model. Both methods raise a ServiceError."""

    async def served(self) -> ServedModel:
        """The model that is served now."""
        ...

    async def embed_passages(self, chunks: Sequence[StoredChunk], language: str) -> list[NewChunk]:
        """The chunks with new vectors, at most 32 of them; text, page, section and parents as they were."""
        ...


class Migrator:
    """Runs migrations, one task each. They survive a restart: the store knows which are running."""

    def __init__(self, store: Store, embedder: PassageEmbedder, act_for: Callable[[str], None]) -> None:
        """`act_for` makes the current task a caller of the tenant, anew each time: tokens expire."""
        self._store = store
        self._embedder = embedder
        self._act_for = act_for
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Goes on with what was running when the service stopped."""
        for tenant, collection in await self._store.migrations():
            self._spawn(tenant, collection.name)

    async def close(self) -> None:
        """Stops; what is unfinished goes on at the next start."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def begin(self, tenant: str, name: str, index: Index | None) -> Collection:
        """Begins, or begins anew. Raises NotFound, and InvalidField when there is nothing to change."""
        self._act_for(tenant)
        served = await self._embedder.served()
        collection = await self._find(tenant, name)
        wanted = index or collection.index
        same = (collection.model or served.name) == served.name and wanted == collection.index
        if same and not collection.differs:
            raise InvalidField(
                f"The collection `{name}` has the model `{served.name}` and this index already.", field="index"
            )
        await self._stop(tenant, name)
        migration = Migration(MigrationState.RUNNING, served.name, wanted, served.learned_sparse)
        begun = await self._store.begin_migration(tenant, name, migration)
        self._spawn(tenant, name)
        return begun

    async def cancel(self, tenant: str, name: str) -> Collection:
        """Stops a running migration; nothing happens when none is running. Raises NotFound."""
        await self._find(tenant, name)
        await self._stop(tenant, name)
        await self._store.end_migration(tenant, name, MigrationState.CANCELLED, "Stopped on request.")
        return await self._find(tenant, name)

    async def _find(self, tenant: str, name: str) -> Collection:
        for one in await self._store.list_collections(Reader(tenant, (ALL_LABELS,))):
            if one.name == name:
                return one
        raise NotFound(f"There is no collection `{name}`.", collection=name)

    async def _stop(self, tenant: str, name: str) -> None:
        await tasks.end(self._running.pop((tenant, name), None))

    def _spawn(self, tenant: str, name: str) -> None:
        key = (tenant, name)
        task = asyncio.create_task(self._run(tenant, name))
        self._running[key] = task

        def done(ended: asyncio.Task[None]) -> None:
            if self._running.get(key) is ended:
                del self._running[key]

        task.add_done_callback(done)

    async def _run(self, tenant: str, name: str) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                self._act_for(tenant)
                if await self._step(tenant, name):
                    log.info("a collection was migrated", extra={"collection": name})
                    return
                pause = _FIRST_PAUSE_SECONDS
            except NotFound:
                return  # the collection was deleted meanwhile
            except _PASSING as error:
                log.warning("a migration waits", extra={"collection": name, "reason": error.message})
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            except Exception as error:
                reason = error.message if isinstance(error, ServiceError) else "Internal error; the log tells more."
                log.error("a migration failed", extra={"collection": name}, exc_info=error)
                await self._store.end_migration(tenant, name, MigrationState.FAILED, reason)
                return

    async def _step(self, tenant: str, name: str) -> bool:
        """One document, or the end; True when all is done."""
        migration = (await self._find(tenant, name)).migration
        if migration is None or migration.state is not MigrationState.RUNNING:
            return True
        found = await self._store.next_unmigrated(tenant, name)
        if found is None:
            return await self._store.end_migration(tenant, name, MigrationState.DONE)
        served = await self._embedder.served()
        if served.name != migration.model:
            reason = f"The embedding service serves `{served.name}` now, no longer `{migration.model}`."
            await self._store.end_migration(tenant, name, MigrationState.FAILED, reason)
            return True
        document, chunks = found
        await self._store.put_second_version(tenant, document, await self._embedded(document, chunks))
        return False

    async def _embedded(self, document: Document, chunks: Sequence[StoredChunk]) -> list[NewChunk]:
        embedded: list[NewChunk] = []
        for start in range(0, len(chunks), _BATCH_TEXTS):
            batch = chunks[start : start + _BATCH_TEXTS]
            embedded += await self._embedder.embed_passages(batch, document.language)
        return embedded
