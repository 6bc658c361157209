"""Results in Valkey or Redis, shared by all replicas.

A batch is one script and so one round trip. Three keys serve a call, all in one hash slot a tenant:

    …:{tenant}:g:<tool>     generation, counted up by Invalidate: no scan, nothing to delete
    …:{tenant}:e:<digest>   the entry: magic, generation, time, length of the header, header (JSON), value
    …:{tenant}:l:<digest>   generation at the last lookup that found nothing: a result that a tool began to make before
                            an invalidation is not stored after it
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError

from services.runtime.errors import DependencyFailed
from services.tool_cache.keys import CallKey
from services.tool_cache.store import LOOKED_UP_MS, Remembered, Result

_PREFIX = "sabueso:cache"
_MAGIC = b"SBC1"
# Generation and milliseconds, each as 16 digits.
_DIGITS = 16
_LENGTH_AT = len(_MAGIC) + 2 * _DIGITS
_HEADER_AT = _LENGTH_AT + 4

# Time comes from the server: replicas' clocks differ. Wrong types count as missing.
_COMMON = """
local time = redis.call('TIME')
local now = string.format('%016.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local function read(key)
  local found = redis.pcall('GET', key)
  if type(found) == 'table' then return false end
  return found
end
local function generation(key) return string.format('%016d', tonumber(read(key)) or 0) end
"""
_GET = (
    _COMMON
    + """
local answer = {now}
for i = 1, #KEYS, 3 do
  local current = generation(KEYS[i])
  local found = read(KEYS[i + 1])
  if found and string.sub(found, 1, 20) == 'SBC1' .. current then
    answer[#answer + 1] = found
  else
    redis.call('SET', KEYS[i + 2], current, 'PX', ARGV[1])
    answer[#answer + 1] = false
  end
end
return answer
"""
)
_PUT = (
    _COMMON
    + """
local stored = {}
for i = 1, #KEYS, 3 do
  local at = (i - 1) / 3 * 2
  local current = generation(KEYS[i])
  local seen = read(KEYS[i + 2])
  if seen and seen ~= current then
    stored[#stored + 1] = 0
  else
    redis.call('SET', KEYS[i + 1], 'SBC1' .. current .. now .. ARGV[at + 2], 'PX', ARGV[at + 1])
    stored[#stored + 1] = 1
  end
end
return stored
"""
)


class ValkeyStore:
    """Fails fast when Valkey is lost, and uses it again as soon as it is back."""

    def __init__(self, url: str, *, timeout_seconds: float = 0.25, max_connections: int = 32) -> None:
        """`timeout_seconds` bounds connecting, waiting for a free connection, and each answer."""
        pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            max_connections=max_connections,
            timeout=timeout_seconds,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            # A connection that a restart has cut is noticed when it is used: once more, on a new one.
            retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        )
        self._client = Redis.from_pool(pool)
        self._get = self._client.register_script(_GET)
        self._put = self._client.register_script(_PUT)

    async def open(self) -> None:
        """Nothing to do: connections are made when they are needed."""

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, keys: Sequence[CallKey]) -> list[Remembered | None]:
        async with _answering():
            now, *found = await self._get(keys=_names(keys), args=[LOOKED_UP_MS])
        return [_read(key, entry, int(now)) for key, entry in zip(keys, found, strict=True)]

    async def put(self, results: Sequence[Result]) -> list[bool]:
        args: list[int | bytes] = []
        for one in results:
            header = json.dumps(_material(one.key)).encode()
            args += [one.ttl_ms, len(header).to_bytes(4, "big") + header + one.value]
        async with _answering():
            stored = await self._put(keys=_names([one.key for one in results]), args=args)
        return [flag == 1 for flag in stored]

    async def invalidate(self, tenant: str, tool: str) -> None:
        async with _answering():
            await self._client.incr(_generation_name(tenant, tool))


@asynccontextmanager
async def _answering() -> AsyncGenerator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise DependencyFailed("Valkey does not answer.", dependency="valkey") from error


def _generation_name(tenant: str, tool: str) -> str:
    return f"{_PREFIX}:{{{tenant}}}:g:{tool}"


def _names(keys: Sequence[CallKey]) -> list[str]:
    names: list[str] = []
    for key in keys:
        place = f"{_PREFIX}:{{{key.tenant}}}"
        names += [_generation_name(key.tenant, key.tool), f"{place}:e:{key.digest}", f"{place}:l:{key.digest}"]
    return names


def _material(key: CallKey) -> list[str]:
    return [key.tenant, key.tool, key.version, key.arguments]


def _read(key: CallKey, entry: bytes | None, now_ms: int) -> Remembered | None:
    """The result in an entry, or None when it is not one of ours or belongs to another call."""
    if entry is None or not entry.startswith(_MAGIC) or len(entry) < _HEADER_AT:
        return None
    value_at = _HEADER_AT + int.from_bytes(entry[_LENGTH_AT:_HEADER_AT], "big")
    try:
        stored_ms = int(entry[len(_MAGIC) + _DIGITS : _LENGTH_AT])
        material = json.loads(entry[_HEADER_AT:value_at])
    except ValueError:
        return None
    # A reply that went to the wrong caller must not become a wrong answer.
    if material != _material(key):
        return None
    return Remembered(entry[value_at:], max(0, now_ms - stored_ms) / 1000)
