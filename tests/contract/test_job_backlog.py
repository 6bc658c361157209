"""What every job store says of what is still to be done: the one in memory, and a real Valkey."""

import asyncio
from dataclasses import replace

from services.ingestion.jobs import Backlog
from tests.contract.test_job_store import make, submission

__all__ = ["make"]  # a fixture


class TestBacklog:
    async def test_where_nothing_was_submitted_nothing_is_to_be_done(self, make):
        assert await make().backlog() == Backlog(0, 0)

    async def test_it_counts_what_waits_and_what_is_worked_on_of_all_tenants(self, make):
        store = make()
        await store.add(submission("a", "acme"))
        await store.add(submission("b", "bravo"))
        await store.take("w")
        assert (await store.backlog()).job_count == 2

    async def test_it_is_as_old_as_the_oldest_that_has_not_ended(self, make):
        store = make()
        await store.add(submission("a"))
        await asyncio.sleep(0.2)
        await store.add(submission("b"))
        old = await store.backlog()
        assert old.oldest_seconds >= 0.2
        await store.finish(replace(await store.take("w"), status="READY"), "w")
        young = await store.backlog()
        assert young.job_count == 1
        assert young.oldest_seconds >= 0

    async def test_what_has_ended_is_no_longer_to_be_done(self, make):
        store = make()
        first, second = await store.add(submission("a")), await store.add(submission("b"))
        await store.finish(replace(await store.take("w"), status="READY"), "w")
        await store.cancel("acme", second.job_id)
        assert first.job_id != second.job_id
        assert await store.backlog() == Backlog(0, 0)
