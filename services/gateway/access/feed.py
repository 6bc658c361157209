"""Follows the store, so that what one gateway changes is in force in all of them after a second or so."""

import asyncio
import logging
import time
from collections.abc import Callable

from prometheus_client import Counter, Gauge

from services.gateway.access.snapshot import Snapshot
from services.gateway.access.store import AccessStore, StoreLost, Version
from services.runtime import tasks

log = logging.getLogger(__name__)

AGE_SECONDS = Gauge(
    "sabueso_gateway_access_age_seconds", "How old this process's view of issued and revoked keys is; -1: never read."
)
LOOKS = Counter("sabueso_gateway_access_looks_total", "Looks for changed keys and limits.", ["outcome"])
ISSUED_KEYS = Gauge("sabueso_gateway_access_issued_keys", "Keys that the admin API made and that are kept.")

# However many unknown keys come in, the store is asked no more often than this.
_LEAST_SECONDS = 0.05


class Feed:
    """Keeps `snapshot` up to date. While the store is lost, the last state stays."""

    def __init__(
        self, store: AccessStore, *, look_seconds: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`look_seconds`: time between two looks while it is watched."""
        self.snapshot = Snapshot()
        # Whether the last look went well: if not, a key that is not known here may be known elsewhere.
        self.is_current = False
        self._store = store
        self._look_seconds = look_seconds
        self._clock = clock
        self._version: Version | None = None
        self._looking = asyncio.Lock()
        self._began_at = self._read_at = float("-inf")
        self._watching: asyncio.Task[None] | None = None
        AGE_SECONDS.set_function(self._age_seconds)

    async def look(self, *, sparingly: bool = False) -> bool:
        """Takes over what was changed before this call. False when the store does not answer.

        `sparingly`: for those who may be many, and ask in vain.
        """
        asked_at = self._clock()
        async with self._looking:
            # Of all who wait here one goes on; it speaks for those who came before it began.
            if self._began_at <= asked_at:
                if sparingly and self._began_at > asked_at - _LEAST_SECONDS:
                    await asyncio.sleep(self._began_at + _LEAST_SECONDS - asked_at)
                self._began_at = self._clock()
                await self._take_over()
            return self.is_current

    def watch(self) -> None:
        """Begins to look every second, in a task of its own, until `close`."""
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Watches no more."""
        await tasks.end(self._watching)

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:  # whatever it was: keys that are revoked later must still be noticed
                log.exception("changed keys could not be taken over")
            await asyncio.sleep(self._look_seconds)

    async def _take_over(self) -> None:
        began_at = self._clock()
        try:
            changes = await self._store.changes(self._version)
        except StoreLost as error:
            if self.is_current or self._version is None:
                log.warning("issued and revoked keys cannot be looked up", extra={"reason": str(error)})
            self.is_current = False
            LOOKS.labels("store_lost").inc()
            return
        if changes is not None:
            if self._version is not None and self._version.epoch not in ("", changes.version.epoch):
                log.error("the store of issued keys has lost its state", extra={"keys": len(self.snapshot)})
            await self.snapshot.apply(changes)
            self._version = changes.version
            ISSUED_KEYS.set(len(self.snapshot))
        self.is_current, self._read_at = True, began_at
        LOOKS.labels("ok").inc()

    def _age_seconds(self) -> float:
        return -1.0 if self._version is None else self._clock() - self._read_at
