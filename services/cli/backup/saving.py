"""Makes a backup: all parts into a folder beside, which gets its name when it is whole."""

import fcntl
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from services.cli.backup import manifest as manifests
from services.cli.backup.manifest import Manifest, SavedPart
from services.cli.backup.part import Part, Refused
from services.runtime.release import VERSION

_UNFINISHED = ".unfinished"


def save(target: Path, parts: Sequence[Part], left_out: Sequence[str], say: Callable[[str], None]) -> Manifest:
    """Saves `parts` in their order, which is this: what names something comes before what it names.

    Jobs come before the vector store: a job that ends meanwhile is run once more after a restore, and none is lost.
    What a killed run left behind is overwritten. Raises Refused; then there is no folder `target`.
    """
    if not parts:
        raise Refused("there is nothing to save: say --vector-store, --valkey-url, --tenants-dir … or set SABUESO_…")
    if target.exists():
        raise Refused(f"{target} is there already")
    began = datetime.now(UTC)
    unfinished = target.with_name(target.name + _UNFINISHED)
    with _only_one(unfinished):
        saved: dict[str, SavedPart] = {}
        for part in parts:
            folder = unfinished / part.name
            folder.mkdir(mode=0o700)
            told = part.save(folder)
            saved[part.name] = manifests.described(folder, told)
            counts = ", ".join(f"{count} {what}" for what, count in told.counts.items())
            say(f"{part.name}: {counts}")
        made = Manifest(
            sabueso_version=VERSION,
            began_at=began,
            ended_at=datetime.now(UTC),
            left_out=tuple(left_out),
            parts=saved,
        )
        manifests.write(unfinished, made)
        (unfinished / ".lock").unlink()
        unfinished.rename(target)
        _sync(target.parent)
    return made


@contextmanager
def _only_one(unfinished: Path) -> Generator[None]:
    """An empty folder for one run at a time, gone afterwards unless it was renamed."""
    unfinished.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(unfinished / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise Refused(f"another backup is written to {unfinished}") from None
    try:
        for path in unfinished.iterdir():
            if path.name != ".lock":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        os.close(lock)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def named_by_time(folder: Path) -> Path:
    """A backup of now in a folder of backups."""
    return folder / f"sabueso-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def prune(folder: Path, keep: int) -> list[Path]:
    """Removes whole backups of such a folder but the newest `keep`; what is no backup is left alone."""
    whole = sorted(path.parent for path in folder.glob(f"sabueso-*Z/{manifests.NAME}"))
    going = whole[: max(0, len(whole) - keep)]
    for path in going:
        # First that which makes it a backup: half of one must never look whole.
        (path / manifests.NAME).unlink()
        shutil.rmtree(path)
    return going
