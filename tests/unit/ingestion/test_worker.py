"""Workers see jobs to their end: cancelling against storing, outages of the job store, jobs that kill their worker."""

import asyncio
import errno
import os
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from services.ingestion.jobs import Submission
from services.ingestion.memory_jobs import MemoryJobStore
from services.ingestion.service import IngestionService
from services.ingestion.worker import Retry, Workers
from services.runtime.errors import DependencyFailed, NotPermitted, Overloaded
from services.runtime.testing import act_as

from sabueso.ingestion.v1 import ingestion_pb2 as pb  # isort: skip


class NoSpool:
    """There are no files here."""

    def __init__(self):
        self.dropped = []

    def drop(self, job_id):
        self.dropped.append(job_id)

    def sweep(self, wanted):
        return 0


class SteppedPipeline:
    """Embeds and stores when it is told to."""

    def __init__(self):
        self.may_embed, self.may_store = asyncio.Event(), asyncio.Event()
        self.stored = []
        self.errors = []

    async def run(self, job, progress):
        job = replace(job, status="EMBEDDING", total_chunk_count=2)
        await progress(job)
        await self.may_embed.wait()
        if self.errors:
            raise self.errors.pop(0)
        job = replace(job, chunk_count=2)
        await progress(job)
        await self.may_store.wait()
        self.stored.append(job.submission.document_id)
        return replace(job, status="READY")


class FailingJobStore(MemoryJobStore):
    """Does not answer while `down`."""

    down = False

    async def keep(self, job, owner):
        self._check()
        return await super().keep(job, owner)

    async def finish(self, job, owner):
        self._check()
        return await super().finish(job, owner)

    def _check(self):
        if self.down:
            raise DependencyFailed("Valkey does not answer.", dependency="valkey")


class House:
    def __init__(self):
        self.jobs, self.pipeline, self.spool = FailingJobStore(), SteppedPipeline(), NoSpool()
        self.service = IngestionService(self.jobs, self.spool, None, max_document_bytes=1, notify=lambda: None)
        self.workers = self.more_workers("w")

    def more_workers(self, owner):
        return Workers(
            self.jobs, self.spool, self.pipeline, owner=owner, count=1, act_for=lambda job: None,
            retry=Retry(max_attempts=3, first_seconds=0.01), beat_seconds=0.02,
        )  # fmt: skip

    async def add(self, name="d", **fields):
        job = await self.jobs.add(Submission(f"job_{name:0>24}", "acme", "tester", "contracts", "d", **fields))
        self.workers.notify()
        return job

    async def until(self, job, *statuses):
        return await self.until_it(job, lambda now: now.status in statuses)

    async def until_it(self, job, holds):
        async with asyncio.timeout(5):
            while not holds(now := await self.jobs.get("acme", job.job_id)):
                await asyncio.sleep(0.005)
        return now

    async def cancel(self, job):
        return (await self.service.CancelJob(pb.CancelJobRequest(job_id=job.job_id), None)).job.status


@pytest.fixture
async def house():
    act_as("acme")
    house = House()
    await house.workers.start()
    yield house
    await house.workers.close()


async def test_a_job_that_is_cancelled_before_it_is_stored_leaves_nothing(house):
    job = await house.add("1")
    await house.until(job, "EMBEDDING")
    assert await house.cancel(job) == pb.JOB_STATUS_CANCELLED
    house.pipeline.may_embed.set()
    house.pipeline.may_store.set()
    after = await house.add("2")
    await house.until(after, "READY")
    assert house.pipeline.stored == ["d"]
    assert (await house.jobs.get("acme", job.job_id)).status == "CANCELLED"


async def test_whoever_cancels_while_it_is_stored_waits_and_learns_that_it_is_ready(house):
    job = await house.add("1")
    house.pipeline.may_embed.set()
    await house.until_it(job, lambda now: now.is_storing)
    cancelling = asyncio.create_task(house.cancel(job))
    await asyncio.sleep(0.1)
    assert not cancelling.done()
    house.pipeline.may_store.set()
    assert await cancelling == pb.JOB_STATUS_READY
    assert house.pipeline.stored == ["d"]


async def test_a_newer_version_is_stored_after_the_older_one_that_was_being_stored(house):
    others = house.more_workers("w2")
    await others.start()
    old = await house.add("1")
    house.pipeline.may_embed.set()
    await house.until_it(old, lambda now: now.is_storing)
    new = await house.add("2")
    others.notify()
    await asyncio.sleep(0.2)
    assert (await house.jobs.get("acme", new.job_id)).status == "QUEUED"
    house.pipeline.may_store.set()
    assert (await house.until(new, "READY")).status == "READY"
    assert (await house.jobs.get("acme", old.job_id)).status == "READY"
    await others.close()


async def test_no_work_is_lost_while_the_job_store_does_not_answer(house):
    job = await house.add("1")
    await house.until(job, "EMBEDDING")
    house.jobs.down = True
    house.pipeline.may_embed.set()
    house.pipeline.may_store.set()
    await asyncio.sleep(0.1)
    assert house.pipeline.stored == []
    house.jobs.down = False
    ended = await house.until(job, "READY")
    assert (ended.attempts, house.pipeline.stored) == (1, ["d"])


async def test_a_busy_service_is_asked_again_and_a_refusal_is_final(house):
    house.pipeline.may_embed.set()
    house.pipeline.may_store.set()
    house.pipeline.errors = [Overloaded("busy"), NotPermitted("The document is closed to you.", rule="labels")]
    ended = await house.until(await house.add("1"), "FAILED")
    assert (ended.attempts, ended.reason) == (2, "The document is closed to you.")
    assert house.spool.dropped == [ended.job_id]


async def test_a_job_that_kills_its_worker_again_and_again_is_given_up():
    house = House()
    job = await house.add("1")
    for _ in range(3):
        await house.jobs.take("w")
        await house.jobs.recover("w")
    await house.workers.start()
    ended = await house.until(job, "FAILED")
    assert ended.reason == "The service stopped 3 times while it worked on this document."
    await house.workers.close()


async def test_a_stopped_worker_gives_its_job_back_without_counting_the_attempt(house):
    job = await house.add("1")
    await house.until(job, "EMBEDDING")
    await house.workers.close()
    waiting = await house.jobs.get("acme", job.job_id)
    assert (waiting.status, waiting.attempts) == ("QUEUED", 0)


async def test_what_is_still_to_be_done_is_told(house):
    await house.add("1")
    async with asyncio.timeout(60):
        while REGISTRY.get_sample_value("sabueso_ingestion_open_jobs") is None:
            await asyncio.sleep(0.01)
    await house.workers.close()
    await house.workers.start()
    async with asyncio.timeout(60):
        while REGISTRY.get_sample_value("sabueso_ingestion_open_jobs") != 1:
            await asyncio.sleep(0.01)
    assert REGISTRY.get_sample_value("sabueso_ingestion_oldest_job_seconds") >= 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
async def test_a_full_disk_or_a_lack_of_descriptors_is_waited_for_and_is_not_the_documents_fault(house, number):
    house.pipeline.errors = [OSError(number, os.strerror(number))]
    house.pipeline.may_embed.set()
    house.pipeline.may_store.set()
    job = await house.until(await house.add("1"), "READY", "FAILED")
    assert (job.status, job.attempts) == ("READY", 2)
