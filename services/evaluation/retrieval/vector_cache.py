"""Vectors on disk, so that a second run embeds nothing that the first one did."""

import hashlib
import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path

_KEPT_FILES = 2


class VectorCache:
    """Encoded vectors by key, in one SQLite file a version of the embedding service; older files are deleted."""

    def __init__(self, folder: Path, version: str) -> None:
        """`version`: of everything that vectors depend on besides the text and what is asked of it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{hashlib.sha256(version.encode()).hexdigest()[:16]}.sqlite"
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        path.touch()
        for old in sorted(folder.glob("*.sqlite"), key=lambda each: -each.stat().st_mtime)[_KEPT_FILES:]:
            for file in (old, *folder.glob(f"{old.name}-*")):
                file.unlink(missing_ok=True)

    def get(self, key: bytes) -> bytes | None:
        """What was put under `key`, or None."""
        row = self._connection.execute("SELECT value FROM vectors WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Keeps them; what is there stays."""
        with self._connection:
            self._connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", pairs)

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()


def source_version(folder: Path, without: Collection[str] = ()) -> str:
    """SHA-256 of the Python files in a folder: a change of the code that makes vectors makes them anew.

    `without`: names of files that vectors do not depend on.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        if path.name not in without:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
