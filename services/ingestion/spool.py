"""What must outlive the process until a job is done: the file as sent, and the vectors made so far."""

import asyncio
import contextlib
import hashlib
import math
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from services.runtime.errors import DependencyFailed

# A folder without a job may belong to an upload that is still running; one that is silent for a minute is ended.
_ORPHAN_AGE_SECONDS = 600


# Replicas share the folder, so that the own count of its size must be checked now and then.
_MEASURE_SECONDS = 10


class TooLarge(Exception):
    """More bytes than are accepted."""


class SpoolFull(Exception):
    """The files that wait take up all the room that there is for them."""


@dataclass(frozen=True)
class Stored:
    """A file on disk. `sha256` is in hex."""

    size_bytes: int
    sha256: str


class Spool:
    """One folder a job. Replicas that share jobs must share this folder too."""

    def __init__(self, folder: Path, max_document_bytes: int, max_bytes: int) -> None:
        """`max_bytes`: of all files together, vectors included."""
        self._folder = folder
        self._max_document_bytes = max_document_bytes
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._measured = -math.inf
        folder.mkdir(parents=True, exist_ok=True)

    async def check_room(self, bytes_more: int = 0) -> None:
        """Counts `bytes_more` as used. Raises SpoolFull."""
        self._used_bytes += bytes_more
        now = time.monotonic()
        if now - self._measured > _MEASURE_SECONDS or self._used_bytes >= self._max_bytes:
            self._measured = now
            self._used_bytes = await asyncio.to_thread(_size_bytes, self._folder)
        if self._used_bytes >= self._max_bytes:
            raise SpoolFull

    def content(self, job_id: str) -> Path:
        """The file as sent."""
        return self._folder / job_id / "content"

    def vectors(self, job_id: str, fingerprint: str) -> "VectorFile":
        """The vectors made so far for exactly this content, model and options."""
        return VectorFile(self._folder / job_id / "vectors", fingerprint)

    async def put(self, job_id: str, parts: AsyncIterator[bytes]) -> Stored:
        """Stores a file safely: when this returns it survives a power cut.

        Raises TooLarge, SpoolFull and DependencyFailed; then nothing is left of it.
        """
        path = self.content(job_id)
        digest = hashlib.sha256()
        size = 0
        try:
            path.parent.mkdir()
            with path.open("xb", buffering=0) as file:
                async for part in parts:
                    size += len(part)
                    if size > self._max_document_bytes:
                        raise TooLarge
                    digest.update(part)
                    await asyncio.to_thread(_write_all, file, part)
                    await self.check_room(len(part))
                await asyncio.to_thread(_sync, file, path)
        except OSError as error:
            self.drop(job_id)
            raise DependencyFailed("The spool folder cannot be written.", dependency="spool") from error
        except BaseException:
            self.drop(job_id)
            raise
        return Stored(size, digest.hexdigest())

    def drop(self, job_id: str) -> None:
        """Deletes all files of a job."""
        shutil.rmtree(self._folder / job_id, ignore_errors=True)

    def sweep(self, wanted: set[str]) -> int:
        """Deletes old folders of jobs that are not `wanted`; the number of them. A crash leaves such behind."""
        oldest = time.time() - _ORPHAN_AGE_SECONDS
        orphans = [one for one in self._folder.iterdir() if one.name not in wanted and _newest_change(one) < oldest]
        for orphan in orphans:
            shutil.rmtree(orphan, ignore_errors=True)
        return len(orphans)


def _newest_change(folder: Path) -> float:
    times = [0.0]
    for path in (folder, *folder.glob("*")):
        with contextlib.suppress(FileNotFoundError):
            times.append(path.stat().st_mtime)
    return max(times)


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a job that ends meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


def _write_all(file: FileIO, part: bytes) -> None:
    """A disk on which there is room for the half of it takes that half, and says so only with the next one."""
    left = memoryview(part)
    while left:
        left = left[file.write(left) :]


def _sync(file: FileIO, path: Path) -> None:
    os.fsync(file.fileno())
    # The entries of new files and folders are data of the folders above.
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class VectorFile:
    """Length-prefixed records, appended batch by batch, so that a retry goes on where the last try stopped."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        """What was made for another fingerprint is thrown away, as is a record that was cut off by a crash."""
        self._path = path
        self.count = 0
        mark = fingerprint.encode()
        end = 0
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            if _next_record(file) == mark:
                end = file.tell()
                while _next_record(file) is not None:
                    self.count += 1
                    end = file.tell()
        with path.open("ab") as file:
            file.truncate(end)
            if end == 0:
                file.write(_framed(mark))

    def append(self, records: Sequence[bytes]) -> None:
        """Adds the vectors of the next chunks. Where that fails, what is cut off is thrown away at the next opening."""
        with self._path.open("ab") as file:
            file.write(b"".join(map(_framed, records)))
        self.count += len(records)

    def read(self) -> Iterator[bytes]:
        """All vectors in order, one at a time."""
        with self._path.open("rb") as file:
            _next_record(file)
            while (record := _next_record(file)) is not None:
                yield record


def _framed(record: bytes) -> bytes:
    return len(record).to_bytes(4, "big") + record


def _next_record(file: BinaryIO) -> bytes | None:
    length = file.read(4)
    if len(length) < 4:
        return None
    size = int.from_bytes(length, "big")
    record = file.read(size)
    return record if len(record) == size else None
