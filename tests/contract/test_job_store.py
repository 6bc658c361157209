"""What every job store does, on the one in memory and on a real Valkey."""

import asyncio
import secrets
import subprocess
import time
from dataclasses import replace

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from local import ports, valkey
from services.ingestion.jobs import SUPERSEDED, QueueFull, Submission
from services.ingestion.memory_jobs import MemoryJobStore
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
        wanted = submission(
            title="Título", metadata={"año": "2025"}, filename="a.pdf", labels=("hr", "board"), caller_labels=("*",)
        )
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
        store = make()
        await store.add(submission())
        job = await store.take("w")
        now = replace(
            job,
            status="EMBEDDING",
            chunk_count=3,
            total_chunk_count=9,
            page_count=2,
            title="T",
            warnings=("one", "two"),
        )
        assert await store.keep(now, "w")
        assert replace(await store.get("acme", job.job_id), updated=0) == replace(now, updated=0)
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
        store = make()
        await store.add(submission())
        job = await store.take("w")
        await store.finish(replace(job, status="READY"), "w")
        assert (await store.cancel("acme", job.job_id)).status == "READY"

    async def test_a_failed_job_can_be_put_away(self, make):
        store = make()
        await store.add(submission())
        job = await store.take("w")
        await store.finish(replace(job, status="FAILED", reason="The file is empty."), "w")
        assert (await store.cancel("acme", job.job_id)).status == "CANCELLED"
        assert (await store.get("acme", job.job_id)).status == "CANCELLED"
        assert await store.take("w") is None

    async def test_a_job_that_is_put_back_waits_for_its_delay(self, make):
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
        store = make(max_open=2)
        await store.add(submission("a"))
        await store.check_room("acme")
        await store.add(submission("b"))
        for refused in (store.check_room("other"), store.add(submission("c", "other"))):
            with pytest.raises(QueueFull) as caught:
                await refused
            assert not caught.value.of_tenant
        await store.finish(replace(await store.take("w"), status="READY"), "w")
        await store.add(submission("c"))

    async def test_a_tenant_that_fills_its_share_leaves_room_for_others(self, make):
        store = make(max_open=10, max_open_per_tenant=2)
        await store.add(submission("a"))
        await store.add(submission("b"))
        for refused in (store.check_room("acme"), store.add(submission("c"))):
            with pytest.raises(QueueFull) as caught:
                await refused
            assert caught.value.of_tenant
        await store.check_room("bravo")
        await store.add(submission("a", "bravo"))
        await store.finish(replace(await store.take("w"), status="READY"), "w")
        await store.add(submission("c"))

    async def test_a_cancelled_job_makes_room_in_the_tenants_share(self, make):
        store = make(max_open_per_tenant=1)
        job = await store.add(submission("a"))
        await store.cancel("acme", job.job_id)
        await store.add(submission("b"))

    async def test_a_tenant_that_comes_late_is_served_next(self, make):
        store = make()
        for number in range(5):
            await store.add(submission(f"a{number}", "acme"))
        assert (await store.take("w")).submission.tenant == "acme"
        await store.add(submission("b0", "bravo"))
        assert (await store.take("w")).submission.tenant == "bravo"
        assert (await store.take("w")).submission.tenant == "acme"
        # Bravo comes again and again, and acme still gets every second turn.
        order = []
        for number in range(1, 4):
            await store.add(submission(f"b{number}", "bravo"))
            order += [(await store.take("w")).submission.tenant for _ in range(2)]
        assert order == ["bravo", "acme"] * 3

    async def test_a_job_that_is_being_stored_is_not_cancelled(self, make):
        store = make()
        await store.add(submission())
        job = replace(await store.take("w"), status="EMBEDDING", chunk_count=2, total_chunk_count=2)
        assert await store.keep(job, "w")
        assert (await store.cancel("acme", job.job_id)).status == "EMBEDDING"
        assert await store.keep(job, "w")
        assert await store.finish(replace(job, status="READY"), "w")
        assert (await store.cancel("acme", job.job_id)).status == "READY"

    async def test_a_job_whose_storing_failed_can_be_cancelled_again(self, make):
        store = make(lease_seconds=0.2)
        await store.add(submission())
        job = replace(await store.take("w"), status="EMBEDDING", chunk_count=2, total_chunk_count=2)
        await store.keep(job, "w")
        await store.put_back(job, "w", 0)
        assert (await store.cancel("acme", job.job_id)).status == "CANCELLED"
        await store.add(submission("e"))
        job = replace(await store.take("dead"), status="EMBEDDING", chunk_count=2, total_chunk_count=2)
        await store.keep(job, "dead")
        await asyncio.sleep(0.25)
        assert (await store.take("alive")).job_id == job.job_id
        assert (await store.cancel("acme", job.job_id)).status == "CANCELLED"

    async def test_a_newer_job_waits_until_the_older_one_is_stored(self, make):
        store = make()
        await store.add(submission("d"))
        old = replace(await store.take("w"), status="EMBEDDING", chunk_count=2, total_chunk_count=2)
        await store.keep(old, "w")
        superseded = await store.add(submission("d"))
        newer = await store.add(submission("d"))
        await store.add(submission("other"))
        assert (await store.get("acme", superseded.job_id)).status == "CANCELLED"
        assert (await store.take("w2")).submission.document_id == "other"
        assert await store.take("w2") is None
        assert await store.finish(replace(old, status="READY"), "w")
        await asyncio.sleep(0.15)
        assert (await store.take("w2")).job_id == newer.job_id

    async def test_old_jobs_are_forgotten_and_unfinished_ones_are_not(self, make):
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


