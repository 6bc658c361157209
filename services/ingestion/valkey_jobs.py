"""Jobs in Valkey or Redis. Each change is one script, so that no crash leaves a job between two states."""

import json
from collections.abc import Awaitable, Mapping
from dataclasses import asdict
from typing import Any, cast

import redis.asyncio as valkey
from redis.exceptions import RedisError

from services.ingestion.jobs import MOST_LISTED, SUPERSEDED, Job, QueueFull, Status, Submission
from services.runtime.errors import DependencyFailed

# All keys share one hash tag: in a cluster they live on one node, and a script may touch them all.
_PREFIX = "{ingestion}:"
_TIMEOUT_SECONDS = 5

# job:<id>       hash: submission (JSON), tenant, document, status, reason, title, chunks, pages, attempts, times, owner
# queue:<tenant> list of waiting ids, next one right     turns      list of tenants with a queue, next one left
# delayed        id → time at which it waits again        leases     id → time at which its worker is given up
# open           unfinished ids                           jobs:<t>   id → time, to forget the old ones
# newest:<t>     document → id of its newest job          documents:<t>  document → time of that
_SHARED = """
local p = ARGV[1]
local t = redis.call('TIME'); local now = t[1] + t[2] / 1000000
local function job(id) return p .. 'job:' .. id end
local function enqueue(id)
  local tenant = redis.call('HGET', job(id), 'tenant')
  if redis.call('LPUSH', p .. 'queue:' .. tenant, id) == 1 then redis.call('RPUSH', p .. 'turns', tenant) end
end
local function release(id)
  redis.call('ZREM', p .. 'leases', id)
  if redis.call('EXISTS', job(id)) == 0 then return end
  redis.call('HSET', job(id), 'owner', '', 'status', 'QUEUED', 'updated', string.format('%.6f', now))
  enqueue(id)
end
local function cancel(id, reason)
  if redis.call('SREM', p .. 'open', id) == 0 then return end
  local time = string.format('%.6f', now)
  redis.call('HSET', job(id), 'status', 'CANCELLED', 'reason', reason, 'owner', '', 'updated', time)
  redis.call('ZREM', p .. 'leases', id); redis.call('ZREM', p .. 'delayed', id)
  local tenant = redis.call('HGET', job(id), 'tenant')
  local queue = p .. 'queue:' .. tenant
  if redis.call('LREM', queue, 0, id) > 0 and redis.call('LLEN', queue) == 0 then
    redis.call('LREM', p .. 'turns', 0, tenant)
  end
end
"""

# ARGV: prefix, most open, retention, id, tenant, document, title, submission, reason for the superseded
_ADD = """
if redis.call('SCARD', p .. 'open') >= tonumber(ARGV[2]) then return 0 end
local id, tenant, document = ARGV[4], ARGV[5], ARGV[6]
local jobs, newest, documents = p .. 'jobs:' .. tenant, p .. 'newest:' .. tenant, p .. 'documents:' .. tenant
for _, old in ipairs(redis.call('ZRANGEBYSCORE', jobs, '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, 20)) do
  if redis.call('SISMEMBER', p .. 'open', old) == 0 then
    local its = redis.call('HGET', job(old), 'document')
    if its and redis.call('HGET', newest, its) == old then
      redis.call('HDEL', newest, its); redis.call('ZREM', documents, its)
    end
    redis.call('DEL', job(old)); redis.call('ZREM', jobs, old)
  end
end
local before = redis.call('HGET', newest, document)
if before then cancel(before, ARGV[9]) end
local time = string.format('%.6f', now)
redis.call('HSET', job(id), 'submission', ARGV[8], 'tenant', tenant, 'document', document, 'status', 'QUEUED',
  'reason', '', 'title', ARGV[7], 'chunks', 0, 'pages', 0, 'attempts', 0, 'created', time, 'updated', time, 'owner', '')
redis.call('SADD', p .. 'open', id)
redis.call('ZADD', jobs, now, id)
redis.call('HSET', newest, document, id)
redis.call('ZADD', documents, now, document)
enqueue(id)
return 1
"""

# ARGV: prefix, owner, lease
_TAKE = """
for _, id in ipairs(redis.call('ZRANGEBYSCORE', p .. 'leases', '-inf', now, 'LIMIT', 0, 100)) do release(id) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', p .. 'delayed', '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', p .. 'delayed', id); enqueue(id)
end
local tenant = redis.call('LPOP', p .. 'turns')
if not tenant then return '' end
local queue = p .. 'queue:' .. tenant
local id = redis.call('RPOP', queue)
if redis.call('LLEN', queue) > 0 then redis.call('RPUSH', p .. 'turns', tenant) end
redis.call('HSET', job(id), 'owner', ARGV[2])
redis.call('HINCRBY', job(id), 'attempts', 1)
redis.call('ZADD', p .. 'leases', now + tonumber(ARGV[3]), id)
return id
"""

# ARGV: prefix, owner, id, what ("keep", "finish", "back"), lease or delay, then field and value pairs
_STORE = """
local id = ARGV[3]
if redis.call('HGET', job(id), 'owner') ~= ARGV[2] then return 0 end
for i = 6, #ARGV, 2 do redis.call('HSET', job(id), ARGV[i], ARGV[i + 1]) end
redis.call('HSET', job(id), 'updated', string.format('%.6f', now))
if ARGV[4] == 'keep' then redis.call('ZADD', p .. 'leases', now + tonumber(ARGV[5]), id); return 1 end
redis.call('HSET', job(id), 'owner', '')
redis.call('ZREM', p .. 'leases', id)
if ARGV[4] == 'finish' then redis.call('SREM', p .. 'open', id)
else redis.call('ZADD', p .. 'delayed', now + tonumber(ARGV[5]), id) end
return 1
"""

