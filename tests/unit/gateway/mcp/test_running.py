import anyio
import anyio.lowlevel
import pytest

from services.gateway.mcp.running import Running


async def until_cancelled(running, session, request_id):
    with running.entered(session, request_id) as scope:
        await anyio.sleep_forever()
    return scope.cancelled_caught


async def started(group, running, session, request_id, ended):
    async def work():
        ended.append((session, request_id, await until_cancelled(running, session, request_id)))

    before = len(running)
    group.start_soon(work)
    while len(running) == before:
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(("asked", "named"), [(7, 7), (7, "7"), ("7", 7), ("a", "a")])
async def test_a_request_is_cancelled_by_its_name(asked, named):
    running, ended = Running(), []
    async with anyio.create_task_group() as group:
        await started(group, running, "s", asked, ended)
        assert running.cancel("s", named)
    assert ended == [("s", asked, True)]
    assert len(running) == 0


async def test_requests_of_other_sessions_and_names_go_on():
    running, ended = Running(), []
    async with anyio.create_task_group() as group:
        for session, request_id in (("s", 1), ("s", 2), ("t", 1)):
            await started(group, running, session, request_id, ended)
        assert not running.cancel("s", 3)
        assert not running.cancel("u", 1)
        assert len(running) == 3
        running.cancel_all("s")
        while len(ended) < 2:
            await anyio.lowlevel.checkpoint()
        assert len(running) == 1
        running.cancel("t", 1)
    assert sorted(ended) == [("s", 1, True), ("s", 2, True), ("t", 1, True)]


async def test_a_request_that_ends_by_itself_is_forgotten():
    running = Running()
    with running.entered("s", 1) as scope:
        pass
    assert not scope.cancelled_caught
    assert not running.cancel("s", 1)
    with pytest.raises(ValueError, match="own"), running.entered("s", 1):
        raise ValueError("own")
    assert len(running) == 0


async def test_the_same_name_twice_leaves_nothing_behind():
    running = Running()
    with running.entered("s", 1), running.entered("s", 1):
        assert len(running) == 1
    assert len(running) == 0