async def test_a_job_outlives_a_kill_of_valkey(tmp_path):
    port = ports.pick(1, ports.random_start())[0]
    process = start_valkey(tmp_path, port)
    store = ValkeyJobStore(f"redis://127.0.0.1:{port}")
    try:
        jobs = [await store.add(submission(f"d{number}", labels=("hr",))) for number in range(10)]
        taken = await store.take("w")
        process.kill()
        process.wait()
        process = start_valkey(tmp_path, port)
        assert await store.open_ids() == {job.job_id for job in jobs}
        assert await store.keep(taken, "w")
        assert [(await store.take("w")).submission for _ in range(9)] == [job.submission for job in jobs[1:]]
        assert await store.take("w") is None
    finally:
        await store.close()
        process.kill()
        process.wait()


async def test_a_valkey_that_does_not_persist_still_works_and_is_named_in_the_log(tmp_path, caplog):
    port = ports.pick(1, ports.random_start())[0]
    process = start_valkey(tmp_path, port, appendonly="no")
    store = ValkeyJobStore(f"redis://127.0.0.1:{port}")
    try:
        await store.add(submission("a"))
        await store.add(submission("b"))
        assert len([one for one in caplog.records if "must persist" in one.message]) == 1
    finally:
        await store.close()
        process.kill()
        process.wait()


def start_valkey(folder, port, appendonly="yes"):
    command = valkey.command(folder, port)
    command[command.index("--appendonly") + 1] = appendonly
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with redis.Redis(port=port) as client:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                client.ping()
                return process
            except redis.RedisError:
                time.sleep(0.02)
    raise TimeoutError("Valkey did not start")


TENANTS, DOCUMENTS, WORKERS = ("acme", "bravo"), ("d", "e", "f"), ("w1", "w2")
ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(TENANTS), st.sampled_from(DOCUMENTS)),
    st.tuples(st.just("take"), st.sampled_from(WORKERS)),
    st.tuples(st.sampled_from(("keep", "store", "finish", "put_back")), st.integers(0, 9), st.sampled_from(WORKERS)),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("recover"), st.sampled_from(WORKERS)),
)


async def act(store, actions):
    """Does what `actions` say and returns everything that a caller gets to see, without times."""
    jobs, seen = [], []
    for number, (action, *arguments) in enumerate(actions):
        if action == "add":
            tenant, document = arguments
            try:
                jobs.append(await store.add(Submission(f"job{number}", tenant, "t", "c", document)))
            except QueueFull as full:
                seen.append(full.of_tenant)
        elif action == "take":
            taken = await store.take(*arguments)
            seen.append(taken and taken.job_id)
        elif action == "recover":
            seen.append(await store.recover(*arguments))
        elif jobs:
            job = jobs[arguments[0] % len(jobs)]
            job = await store.get(job.submission.tenant, job.job_id)
            if action == "cancel":
                await store.cancel(job.submission.tenant, job.job_id)
            elif action == "put_back":
                seen.append(await store.put_back(job, arguments[1], 3600))
            elif action == "finish":
                seen.append(await store.finish(replace(job, status="READY"), arguments[1]))
            else:
                counts = {"chunk_count": 2 if action == "store" else 1, "total_chunk_count": 2}
                seen.append(await store.keep(replace(job, status="EMBEDDING", **counts), arguments[1]))
        states = [await store.get(job.submission.tenant, job.job_id) for job in jobs]
        seen.append([(job.status, job.attempts, job.chunk_count) for job in states])
        seen.append(sorted(await store.open_ids()))
    return seen


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ACTIONS, max_size=25))
def test_valkey_does_as_the_store_in_memory_does(valkey_url, actions):
    async def compare():
        limits = {"max_open": 5, "max_open_per_tenant": 3, "lease_seconds": 3600}
        real = ValkeyJobStore(valkey_url, prefix=f"{{{secrets.token_hex(4)}}}:", **limits)
        try:
            assert await act(real, actions) == await act(MemoryJobStore(**limits), actions)
        finally:
            await real.close()

    asyncio.run(compare())
