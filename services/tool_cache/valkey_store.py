"""Results in Valkey or Redis, shared by all replicas.

All keys of a tenant are in one hash slot, so that a script may touch them together:

    …:{tenant}:g            the state of its sources; see valkey_scripts.py
    …:{tenant}:e:<digest>   an entry; see entries.py
    …:{tenant}:l:<digest>   the token of whoever is making the entry

An invalidation counts up: no scan, nothing to delete. After a restart or a failover of the server all is forgotten.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Sequence
from typing import Any, cast

from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from services.runtime.errors import DependencyFailed
from services.runtime.valkey import connection_pool
from services.tool_cache import entries, valkey_scripts
from services.tool_cache.breaker import Breaker, Open
from services.tool_cache.generations import changes, dependencies
from services.tool_cache.keys import CallKey
from services.tool_cache.store import Lease, Lookup, Outcome, Result

log = logging.getLogger(__name__)

_PREFIX = "sabueso:cache"
# Longer than any entry: an entry that outlives the state is forgotten.
_STATE_MS = 31 * 24 * 3600 * 1000
_MOST_SCOPES = 4096
_LONG_BYTES = 64 * 1024
_OUTCOMES = (Outcome.NO_TTL, Outcome.STORED, Outcome.OUTDATED, Outcome.FULL)
_FAILURES = (RedisError, OSError, TimeoutError)


class ValkeyStore:
    """Fails fast when Valkey is lost, is quiet for a moment then, and uses it again as soon as it is back."""

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 0.25,
        max_connections: int = 32,
        pause_seconds: float = 0.5,
        max_value_bytes: int = 1024 * 1024,
        max_stored_bytes: int = 512 * 1024,
    ) -> None:
        """`timeout_seconds` bounds a call as a whole: connecting, waiting for a free connection, the answer.

        After a failure calls fail at once for `pause_seconds`. `max_stored_bytes` bounds compressed values.
        """
        self._pool = connection_pool(url, max_connections=max_connections, retries=1)
        self._client = Redis.from_pool(self._pool)
        self._free = asyncio.Semaphore(max_connections)
        self._timeout = timeout_seconds
        self._breaker = Breaker(pause_seconds)
        self._max_value_bytes = max_value_bytes
        self._max_stored_bytes = max_stored_bytes
        self._get = self._client.register_script(valkey_scripts.GET)
        self._put = self._client.register_script(valkey_scripts.PUT)
        self._invalidate = self._client.register_script(valkey_scripts.INVALIDATE)

    async def open(self) -> None:
        """Nothing to do: connections are made when they are needed."""

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, keys: Sequence[CallKey], *, lease_ms: int = 0) -> list[Lookup]:
        token = secrets.token_hex(16) if lease_ms else ""
        now, seq, *found = await self._run(
            self._get, _names(keys), [_STATE_MS, lease_ms, token], answers=2 + 2 * len(keys)
        )
        return [
            self._lookup(key, int(now), int(seq), found[2 * n], f"{token}{n}" if found[2 * n + 1] else "", lease_ms)
            for n, key in enumerate(keys)
        ]

    def _lookup(self, key: CallKey, now: int, snapshot: int, found: bytes | int, token: str, lease_ms: int) -> Lookup:
        if isinstance(found, int):
            return Lookup(snapshot, stale=found == 1, token=token)
        known = entries.read(key, found, now, self._max_value_bytes)
        if known is None:
            # Nobody holds a lease of what is there and of no use. Whoever finds it makes it anew.
            return Lookup(snapshot, token=secrets.token_hex(16) if lease_ms else "")
        return Lookup(snapshot, known[0], known[1])

    async def put(self, results: Sequence[Result]) -> list[Outcome]:
        args: list[int | str | bytes] = [_STATE_MS]
        too_large: set[int] = set()
        for n, one in enumerate(results):
            value = await _packed(one.value) if one.ttl_ms else entries.EMPTY
            if len(value) > self._max_stored_bytes:
                too_large.add(n)
                value = entries.EMPTY
            scopes, rest = entries.written(one.key, dependencies(one.key.tool, one.sources), value)
            ttl_ms = 0 if n in too_large else one.ttl_ms
            args += [ttl_ms, one.snapshot, one.token, int(one.only_leased), scopes, rest]
        codes = await self._run(self._put, _names([one.key for one in results]), args, answers=len(results))
        return [Outcome.TOO_LARGE if n in too_large else _OUTCOMES[code] for n, code in enumerate(codes)]

    async def release(self, leases: Sequence[Lease]) -> None:
        await self.put([Result(lease.key, b"", 0, token=lease.token) for lease in leases])

    async def invalidate(self, tenant: str, tool: str, sources: Sequence[str]) -> None:
        args = [_STATE_MS, _MOST_SCOPES, *changes(tool, sources)]
        # Even if it has just failed: what should be forgotten must not be kept because of a pause.
        await self._run(self._invalidate, [f"{_PREFIX}:{{{tenant}}}:g"], args, answers=1, insist=True)

    async def _run(
        self, script: AsyncScript, keys: list[str], args: Sequence[Any], *, answers: int, insist: bool = False
    ) -> list[Any]:
        """What the script answers, so many things."""
        try:
            with self._breaker.asking(_FAILURES, insist=insist):
                async with asyncio.timeout(self._timeout), self._free:
                    answer = cast(object, await script(keys=keys, args=args))
                found = cast(list[Any], answer) if isinstance(answer, list) else []
                if len(found) != answers:
                    raise ResponseError("This is no Valkey.")
                return found
        except Open:
            raise DependencyFailed("Valkey does not answer.", dependency="valkey") from None
        except _FAILURES as error:
            log.warning("Valkey failed", extra={"error": type(error).__name__})
            if isinstance(error, ReadOnlyError) or not isinstance(error, ResponseError):
                await self._renew_connections()
            raise DependencyFailed("Valkey does not answer.", dependency="valkey") from error

    async def _renew_connections(self) -> None:
        """Those of before a failure may be dead, or lead to what is no longer the primary; new ones ask the name."""
        with contextlib.suppress(*_FAILURES):
            async with asyncio.timeout(self._timeout):
                await self._pool.disconnect(inuse_connections=False)


async def _packed(value: bytes) -> bytes:
    """Compressing a large value takes milliseconds: other calls go on meanwhile."""
    if len(value) >= _LONG_BYTES:
        return await asyncio.to_thread(entries.packed, value)
    return entries.packed(value)


def _names(keys: Sequence[CallKey]) -> list[str]:
    place = f"{_PREFIX}:{{{keys[0].tenant}}}"
    names = [f"{place}:g"]
    for key in keys:
        names += [f"{place}:e:{key.digest}", f"{place}:l:{key.digest}"]
    return names