# ARGV: prefix, tenant, id, reason
_CANCEL = """
if redis.call('HGET', job(ARGV[3]), 'tenant') ~= ARGV[2] then return 0 end
cancel(ARGV[3], ARGV[4])
if redis.call('HGET', job(ARGV[3]), 'status') == 'FAILED' then
  redis.call('HSET', job(ARGV[3]), 'status', 'CANCELLED', 'updated', string.format('%.6f', now))
end
return 1
"""

# ARGV: prefix, owner
_RECOVER = """
local count = 0
for _, id in ipairs(redis.call('ZRANGE', p .. 'leases', 0, -1)) do
  if redis.call('HGET', job(id), 'owner') == ARGV[2] then release(id); count = count + 1 end
end
return count
"""


class ValkeyJobStore:
    """Jobs in a Valkey or Redis server, shared by all replicas. Times are the server's."""

    def __init__(
        self,
        url: str,
        *,
        max_open: int = 1000,
        lease_seconds: float = 30,
        retention_seconds: float = 30 * 86400,
        prefix: str = _PREFIX,
    ) -> None:
        self._client = cast(
            Any,
            valkey.from_url(  # pyright: ignore[reportUnknownMemberType]
                url,
                decode_responses=True,
                socket_timeout=_TIMEOUT_SECONDS,
                socket_connect_timeout=_TIMEOUT_SECONDS,
                health_check_interval=15,
            ),
        )
        self._max_open = max_open
        self._lease_seconds = lease_seconds
        self._retention_seconds = retention_seconds
        self._prefix = prefix

    async def check_room(self) -> None:
        if await _answer(self._client.scard(self._prefix + "open")) >= self._max_open:
            raise QueueFull

    async def add(self, submission: Submission) -> Job:
        as_json = json.dumps(asdict(submission))
        who = submission.job_id, submission.tenant, submission.document_id, submission.title
        added = await self._run(_ADD, self._max_open, self._retention_seconds, *who, as_json, SUPERSEDED)
        if not added:
            raise QueueFull
        job = await self.get(submission.tenant, submission.job_id)
        if job is None:
            raise DependencyFailed("Valkey lost a job that it had just stored.", dependency="valkey")
        return job

    async def get(self, tenant: str, job_id: str) -> Job | None:
        row = await _answer(self._client.hgetall(f"{self._prefix}job:{job_id}"))
        return _job(row) if row and row["tenant"] == tenant else None

    async def newest(self, tenant: str, document_id: str = "") -> list[Job]:
        if document_id:
            documents = [document_id]
        else:
            key = f"{self._prefix}documents:{tenant}"
            documents = await _answer(self._client.zrevrange(key, 0, MOST_LISTED - 1))
        if not documents:
            return []
        ids = await _answer(self._client.hmget(f"{self._prefix}newest:{tenant}", documents))
        pipeline = self._client.pipeline(transaction=False)
        for job_id in filter(None, ids):
            pipeline.hgetall(f"{self._prefix}job:{job_id}")
        return [_job(row) for row in await _answer(pipeline.execute()) if row]

    async def take(self, owner: str) -> Job | None:
        job_id = await self._run(_TAKE, owner, self._lease_seconds)
        return _job(await _answer(self._client.hgetall(f"{self._prefix}job:{job_id}"))) if job_id else None

    async def keep(self, job: Job, owner: str) -> bool:
        return await self._store(job, owner, "keep", self._lease_seconds)

    async def finish(self, job: Job, owner: str) -> bool:
        return await self._store(job, owner, "finish", 0)

    async def put_back(self, job: Job, owner: str, delay_seconds: float) -> bool:
        return await self._store(job, owner, "back", delay_seconds)

    async def cancel(self, tenant: str, job_id: str, reason: str = "") -> Job | None:
        await self._run(_CANCEL, tenant, job_id, reason)
        return await self.get(tenant, job_id)

    async def recover(self, owner: str) -> int:
        return int(await self._run(_RECOVER, owner))

    async def open_ids(self) -> set[str]:
        return set(await _answer(self._client.smembers(self._prefix + "open")))

    async def close(self) -> None:
        await self._client.aclose()

    async def _store(self, job: Job, owner: str, what: str, seconds: float) -> bool:
        fields = {
            "status": "QUEUED" if what == "back" else job.status,
            "reason": job.reason,
            "title": job.title,
            "chunks": job.chunk_count,
            "pages": job.page_count,
            "attempts": job.attempts,
        }
        pairs = [part for pair in fields.items() for part in pair]
        return bool(await self._run(_STORE, owner, job.job_id, what, seconds, *pairs))

    async def _run(self, script: str, *arguments: str | float) -> Any:
        return await _answer(self._client.eval(_SHARED + script, 0, self._prefix, *arguments))


async def _answer(command: Awaitable[Any]) -> Any:
    try:
        return await command
    except (RedisError, OSError, TimeoutError) as error:
        raise DependencyFailed("Valkey does not answer.", dependency="valkey") from error


def _job(row: Mapping[str, str]) -> Job:
    return Job(
        Submission(**json.loads(row["submission"])),
        status=cast(Status, row["status"]),
        reason=row["reason"],
        title=row["title"],
        chunk_count=int(row["chunks"]),
        page_count=int(row["pages"]),
        attempts=int(row["attempts"]),
        created=float(row["created"]),
        updated=float(row["updated"]),
    )
