"""Whether a set can be used, and how far it is: for people and for CI. No item of a test half is told."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from services.evaluation.golden import lock, sets
from services.evaluation.golden.item import DEV, TEST, Item
from services.evaluation.golden.review import Review
from services.evaluation.golden.split import Leak, check_apart


@dataclass(frozen=True)
class Checked:
    """`complaint` is empty for a set that can be used."""

    name: str
    version: int = 0
    dev: int = 0
    test: int = 0
    strata: Mapping[str, int] = field(default_factory=dict[str, int])
    # Items with a reviewer, of all.
    reviewed: str = ""
    lock: str = ""
    complaint: str = ""

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def checked(folder: Path) -> Checked:
    """Reads everything; raises nothing for what is wrong with the set."""
    try:
        found = _read(folder)
    except (sets.BrokenSet, Leak, OSError) as error:
        return Checked(str(folder), complaint=str(error))
    try:
        return replace(found, lock=_lock(folder, found.test))
    except (sets.BrokenSet, lock.ReadingRefused, OSError) as error:
        return replace(found, complaint=str(error))


def leaks(folders: Sequence[Path]) -> list[str]:
    """What one set has in development and another one in test, in words. Sets that cannot be read are left out.

    What was learned of a document while working on one set helps with the other one's questions on it.
    """
    items: list[Item] = []
    for folder in folders:
        with contextlib.suppress(sets.BrokenSet, OSError):
            # The same name may mean two items.
            items += [
                replace(one, id=f"{folder.name}/{one.id}")
                for half in sets.HALVES
                for one in sets.read_half(folder, half).items
            ]
    try:
        check_apart(items)
    except Leak as leak:
        return [str(leak)]
    return []


def _read(folder: Path) -> Checked:
    about = sets.read_about(folder)
    halves = {half: sets.read_half(folder, half).items for half in sets.HALVES}
    items = [one for half in sets.HALVES for one in halves[half]]
    check_apart(items)
    Review(folder).drawn()
    return Checked(
        about.name,
        about.version,
        len(halves[DEV]),
        len(halves[TEST]),
        dict(sorted(Counter(one.stratum.value for one in items).items())),
        f"{sum(bool(one.reviewer) for one in items)} of {len(items)}",
    )


def _lock(folder: Path, test_count: int) -> str:
    """How the test half stands, in words. Raises ReadingRefused when it is not what was locked."""
    if not lock.locked_version(folder):
        return "open" if test_count else "none"
    lock.verify(folder)
    return f"locked, read {len(lock.readings(folder))} times"
