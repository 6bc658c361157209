"""Vectors of texts that were embedded before, so that the same text is not embedded twice. A loss costs time only."""

import asyncio
import contextlib
import logging
import os
import secrets
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

# Room that is made at once when the cache is full, so that not every put looks through the whole folder.
_MADE_FREE = 0.1
_CHECKSUM_BYTES = 4


class MemoryVectorCache:
    """Keeps everything, in this process: for tests and try-outs."""

    def __init__(self) -> None:
        self._vectors: dict[str, bytes] = {}

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """See VectorCache."""
        return [self._vectors.get(key) for key in keys]

    async def put(self, pairs: Sequence[tuple[str, bytes]]) -> None:
        """See VectorCache."""
        self._vectors.update(pairs)


class DiskVectorCache:
    """One file a key, in a folder that replicas may share. What was not used for longest goes first when it is full."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """`max_bytes`: 0 keeps nothing."""
        self._folder = folder
        self._max_bytes = max_bytes
        self._used_bytes: int | None = None
        self._writing = threading.Lock()

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """See VectorCache."""
        if not self._max_bytes:
            return [None] * len(keys)
        return await asyncio.to_thread(lambda: [self._read(key) for key in keys])

    async def put(self, pairs: Sequence[tuple[str, bytes]]) -> None:
        """See VectorCache."""
        if self._max_bytes:
            await asyncio.to_thread(self._write_all, pairs)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        checksum, vectors = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        # Files are not synced one by one: a power cut may leave one that is empty or torn.
        if checksum != _checksum(vectors):
            path.unlink(missing_ok=True)
            return None
        return vectors

    def _write_all(self, pairs: Sequence[tuple[str, bytes]]) -> None:
        with self._writing:
            try:
                for key, vectors in pairs:
                    self._write(key, vectors)
                if self._used_bytes is None or self._used_bytes > self._max_bytes:
                    self._used_bytes = self._make_room()
            except OSError as error:
                log.warning("the cache of vectors cannot be written", extra={"errno": error.errno})

    def _write(self, key: str, vectors: bytes) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{key}.{secrets.token_hex(4)}")
        try:
            unfinished.write_bytes(_checksum(vectors) + vectors)
            unfinished.replace(path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        if self._used_bytes is not None:
            self._used_bytes += _CHECKSUM_BYTES + len(vectors)

    def _make_room(self) -> int:
        """Deletes what was not used for longest, if there is too much; the bytes that are left."""
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.glob("??/*"):
            with contextlib.suppress(OSError):
                stat = path.stat()
                found.append((stat.st_mtime, stat.st_size, path))
        used = sum(size for _, size, _ in found)
        if used <= self._max_bytes:
            return used
        for _, size, path in sorted(found):
            if used <= self._max_bytes * (1 - _MADE_FREE):
                break
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
                used -= size
        return used


def _checksum(vectors: bytes) -> bytes:
    return zlib.crc32(vectors).to_bytes(_CHECKSUM_BYTES, "big")
