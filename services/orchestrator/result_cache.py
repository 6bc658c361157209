"""Remembers tool results beside the tools: one lookup for all calls of a turn, storing that nobody waits for."""

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from services.orchestrator.results import Found, Pages, Passages, Reply, Rows
from services.runtime import context
from services.runtime.errors import DependencyFailed, InvalidField, ServiceError

log = logging.getLogger(__name__)

# Of the cache: longer arguments make a call that is not looked up.
MAX_ARGUMENTS_CHARS = 64 * 1024
# Changes when the stored form of results changes: older entries are then never found.
FORMAT_VERSION = "4"
MAX_SOURCES = 64
_MAX_VALUE_BYTES = 1024 * 1024
_MAX_PENDING = 64
_WAIT_PIECE_SECONDS = 0.5
_CODECS: dict[type[Any], TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Passages, Rows, Pages, Reply)}


@dataclass(frozen=True)
class CacheKey:
    """A call whatever the order of its arguments. `version` stands for tool, policy and data.

    `semantic_argument` names the argument that is free text, if one is: what "today" in it means is another key every
    day. From a cosine similarity of `min_similarity` on the result of nearly the same text serves; 0 is off.
    """

    tool: str
    arguments_json: str
    version: str
    semantic_argument: str = ""
    min_similarity: float = 0


@dataclass(frozen=True)
class Stored:
    """A stored value. `matched_text` and `similarity` are set where another text's result serves.

    `snapshot`: as in Miss.
    """

    value: bytes
    age_seconds: float = 0
    matched_text: str = ""
    similarity: float = 0
    snapshot: int = 0


@dataclass(frozen=True)
class Miss:
    """There is no result. `snapshot`: state of the data now, 0 where it is not known: what is made is not stored.

    `lease`: it is ours to make. `made_elsewhere`: another caller makes it now.
    """

    snapshot: int = 0
    lease: str = ""
    made_elsewhere: bool = False


@dataclass(frozen=True)
class Hit:
    """A result that was made before, `age_seconds` ago. The last three as in Stored."""

    found: Found
    age_seconds: float = 0
    matched_text: str = ""
    similarity: float = 0
    snapshot: int = 0


@dataclass(frozen=True)
class Fresh:
    """A result to remember for `ttl_seconds`, made from `sources`. `miss`: what was known before it was made."""

    key: CacheKey
    found: Found
    ttl_seconds: int
    sources: tuple[str, ...] = ()
    miss: Miss = Miss()


@dataclass(frozen=True)
class CacheEntry:
    """A result to remember for `ttl_seconds`.

    It is dropped where one of its `sources` changed since `snapshot`, unless that is 0. `lease` ends with it.
    """

    key: CacheKey
    value: bytes
    ttl_seconds: int
    sources: tuple[str, ...] = ()
    snapshot: int = 0
    lease: str = ""


