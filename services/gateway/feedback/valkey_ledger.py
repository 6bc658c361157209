"""The ledger in Valkey or Redis, for all gateways: one hash tag a tenant, the server's clock."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, TypeVar, cast

from prometheus_client import Counter
from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.gateway.feedback.ledger import ANSWER_SECONDS, AnswerFacts, Entry, Feedback, Kept, unknown_answer
from services.runtime.errors import DependencyFailed
from services.runtime.valkey import connection_pool

log = logging.getLogger(__name__)
Answered = TypeVar("Answered")

LOST = Counter("sabueso_gateway_answers_not_remembered_total", "Answers that nobody can give feedback on.")

# An answer waits for this before its last words; then it goes out, and the store is left alone for a while.
_REMEMBER_SECONDS, _RETRY_SECONDS = 0.25, 1.0
_TIMEOUT_SECONDS = 2.0
_RETENTION_SECONDS = 180 * 86400.0

# Keys: the answer, the tenant's stream, and the index from who said it to the entry. Removes what is too old, and what
# is too much, together with its place in the index.
_KEEP = """
local answer = redis.call('GET', KEYS[1])
if not answer then return {'unknown'} end
local who, said, most, retention = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local function remove(entries)
  for _, entry in ipairs(entries) do
    redis.call('XDEL', KEYS[2], entry[1])
    if redis.call('HGET', KEYS[3], entry[2][2]) == entry[1] then redis.call('HDEL', KEYS[3], entry[2][2]) end
  end
end
local known = redis.call('HGET', KEYS[3], who)
if known then
  local entries = redis.call('XRANGE', KEYS[2], known, known)
  if #entries == 1 and entries[1][2][4] == said then return {'same', known, entries[1][2][6]} end
  remove(entries)
end
local id = redis.call('XADD', KEYS[2], '*', 'who', who, 'said', said, 'answer', answer)
redis.call('HSET', KEYS[3], who, id)
local time = redis.call('TIME')
local oldest = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - retention)
remove(redis.call('XRANGE', KEYS[2], '-', '(' .. oldest, 'COUNT', 100))
local excess = redis.call('XLEN', KEYS[2]) - most
if excess > 0 then remove(redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', math.min(excess, 1000))) end
redis.call('PEXPIRE', KEYS[2], retention)
redis.call('PEXPIRE', KEYS[3], retention)
return {'kept', id, answer}
"""


class ValkeyLedger:
    """Answers and feedback that all gateways see."""

    def __init__(
        self, client: Redis, *, most_entries: int = 100_000, retention_seconds: float = _RETENTION_SECONDS
    ) -> None:
        """`most_entries` a tenant, for `retention_seconds`: the older ones go."""
        self._client = cast(Any, client)
        self._most_entries = most_entries
        self._retention_seconds = retention_seconds
        self._try_again_at = 0.0

    async def remember(self, tenant: str, answer: AnswerFacts) -> None:
        if time.monotonic() < self._try_again_at:
            return LOST.inc()
        try:
            async with asyncio.timeout(_REMEMBER_SECONDS):
                key = f"{_prefix(tenant)}answer:{answer.answer_id}"
                await self._client.set(key, json.dumps(asdict(answer)), ex=round(ANSWER_SECONDS))
        except (RedisError, OSError, TimeoutError) as error:
            self._try_again_at = time.monotonic() + _RETRY_SECONDS
            LOST.inc()
            log.warning("an answer is not remembered for feedback", extra={"reason": type(error).__name__})

    async def keep(self, tenant: str, feedback: Feedback) -> Kept:
        prefix = _prefix(tenant)
        keys = f"{prefix}answer:{feedback.answer_id}", f"{prefix}entries", f"{prefix}index"
        said = json.dumps(asdict(feedback), sort_keys=True)
        retention_ms = round(self._retention_seconds * 1000)
        became, *found = cast(
            list[bytes],
            await _answer(
                self._client.eval(_KEEP, len(keys), *keys, feedback.who, said, self._most_entries, retention_ms)
            ),
        )
        if became == b"unknown":
            raise unknown_answer(feedback.answer_id)
        id_, answer = found
        return Kept(Entry(id_.decode(), feedback, AnswerFacts(**json.loads(answer))), changed=became == b"kept")

    async def entries(self, tenant: str, after: str, limit: int) -> list[Entry]:
        first = f"({after}" if after else "-"
        rows = await _answer(self._client.xrange(f"{_prefix(tenant)}entries", min=first, count=limit))
        return [_entry(id_.decode(), fields) for id_, fields in cast(list[tuple[bytes, dict[bytes, bytes]]], rows)]


@asynccontextmanager
async def valkey_ledger(url: str, **options: Any) -> AsyncGenerator[ValkeyLedger]:
    """A ledger with connections of its own, closed at the end of the block. `options`: of ValkeyLedger."""
    pool = connection_pool(
        url, retries=1, retry_after_seconds=0.02, socket_connect_timeout=_TIMEOUT_SECONDS, health_check_interval=15
    )
    client = Redis.from_pool(pool)
    try:
        yield ValkeyLedger(client, **options)
    finally:
        await client.aclose()


def _prefix(tenant: str) -> str:
    return f"sabueso:feedback:{{{tenant}}}:"


def _entry(id_: str, fields: dict[bytes, bytes]) -> Entry:
    said: dict[str, Any] = json.loads(fields[b"said"])
    said["tags"] = tuple(said["tags"])
    feedback = Feedback(**said)
    return Entry(id_, feedback, AnswerFacts(**json.loads(fields[b"answer"])))


async def _answer(command: Awaitable[Answered]) -> Answered:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return await command
    except (RedisError, OSError, TimeoutError) as error:
        log.warning("the store of feedback does not answer", extra={"reason": type(error).__name__})
        raise DependencyFailed("Feedback cannot be kept or read just now.", dependency="valkey") from None
