"""Remembers tool results beside the tools: one lookup for all calls of a turn, storing that nobody waits for."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from services.orchestrator.results import Found, Pages, Passages, Rows
from services.runtime.errors import DependencyFailed, ServiceError

log = logging.getLogger(__name__)

# Changes when the stored form of results changes: older entries are then never found.
FORMAT_VERSION = "2"
_MAX_VALUE_BYTES = 1024 * 1024
_MAX_PENDING_PUTS = 64
_CODECS: dict[type[Any], TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Passages, Rows, Pages)}


@dataclass(frozen=True)
class CacheKey:
    """A call whatever the order of its arguments. `version` stands for tool, policy and data."""

    tool: str
    arguments_json: str
    version: str


@dataclass(frozen=True)
class CacheEntry:
    """A result to remember for `ttl_seconds`."""

    key: CacheKey
    value: bytes
    ttl_seconds: int


class CacheStore(Protocol):
    """Where results are kept, per tenant of the current call."""

    async def get(self, keys: Sequence[CacheKey], timeout_seconds: float) -> Sequence[bytes | None]:
        """Values in the order of the keys, None for a miss. Raises ServiceError when the store is lost."""
        ...

    async def put(self, entries: Sequence[CacheEntry], timeout_seconds: float) -> None:
        """Stores all entries. Raises ServiceError when the store is lost."""
        ...


class ResultCache:
    """A CacheStore that costs an answer little: short lookups, a pause after a failure, puts in the background."""

    def __init__(
        self,
        store: CacheStore,
        *,
        get_timeout_seconds: float = 0.25,
        put_timeout_seconds: float = 2,
        pause_seconds: float = 2,
    ) -> None:
        """After a failed lookup the store is left alone for `pause_seconds`."""
        self._store = store
        self._get_timeout = get_timeout_seconds
        self._put_timeout = put_timeout_seconds
        self._pause = pause_seconds
        self._paused_until = 0.0
        self._puts: set[asyncio.Task[None]] = set()

    async def get(self, wanted: Sequence[tuple[CacheKey, type[Found]]]) -> Sequence[Found | None] | None:
        """What is known of each key, None for a miss; None as a whole when the store does not answer."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            async with asyncio.timeout(self._get_timeout):
                values = await self._store.get([key for key, _ in wanted], self._get_timeout)
        except (ServiceError, TimeoutError):
            self._paused_until = time.monotonic() + self._pause
            return None
        return [_decoded(value, kind) for value, (_, kind) in zip(values, wanted, strict=True)]

    def put_later(self, results: Sequence[tuple[CacheKey, Found, int]]) -> None:
        """Stores (key, result, seconds to live) in the background; failures and too large results are dropped."""
        entries = [CacheEntry(key, _CODECS[type(found)].dump_json(found), ttl) for key, found, ttl in results]
        entries = [entry for entry in entries if len(entry.value) <= _MAX_VALUE_BYTES]
        if not entries or len(self._puts) >= _MAX_PENDING_PUTS or time.monotonic() < self._paused_until:
            return
        task = asyncio.create_task(self._put(entries))
        self._puts.add(task)
        task.add_done_callback(self._puts.discard)

    async def close(self) -> None:
        """Waits for the puts that are under way, at most as long as one may take."""
        if self._puts:
            _, late = await asyncio.wait(self._puts, timeout=self._put_timeout)
            for task in late:
                task.cancel()

    async def _put(self, entries: Sequence[CacheEntry]) -> None:
        try:
            async with asyncio.timeout(self._put_timeout):
                await self._store.put(entries, self._put_timeout)
        except (ServiceError, TimeoutError) as error:
            log.debug("results were not stored", extra={"error": type(error).__name__, "entries": len(entries)})


def _decoded(value: bytes | None, kind: type[Found]) -> Found | None:
    if value is None:
        return None
    try:
        return _CODECS[kind].validate_json(value)
    except ValidationError:
        log.warning("a stored result is not readable", extra={"kind": kind.__name__})
        return None


class MemoryStore:
    """A CacheStore in this process, for one tenant and without expiry. `lost`: it does not answer."""

    def __init__(self) -> None:
        self.entries: dict[CacheKey, CacheEntry] = {}
        self.lookups = 0
        self.lost = False

    async def get(self, keys: Sequence[CacheKey], timeout_seconds: float) -> Sequence[bytes | None]:
        """See CacheStore."""
        self._answer()
        self.lookups += 1
        return [self.entries[key].value if key in self.entries else None for key in keys]

    async def put(self, entries: Sequence[CacheEntry], timeout_seconds: float) -> None:
        """See CacheStore."""
        self._answer()
        self.entries.update((entry.key, entry) for entry in entries)

    def _answer(self) -> None:
        if self.lost:
            raise DependencyFailed("The store does not answer.", dependency="store")
