"""What every job store does, on the one in memory and on a real Valkey."""

import asyncio
import secrets

import pytest

from services.ingestion.jobs import SUPERSEDED, MemoryJobStore, QueueFull, Submission
from services.ingestion.valkey_jobs import ValkeyJobStore
from services.runtime.errors import DependencyFailed


@pytest.fixture(params=["memory", "valkey"])
async def make(request):
    stores = []

    def build(**options):
        if request.param == "memory":
            store = MemoryJobStore(**options)
        else:
            url = request.getfixturevalue("valkey_url")
            store = ValkeyJobStore(url, prefix=f"{{{secrets.token_hex(4)}}}:", **options)
        stores.append(store)
        return store

    if request.param == "valkey":
        request.getfixturevalue("valkey_url")
    yield build
    for store in stores:
        await store.close()


def submission(document_id="d", tenant="acme", **fields):
    return Submission(secrets.token_hex(6), tenant, "tester", "contracts", document_id, **fields)


class TestJobStore:
    async def test_a_job_is_given_back_as_it_was_added(self, make):
        store = make()
        wanted = submission(title="Título", metadata={"año": "2025"}, filename="a.pdf")
        job = await store.add(wanted)
        assert job == await store.get("acme", job.job_id)
        assert job.submission == wanted
        assert (job.status, job.reason, job.title, job.attempts) == ("QUEUED", "", "Título", 0)
        assert job.created == job.updated > 1_600_000_000

    async def test_a_job_of_another_tenant_is_not_there(self, make):
        store = make()
        job = await store.add(submission())
        assert await store.get("other", job.job_id) is None
        assert await store.cancel("other", job.job_id) is None
        assert await store.newest("other") == []
        assert (await store.get("acme", job.job_id)).status == "QUEUED"

    async def test_a_job_is_taken_once(self, make):
        store = make()
        job = await store.add(submission())
        taken = await store.take("w1")
        assert (taken.job_id, taken.attempts) == (job.job_id, 1)
        assert await store.take("w2") is None

    async def test_tenants_are_served_in_turn(self, make):
        store = make()
        for number in range(3):
            await store.add(submission(f"a{number}", "acme"))
        await store.add(submission("b0", "bravo"))
        await store.add(submission("c0", "corp"))
        order = [(await store.take("w")).submission.document_id for _ in range(5)]
        assert order == ["a0", "b0", "c0", "a1", "a2"]

    async def test_progress_and_the_end_are_stored(self, make):
        from dataclasses import replace

        store = make()
        await store.add(submission())
        job = await store.take("w")
        assert await store.keep(replace(job, status="EMBEDDING", chunk_count=3, page_count=2, title="T"), "w")
        seen = await store.get("acme", job.job_id)
        assert (seen.status, seen.chunk_count, seen.page_count, seen.title) == ("EMBEDDING", 3, 2, "T")
        assert await store.open_ids() == {job.job_id}
        assert await store.finish(replace(job, status="FAILED", reason="broken"), "w")
        seen = await store.get("acme", job.job_id)
        assert (seen.status, seen.reason) == ("FAILED", "broken")
        assert await store.open_ids() == set()
        assert not await store.finish(replace(job, status="READY"), "w")

    async def test_a_waiting_job_that_is_cancelled_is_never_taken(self, make):
        store = make()
        job = await store.add(submission())
        assert (await store.cancel("acme", job.job_id)).status == "CANCELLED"
        assert await store.take("w") is None
        await store.add(submission("e"))
        assert (await store.take("w")).submission.document_id == "e"

    async def test_a_running_job_that_is_cancelled_is_lost_to_its_worker(self, make):
        store = make()
        await store.add(submission())
        job = await store.take("w")
        await store.cancel("acme", job.job_id)
        assert not await store.keep(job, "w")
        assert not await store.put_back(job, "w", 0)
        assert (await store.get("acme", job.job_id)).status == "CANCELLED"

    async def test_a_finished_job_is_not_cancelled(self, make):
        from dataclasses import replace

        store = make()
        await store.add(submission())
        job = await store.take("w")
        await store.finish(replace(job, status="READY"), "w")
        assert (await store.cancel("acme", job.job_id)).status == "READY"

    async def test_a_failed_job_can_be_put_away(self, make):
        from dataclasses import replace

        store = make()
        await store.add(submission())
        job = await store.take("w")
        await store.finish(replace(job, status="FAILED", reason="The file is empty."), "w")
        assert (await store.cancel("acme", job.job_id)).status == "CANCELLED"
        assert (await store.get("acme", job.job_id)).status == "CANCELLED"
        assert await store.take("w") is None

    async def test_a_job_that_is_put_back_waits_for_its_delay(self, make):
        from dataclasses import replace

        store = make()
        await store.add(submission())
        job = await store.take("w")
        assert await store.put_back(replace(job, status="EMBEDDING", reason="embedding does not answer"), "w", 0.2)
        waiting = await store.get("acme", job.job_id)
        assert (waiting.status, waiting.reason) == ("QUEUED", "embedding does not answer")
        assert await store.take("w") is None
        await asyncio.sleep(0.25)
        assert (await store.take("w")).attempts == 2

    async def test_a_delayed_job_can_be_cancelled(self, make):
        store = make()
        await store.add(submission())
        job = await store.take("w")
        await store.put_back(job, "w", 0.05)
        await store.cancel("acme", job.job_id)
        await asyncio.sleep(0.1)
        assert await store.take("w") is None

    async def test_a_job_of_a_dead_worker_is_taken_up_again(self, make):
        store = make(lease_seconds=0.2)
        await store.add(submission())
        job = await store.take("dead")
        assert await store.take("alive") is None
        await asyncio.sleep(0.25)
        again = await store.take("alive")
        assert (again.job_id, again.attempts) == (job.job_id, 2)
        assert not await store.keep(job, "dead")

    async def test_a_lease_that_is_renewed_does_not_end(self, make):
        store = make(lease_seconds=0.3)
        await store.add(submission())
        job = await store.take("w")
        for _ in range(4):
            await asyncio.sleep(0.1)
            assert await store.keep(job, "w")
        assert await store.take("other") is None

    async def test_a_restarted_worker_gets_its_jobs_back_at_once(self, make):
        store = make()
        await store.add(submission("a"))
        await store.add(submission("b"))
        await store.take("w1")
        await store.take("w2")
        assert await store.recover("w1") == 1
        assert (await store.take("w1")).submission.document_id == "a"

    async def test_a_newer_job_cancels_the_unfinished_one_of_its_document(self, make):
        store = make()
        first = await store.add(submission("d"))
        second = await store.add(submission("d"))
        old = await store.get("acme", first.job_id)
        assert (old.status, old.reason) == ("CANCELLED", SUPERSEDED)
        assert (await store.take("w")).job_id == second.job_id
        assert await store.take("w") is None

    async def test_the_list_holds_the_newest_job_of_each_document(self, make):
        store = make()
        for document in ("a", "b", "a", "c"):
            await store.add(submission(document))
        other = await store.add(submission("a", "other"))
        jobs = await store.newest("acme")
        assert [job.submission.document_id for job in jobs] == ["c", "a", "b"]
        assert all(job.status == "QUEUED" for job in jobs)
        assert [job.job_id for job in await store.newest("other", "a")] == [other.job_id]
        assert await store.newest("acme", "unknown") == []

    async def test_a_full_queue_refuses_and_recovers(self, make):
        from dataclasses import replace

        store = make(max_open=2)
        await store.add(submission("a"))
        await store.check_room()
        await store.add(submission("b"))
        with pytest.raises(QueueFull):
            await store.check_room()
        with pytest.raises(QueueFull):
            await store.add(submission("c"))
        await store.finish(replace(await store.take("w"), status="READY"), "w")
        await store.add(submission("c"))

    async def test_old_jobs_are_forgotten_and_unfinished_ones_are_not(self, make):
        from dataclasses import replace

        store = make(retention_seconds=0.2)
        done = await store.add(submission("done"))
        await store.finish(replace(await store.take("w"), status="READY"), "w")
        waiting = await store.add(submission("waiting"))
        await asyncio.sleep(0.25)
        await store.add(submission("new"))
        assert await store.get("acme", done.job_id) is None
        assert await store.get("acme", waiting.job_id) is not None
        assert [job.submission.document_id for job in await store.newest("acme")] == ["new", "waiting"]


async def test_a_lost_valkey_is_named():
    store = ValkeyJobStore("redis://127.0.0.1:1")
    with pytest.raises(DependencyFailed) as caught:
        await store.add(submission())
    assert caught.value.metadata == {"dependency": "valkey"}
    await store.close()
