"""Store on Qdrant's engine inside this process: one folder, one owner, no server.

    <folder>/registry.sqlite   collections, documents and their generations; decides what readers see
    <folder>/shards/<name>/    one engine shard an embedding model
    <folder>/tokens/           token vectors
    <folder>/lock              held by the process that owns the folder

Writers go one after the other in a thread of their own. A document's points are written under a new generation; one
registry transaction makes them current, and only then are the old ones deleted. A reader that meets points of any
other generation looks again without it.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from services.retrieval import payload
from services.retrieval.edge_shard import EdgeShard, Found
from services.retrieval.freshness import ROUNDS, Freshness
from services.retrieval.registry import Registry
from services.retrieval.reindex import build_index
from services.retrieval.store import (
    Collection,
    Document,
    Hit,
    NewChunk,
    Query,
    Stored,
    StoredChunk,
    TokenMatrix,
)
from services.retrieval.token_files import TokenFiles
from services.runtime.errors import InvalidField

log = logging.getLogger(__name__)
Result = TypeVar("Result")

# The engine's log is cut after so many chunks: loading replays what is behind.
_FLUSH_EVERY_CHUNKS = 5_000


class FolderInUse(RuntimeError):
    """Another process owns the folder."""


@dataclass
class _Open:
    """A shard in use. While its index is built, `added` and `deleted` hold the generations that changed since."""

    shard: EdgeShard
    unflushed_count: int = 0
    rebuilding: bool = False
    added: set[str] = field(default_factory=set[str])
    deleted: set[str] = field(default_factory=set[str])


class EdgeStore:
    """Survives a restart, a kill and a loss of power: what was acknowledged is there again."""

    def __init__(self, directory: Path, *, index_after_chunks: int = 20_000) -> None:
        """The index is built whenever more than `index_after_chunks` are without one."""
        self._directory = directory
        self._index_after_chunks = index_after_chunks
        self._writer = ThreadPoolExecutor(1, "store-writer")
        self._readers = ThreadPoolExecutor(2, "store-reader")
        self._shards: dict[str, _Open] = {}
        self._being_written: set[str] = set()
        self._documents_in_use: dict[tuple[str, str], tuple[asyncio.Lock, int]] = {}
        self._rebuilding: set[asyncio.Task[None]] = set()
        self._lock_file = -1

    async def open(self) -> None:
        """Raises FolderInUse when another process has the folder open."""
        await self._write(self._open)

    def _open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock_file = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock_file)
            raise FolderInUse(
                f"{self._directory} is in use by another process: stop that one, or set SABUESO_VECTOR_STORE"
            ) from None
        self._registry = Registry(self._directory / "registry.sqlite")
        self._tokens = TokenFiles(self._directory / "tokens")
        known = self._registry.shards()
        for leftover in set(self._directory.glob("shards/*")) - {self._directory / "shards" / d for _, d, _ in known}:
            shutil.rmtree(leftover)
        for model, name, dimensions in known:
            self._shards[model] = _Open(EdgeShard(self._directory / "shards" / name, dimensions))
        self._sweep()

    async def close(self) -> None:
        for task in self._rebuilding:
            task.cancel()
        await asyncio.gather(*self._rebuilding, return_exceptions=True)
        await self._write(self._close)
        self._writer.shutdown()

    def _close(self) -> None:
        self._readers.shutdown()
        for one in self._shards.values():
            one.shard.close()
        self._registry.close()
        os.close(self._lock_file)

    async def _read(self, work: Callable[..., Result], *args: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *args)

    async def _write(self, work: Callable[..., Result], *args: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)

    async def search(self, tenant: str, query: Query) -> list[Hit]:
        return await self._read(self._search, tenant, query)

    def _search(self, tenant: str, query: Query) -> list[Hit]:
        self._registry.require_collections(tenant, query.filter.collections)
        one = self._shards.get(query.model)
        if one is None:
            return []
        freshness = Freshness()
        fresh: list[Found] = []
        for _ in range(ROUNDS):
            found = one.shard.search(tenant, query, freshness.excluded)
            met = [(f.payload["document_id"], f.payload["generation"]) for f in found]
            current = self._registry.generations(tenant, freshness.documents(met))
            fresh = [
                f
                for f, (document_id, generation) in zip(found, met, strict=True)
                if current.get(document_id) == generation
            ]
            if freshness.accepts(met, current):
                break
        return [self._hit(one, query.with_tokens) for one in fresh]

    def _hit(self, found: Found, with_tokens: bool) -> Hit:
        tokens = None
        length: int = found.payload["token_bytes"]
        if with_tokens and length:
            values = self._tokens.read(found.payload["generation"], found.payload["token_offset"], length)
            tokens = None if values is None else TokenMatrix(found.payload["token_dimensions"], values)
        return Hit(payload.chunk_of(found.payload), found.dense, found.sparse, found.fused, tokens)

    async def languages(self, tenant: str, collections: Sequence[str]) -> list[str]:
        return await self._read(self._registry.languages, tenant, collections)

    async def put_document(self, tenant: str, document: Document, chunks: AsyncIterable[NewChunk]) -> Stored:
        async with self._alone(tenant, document.document_id):
            await self._read(self._registry.require_collections, tenant, [document.collection])
            before = (await self._read(self._registry.generations, tenant, [document.document_id])).get(
                document.document_id
            )
            if before is not None:
                stored, _ = await self._read(self._registry.document, tenant, document.document_id)
                if stored.says_the_same_as(document):
                    await payload.count(chunks)
                    return Stored(stored.chunk_count, replaced=False)
            generation = payload.new_generation()
            self._being_written.add(generation)
            try:
                total = await self._write_chunks(tenant, document, generation, chunks)
                final = replace(document, chunk_count=total, update_time=datetime.now(UTC))
                await self._write(self._commit, tenant, final, generation)
            finally:
                self._being_written.discard(generation)
                # Not awaited by a cancelled caller; the writer's queue keeps the order.
                swept = self._writer.submit(self._sweep)
            await asyncio.wrap_future(swept)
        self._rebuild_if_due(document.embedding_model)
        return Stored(total, replaced=before is not None)

    async def _write_chunks(
        self, tenant: str, document: Document, generation: str, chunks: AsyncIterable[NewChunk]
    ) -> int:
        total = 0
        model = document.embedding_model
        known = self._shards.get(model)
        await self._write(self._registry.begin, generation, model)
        async for batch in payload.batches(chunks, known.shard.dimensions if known else 0):
            await self._write(self._append, tenant, document, generation, batch, total)
            total += len(batch)
        return total

    def _append(
        self, tenant: str, document: Document, generation: str, batch: Sequence[NewChunk], position: int
    ) -> None:
        one = self._shard_for(document.embedding_model, len(batch[0].dense))
        places = self._tokens.append(generation, [chunk.tokens for chunk in batch])
        points: list[tuple[str, NewChunk, dict[str, Any]]] = []
        for at, (chunk, (offset, length)) in enumerate(zip(batch, places, strict=True), start=position):
            fields = payload.chunk_payload(tenant, generation, document, chunk, at)
            fields["token_offset"], fields["token_bytes"] = offset, length
            fields["token_dimensions"] = chunk.tokens.dimensions if chunk.tokens else 0
            points.append((payload.point_id(tenant, document.document_id, generation, str(at)), chunk, fields))
        one.shard.add(points)
        one.unflushed_count += len(points)
        if one.rebuilding:
            one.added.add(generation)

    def _shard_for(self, model: str, dimensions: int) -> _Open:
        found = self._shards.get(model)
        if found is None:
            name = payload.physical_name(model)
            found = _Open(EdgeShard(self._directory / "shards" / name, dimensions))
            self._registry.put_shard(model, name, dimensions)
            self._shards[model] = found
        if found.shard.dimensions != dimensions:
            raise InvalidField(
                f"`chunk.dense` has {dimensions} values; vectors of {model} have {found.shard.dimensions}.",
                field="chunk.dense",
            )
        return found

    def _commit(self, tenant: str, document: Document, generation: str) -> None:
        one = self._shards.get(document.embedding_model)
        if one is not None:  # a document without chunks may be the first of its model
            self._tokens.sync(generation)
            if one.unflushed_count >= _FLUSH_EVERY_CHUNKS:
                one.shard.flush()
                one.unflushed_count = 0
            else:
                one.shard.sync()
        self._registry.commit(tenant, document, generation)

    def _sweep(self) -> None:
        """Deletes all that no reader may see, but what is being written."""
        for generation, model in self._registry.loose():
            if generation in self._being_written:
                continue
            one = self._shards.get(model)
            if one is not None:
                one.shard.delete(generation)
                if one.rebuilding:
                    one.deleted.add(generation)
            self._tokens.delete(generation)
            self._registry.forget(generation)

    @contextlib.asynccontextmanager
    async def _alone(self, tenant: str, document_id: str) -> AsyncGenerator[None]:
        """One upload of a document at a time; the entry goes with the last who needs it."""
        key = tenant, document_id
        lock, users = self._documents_in_use.get(key, (asyncio.Lock(), 0))
        self._documents_in_use[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._documents_in_use.pop(key)
            if users > 1:
                self._documents_in_use[key] = lock, users - 1

    async def delete_document(self, tenant: str, document_id: str) -> int:
        count = await self._write(self._registry.delete_document, tenant, document_id)
        await self._write(self._sweep)
        return count

    async def get_document(self, tenant: str, document_id: str) -> Document:
        document, _ = await self._read(self._registry.document, tenant, document_id)
        return document

    async def list_documents(self, tenant: str, collection: str, after: str, limit: int) -> list[Document]:
        return await self._read(self._registry.documents, tenant, collection, after, limit)

    async def get_chunks(self, tenant: str, document_id: str) -> list[StoredChunk]:
        return await self._read(self._get_chunks, tenant, document_id)

    def _get_chunks(self, tenant: str, document_id: str) -> list[StoredChunk]:
        while True:
            document, generation = self._registry.document(tenant, document_id)
            one = self._shards.get(document.embedding_model)
            chunks = [payload.chunk_of(fields) for fields in one.shard.payloads(generation)] if one else []
            if len(chunks) == document.chunk_count:
                return sorted(chunks, key=lambda chunk: chunk.position)
            # It was replaced or deleted while we read: the registry says which.
            if self._registry.generations(tenant, [document_id]).get(document_id) == generation:
                raise RuntimeError(f"{len(chunks)} of {document.chunk_count} chunks are there")

    async def put_collection(self, tenant: str, collection: Collection) -> Collection:
        await self._write(self._registry.put_collection, tenant, collection)
        return next(c for c in await self.list_collections(tenant) if c.name == collection.name)

    async def delete_collection(self, tenant: str, name: str) -> int:
        count = await self._write(self._registry.delete_collection, tenant, name)
        await self._write(self._sweep)
        return count

    async def list_collections(self, tenant: str) -> list[Collection]:
        return await self._read(self._registry.collections, tenant)

    def _rebuild_if_due(self, model: str) -> None:
        one = self._shards.get(model)
        if one is None or one.rebuilding or one.shard.unindexed_count() < self._index_after_chunks:
            return
        one.rebuilding = True
        task = asyncio.get_running_loop().create_task(self._rebuild(model, one))
        self._rebuilding.add(task)
        task.add_done_callback(self._rebuilding.discard)

    async def _rebuild(self, model: str, one: _Open) -> None:
        """Builds the index of a copy in another process, brings the copy up to date and puts it in place."""
        target = self._directory / "shards" / f"{payload.physical_name(model)}-{payload.new_generation()}"
        try:
            await self._write(self._copy_shard, one, target)
            if await build_index(target, one.shard.dimensions):
                await self._write(self._replace_shard, model, one, target)
                log.info("the index was rebuilt", extra={"unindexed_count": one.shard.unindexed_count()})
            else:
                log.error("the index could not be built; search goes on without it")
        except Exception:  # the engine has no exception classes of its own
            log.exception("the index could not be built; search goes on without it")
        finally:
            one.rebuilding = False
            if one.shard.directory != target:
                await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)

    def _copy_shard(self, one: _Open, target: Path) -> None:
        one.shard.flush()
        one.unflushed_count = 0
        shutil.copytree(one.shard.directory, target)
        one.added.clear()
        one.deleted.clear()

    def _replace_shard(self, model: str, one: _Open, target: Path) -> None:
        old, new = one.shard, EdgeShard(target, one.shard.dimensions)
        for generation in one.deleted:
            new.delete(generation)
        for generation in one.added - one.deleted:
            old.copy_to(new, generation)
        new.flush()
        self._registry.put_shard(model, target.name, new.dimensions)
        one.shard = new
        # A reader may still hold the old one: it is closed when the last has let go.
        shutil.rmtree(old.directory, ignore_errors=True)
