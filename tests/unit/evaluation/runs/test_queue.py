"""Runs behind a call: one at a time for each tenant, bounded, ended on demand."""

import asyncio

import pytest

from services.evaluation.runs.folder import Manifest, RunFolder
from services.evaluation.runs.queue import Request, RunQueue
from services.evaluation.runs.run import Finished
from services.evaluation.runs.store import MemoryRunStore, RunStatus
from services.evaluation.runs.summary import summary_of
from services.runtime.errors import DependencyFailed, NotFound, Overloaded


class Hand:
    """Runs that end when the test says so."""

    def __init__(self, folder):
        self.folder = folder
        self.begun = asyncio.Queue()
        self.ends = {}
        self.now = {}
        self.most = {}

    async def run(self, run_id, request, progress):
        tenant = request.tenant
        self.now[tenant] = self.now.get(tenant, 0) + 1
        self.most[tenant] = max(self.most.get(tenant, 0), self.now[tenant])
        end = self.ends[run_id] = asyncio.get_running_loop().create_future()
        progress(1, 4)
        self.begun.put_nowait(run_id)
        try:
            await end
        finally:
            self.now[tenant] -= 1
        return Finished(
            RunFolder(self.folder, Manifest(run_id, "", {"golden_set": "s"})),
            [],
            [],
            [],
            [],
            summary_of([], [], [], []),
        )


@pytest.fixture
async def world(tmp_path):
    hand, store = Hand(tmp_path), MemoryRunStore()
    ended = asyncio.Queue()

    async def finished(run):
        ended.put_nowait(run)

    queue = RunQueue(store, hand.run, max_waiting=1, finished=finished)
    yield hand, store, queue, ended
    await queue.close()


async def test_a_run_is_waiting_then_running_then_done(world):
    hand, store, queue, ended = world
    made = await queue.put(Request("acme", "s"))
    assert made.status is RunStatus.WAITING
    assert await hand.begun.get() == made.run_id
    assert (await store.get("acme", made.run_id)).status is RunStatus.RUNNING
    hand.ends[made.run_id].set_result(None)
    assert (await ended.get()).status is RunStatus.DONE
    assert (await store.get("acme", made.run_id)).status is RunStatus.DONE


async def test_a_tenant_has_one_run_at_a_time_and_waits_for_no_other_tenant(world):
    hand, _, queue, ended = world
    first, second = await queue.put(Request("acme", "s")), await queue.put(Request("acme", "s"))
    other = await queue.put(Request("other", "s"))
    assert {await hand.begun.get(), await hand.begun.get()} == {first.run_id, other.run_id}
    hand.ends[first.run_id].set_result(None)
    assert (await ended.get()).run_id == first.run_id
    assert await hand.begun.get() == second.run_id
    assert hand.most["acme"] == 1


async def test_more_than_may_wait_are_refused_at_once(world):
    hand, _, queue, ended = world
    first = await queue.put(Request("acme", "s"))
    await hand.begun.get()
    await queue.put(Request("acme", "s"))
    with pytest.raises(Overloaded):
        await queue.put(Request("acme", "s"))
    hand.ends[first.run_id].set_result(None)
    await ended.get()
    await hand.begun.get()
    await queue.put(Request("acme", "s"))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DependencyFailed("the gateway is away", dependency="gateway"), "the gateway is away"),
        (ValueError("the set is broken"), "the set is broken"),
        (KeyError("secret"), "unexpected: KeyError"),
    ],
)
async def test_a_run_that_fails_says_why_and_the_next_one_begins(world, error, reason):
    hand, _, queue, ended = world
    first, second = await queue.put(Request("acme", "s")), await queue.put(Request("acme", "s"))
    await hand.begun.get()
    hand.ends[first.run_id].set_exception(error)
    failed = await ended.get()
    assert (failed.status, failed.reason) == (RunStatus.FAILED, reason)
    assert await hand.begun.get() == second.run_id


async def test_a_run_is_cancelled_while_it_goes_on_and_while_it_waits(world):
    hand, store, queue, _ = world
    first, second = await queue.put(Request("acme", "s")), await queue.put(Request("acme", "s"))
    await hand.begun.get()
    assert (await queue.cancel("acme", second.run_id)).status is RunStatus.CANCELLED
    assert (await queue.cancel("acme", first.run_id)).status is RunStatus.CANCELLED
    third = await queue.put(Request("acme", "s"))
    assert await hand.begun.get() == third.run_id
    assert (await store.get("acme", second.run_id)).status is RunStatus.CANCELLED


async def test_what_is_over_or_somebody_elses_is_not_cancelled(world):
    hand, _, queue, ended = world
    made = await queue.put(Request("acme", "s"))
    await hand.begun.get()
    with pytest.raises(NotFound):
        await queue.cancel("other", made.run_id)
    hand.ends[made.run_id].set_result(None)
    await ended.get()
    assert (await queue.cancel("acme", made.run_id)).status is RunStatus.DONE


async def test_a_run_that_takes_too_long_has_failed(tmp_path):
    hand, store = Hand(tmp_path), MemoryRunStore()
    ended = asyncio.Queue()
    queue = RunQueue(store, hand.run, max_seconds=0.05, finished=ended.put)
    await queue.put(Request("acme", "s"))
    found = await ended.get()
    assert (found.status, found.reason) == (RunStatus.FAILED, "it took longer than 0.05 s")
    await queue.close()


async def test_ending_the_service_leaves_no_run_that_seems_to_go_on(world):
    hand, store, queue, _ = world
    first, second = await queue.put(Request("acme", "s")), await queue.put(Request("acme", "s"))
    await hand.begun.get()
    await queue.close()
    for run in (first, second):
        found = await store.get("acme", run.run_id)
        assert (found.status, found.reason) == (RunStatus.FAILED, "the service was stopped")
