"""The folder of Qdrant's engine within retrieval: its registry (SQLite), its shards and its token vectors.

It may be in use. Every change of a document is a transaction in the registry: where that is the same before and after
copying, the copy is of one moment. The copy's shards are then opened and their passages counted.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

from services.cli.backup.documents import Version, fingerprint, incomplete, told
from services.cli.backup.part import Refused, Saved

_REGISTRY = "registry.sqlite"
_TREES = ("shards", "tokens")
_TABLES = ("collections", "documents", "versions", "places", "unmigrated", "hidden", "loose", "shards")
_COUNTED = ("collections", "documents")
_ATTEMPTS = 3
_STAGED, _REPLACED = ".restoring", ".replaced"
_MOST_GENERATIONS = 1_000_000
_BLOCK_BYTES = 1 << 20


class EdgeFolder:
    """As SABUESO_VECTOR_STORE=edge:<folder> names it."""

    name = "vectors"

    def __init__(
        self, directory: Path, *, while_written: bool = False, copy: Callable[[str, str], None] | None = None
    ) -> None:
        """`while_written`: take what there is even where documents change; a restore tells which are incomplete.

        `copy`: of one file, from and to.
        """
        self._directory = directory
        self._while_written = while_written
        self._copy_file = copy or copy_file

    def save(self, folder: Path) -> Saved:
        if not (self._directory / _REGISTRY).is_file():
            raise Refused(f"{self._directory} holds no vector store: {_REGISTRY} is missing")
        warnings: list[str] = []
        for _ in range(_ATTEMPTS):
            before = _fingerprint(self._directory)
            _clear(folder)
            try:
                self._copy(folder)
            except (shutil.Error, FileNotFoundError):
                continue  # a shard or a document went away while it was copied
            if _fingerprint(self._directory) == before:
                break
        else:
            if not self._while_written or not (folder / _REGISTRY).exists():
                raise Refused(
                    f"documents changed during each of {_ATTEMPTS} attempts: let ingestion rest meanwhile, or say"
                    " --while-written"
                )
            warnings.append("documents changed meanwhile: a restore tells which ones must be ingested again")
        return Saved(_counts(folder), {"format": str(_format(folder))}, [*warnings, *told(_incomplete(folder))])

    def _copy(self, folder: Path) -> None:
        for tree in _TREES:
            if (self._directory / tree).is_dir():
                shutil.copytree(self._directory / tree, folder / tree, copy_function=self._copy_file)
        # Last: it names nothing that was not there to copy, unless it has changed, which is looked at.
        with _opened(self._directory) as registry:
            # One file, without a log beside it.
            registry.execute("VACUUM INTO ?", (str(folder / _REGISTRY),))

    def occupied(self) -> str:
        if not (self._directory / _REGISTRY).is_file():
            return ""
        counts = _counts(self._directory)
        return f"{counts['documents']} documents in {self._directory}" if any(counts.values()) else ""

    def restore(self, folder: Path, saved: Saved, *, replace: bool) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        with _locked(self._directory):
            staged, replaced = self._directory / _STAGED, self._directory / _REPLACED
            shutil.rmtree(staged, ignore_errors=True)
            shutil.copytree(folder, staged, copy_function=self._copy_file)
            # The folder itself may be where a volume is mounted, so what is in it is moved. The registry goes first
            # and comes last: without it a service that starts finds an empty store, never half of one.
            shutil.rmtree(replaced, ignore_errors=True)
            replaced.mkdir()
            for name in (_REGISTRY, f"{_REGISTRY}-wal", f"{_REGISTRY}-shm", *_TREES):
                if (self._directory / name).exists():
                    (self._directory / name).rename(replaced / name)
            for name in (*_TREES, _REGISTRY):
                if (staged / name).exists():
                    (staged / name).rename(self._directory / name)
            shutil.rmtree(staged)
            shutil.rmtree(replaced)

    def check(self, saved: Saved) -> list[str]:
        counts = _counts(self._directory) if (self._directory / _REGISTRY).is_file() else {}
        found = [
            f"there are {counts.get(name, 0)} {name}; {expected} were saved"
            for name, expected in saved.counts.items()
            if counts.get(name, 0) != expected
        ]
        if found:
            return found
        try:
            with _locked(self._directory):
                return told(_incomplete(self._directory))
        except Refused:
            return []  # retrieval has it open: its registry has been compared, its shards are its own


@contextlib.contextmanager
def _locked(directory: Path) -> Generator[None]:
    """Nobody else has the store open. Raises Refused."""
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Refused(f"{directory} is in use: stop retrieval first") from None
    finally:
        os.close(file)


@contextlib.contextmanager
def _opened(directory: Path) -> Generator[sqlite3.Connection]:
    """The registry, to read."""
    path = (directory / _REGISTRY).resolve()
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
        try:
            yield connection
        except sqlite3.DatabaseError as error:
            raise Refused(f"{path} cannot be read: {error}") from None


def _fingerprint(directory: Path) -> str:
    with _opened(directory) as registry:
        registry.execute("BEGIN")
        return fingerprint(row for table in _TABLES for row in registry.execute(f"SELECT * FROM {table} ORDER BY 1, 2"))


def _format(directory: Path) -> int:
    with _opened(directory) as registry:
        return int(registry.execute("PRAGMA user_version").fetchone()[0])


def _counts(directory: Path) -> dict[str, int]:
    with _opened(directory) as registry:
        return {name: registry.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in _COUNTED}


def _incomplete(directory: Path) -> list[str]:
    """Documents that lack passages; nothing is looked at where the engine is not installed."""
    with _opened(directory) as registry:
        rows = registry.execute("SELECT tenant, document_id, generation, chunk_count FROM versions")
        versions = [Version(*row) for row in rows]
        shards = [row[0] for row in registry.execute("SELECT directory FROM shards")]
    if find_spec("qdrant_edge") is None:
        return []
    passages = {generation: count for shard in shards for generation, count in _passages(directory / "shards" / shard)}
    return incomplete(versions, passages)


def _passages(shard: Path) -> Iterator[tuple[str, int]]:
    """Generations of a shard, each with the number of its passages."""
    import qdrant_edge as engine

    try:
        opened = engine.EdgeShard.load(str(shard))
    except Exception as error:  # the binding has no class of its own for what it cannot read
        raise Refused(f"{shard.name} cannot be opened: {error}") from None
    try:
        request = engine.FacetRequest("generation", limit=_MOST_GENERATIONS, exact=True)
        for hit in opened.facet(request).hits:
            yield str(hit.value), hit.count
    finally:
        opened.close()


def copy_file(source: str, target: str) -> None:
    """Keeps holes: the engine reserves files of many megabytes and fills a small part."""
    with open(source, "rb", buffering=0) as reading, open(target, "wb", buffering=0) as writing:
        size = os.fstat(reading.fileno()).st_size
        end = 0
        while end < size and (start := _next(reading.fileno(), end, os.SEEK_DATA, size)) < size:
            end = _next(reading.fileno(), start, os.SEEK_HOLE, size)
            reading.seek(start)
            writing.seek(start)
            while (left := end - reading.tell()) > 0 and (block := reading.read(min(left, _BLOCK_BYTES))):
                writing.write(block)
        writing.truncate(size)
    shutil.copystat(source, target)


def _next(file: int, position: int, what: int, size: int) -> int:
    """Where data, or a hole, begins from here on; the file's end when there is none."""
    try:
        return os.lseek(file, position, what)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        raise


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
