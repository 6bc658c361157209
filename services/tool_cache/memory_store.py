"""Results in this process's memory: for one process, tests and try-outs."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.tool_cache.generations import changes, dependencies
from services.tool_cache.keys import CallKey
from services.tool_cache.store import Lease, Lookup, Outcome, Result


@dataclass(frozen=True)
class _Entry:
    key: CallKey
    value: bytes
    scopes: tuple[str, ...]
    snapshot: int
    stored: float
    expires: float


class MemoryStore:
    """Forgets the least recently used entries beyond `most_entries`."""

    def __init__(self, most_entries: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._most_entries = most_entries
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._leases: dict[str, tuple[str, float]] = {}
        self._sequence = 1
        self._generations: dict[tuple[str, str], int] = {}

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def get(self, keys: Sequence[CallKey], *, lease_ms: int = 0) -> list[Lookup]:
        return [self._get(key, lease_ms) for key in keys]

    def _get(self, key: CallKey, lease_ms: int) -> Lookup:
        now = self._clock()
        entry = self._entries.get(key.digest)
        if entry is None or entry.expires <= now or entry.key != key:
            return Lookup(self._sequence, token=self._leased(key, lease_ms))
        if self._changed(key.tenant, entry.scopes, entry.snapshot):
            return Lookup(self._sequence, stale=True, token=self._leased(key, lease_ms))
        self._entries.move_to_end(key.digest)
        return Lookup(self._sequence, entry.value, now - entry.stored)

    def _leased(self, key: CallKey, lease_ms: int) -> str:
        now = self._clock()
        if not lease_ms or self._leases.get(key.digest, ("", 0.0))[1] > now:
            return ""
        if len(self._leases) >= self._most_entries:
            self._leases = {digest: lease for digest, lease in self._leases.items() if lease[1] > now}
        token = secrets.token_hex(16)
        self._leases[key.digest] = token, now + lease_ms / 1000
        return token

    def _changed(self, tenant: str, scopes: Sequence[str], snapshot: int) -> bool:
        return any(self._generations.get((tenant, scope), 0) > snapshot for scope in scopes)

    async def put(self, results: Sequence[Result]) -> list[Outcome]:
        return [self._put(one) for one in results]

    def _put(self, result: Result) -> Outcome:
        key = result.key
        held = self._end(Lease(key, result.token))
        if result.ttl_ms == 0:
            return Outcome.NO_TTL
        if result.only_leased and not held:
            return Outcome.OUTDATED
        now, snapshot = self._clock(), result.snapshot or self._sequence
        scopes = tuple(dependencies(key.tool, result.sources))
        if snapshot > self._sequence or self._changed(key.tenant, scopes, snapshot):
            return Outcome.OUTDATED
        self._entries[key.digest] = _Entry(key, result.value, scopes, snapshot, now, now + result.ttl_ms / 1000)
        self._entries.move_to_end(key.digest)
        while len(self._entries) > self._most_entries:
            self._entries.popitem(last=False)
        return Outcome.STORED

    async def release(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._end(lease)

    def _end(self, lease: Lease) -> bool:
        """Whether it was held."""
        token, until = self._leases.get(lease.key.digest, ("", 0.0))
        if not lease.token or lease.token != token or until <= self._clock():
            return False
        del self._leases[lease.key.digest]
        return True

    async def invalidate(self, tenant: str, tool: str, sources: Sequence[str]) -> None:
        self._sequence += 1
        for scope in changes(tool, sources):
            self._generations[tenant, scope] = self._sequence
