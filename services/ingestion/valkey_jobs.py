"""Jobs in Valkey or Redis, for all replicas and over restarts."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import asdict
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from services.ingestion import valkey_scripts as scripts
from services.ingestion.jobs import (
    MOST_LISTED,
    SUPERSEDED,
    WAIT_FOR_STORING_SECONDS,
    Backlog,
    Job,
    QueueFull,
    Status,
    Submission,
)
from services.runtime.errors import DependencyFailed
from services.runtime.valkey import connection_pool

log = logging.getLogger(__name__)

# All keys share one hash tag: in a cluster they live on one node, and a script may touch them all.
_PREFIX = "{ingestion}:"
_TIMEOUT_SECONDS = 5
_DURABLE_MILLISECONDS = 4000


class ValkeyJobStore:
    """Jobs in a Valkey or Redis server, shared by all replicas. Times are the server's."""

    def __init__(
        self,
        url: str,
        *,
        max_open: int = 1000,
        max_open_per_tenant: int = 1000,
        lease_seconds: float = 30,
        retention_seconds: float = 30 * 86400,
        prefix: str = _PREFIX,
    ) -> None:
        self._client = cast(
            Any,
            Redis.from_pool(
                connection_pool(
                    url,
                    retries=2,
                    retry_after_seconds=0.05,
                    decode_responses=True,
                    socket_connect_timeout=_TIMEOUT_SECONDS,
                    health_check_interval=15,
                )
            ),
        )
        self._max_open = max_open
        self._max_open_per_tenant = max_open_per_tenant
        self._lease_seconds = lease_seconds
        self._retention_seconds = retention_seconds
        self._prefix = prefix
        self._warned = False

    async def check_room(self, tenant: str) -> None:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.scard(self._prefix + "open")
        pipeline.scard(f"{self._prefix}open:{tenant}")
        open_of_all, open_of_tenant = await _answer(pipeline.execute())
        if open_of_all >= self._max_open:
            raise QueueFull(of_tenant=False)
        if open_of_tenant >= self._max_open_per_tenant:
            raise QueueFull(of_tenant=True)

    async def add(self, submission: Submission) -> Job:
        as_json = json.dumps(asdict(submission))
        who = submission.job_id, submission.tenant, submission.document_id, submission.title
        limits = self._max_open, self._max_open_per_tenant, self._retention_seconds
        added = await self._run_durably(scripts.ADD, *limits, *who, as_json, SUPERSEDED)
        if added != "added":
            raise QueueFull(of_tenant=added == "tenant full")
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
        job_id = await self._run(scripts.TAKE, owner, self._lease_seconds, WAIT_FOR_STORING_SECONDS)
        return _job(await _answer(self._client.hgetall(f"{self._prefix}job:{job_id}"))) if job_id else None

    async def keep(self, job: Job, owner: str) -> bool:
        return await self._store(job, owner, "keep", self._lease_seconds)

    async def finish(self, job: Job, owner: str) -> bool:
        return await self._store(job, owner, "finish", 0)

    async def put_back(self, job: Job, owner: str, delay_seconds: float) -> bool:
        return await self._store(job, owner, "back", delay_seconds)

    async def cancel(self, tenant: str, job_id: str, reason: str = "") -> Job | None:
        await self._run_durably(scripts.CANCEL, tenant, job_id, reason)
        return await self.get(tenant, job_id)

    async def recover(self, owner: str) -> int:
        return int(await self._run(scripts.RECOVER, owner))

    async def open_ids(self) -> set[str]:
        return set(await _answer(self._client.smembers(self._prefix + "open")))

    async def backlog(self) -> Backlog:
        count, oldest = await self._run(scripts.BACKLOG)
        return Backlog(int(count), float(oldest))

    async def close(self) -> None:
        await self._client.aclose()

    async def _store(self, job: Job, owner: str, what: str, seconds: float) -> bool:
        fields = {
            "status": "QUEUED" if what == "back" else job.status,
            "reason": job.reason,
            "title": job.title,
            "chunks": job.chunk_count,
            "total_chunks": job.total_chunk_count,
            "pages": job.page_count,
            "warnings": json.dumps(job.warnings),
            "attempts": job.attempts,
            "storing": "1" if what == "keep" and job.is_storing else "",
        }
        pairs = [part for pair in fields.items() for part in pair]
        return bool(await self._run(scripts.STORE, owner, job.job_id, what, seconds, *pairs))

    async def _run(self, script: str, *arguments: str | float) -> Any:
        return await _answer(self._client.eval(script, 0, self._prefix, *arguments))

    async def _run_durably(self, script: str, *arguments: str | float) -> Any:
        """As `_run`, and waits until it is on Valkey's disk: what was promised survives a kill and a power cut.

        `appendfsync everysec` alone is not enough: while a sync is running, Valkey answers before it has written.
        """
        pipeline = self._client.pipeline(transaction=False)
        pipeline.eval(script, 0, self._prefix, *arguments)
        pipeline.execute_command("WAITAOF", 1, 0, _DURABLE_MILLISECONDS)
        answer, synced = await _answer(pipeline.execute(raise_on_error=False))
        if isinstance(answer, RedisError):
            raise DependencyFailed("Valkey does not answer.", dependency="valkey") from answer
        if isinstance(synced, ResponseError):  # no append-only file, or a Redis before 7.2
            if not self._warned:
                log.warning("Valkey cannot say that it has stored a job; it must persist (appendonly yes)")
            self._warned = True
        elif isinstance(synced, RedisError) or synced[0] < 1:
            raise DependencyFailed("Valkey does not get its data to its disk.", dependency="valkey")
        return answer


async def _answer(command: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return await command
    except (RedisError, OSError, TimeoutError) as error:
        raise DependencyFailed("Valkey does not answer.", dependency="valkey") from error


def _job(row: Mapping[str, str]) -> Job:
    submission = cast(dict[str, Any], json.loads(row["submission"]))
    lists: dict[str, Any] = {name: tuple(submission.get(name, ())) for name in ("labels", "caller_labels")}
    return Job(
        Submission(**submission | lists),
        status=cast(Status, row["status"]),
        reason=row["reason"],
        title=row["title"],
        chunk_count=int(row["chunks"]),
        total_chunk_count=int(row.get("total_chunks", 0)),
        page_count=int(row["pages"]),
        warnings=tuple(json.loads(row.get("warnings", "[]"))),
        attempts=int(row["attempts"]),
        created=float(row["created"]),
        updated=float(row["updated"]),
    )
