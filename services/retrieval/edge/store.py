"""Store on Qdrant's engine inside this process: one folder, one owner, no server.

    <folder>/registry.sqlite   collections, documents and their versions; decides what readers see
    <folder>/shards/<name>/    one engine shard a placement
    <folder>/tokens/           token vectors
    <folder>/lock              held by the process that owns the folder

Writers go one after the other in a thread of their own. A document's points are written under a new generation; one
registry transaction makes them current, and only then are the old ones deleted. A reader that meets points of any
other generation looks again without it.
"""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from services.retrieval import late_interaction, payload, token_codec
from services.retrieval.edge.keyed_locks import KeyedLocks
from services.retrieval.edge.registry import Registry
from services.retrieval.edge.registry_rows import Target
from services.retrieval.edge.shard import Found
from services.retrieval.edge.shards import EdgeShards
from services.retrieval.edge.token_files import TokenFiles
from services.retrieval.freshness import ROUNDS, Freshness
from services.retrieval.store import (
    ALL_LABELS,
    Collection,
    Document,
    Hit,
    Migration,
    MigrationState,
    NewChunk,
    Query,
    Reader,
    Stored,
    StoredChunk,
    TokenMatrix,
)
from services.runtime.errors import DependencyFailed, NotFound

Result = TypeVar("Result")

# Generations whose points are deleted in one step: other writers get their turn in between.
_SWEPT_AT_ONCE = 64


class FolderInUse(RuntimeError):
    """Another process owns the folder."""


