"""Keeps a test half from wearing out: its content is frozen, and every reading is on record with its reason.

A measure that becomes a target is no measure any more (Strathern's form of Goodhart's law, 1997). What is on record
can be counted; what changed without notice cannot be compared.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.evaluation.golden import sets
from services.evaluation.golden.item import DEV, TEST
from services.evaluation.golden.sets import BrokenSet, GoldenSet
from services.evaluation.golden.split import Leak, check_apart

LOCK, READINGS = "test.lock.json", "test-readings.log"

Clock = Callable[[], datetime]


class ReadingRefused(ValueError):
    """The test half is not opened. The message says what is missing or wrong."""


@dataclass(frozen=True)
class Reading:
    """Who reads a test half, and why; both go to the log."""

    reason: str
    reader: str


@dataclass(frozen=True)
class Logged:
    """A line of the log."""

    time: str
    reader: str
    name: str
    version: int
    sha256: str
    reason: str


class Lock(BaseModel):
    """test.lock.json: what the test half was when it was frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = Field(ge=1, description="Of the set, as set.yaml had it.")
    item_count: int = Field(ge=0, description="Items of the test half.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Of the test half's canonical text.")
    locked_on: str = Field(description="Day.")


def _now() -> datetime:
    return datetime.now(UTC)


def lock(folder: Path, *, clock: Clock = _now) -> Lock:
    """Freezes the test half as it is. Raises BrokenSet, and ReadingRefused where another content was frozen.

    A frozen half changes only together with the set's version.
    """
    half = sets.read_half(folder, TEST)
    dev = sets.read_half(folder, DEV)
    if not half.items:
        raise ReadingRefused(f"{folder}: there is no test half to lock")
    try:
        check_apart([*dev.items, *half.items])
    except Leak as leak:
        raise BrokenSet(f"{folder}: {leak}") from None
    before = _read(folder)
    if before and before.sha256 == half.fingerprint and before.version >= half.about.version:
        return before
    if before and before.version >= half.about.version:
        raise ReadingRefused(
            f"{folder}: version {before.version} was frozen with other items; raise `version` in set.yaml first"
        )
    made = Lock(
        version=half.about.version,
        item_count=len(half.items),
        sha256=half.fingerprint,
        locked_on=f"{clock():%Y-%m-%d}",
    )
    sets.write_text(folder / LOCK, json.dumps(made.model_dump(), indent=2) + "\n")
    return made


def verify(folder: Path) -> Lock:
    """The lock, when the test half is as it was frozen. Reads nothing out. Raises BrokenSet and ReadingRefused."""
    kept = _read(folder)
    if kept is None:
        raise ReadingRefused(f"{folder}: the test half is not locked; `sabueso evals lock` does it")
    found = sets.read_half(folder, TEST)
    if found.fingerprint != kept.sha256:
        raise ReadingRefused(f"{folder}: the test half is not what was frozen on {kept.locked_on}")
    return kept


def open_test(folder: Path, reading: Reading, *, clock: Clock = _now) -> GoldenSet:
    """The test half, after the reading has been noted.

    Raises ReadingRefused, BrokenSet, and OSError where it cannot be noted.
    """
    if not reading.reason.strip() or not reading.reader.strip():
        raise ReadingRefused("a test half is read for a reason and by somebody: say both, they are noted")
    kept = verify(folder)
    half = sets.read_half(folder, TEST)
    cells = (
        f"{clock():%Y-%m-%dT%H:%M:%SZ}",
        _flat(reading.reader),
        half.about.name,
        str(kept.version),
        kept.sha256[:16],
        _flat(reading.reason),
    )
    with (folder / READINGS).open("a", encoding="utf-8") as log:
        log.write("\t".join(cells) + "\n")
    return half


def locked_version(folder: Path) -> int:
    """The version of the set whose test half is frozen; 0 where none is. Raises BrokenSet."""
    kept = _read(folder)
    return kept.version if kept else 0


def readings(folder: Path) -> list[Logged]:
    """All readings so far, oldest first. Raises BrokenSet for a line that is none."""
    path = folder / READINGS
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found: list[Logged] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split("\t")
        if len(cells) != 6 or not cells[3].isdigit():
            raise BrokenSet(f"{path}: line {number} is no reading")
        found.append(Logged(cells[0], cells[1], cells[2], int(cells[3]), cells[4], cells[5]))
    return found


def _read(folder: Path) -> Lock | None:
    path = folder / LOCK
    try:
        return Lock.model_validate_json(path.read_text(encoding="utf-8")) if path.exists() else None
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise BrokenSet(f"{path}: {error}") from None


def _flat(text: str) -> str:
    return " ".join(text.split())
