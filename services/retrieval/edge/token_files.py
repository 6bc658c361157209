"""Token vectors of the embedded store: one file a generation, read by offset.

They stand beside the engine, whose binding would make Python lists of them, which costs more than the whole search.
One file a generation makes deleting free.
"""

import os
from collections.abc import Sequence
from pathlib import Path


class TokenFiles:
    """Blocking; reads may run beside writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def append(self, generation: str, matrices: Sequence[bytes]) -> list[tuple[int, int]]:
        """Adds to the file of `generation`; offset and length in bytes of each matrix, (0, 0) where there is none."""
        if not any(matrices):
            return [(0, 0)] * len(matrices)
        path = self._path(generation)
        path.parent.mkdir(parents=True, exist_ok=True)
        places: list[tuple[int, int]] = []
        with path.open("ab") as file:
            offset = file.tell()
            for matrix in matrices:
                if not matrix:
                    places.append((0, 0))
                    continue
                file.write(matrix)
                places.append((offset, len(matrix)))
                offset += len(matrix)
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
            # Not by way of a Path: forty are read for one search, and making it takes as long as the reading.
            file = os.open(self._name(generation), os.O_RDONLY)
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
        return Path(self._name(generation))

    def _name(self, generation: str) -> str:
        # 256 folders keep each of them small with a hundred thousand documents.
        return f"{self._directory}/{generation[-2:]}/{generation}"


def sync_path(path: Path) -> None:
    """Writes a file or folder through to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
