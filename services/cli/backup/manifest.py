"""What a backup consists of: written last, so that a folder without it is none."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from services.cli.backup.part import Refused, Saved

FORMAT = 1
NAME = "manifest.json"
_BLOCK_BYTES = 1 << 20


class File(BaseModel):
    """A file of the backup."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size_bytes: int
    sha256: str


class SavedPart(BaseModel):
    """A part with its files, by their path below the part's folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    counts: Mapping[str, int]
    facts: Mapping[str, str]
    warnings: tuple[str, ...]
    files: Mapping[str, File]

    @property
    def saved(self) -> Saved:
        """As the part told it."""
        return Saved(self.counts, self.facts, self.warnings)


class Manifest(BaseModel):
    """The whole backup. `left_out`: parts that nobody named. Secrets are never in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    sabueso_version: str
    began_at: datetime
    ended_at: datetime
    left_out: tuple[str, ...]
    parts: Mapping[str, SavedPart]

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for part in self.parts.values() for file in part.files.values())


def described(folder: Path, saved: Saved) -> SavedPart:
    """The part with checksums of all files below `folder`."""
    files = {path.relative_to(folder).as_posix(): _file(path) for path in _files(folder)}
    return SavedPart(counts=saved.counts, facts=saved.facts, warnings=tuple(saved.warnings), files=files)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _file(path: Path) -> File:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            size += len(block)
    return File(size_bytes=size, sha256=digest.hexdigest())


def write(folder: Path, manifest: Manifest) -> None:
    """Makes the folder a backup; all of it is on disk when this returns."""
    # Once for all files: there may be a hundred thousand.
    os.sync()
    path = folder / NAME
    path.write_text(manifest.model_dump_json(indent=2) + "\n")
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read(folder: Path) -> Manifest:
    """Raises Refused where `folder` is no backup that this version can read."""
    try:
        manifest = Manifest.model_validate_json((folder / NAME).read_bytes())
    except FileNotFoundError:
        raise Refused(f"{folder} is no backup: it has no {NAME}, which is written last") from None
    except (OSError, ValidationError) as error:
        raise Refused(f"{folder / NAME} cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise Refused(f"{folder} has format {manifest.format}; this version of sabueso reads {FORMAT}")
    return manifest


def damages(folder: Path, manifest: Manifest) -> list[str]:
    """Files that are missing, too many or other than they were written: a sentence each."""
    found: list[str] = []
    for name, part in manifest.parts.items():
        there = {path.relative_to(folder / name).as_posix(): path for path in _files(folder / name)}
        found += [f"{name}/{path} is missing" for path in sorted(part.files.keys() - there.keys())]
        found += [f"{name}/{path} does not belong to the backup" for path in sorted(there.keys() - part.files.keys())]
        for path, expected in part.files.items():
            if path in there and _file(there[path]) != expected:
                found.append(f"{name}/{path} was changed or is damaged")
    return found
