"""What is saved and restored in one piece."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Refused(Exception):
    """It cannot be saved or restored as it is; the message says what to do."""


@dataclass(frozen=True)
class Saved:
    """What a part says of what it has saved. `facts`: versions and formats; `counts`: to compare after a restore."""

    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: Sequence[str] = ()


class Part(Protocol):
    """One kind of state in one place. All methods raise Refused."""

    @property
    def name(self) -> str:
        """Its folder in the backup."""
        ...

    def save(self, folder: Path) -> Saved:
        """Writes all that is needed into `folder`, which is empty."""
        ...

    def occupied(self) -> str:
        """What is in its place now; empty where there is nothing."""
        ...

    def restore(self, folder: Path, saved: Saved, *, replace: bool) -> None:
        """Puts it in its place. `replace`: instead of what is there."""
        ...

    def check(self, saved: Saved) -> list[str]:
        """Compares what is in its place with what was saved: a sentence a difference."""
        ...
