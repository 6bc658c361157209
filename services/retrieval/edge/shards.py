"""The shards of one folder: made when first needed, indexed anew in the background, dropped when empty.

Everything but `get` and `rebuild_if_due` runs in the store's writer thread.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.retrieval.edge.registry import Registry, ShardRow
from services.retrieval.edge.reindex import build_index
from services.retrieval.edge.requests import config
from services.retrieval.edge.shard import EdgeShard
from services.retrieval.payload import new_generation
from services.retrieval.placement import Placement
from services.retrieval.refusals import check_dimensions
from services.retrieval.store import NewChunk

log = logging.getLogger(__name__)

# The engine's log is cut after so many chunks: loading replays what is behind.
_FLUSH_EVERY_CHUNKS = 5_000

Write = Callable[..., Awaitable[Any]]


@dataclass
class _Open:
    """A shard in use. While its index is built, `added` and `deleted` hold the generations that changed since."""

    shard: EdgeShard
    placement: Placement
    dimensions: int
    unflushed_count: int = 0
    rebuilding: bool = False
    added: set[str] = field(default_factory=set[str])
    deleted: set[str] = field(default_factory=set[str])


class EdgeShards:
    """By name of their placement."""

    def __init__(self, directory: Path, registry: Registry, write: Write, index_after_chunks: int) -> None:
        """Opens all. `write` runs a call in the writer thread. Raises MissingPayloadIndex."""
        self._directory = directory
        self._registry = registry
        self._write = write
        self._index_after_chunks = index_after_chunks
        self._rebuilding: set[asyncio.Task[None]] = set()
        rows = registry.shards()
        for leftover in set(directory.glob("*")) - {directory / row.directory for row in rows}:
            shutil.rmtree(leftover)
        self._open = {
            row.placement.name: _Open(
                EdgeShard.load(directory / row.directory, row.placement), row.placement, row.dimensions
            )
            for row in rows
        }

    def get(self, name: str) -> EdgeShard | None:
        """The shard, if there is one."""
        one = self._open.get(name)
        return one.shard if one else None

    def dimensions(self, model: str) -> int:
        """Length of the model's vectors; 0 while there are none."""
        return next((one.dimensions for one in list(self._open.values()) if one.placement.model == model), 0)

    def add(
        self, placement: Placement, generation: str, points: Sequence[tuple[str, NewChunk, dict[str, Any]]]
    ) -> None:
        """Writes points of a generation. Raises InvalidField where vectors of the model have another length."""
        found = len(points[0][1].dense)
        check_dimensions(placement.model, self.dimensions(placement.model), found)
        one = self._open.get(placement.name)
        if one is None:
            one = self._create(placement, found)
        one.shard.add(points)
        one.unflushed_count += len(points)
        if one.rebuilding:
            one.added.add(generation)

    def _create(self, placement: Placement, dimensions: int) -> _Open:
        directory = f"{placement.name}-{new_generation()}"
        one = _Open(EdgeShard.create(self._directory / directory, placement, dimensions), placement, dimensions)
        self._registry.put_shard(ShardRow(placement, directory, dimensions))
        self._open[placement.name] = one
        return one

    def sync(self, name: str) -> None:
        """What was added survives a loss of power once this returns."""
        one = self._open.get(name)
        if one is None:
            return  # a document without chunks may be the first of its place
        if one.unflushed_count >= _FLUSH_EVERY_CHUNKS:
            one.shard.flush()
            one.unflushed_count = 0
        else:
            one.shard.sync()

    def delete(self, name: str, generations: Sequence[str]) -> None:
        """Removes all points of these generations."""
        one = self._open.get(name)
        if one is not None:
            one.shard.delete(generations)
            if one.rebuilding:
                one.deleted.update(generations)

    def drop_unused(self) -> None:
        """Removes the shards that hold nothing: deleted points would keep their room until the next index is built."""
        for name in self._registry.forget_unused_shards():
            one = self._open.pop(name, None)
            if one is not None:
                # A reader may still hold it: it is closed when the last has let go.
                shutil.rmtree(one.shard.directory, ignore_errors=True)

    async def stop(self) -> None:
        """Ends what runs in the background."""
        for task in self._rebuilding:
            task.cancel()
        await asyncio.gather(*self._rebuilding, return_exceptions=True)

    def close(self) -> None:
        """Flushes and lets go."""
        for one in self._open.values():
            one.shard.close()

    def rebuild_if_due(self, name: str) -> None:
        """Begins to index a shard in the background when too much of it is without."""
        one = self._open.get(name)
        if one is None or one.rebuilding or one.shard.unindexed_count() < self._index_after_chunks:
            return
        one.rebuilding = True
        task = asyncio.get_running_loop().create_task(self._rebuild(one))
        self._rebuilding.add(task)
        task.add_done_callback(self._rebuilding.discard)

    async def _rebuild(self, one: _Open) -> None:
        """Builds the index of a copy in another process, brings the copy up to date and puts it in place."""
        target = self._directory / f"{one.placement.name}-{new_generation()}"
        try:
            await self._write(self._copy, one, target)
            if await build_index(target):
                await self._write(self._replace, one, target)
                log.info("the index was rebuilt", extra={"unindexed_count": one.shard.unindexed_count()})
            else:
                log.error("the index could not be built; search goes on without it")
        except Exception:  # the engine has no exception classes of its own
            log.exception("the index could not be built; search goes on without it")
        finally:
            one.rebuilding = False
            if one.shard.directory != target:
                await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)

    def _copy(self, one: _Open, target: Path) -> None:
        one.shard.flush()
        one.unflushed_count = 0
        shutil.copytree(one.shard.directory, target)
        one.added.clear()
        one.deleted.clear()

    def _replace(self, one: _Open, target: Path) -> None:
        if self._open.get(one.placement.name) is not one:
            return  # it was dropped meanwhile
        # By now there is enough in it for all processors.
        settings = config(one.placement, one.dimensions, threads=os.cpu_count() or 1)
        old, new = one.shard, EdgeShard.load(target, one.placement, settings)
        if one.deleted:
            new.delete(one.deleted)
        for generation in one.added - one.deleted:
            old.copy_to(new, generation)
        new.flush()
        self._registry.put_shard(ShardRow(one.placement, target.name, one.dimensions))
        one.shard = new
        # A reader may still hold the old one: it is closed when the last has let go.
        shutil.rmtree(old.directory, ignore_errors=True)
