"""Sessions with foreign servers are opened when needed, kept, bounded, and never shared between tenants."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from services.orchestrator.external.remote import RemoteResult, RemoteTool, SessionLost
from services.orchestrator.external.servers import Servers
from services.runtime.errors import DeadlineExceeded, DependencyFailed, Overloaded
from services.runtime.tenants import McpServer

FIND = RemoteTool("find", "Finds.", {"type": "object"}, {"readOnlyHint": True})
ADD = RemoteTool("add", "Adds.", {"type": "object"})


class Session:
    """A session whose calls end when they are let go."""

    def __init__(self, world, server):
        self.world = world
        self.server = server
        self.lost = False
        self.closed = False

    async def tools(self):
        self.world.listings += 1
        if self.world.fail:
            raise self.world.fail.pop(0)
        await self.world.listing.wait()
        return [FIND, ADD]

    async def call(self, tool, arguments):
        self.world.calls.append((self, tool))
        self.world.running += 1
        self.world.most = max(self.world.most, self.world.running)
        try:
            await self.world.go_on.wait()
            if self.world.fail:
                error = self.world.fail.pop(0)
                self.lost = isinstance(error, SessionLost)
                raise error
            return RemoteResult(tool)
        finally:
            self.world.running -= 1

    async def close(self):
        self.closed = True


class World:
    def __init__(self):
        self.sessions, self.calls, self.fail = [], [], []
        self.listings = self.running = self.most = 0
        self.go_on, self.listing, self.opening = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for event in (self.go_on, self.listing, self.opening):
            event.set()
        self.now = 0.0
        self.on_change = None

    async def open(self, server, on_change):
        await self.opening.wait()
        self.on_change = on_change
        self.sessions.append(Session(self, server))
        return self.sessions[-1]


@asynccontextmanager
async def servers(**options):
    world = World()
    made = Servers(world.open, clock=lambda: world.now, **options)
    try:
        yield world, made
    finally:
        for event in (world.go_on, world.listing, world.opening):
            event.set()
        await made.close()
    assert all(one.closed for one in world.sessions)


def crm(**fields):
    return McpServer(name="crm", **{"url": "http://crm/mcp", "tools": {"find": "", "add": ""}, **fields})


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0)


async def test_a_session_and_its_list_serve_many_runs():
    async with servers() as (world, made):
        for _ in range(3):
            assert list(await made.tools("acme", crm())) == ["find", "add"]
            assert (await made.call("acme", crm(), FIND, {})).text == "find"
    assert (len(world.sessions), world.listings) == (1, 1)


async def test_a_list_is_made_anew_when_it_is_old_and_when_the_server_says_so():
    async with servers(list_seconds=60) as (world, made):
        await made.tools("acme", crm())
        world.now = 59
        await made.tools("acme", crm())
        assert world.listings == 1
        world.now = 60
        await made.tools("acme", crm())
        assert world.listings == 2
        world.on_change()
        await made.tools("acme", crm())
        assert world.listings == 3


async def test_tenants_have_sessions_of_their_own_with_the_same_server():
    async with servers() as (world, made):
        await made.call("acme", crm(), FIND, {})
        await made.call("other", crm(), FIND, {})
    assert len({session for session, _ in world.calls}) == 2


async def test_many_who_need_a_session_at_once_open_one():
    async with servers() as (world, made):
        world.opening.clear()
        waiting = [asyncio.create_task(made.call("acme", crm(), FIND, {})) for _ in range(5)]
        await asyncio.sleep(0)
        world.opening.set()
        await asyncio.gather(*waiting)
    assert len(world.sessions) == 1


async def test_whoever_gives_up_waiting_does_not_take_the_session_from_the_others():
    async with servers() as (world, made):
        world.opening.clear()
        first, second = (asyncio.create_task(made.call("acme", crm(), FIND, {})) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        world.opening.set()
        assert (await second).text == "find"
    assert first.cancelled()


async def test_calls_at_the_same_time_are_bounded_and_none_is_lost():
    async with servers(calls_per_server=2) as (world, made):
        world.go_on.clear()
        waiting = [asyncio.create_task(made.call("acme", crm(), FIND, {})) for _ in range(6)]
        await until(lambda: world.running == 2)
        world.go_on.set()
        await asyncio.gather(*waiting)
    assert (world.most, len(world.calls)) == (2, 6)


async def test_too_many_calls_are_refused_at_once():
    async with servers(calls_per_server=1) as (world, made):
        world.go_on.clear()
        waiting = [asyncio.create_task(made.call("acme", crm(), FIND, {})) for _ in range(64)]
        await until(lambda: world.running == 1)
        with pytest.raises(Overloaded):
            await made.call("acme", crm(), FIND, {})
        world.go_on.set()
        await asyncio.gather(*waiting)


async def test_a_call_that_was_surely_not_heard_is_made_again_in_a_new_session():
    async with servers() as (world, made):
        world.fail = [SessionLost(unheard=True)]
        assert (await made.call("acme", crm(), ADD, {})).text == "add"
    assert len(world.sessions) == 2


async def test_a_call_that_may_have_been_heard_is_made_again_only_where_it_reads():
    async with servers() as (world, made):
        world.fail = [SessionLost(unheard=False)]
        assert (await made.call("acme", crm(), FIND, {})).text == "find"
        world.fail = [SessionLost(unheard=False)]
        with pytest.raises(DependencyFailed, match="crm does not answer"):
            await made.call("acme", crm(), ADD, {})
    assert [tool for _, tool in world.calls] == ["find", "find", "add"]


async def test_a_server_that_fails_is_left_alone_longer_and_longer():
    async with servers() as (world, made):
        world.fail = [DependencyFailed("crm is down.") for _ in range(3)]
        for at, listings in ((0, 1), (2, 1), (3, 2), (8, 2), (9, 3), (20, 3)):
            world.now = at
            with pytest.raises(DependencyFailed, match="crm is down"):
                await made.tools("acme", crm())
            assert world.listings == listings
        world.now = 21
        assert await made.tools("acme", crm())


async def test_a_run_does_not_wait_long_for_a_list_that_is_still_being_made():
    async with servers(patience_seconds=0.05) as (world, made):
        world.listing.clear()
        with pytest.raises(DeadlineExceeded):
            await made.tools("acme", crm(timeout_seconds=60))
        world.listing.set()
        await asyncio.sleep(0)
        assert list(await made.tools("acme", crm(timeout_seconds=60))) == ["find", "add"]
    assert world.listings == 1


async def test_a_server_that_moved_gets_a_new_session_and_a_new_pin_does_not():
    async with servers() as (world, made):
        await made.tools("acme", crm())
        await made.tools("acme", crm(tools={"find": "0" * 64}))
        assert len(world.sessions) == 1
        await made.tools("acme", crm(url="http://elsewhere/mcp"))
        await until(lambda: world.sessions[0].closed)
    assert len(world.sessions) == 2


async def test_sessions_that_nobody_uses_are_ended():
    async with servers(idle_seconds=100) as (world, made):
        await made.tools("acme", crm())
        world.now = 101
        await made.tools("other", crm())
        await until(lambda: world.sessions[0].closed)
        assert not world.sessions[1].closed


async def test_what_waits_for_a_session_or_a_list_when_all_ends_is_told_so():
    async with servers() as (world, made):
        world.opening.clear()
        waiting = [asyncio.create_task(made.call("acme", crm(), FIND, {})), asyncio.create_task(made.tools("b", crm()))]
        await asyncio.sleep(0)
        await made.close()
        for one in waiting:
            with pytest.raises(DependencyFailed):
                await one
    assert world.sessions == []


async def test_whoever_is_cancelled_while_a_session_opens_is_cancelled_and_not_failed():
    async with servers() as (world, made):
        world.opening.clear()
        waiting = asyncio.create_task(made.call("acme", crm(), FIND, {}))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_bug_of_ours_does_not_end_the_run():
    async with servers() as (world, made):
        world.fail = [RuntimeError("bug")]
        with pytest.raises(DependencyFailed, match="crm failed"):
            await made.tools("acme", crm())
