"""Locks by key, so that work on one thing does not wait for work on another."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Hashable


class KeyedLocks:
    """One holder of a key at a time; a key's lock goes with the last who needs it."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @contextlib.asynccontextmanager
    async def holding(self, *key: str) -> AsyncGenerator[None]:
        """Waits until nobody else holds `key`."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = lock, users - 1
