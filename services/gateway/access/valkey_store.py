"""Issued keys, revocations and overrides in Valkey or Redis: a hash a kind, and a list of what changed when."""

import asyncio
import hashlib
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import NoScriptError, RedisError, ResponseError

from services.gateway.access.records import KINDS, Kind
from services.gateway.access.store import ANYTHING, HISTORY, MOST_ENTRIES, Changes, StoreFull, StoreLost, Version
from services.runtime.valkey import connection_pool

log = logging.getLogger(__name__)

# One hash tag: in a cluster all of it is in one place.
_PREFIX = "sabueso:access:{all}:"
_PAGE = 1000
_DURABLE_SECONDS = 3.0
_Answer = TypeVar("_Answer")

_WRITE = """
local meta, changes, hash = KEYS[1], KEYS[2], KEYS[3]
local field, remove, value, compare, expected = ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4], ARGV[5]
local current = redis.call('HGET', hash, field)
if compare == 'absent' and current then return 0 end
if compare == 'equal' and current ~= expected then return 0 end
if not remove and not current and redis.call('HLEN', hash) >= tonumber(ARGV[8]) then return -1 end
redis.call('HSETNX', meta, 'epoch', ARGV[6])
local version = redis.call('HINCRBY', meta, 'version', 1)
if remove then redis.call('HDEL', hash, field) else redis.call('HSET', hash, field, value) end
redis.call('ZADD', changes, version, ARGV[9] .. ' ' .. field)
local extra = redis.call('ZCARD', changes) - tonumber(ARGV[7])
if extra > 0 then
  local last = redis.call('ZRANGE', changes, extra - 1, extra - 1, 'WITHSCORES')
  redis.call('HSET', meta, 'floor', last[2])
  redis.call('ZREMRANGEBYRANK', changes, 0, extra - 1)
end
return version
"""
_WRITE_SHA = hashlib.sha1(_WRITE.encode(), usedforsecurity=False).hexdigest()


