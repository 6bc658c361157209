"""Which files of a folder are sent, and under which document ids."""

import hashlib
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

_LONGEST_ID, _LONGEST_PREFIX = 200, 80
_ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/")
_MARK_CHARS = 10


class SameId(Exception):
    """Two files would become one document; the message names them."""


@dataclass(frozen=True)
class File:
    """A file and the document that it becomes."""

    path: Path
    document_id: str


@dataclass(frozen=True)
class Choice:
    """Which files below a folder. Patterns are shell globs on the path below it, or on the name alone."""

    recursive: bool = True
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def takes(self, relative: str) -> bool:
        """Whether the file at this path below the folder is wanted."""
        return (not self.include or _matches(relative, self.include)) and not _matches(relative, self.exclude)


def find(paths: Sequence[Path], choice: Choice, prefix: str = "") -> list[File]:
    """The files of all `paths`, each once, by id. A file that is named itself is taken whatever the patterns say.

    A document's id is the folder's name (or `prefix`) and the path below it, so that the same file keeps its id, and a
    file that is named itself has the id that it has when its folder is named. Raises SameId, and OSError for a folder
    that cannot be read: its files must not seem to be gone.
    """
    found: dict[str, File] = {}
    for path in paths:
        folder = path if path.is_dir() else path.parent
        root = prefix_of(folder, prefix)
        for relative in _below(path, choice) if path.is_dir() else [path.name]:
            file = File(folder / relative, document_id(root, relative))
            other = found.setdefault(file.document_id, file)
            if other.path.resolve() != file.path.resolve():
                raise SameId(f"{other.path} and {file.path} would become the same document; send one with --prefix.")
    return [found[id_] for id_ in sorted(found)]


def prefix_of(folder: Path, prefix: str = "") -> str:
    """What the ids of all documents of a folder begin with, without the slash that follows."""
    return _clean(prefix.strip("/") or folder.resolve().name or "files", _LONGEST_PREFIX)


def document_id(root: str, relative: str) -> str:
    """The id of the file at the path `relative` below the folder that `root` stands for."""
    cleaned = _clean(relative, _LONGEST_ID - len(root) - 1)
    if cleaned.rpartition("/")[2] == "chunks":  # /v1/documents/<id>/chunks is another document's passages
        cleaned = _marked(cleaned, relative, _LONGEST_ID - len(root) - 1)
    return f"{root}/{cleaned}"


def _clean(text: str, longest: int) -> str:
    """`text` in the alphabet of ids. What had to be changed gets a mark, so that no two texts become one."""
    folded = unicodedata.normalize("NFKD", text)
    cleaned = "".join(
        char if char in _ALLOWED else "" if unicodedata.combining(char) else "_" for char in folded
    )  # fmt: skip
    return cleaned if cleaned == text and len(text) <= longest else _marked(cleaned, text, longest)


def _marked(cleaned: str, text: str, longest: int) -> str:
    # One and the same name is composed differently by macOS and by Linux.
    same = unicodedata.normalize("NFC", text).encode(errors="surrogateescape")
    mark = hashlib.sha256(same).hexdigest()[:_MARK_CHARS]
    return f"{cleaned[: longest - len(mark) - 1]}-{mark}"


def _below(folder: Path, choice: Choice) -> Iterator[str]:
    """Paths below `folder`, without what is hidden. Links are followed; no folder is gone through twice."""
    seen: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, onerror=_give_up, followlinks=True):
        stat = os.stat(place)
        if (stat.st_dev, stat.st_ino) in seen:
            folders.clear()
            continue
        seen.add((stat.st_dev, stat.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if choice.recursive else []
        for name in sorted(names):
            path = Path(place, name)
            relative = path.relative_to(folder).as_posix()
            if not name.startswith(".") and path.is_file() and choice.takes(relative):
                yield relative


def _give_up(error: OSError) -> None:
    raise error


def _matches(relative: str, patterns: Sequence[str]) -> bool:
    name = relative.rpartition("/")[2]
    return any(fnmatch(relative, pattern) or fnmatch(name, pattern) for pattern in patterns)
