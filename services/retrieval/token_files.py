"""Token vectors of the embedded store: one file a generation, read by offset.

A passage's token vectors take some hundred kilobytes. As Python lists they cost more than the whole search, so they
stay bytes from the embedding service to the reranking service; one file a generation makes deleting free.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from services.retrieval.store import TokenMatrix


class TokenFiles:
    """Blocking; reads may run beside writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def append(self, generation: str, matrices: Iterable[TokenMatrix | None]) -> list[tuple[int, int]]:
        """Adds to the file of `generation`; offset and length in bytes of each matrix, (0, 0) where there is none."""
        path = self._path(generation)
        path.parent.mkdir(parents=True, exist_ok=True)
        places: list[tuple[int, int]] = []
        with path.open("ab") as file:
            offset = file.tell()
            for matrix in matrices:
                if matrix is None or not matrix.values:
                    places.append((0, 0))
                    continue
                file.write(matrix.values)
                places.append((offset, len(matrix.values)))
                offset += len(matrix.values)
        return places

    def sync(self, generation: str) -> None:
        """What was appended survives a loss of power once this returns."""
        path = self._path(generation)
        for one in (path, path.parent, self._directory):
            if one.exists():
                sync_path(one)

    def read(self, generation: str, offset: int, length: int) -> bytes | None:
        """The bytes, or None when the generation has gone in the meantime."""
        try:
            file = os.open(self._path(generation), os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            values = os.pread(file, length, offset)
        finally:
            os.close(file)
        return values if len(values) == length else None

    def delete(self, generation: str) -> None:
        """Removes all of `generation`; nothing happens when it has none."""
        self._path(generation).unlink(missing_ok=True)

    def _path(self, generation: str) -> Path:
        # 256 folders keep each of them small with a hundred thousand documents.
        return self._directory / generation[-2:] / generation


def sync_path(path: Path) -> None:
    """Writes a file or folder through to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