class CacheStore(Protocol):
    """Where results are kept, per tenant of the current call. All raise ServiceError when the store is lost."""

    async def get(self, keys: Sequence[CacheKey], timeout_seconds: float, *, lease: bool) -> Sequence[Stored | Miss]:
        """What there is, in the order of the keys. `lease`: a call that nobody is making is from now on ours."""
        ...

    async def wait(self, key: CacheKey, seconds: float) -> Stored | Miss:
        """The result that another caller makes, as soon as it is there; or a lease, where that caller gave up."""
        ...

    async def put(self, entries: Sequence[CacheEntry], timeout_seconds: float) -> None:
        """Stores all entries, and ends their leases."""
        ...

    async def release(self, leases: Sequence[tuple[CacheKey, str]], timeout_seconds: float) -> None:
        """Ends leases without results."""
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
        self._pending: set[asyncio.Task[None]] = set()

    async def get(
        self, wanted: Sequence[tuple[CacheKey, type[Found]]], *, lease: bool = True
    ) -> Sequence[Hit | Miss] | None:
        """What is known of each key; None as a whole when the store does not answer."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            async with asyncio.timeout(self._get_timeout):
                stored = await self._store.get([key for key, _ in wanted], self._get_timeout, lease=lease)
        except InvalidField as error:  # it answers, and speaks against one of these calls: others have no part in it
            log.warning("the cache refused a lookup", extra={"field": error.metadata.get("field", "")})
            return [Miss()] * len(wanted)
        except (ServiceError, TimeoutError):
            self._paused_until = time.monotonic() + self._pause
            return None
        return [_decoded(one, kind) for one, (_, kind) in zip(stored, wanted, strict=True)]

    async def wait(self, key: CacheKey, kind: type[Found], seconds: float) -> Hit | Miss:
        """What another caller makes of `key`, within `seconds`; else it is for us to make.

        Asked in short pieces: a store that hangs is told from one that has nothing yet.
        """
        ends = time.monotonic() + seconds
        while True:
            piece = max(0.0, min(_WAIT_PIECE_SECONDS, ends - time.monotonic()))
            try:
                async with asyncio.timeout(piece + self._get_timeout):
                    known = _decoded(await self._store.wait(key, piece), kind)
            except (ServiceError, TimeoutError):
                self._paused_until = time.monotonic() + self._pause
                return Miss()
            if isinstance(known, Hit) or not known.made_elsewhere or time.monotonic() >= ends:
                return known

    def put_later(self, results: Sequence[Fresh]) -> None:
        """Stores results in the background. Failures are dropped; so are results that are too large, lease and all."""
        entries: list[CacheEntry] = []
        unfit: list[tuple[CacheKey, str]] = []
        for one in results:
            value = _encoded(one.found)
            if value is None or len(one.sources) > MAX_SOURCES:
                unfit.append((one.key, one.miss.lease))
                continue
            entries.append(CacheEntry(one.key, value, one.ttl_seconds, one.sources, one.miss.snapshot, one.miss.lease))
        self.release_later(unfit)
        if entries:
            self._in_background(self._store.put(entries, self._put_timeout), len(entries))

    def release_later(self, leases: Sequence[tuple[CacheKey, str]]) -> None:
        """Ends leases in the background, so that whoever waits goes on; empty ones are none."""
        if held := [(key, lease) for key, lease in leases if lease]:
            self._in_background(self._store.release(held, self._put_timeout), len(held))

    async def close(self) -> None:
        """Waits for what is under way, at most as long as one put may take."""
        if self._pending:
            _, late = await asyncio.wait(self._pending, timeout=self._put_timeout)
            for task in late:
                task.cancel()

    def _in_background(self, work: Coroutine[Any, Any, None], count: int) -> None:
        if len(self._pending) >= _MAX_PENDING or time.monotonic() < self._paused_until:
            work.close()
            return
        task = asyncio.create_task(self._finish(work, count))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _finish(self, work: Coroutine[Any, Any, None], count: int) -> None:
        if call := context.current():  # it may end now, or have no time left: this goes on in its name
            context.enter(replace(call, deadline=None))
        try:
            async with asyncio.timeout(self._put_timeout):
                await work
        except (ServiceError, TimeoutError) as error:
            log.debug("the cache was not told", extra={"error": type(error).__name__, "calls": count})


def _encoded(found: Found) -> bytes | None:
    """The stored form; None for what is too large or what JSON does not hold as it is."""
    codec = _CODECS[type(found)]
    try:
        value = codec.dump_json(found)
        return value if len(value) <= _MAX_VALUE_BYTES else None
    except ValueError as error:
        log.warning("a result cannot be stored", extra={"error": type(error).__name__})
        return None


def _decoded(stored: Stored | Miss, kind: type[Found]) -> Hit | Miss:
    if isinstance(stored, Miss):
        return stored
    try:
        found = _CODECS[kind].validate_json(stored.value)
    except ValidationError:
        log.warning("a stored result is not readable", extra={"kind": kind.__name__})
        return Miss(stored.snapshot)
    return Hit(found, stored.age_seconds, stored.matched_text, stored.similarity, stored.snapshot)


class MemoryStore:
    """A CacheStore in this process, for one tenant and without expiry. `lost`: it does not answer."""

    def __init__(self) -> None:
        self.entries: dict[CacheKey, CacheEntry] = {}
        self.leases: dict[CacheKey, str] = {}
        self.lookups = 0
        self.lost = False
        self._changed = asyncio.Event()

    async def get(self, keys: Sequence[CacheKey], timeout_seconds: float, *, lease: bool) -> Sequence[Stored | Miss]:
        """See CacheStore."""
        self._answer()
        self.lookups += 1
        return [self._look_up(key, lease) for key in keys]

    async def wait(self, key: CacheKey, seconds: float) -> Stored | Miss:
        """See CacheStore."""
        self._answer()
        try:
            async with asyncio.timeout(seconds):
                while key in self.leases:
                    await self._changed.wait()
        except TimeoutError:
            return Miss(1, made_elsewhere=True)
        return self._look_up(key, lease=True)

    async def put(self, entries: Sequence[CacheEntry], timeout_seconds: float) -> None:
        """See CacheStore."""
        self._answer()
        self.entries.update((entry.key, entry) for entry in entries)
        self._end([(entry.key, entry.lease) for entry in entries])

    async def release(self, leases: Sequence[tuple[CacheKey, str]], timeout_seconds: float) -> None:
        """See CacheStore."""
        self._answer()
        self._end(leases)

    def _look_up(self, key: CacheKey, lease: bool) -> Stored | Miss:
        if key in self.entries:
            return Stored(self.entries[key].value, snapshot=1)
        if not lease or key in self.leases:
            return Miss(1, made_elsewhere=lease)
        self.leases[key] = secrets.token_hex(8)
        return Miss(1, self.leases[key])

    def _end(self, leases: Sequence[tuple[CacheKey, str]]) -> None:
        for key, lease in leases:
            if lease and self.leases.get(key) == lease:
                del self.leases[key]
        self._changed.set()
        self._changed = asyncio.Event()

    def _answer(self) -> None:
        if self.lost:
            raise DependencyFailed("The store does not answer.", dependency="store")
