"""Earlier questions in Valkey or Redis, shared by all replicas.

A bucket is a sorted set `…:{tenant}:s:<digest>`: texts by the millisecond in which they end, by the server's clock.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.runtime.errors import DependencyFailed
from services.runtime.valkey import connection_pool
from services.tool_cache.semantic.index import MOST_CANDIDATES, MOST_TEXTS, Bucket

_PREFIX = "sabueso:cache"
_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
# A key of another kind counts as an empty bucket.
_READ = (
    _NOW
    + """
local answer = {}
for i = 1, #KEYS do
  local found = redis.pcall('ZREVRANGEBYSCORE', KEYS[i], '+inf', '(' .. now, 'LIMIT', 0, ARGV[1])
  if found.err then found = {} end
  answer[i] = found
end
return answer
"""
)
_ADD = (
    _NOW
    + """
for i = 1, #KEYS do
  if redis.call('TYPE', KEYS[i]).ok ~= 'zset' then redis.call('DEL', KEYS[i]) end
  redis.call('ZADD', KEYS[i], now + ARGV[2 * i], ARGV[2 * i + 1])
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  redis.call('ZREMRANGEBYRANK', KEYS[i], 0, -1 - ARGV[1])
  local last = redis.call('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')
  if last[2] then redis.call('PEXPIREAT', KEYS[i], string.format('%.0f', last[2])) end
end
"""
)


class ValkeyIndex:
    """Fails fast when Valkey is lost, and uses it again as soon as it is back."""

    def __init__(self, url: str, *, timeout_seconds: float = 0.25, max_connections: int = 32) -> None:
        """`timeout_seconds` bounds a call as a whole: connecting, waiting for a free connection, the answer."""
        self._timeout = timeout_seconds
        self._client = Redis.from_pool(
            connection_pool(url, max_connections=max_connections, wait_seconds=timeout_seconds, retries=1)
        )
        self._read = self._client.register_script(_READ)
        self._add = self._client.register_script(_ADD)

    async def texts(self, buckets: Sequence[Bucket]) -> list[list[str]]:
        """See Index."""
        async with self._answering():
            found = await self._read(keys=[_name(bucket) for bucket in buckets], args=[MOST_CANDIDATES])
        return [[text.decode("utf-8", "replace") for text in texts] for texts in found]

    async def add(self, entries: Sequence[tuple[Bucket, str, int]]) -> None:
        """See Index."""
        args: list[int | str] = [MOST_TEXTS]
        for _, text, ttl_ms in entries:
            args += [ttl_ms, text]
        async with self._answering():
            await self._add(keys=[_name(bucket) for bucket, _, _ in entries], args=args)

    async def close(self) -> None:
        """See Index."""
        await self._client.aclose()

    @asynccontextmanager
    async def _answering(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except (RedisError, OSError, TimeoutError) as error:
            raise DependencyFailed("Valkey does not answer.", dependency="valkey") from error


def _name(bucket: Bucket) -> str:
    return f"{_PREFIX}:{{{bucket.tenant}}}:s:{bucket.digest}"
