"""Where results are remembered: the interface, and a store in this process's memory."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.tool_cache.keys import CallKey


@dataclass(frozen=True)
class Remembered:
    """A stored result and its age in seconds."""

    value: bytes
    age_seconds: float


@dataclass(frozen=True)
class Result:
    """A result to remember for `ttl_ms`, at least 1."""

    key: CallKey
    value: bytes
    ttl_ms: int


# A tool that takes longer may store what an invalidation in the meantime has made old.
LOOKED_UP_MS = 120_000


class Store(Protocol):
    """Remembers results. All methods raise DependencyFailed when the store does not answer."""

    async def open(self) -> None:
        """Makes ready; does not wait for the store to answer."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...

    async def get(self, keys: Sequence[CallKey]) -> list[Remembered | None]:
        """What is known of each call, in order."""
        ...

    async def put(self, results: Sequence[Result]) -> list[bool]:
        """Whether each was stored; not if its tool was invalidated between the call's last lookup and now."""
        ...

    async def invalidate(self, tenant: str, tool: str) -> None:
        """Forgets all results of a tenant's tool."""
        ...


@dataclass(frozen=True)
class _Entry:
    key: CallKey
    value: bytes
    generation: int
    stored: float
    expires: float


class MemoryStore:
    """Forgets the least recently used entries beyond `most_entries`. For one process, tests and try-outs."""

    def __init__(self, most_entries: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._most_entries = most_entries
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._generations: dict[tuple[str, str], int] = {}
        self._looked_up: OrderedDict[str, tuple[int, float]] = OrderedDict()

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def get(self, keys: Sequence[CallKey]) -> list[Remembered | None]:
        return [self._get(key) for key in keys]

    def _get(self, key: CallKey) -> Remembered | None:
        now, generation = self._clock(), self._generation(key)
        entry = self._entries.get(key.digest)
        if entry is None or entry.generation != generation or entry.expires <= now or entry.key != key:
            self._looked_up[key.digest] = generation, now + LOOKED_UP_MS / 1000
            self._looked_up.move_to_end(key.digest)
            while len(self._looked_up) > self._most_entries:
                self._looked_up.popitem(last=False)
            return None
        self._entries.move_to_end(key.digest)
        return Remembered(entry.value, now - entry.stored)

    async def put(self, results: Sequence[Result]) -> list[bool]:
        return [self._put(one) for one in results]

    def _put(self, result: Result) -> bool:
        now, key = self._clock(), result.key
        generation = self._generation(key)
        seen, until = self._looked_up.get(key.digest, (generation, 0.0))
        if seen != generation and until > now:
            return False
        self._entries[key.digest] = _Entry(key, result.value, generation, now, now + result.ttl_ms / 1000)
        self._entries.move_to_end(key.digest)
        while len(self._entries) > self._most_entries:
            self._entries.popitem(last=False)
        return True

    async def invalidate(self, tenant: str, tool: str) -> None:
        self._generations[tenant, tool] = self._generations.get((tenant, tool), 0) + 1

    def _generation(self, key: CallKey) -> int:
        return self._generations.get((key.tenant, key.tool), 0)
