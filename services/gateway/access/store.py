"""Where issued keys, revocations and overrides are kept: one state that all gateways follow by its changes."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from services.gateway.access.records import KINDS, Kind

# A reader that is further behind reads everything anew.
HISTORY = 10_000
MOST_ENTRIES = 200_000


class StoreLost(Exception):
    """The store does not answer."""


class StoreFull(Exception):
    """There are as many entries of this kind as there may be."""


@dataclass(frozen=True)
class Version:
    """How far a reader has read. `epoch` is another one after the store has lost everything."""

    epoch: str = ""
    number: int = 0


@dataclass(frozen=True)
class Changes:
    """What has changed up to `version`: the new values, None for what is gone. `complete`: there is nothing else."""

    version: Version
    complete: bool
    entries: Mapping[Kind, Mapping[str, bytes | None]]


# In place of an expected value: whatever is there.
ANYTHING: Final = b"*"


class AccessStore(Protocol):
    """Entries by kind and field, and a version that grows with every change."""

    async def changes(self, since: Version | None) -> Changes | None:
        """What is new since that version, or everything for None; None when nothing is. Raises StoreLost."""
        ...

    async def write(self, kind: Kind, field: str, value: bytes | None, *, expected: bytes | None = ANYTHING) -> bool:
        """Sets a value, or removes it for None. False when there is another value than the expected one.

        Returns when it is safe on the store's disk. Raises StoreLost and StoreFull.
        """
        ...


class MemoryAccessStore:
    """Keeps everything in this process."""

    def __init__(self, *, history: int = HISTORY, most_entries: int = MOST_ENTRIES) -> None:
        self._history = history
        self._most_entries = most_entries
        self._version = Version(uuid.uuid4().hex, 0)
        self._entries: dict[Kind, dict[str, bytes]] = {kind: {} for kind in KINDS}
        self._changed: dict[tuple[Kind, str], int] = {}
        self._floor = 0

    async def changes(self, since: Version | None) -> Changes | None:
        if since == self._version:
            return None
        if since is None or since.epoch != self._version.epoch or since.number < self._floor:
            return Changes(self._version, True, {kind: dict(entries) for kind, entries in self._entries.items()})
        found: dict[Kind, dict[str, bytes | None]] = {kind: {} for kind in KINDS}
        for (kind, field), number in self._changed.items():
            if number > since.number:
                found[kind][field] = self._entries[kind].get(field)
        return Changes(self._version, False, found)

    async def write(self, kind: Kind, field: str, value: bytes | None, *, expected: bytes | None = ANYTHING) -> bool:
        entries = self._entries[kind]
        if expected != ANYTHING and entries.get(field) != expected:
            return False
        if value is not None and field not in entries and len(entries) >= self._most_entries:
            raise StoreFull(kind)
        if value is None:
            entries.pop(field, None)
        else:
            entries[field] = value
        self._version = Version(self._version.epoch, self._version.number + 1)
        self._changed.pop((kind, field), None)
        self._changed[kind, field] = self._version.number
        while len(self._changed) > self._history:
            self._floor = self._changed.pop(next(iter(self._changed)))
        return True