class ValkeyAccessStore:
    """Shared by all gateways. Valkey must persist (AOF): what it loses, nobody can make again."""

    def __init__(
        self,
        client: Redis | RedisCluster,
        *,
        timeout_seconds: float,
        prefix: str = _PREFIX,
        history: int = HISTORY,
        most_entries: int = MOST_ENTRIES,
    ) -> None:
        """`client`: with bytes as answers. `timeout_seconds` for one command. `prefix`: of the names of its keys."""
        self._client = client
        self._prefix = prefix
        self._timeout_seconds = timeout_seconds
        self._history = history
        self._most_entries = most_entries
        self._warned = False

    async def changes(self, since: Version | None) -> Changes | None:
        epoch, number, floor = cast(
            list[bytes | None],
            await self._answer(self._client.hmget(f"{self._prefix}meta", ["epoch", "version", "floor"])),
        )
        version = Version((epoch or b"").decode(), int(number or 0))
        if since == version:
            return None
        # The version was read first: what changes from here on comes once more with the next look.
        if since is None or since.epoch != version.epoch or since.number < int(floor or 0):
            return Changes(version, True, {kind: await self._all(kind) for kind in KINDS})
        fields: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
        for kind, field in await self._changed(since.number):
            fields[kind].append(field)
        return Changes(version, False, {kind: await self._some(kind, fields[kind]) for kind in KINDS})

    async def write(self, kind: Kind, field: str, value: bytes | None, *, expected: bytes | None = ANYTHING) -> bool:
        compare = "no" if expected == ANYTHING else "absent" if expected is None else "equal"
        arguments: tuple[str | bytes | int, ...] = (
            field, int(value is None), value or b"", compare, expected or b"", uuid.uuid4().hex, self._history,
            self._most_entries, kind,
        )  # fmt: skip
        answer = await self._write_durably(tuple(self._prefix + name for name in ("meta", "changes", kind)), arguments)
        if answer < 0:
            raise StoreFull(kind)
        return answer > 0

    async def _write_durably(self, keys: tuple[str, ...], arguments: tuple[str | bytes | int, ...]) -> int:
        """As with documents: what was promised survives a kill and a power cut of Valkey."""
        try:
            answer, synced = await self._pipeline("EVALSHA", _WRITE_SHA, keys, arguments)
            if isinstance(answer, NoScriptError):
                answer, synced = await self._pipeline("EVAL", _WRITE, keys, arguments)
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreLost(type(error).__name__) from error
        if isinstance(answer, Exception):
            raise StoreLost(type(answer).__name__) from answer
        if isinstance(synced, ResponseError):  # no append-only file, or a Redis before 7.2
            if not self._warned:
                log.warning("Valkey cannot say that it has stored a key; it must persist (appendonly yes)")
            self._warned = True
        elif isinstance(synced, Exception) or synced[0] < 1:
            raise StoreLost("not on disk")
        return int(answer)

    async def _pipeline(self, command: str, script: str, keys: tuple[str, ...], arguments: tuple[Any, ...]) -> Any:
        if isinstance(self._client, RedisCluster):
            execute: Callable[..., Any] = self._client.execute_command  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            async with asyncio.timeout(self._timeout_seconds):
                try:
                    answer = await execute(command, script, len(keys), *keys, *arguments)
                except NoScriptError as error:
                    answer = error
            return answer, ResponseError("WAITAOF is about one connection, and a cluster has many")
        pipeline = self._client.pipeline(transaction=False)
        execute = pipeline.execute_command  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        execute(command, script, len(keys), *keys, *arguments)
        execute("WAITAOF", 1, 0, round(1000 * _DURABLE_SECONDS))
        async with asyncio.timeout(self._timeout_seconds + _DURABLE_SECONDS):
            return await pipeline.execute(raise_on_error=False)

    async def _changed(self, since: int) -> list[tuple[Kind, str]]:
        find: Callable[..., Awaitable[list[bytes]]] = self._client.zrangebyscore  # pyright: ignore[reportUnknownMemberType, reportAssignmentType, reportUnknownVariableType]
        members = await self._answer(find(f"{self._prefix}changes", f"({since}", "+inf"))
        pairs = (member.decode().partition(" ") for member in members)
        return [(kind, field) for kind, _, field in pairs if kind in KINDS]

    async def _all(self, kind: Kind) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        cursor = -1
        while cursor:
            scan = self._client.hscan(self._prefix + kind, max(cursor, 0), count=_PAGE)
            cursor, page = cast(tuple[int, dict[bytes, bytes]], await self._answer(scan))
            found.update((field.decode(), value) for field, value in page.items())
        return found

    async def _some(self, kind: Kind, fields: list[str]) -> Mapping[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        for page in _pages(fields):
            values = await self._answer(self._client.hmget(self._prefix + kind, page))
            found.update(zip(page, cast(list[bytes | None], values), strict=True))
        return found

    async def _answer(self, call: Awaitable[_Answer] | _Answer) -> _Answer:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await cast(Awaitable[_Answer], call)
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreLost(type(error).__name__) from error


def _pages(fields: list[str]) -> Iterable[list[str]]:
    return (fields[start : start + _PAGE] for start in range(0, len(fields), _PAGE))


@asynccontextmanager
async def valkey_access_store(
    url: str, *, timeout_seconds: float, cluster: bool = False
) -> AsyncGenerator[ValkeyAccessStore]:
    """A store on its own connections, until the end of the block. `cluster`: `url` is one node of it."""
    if cluster:
        async with RedisCluster.from_url(url) as client:
            yield ValkeyAccessStore(client, timeout_seconds=timeout_seconds)
    else:
        pool = connection_pool(url, max_connections=4, wait_seconds=timeout_seconds)
        async with Redis.from_pool(pool) as client:
            yield ValkeyAccessStore(client, timeout_seconds=timeout_seconds)