class EdgeStore:
    """Survives a restart, a kill and a loss of power: what was acknowledged is there again."""

    def __init__(self, directory: Path, *, index_after_chunks: int = 20_000) -> None:
        """The index is built whenever more than `index_after_chunks` are without one."""
        self._directory = directory
        self._index_after_chunks = index_after_chunks
        self._being_written: set[str] = set()
        self._uploads = KeyedLocks()
        self._tokens = TokenFiles(directory / "tokens")

    async def open(self) -> None:
        """Raises FolderInUse when another process has the folder open, UnknownFormat and MissingPayloadIndex."""
        self._writer = ThreadPoolExecutor(1, "store-writer")
        self._readers = ThreadPoolExecutor(2, "store-reader")
        try:
            await self._write(self._open)
        except BaseException:
            self._writer.shutdown(wait=False)
            raise
        await self._sweep()

    def _open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock_file = _locked(self._directory)
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, self._lock_file)
            self._registry = Registry(self._directory / "registry.sqlite")
            undo.callback(self._registry.close)
            shards = self._directory / "shards"
            self._shards = EdgeShards(shards, self._registry, self._write, self._index_after_chunks)
            undo.pop_all()

    async def close(self) -> None:
        await self._shards.stop()
        await self._write(self._close)
        self._writer.shutdown()

    def _close(self) -> None:
        self._readers.shutdown()
        self._shards.close()
        self._registry.close()
        os.close(self._lock_file)

    async def _read(self, work: Callable[..., Result], *args: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *args)

    async def _write(self, work: Callable[..., Result], *args: Any) -> Result:
        with _told_when_full():
            return await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)

    async def search(self, reader: Reader, query: Query) -> list[Hit]:
        return await self._read(self._search, reader, query)

    def _search(self, reader: Reader, query: Query) -> list[Hit]:
        freshness = Freshness()
        fresh: list[Found] = []
        for _ in range(ROUNDS):
            found = self._candidates(reader, query, freshness.excluded)
            met = [one.version for one in found]
            current = self._registry.generations(reader, freshness.documents(met))
            fresh = [one for one in found if current.get(one.version[0]) == one.version[1]]
            if freshness.accepts(met, current):
                break
        return [_hit(one) for one in fresh]

    def _candidates(self, reader: Reader, query: Query, excluded: Sequence[str]) -> list[Found]:
        # BM25's document frequencies are those of each shard by itself. They compare well between shards of some size,
        # and all of a collection is in one.
        found: list[Found] = []
        for name, scope in self._registry.scopes(reader.tenant, query.filter.collections, query.model).items():
            shard = self._shards.get(name)
            if shard is not None:
                found.extend(shard.search(reader, query, scope, excluded))
        return found

    async def late_scores(
        self, reader: Reader, model: str, hits: Sequence[Hit], tokens: TokenMatrix
    ) -> Sequence[float | None]:
        return await self._read(self._late_scores, reader, hits, tokens)

    def _late_scores(self, reader: Reader, hits: Sequence[Hit], tokens: TokenMatrix) -> list[float | None]:
        current = self._registry.generations(reader, {hit.chunk.document_id for hit in hits})
        packed: list[bytes | None] = []
        for hit in hits:
            generation, _, place = hit.place.partition("/")
            is_current = place and current.get(hit.chunk.document_id) == generation
            packed.append(self._tokens.read(generation, *map(int, place.split("/"))) if is_current else None)
        return late_interaction.late_scores(tokens, packed)

    async def models(self, reader: Reader, collections: Sequence[str]) -> dict[str, str]:
        # A few rows, twice in each search: a thread's turn would take ten times as long.
        return self._registry.collections.models(reader.tenant, collections)

    async def languages(self, reader: Reader, collections: Sequence[str]) -> list[str]:
        return await self._read(self._registry.collections.languages, reader, collections)

    async def put_document(self, reader: Reader, document: Document, chunks: AsyncIterable[NewChunk]) -> Stored:
        async with self._uploads.holding(reader.tenant, document.document_id):
            target = await self._read(self._registry.target, reader, document)
            before = await self._find(reader, document.document_id)
            if before is not None and before.says_the_same_as(document):
                await payload.count(chunks)
                return Stored(before.chunk_count, replaced=False)
            async with self._generation(target) as generation:
                total = await self._write_chunks(reader.tenant, document, generation, target, chunks)
                final = replace(document, chunk_count=total, update_time=datetime.now(UTC))
                replaced = await self._write(self._commit, reader, final, generation, target)
        self._shards.rebuild_if_due(target.placement.name)
        return Stored(total, replaced)

    async def _find(self, reader: Reader, document_id: str) -> Document | None:
        with contextlib.suppress(NotFound):
            return await self.get_document(reader, document_id)
        return None

    @contextlib.asynccontextmanager
    async def _generation(self, target: Target) -> AsyncGenerator[str]:
        """A new one to write. What came of it, or what it replaced, is swept afterwards."""
        generation = payload.new_generation()
        self._being_written.add(generation)
        try:
            await self._write(self._registry.begin, generation, target.placement.name)
            yield generation
        finally:
            self._being_written.discard(generation)
            # Not awaited by a cancelled caller; the writer's queue keeps the order.
            self._writer.submit(self._sweep_some)
        await self._sweep()

    async def _write_chunks(
        self, tenant: str, document: Document, generation: str, target: Target, chunks: AsyncIterable[NewChunk]
    ) -> int:
        total = 0
        model = target.placement.model
        async for batch in payload.batches(chunks, model, self._shards.dimensions(model)):
            await self._write(self._append, tenant, document, generation, target, batch, total)
            total += len(batch)
        return total

    def _append(
        self,
        tenant: str,
        document: Document,
        generation: str,
        target: Target,
        batch: Sequence[NewChunk],
        position: int,
    ) -> None:
        places = self._tokens.append(generation, [token_codec.pack(c.tokens) if c.tokens else b"" for c in batch])
        points: list[tuple[str, NewChunk, dict[str, Any]]] = []
        for at, (chunk, (offset, length)) in enumerate(zip(batch, places, strict=True), start=position):
            fields = payload.chunk_payload(tenant, target.edition, generation, document, chunk, at)
            fields["token_offset"], fields["token_bytes"] = offset, length
            points.append((payload.point_id(tenant, document.document_id, generation, str(at)), chunk, fields))
        self._shards.add(target.placement, generation, points)

    def _commit(self, reader: Reader, document: Document, generation: str, target: Target) -> bool:
        self._sync(generation, target)
        return self._registry.commit(reader, document, generation, target)

    def _sync(self, generation: str, target: Target) -> None:
        self._tokens.sync(generation)
        self._shards.sync(target.placement.name)

    async def _sweep(self) -> None:
        """Deletes all that no reader may see, but what is being written."""
        while await self._write(self._sweep_some):
            pass

    def _sweep_some(self) -> bool:
        """True when there is more."""
        loose = self._registry.loose(list(self._being_written), _SWEPT_AT_ONCE)
        for shard in {shard for _, shard in loose}:
            self._shards.delete(shard, [generation for generation, where in loose if where == shard])
        for generation, _ in loose:
            self._tokens.delete(generation)
        if loose:
            self._registry.forget(generation for generation, _ in loose)
        return len(loose) == _SWEPT_AT_ONCE

    async def delete_document(self, reader: Reader, document_id: str) -> int:
        count = await self._write(self._registry.delete_document, reader, document_id)
        await self._sweep()
        return count

    async def get_document(self, reader: Reader, document_id: str) -> Document:
        document, _, _ = await self._read(self._registry.document, reader, document_id)
        return document

    async def list_documents(self, reader: Reader, collection: str, after: str, limit: int) -> list[Document]:
        return await self._read(self._registry.documents, reader, collection, after, limit)

    async def get_chunks(self, reader: Reader, document_id: str) -> list[StoredChunk]:
        _, chunks = await self._read(self._get_chunks, reader, document_id)
        return chunks

    def _get_chunks(self, reader: Reader, document_id: str) -> tuple[Document, list[StoredChunk]]:
        while True:
            document, generation, name = self._registry.document(reader, document_id)
            shard = self._shards.get(name)
            chunks = [payload.chunk_of(fields) for fields in shard.payloads(generation)] if shard else []
            if len(chunks) == document.chunk_count:
                return document, sorted(chunks, key=lambda chunk: chunk.position)
            # It was replaced or deleted while we read: the registry says which.
            if self._registry.generations(reader, [document_id]).get(document_id) == generation:
                raise RuntimeError(f"{len(chunks)} of {document.chunk_count} chunks are there")

    async def put_collection(self, reader: Reader, collection: Collection) -> Collection:
        await self._write(self._registry.collections.put, reader.tenant, collection)
        return (await self._read(self._registry.collections.all, reader, collection.name))[0]

    async def delete_collection(self, reader: Reader, name: str) -> int:
        count = await self._write(self._registry.collections.delete, reader, name)
        await self._sweep()
        await self._write(self._shards.drop_unused)
        return count

    async def list_collections(self, reader: Reader) -> list[Collection]:
        return await self._read(self._registry.collections.all, reader)

    async def migrations(self) -> list[tuple[str, Collection]]:
        return await self._read(self._registry.migrations.running)

    async def begin_migration(self, tenant: str, name: str, migration: Migration) -> Collection:
        begun = await self._write(self._registry.migrations.begin, tenant, name, migration)
        await self._sweep()
        return begun

    async def next_unmigrated(self, tenant: str, name: str) -> tuple[Document, list[StoredChunk]] | None:
        return await self._read(self._next_unmigrated, tenant, name)

    def _next_unmigrated(self, tenant: str, name: str) -> tuple[Document, list[StoredChunk]] | None:
        while (document_id := self._registry.migrations.next_document(tenant, name)) is not None:
            with contextlib.suppress(NotFound):  # deleted meanwhile
                return self._get_chunks(Reader(tenant, (ALL_LABELS,)), document_id)
        return None

    async def put_second_version(self, tenant: str, document: Document, chunks: Sequence[NewChunk]) -> None:
        async with self._uploads.holding(tenant, document.document_id):
            target = await self._read(self._registry.migrations.target, tenant, document)
            if target is None:
                return
            where = target.placement
            second = replace(
                document,
                embedding_model=where.model,
                learned_sparse=where.learned_sparse,
                chunk_count=len(chunks),
            )
            async with self._generation(target) as generation:
                await self._write_chunks(tenant, second, generation, target, payload.each(chunks))
                await self._write(self._commit_second, tenant, document, second, generation, target)
        self._shards.rebuild_if_due(where.name)

    def _commit_second(
        self, tenant: str, document: Document, second: Document, generation: str, target: Target
    ) -> None:
        self._sync(generation, target)
        self._registry.migrations.commit(tenant, document, second, generation, target)

    async def end_migration(self, tenant: str, name: str, state: MigrationState, reason: str = "") -> bool:
        ended = await self._write(self._registry.migrations.end, tenant, name, state, reason)
        if ended:
            await self._sweep()
            await self._write(self._shards.drop_unused)
        return ended


def _locked(directory: Path) -> int:
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise FolderInUse(
            f"{directory} is in use by another process: stop that one, or set SABUESO_VECTOR_STORE"
        ) from None
    return file


def _hit(found: Found) -> Hit:
    generation, offset, length = (found.payload[name] for name in ("generation", "token_offset", "token_bytes"))
    place = f"{generation}/{offset}/{length}" if length else ""
    return Hit(payload.chunk_of(found.payload), found.dense, found.sparse, place, found.vector)


@contextlib.contextmanager
def _told_when_full() -> Generator[None]:
    """A full disk passes: whoever writes may try again. The registry is written first, so the engine is not reached."""
    try:
        yield
    except OSError as error:
        raise _unwritable() from error
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            raise
        raise _unwritable() from error


def _unwritable() -> DependencyFailed:
    return DependencyFailed("The folder of the vectors cannot be written.", dependency="vector_store")
