"""Every store of conversations keeps turns in order, within bounds, for their owner alone."""

import asyncio
import uuid
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from services.orchestrator.model import Message
from services.orchestrator.sessions.conversation import Bounds, MemoryConversations, Owner, Turn
from services.orchestrator.sessions.valkey_conversations import valkey_conversations
from services.runtime.errors import DependencyFailed, NotFound


@asynccontextmanager
async def closing(store):
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def memory(_url, bounds):
    yield MemoryConversations(bounds)


@asynccontextmanager
async def valkey(url, bounds):
    async with closing(valkey_conversations(url, bounds, timeout_seconds=10)) as made:
        yield made


@asynccontextmanager
async def cluster(url, bounds):
    async with closing(valkey_conversations(url, bounds, timeout_seconds=10, cluster=True)) as made:
        yield made


STORES = {"memory": (memory, ""), "valkey": (valkey, "valkey_url"), "cluster": (cluster, "cluster_url")}


@pytest_asyncio.fixture(params=list(STORES))
async def make(request):
    opened, server = STORES[request.param]
    url = request.getfixturevalue(server) if server else ""
    async with AsyncExitStack() as stack:
        yield lambda **bounds: stack.enter_async_context(opened(url, Bounds(**bounds)))


@pytest.fixture
def ana():
    return Owner(f"t{uuid.uuid4().hex[:8]}", "ana|with: {odd} characters\n")


def turn(name, previous="", text=None, labels=(), record=b""):
    messages = (Message("user", f"¿{name}?"), Message("assistant", text or f"{name}: «sí»"))
    return Turn(name, messages, labels, previous, record)


def names(turns):
    return [one.answer_id for one in turns]


async def test_turns_of_a_session_come_in_order_as_they_were(make, ana):
    store = await make()
    assert await store.in_session(ana, "s") == []
    kept = [turn("a", labels=("hr", "staff")), turn("b"), turn("c")]
    for one in kept:
        await store.append(ana, one, "s")
    found = await store.in_session(ana, "s")
    assert names(found) == ["a", "b", "c"]
    assert [one.messages for one in found] == [one.messages for one in kept]
    assert found[0].labels == ("hr", "staff")
    assert [one.previous for one in found] == ["", "a", "b"]


async def test_a_conversation_can_be_taken_up_at_any_of_its_answers(make, ana):
    store = await make()
    for one in (turn("a"), turn("b", "a"), turn("c", "b"), turn("other way", "a")):
        await store.append(ana, one)
    assert names(await store.up_to(ana, "c")) == ["a", "b", "c"]
    assert names(await store.up_to(ana, "other way")) == ["a", "other way"]
    assert names(await store.up_to(ana, "a")) == ["a"]


async def test_an_answer_of_a_session_can_be_followed_too(make, ana):
    store = await make()
    for name in "ab":
        await store.append(ana, turn(name), "s")
    await store.append(ana, turn("aside", "a"))
    assert names(await store.up_to(ana, "aside")) == ["a", "aside"]
    assert names(await store.in_session(ana, "s")) == ["a", "b"]


async def test_nothing_crosses_from_one_owner_to_another(make, ana):
    store = await make()
    await store.append(ana, turn("a"), "s")
    for other in (Owner(ana.tenant, "ben"), Owner(f"{ana.tenant}x", ana.principal), Owner(ana.tenant, "")):
        assert await store.in_session(other, "s") == []
        with pytest.raises(NotFound):
            await store.up_to(other, "a")
        with pytest.raises(NotFound):
            await store.forget(other, answer_id="a")
        assert await store.forget(other) == 0
    assert names(await store.in_session(ana, "s")) == ["a"]


async def test_an_answer_that_nobody_gave_is_not_found(make, ana):
    store = await make()
    for wrong in ("ans_nowhere", "s"):
        for asked in (store.up_to, store.read):
            with pytest.raises(NotFound, match="no answer"):
                await asked(ana, wrong)


async def test_an_answer_can_be_read_by_itself_with_the_record_of_how_it_came_about(make, ana):
    store = await make()
    kept = turn("b", "a", labels=("hr",), record=b"\x00\xff as it was")
    await store.append(ana, turn("a", record=b"before"))
    await store.append(ana, kept)
    assert await store.read(ana, "b") == kept
    assert (await store.read(ana, "a")).record == b"before"
    with pytest.raises(NotFound):
        await store.read(Owner(ana.tenant, "ben"), "b")
    await store.append(ana, turn("c"), "s")
    assert (await store.read(ana, "c")).record == b""


async def test_a_deleted_answer_takes_its_record_with_it(make, ana):
    store = await make()
    await store.append(ana, turn("a", record=b"all of it"))
    await store.append(ana, turn("b", record=b"all of it"), "s")
    await store.forget(ana, answer_id="a")
    await store.forget(ana, session_id="s")
    for name in "ab":
        with pytest.raises(NotFound):
            await store.read(ana, name)


async def test_a_record_that_is_too_large_is_not_kept_and_the_turn_is(make, ana):
    store = await make(max_bytes=1_000)
    await store.append(ana, turn("a", record=b"x" * 1_001))
    assert (await store.read(ana, "a")).record == b""
    assert names(await store.up_to(ana, "a")) == ["a"]


async def test_the_newest_turns_and_bytes_are_read(make, ana):
    store = await make(max_turns=3, max_bytes=1_000)
    for number in range(5):
        await store.append(ana, turn(f"a{number}"), "s")
    assert names(await store.in_session(ana, "s")) == ["a2", "a3", "a4"]
    await store.append(ana, turn("long", text="ñ" * 480), "s")
    assert names(await store.in_session(ana, "s")) == ["a3", "a4", "long"]
    await store.append(ana, turn("longer", text="ñ" * 490), "s")
    assert names(await store.in_session(ana, "s")) == ["longer"]
    await store.append(ana, turn("too long", text="ñ" * 600), "s")
    assert names(await store.in_session(ana, "s")) == []
    assert names(await store.up_to(ana, "too long")) == []


async def test_questions_that_end_at_the_same_time_are_all_kept_one_after_the_other(make, ana):
    store = await make(max_turns=100)
    asked = [f"a{number}" for number in range(40)]
    await asyncio.gather(*(store.append(ana, turn(name), "s") for name in asked))
    found = await store.in_session(ana, "s")
    assert sorted(names(found)) == sorted(asked)
    assert [one.previous for one in found] == ["", *names(found)[:-1]]


async def test_an_answer_is_kept_once_and_no_conversation_turns_in_a_ring(make, ana):
    store = await make()
    for name in ("a", "b", "a"):
        await store.append(ana, turn(name), "s")
    assert names(await store.in_session(ana, "s")) == ["a", "b"]
    await store.forget(ana, answer_id="b")
    await store.append(ana, turn("b"), "s")
    assert names(await store.in_session(ana, "s")) == ["a"]


async def test_a_deleted_session_is_gone_with_its_answers(make, ana):
    store = await make()
    for name in "ab":
        await store.append(ana, turn(name), "s")
    await store.append(ana, turn("c"), "other")
    assert await store.forget(ana, session_id="s") == 2
    assert await store.in_session(ana, "s") == []
    for name in "ab":
        with pytest.raises(NotFound):
            await store.up_to(ana, name)
    with pytest.raises(NotFound, match="no session"):
        await store.forget(ana, session_id="s")
    assert names(await store.in_session(ana, "other")) == ["c"]


async def test_a_deleted_answer_leaves_the_others_in_their_order(make, ana):
    store = await make()
    for name in "abc":
        await store.append(ana, turn(name), "s")
    assert await store.forget(ana, answer_id="b") == 1
    assert names(await store.in_session(ana, "s")) == ["a", "c"]
    assert await store.forget(ana, answer_id="c") == 1
    for name in "bc":
        with pytest.raises(NotFound):
            await store.up_to(ana, name)
        with pytest.raises(NotFound):
            await store.forget(ana, answer_id=name)
    await store.append(ana, turn("d"), "s")
    assert names(await store.in_session(ana, "s")) == ["a", "d"]
    assert await store.forget(ana, session_id="s") == 2


async def test_all_of_a_person_can_be_deleted(make, ana):
    store = await make()
    await store.append(ana, turn("a"), "s")
    await store.append(ana, turn("b"))
    assert await store.forget(ana) == 2
    assert await store.in_session(ana, "s") == []
    assert await store.forget(ana) == 0


async def test_a_conversation_ends_when_it_was_not_used_for_long_enough():
    now = [0.0]
    store, ana = MemoryConversations(Bounds(ttl_seconds=10), lambda: now[0]), Owner("t", "ana")
    await store.append(ana, turn("a"), "s")
    now[0] = 9
    assert names(await store.in_session(ana, "s")) == ["a"]
    now[0] = 18
    assert names(await store.up_to(ana, "a")) == ["a"]
    now[0] = 28
    assert await store.in_session(ana, "s") == []
    with pytest.raises(NotFound):
        await store.up_to(ana, "a")


async def test_every_key_in_valkey_ends_by_itself_and_use_puts_that_off(valkey_url, ana):
    async with closing(valkey_conversations(valkey_url, Bounds(ttl_seconds=1_000), timeout_seconds=10)) as store:
        await store.append(ana, turn("a"), "s")
        await store.append(ana, turn("b"), "s")
        client = Redis.from_url(valkey_url)
        try:
            keys = [key async for key in client.scan_iter(match=f"sabueso:sessions:{ana.tenant}:*")]
            assert len(keys) == 4
            assert all([0 < await client.ttl(key) <= 1_000 for key in keys])
            for key in keys:
                await client.expire(key, 100)
            await store.in_session(ana, "s")
            assert [await client.ttl(key) > 100 for key in keys] == [True] * 4
        finally:
            await client.aclose()


async def test_what_valkey_dropped_shortens_the_conversation(valkey_url, ana):
    async with closing(valkey_conversations(valkey_url, timeout_seconds=10)) as store:
        for name in "abc":
            await store.append(ana, turn(name), "s")
        client = Redis.from_url(valkey_url)
        try:
            (key,) = [key async for key in client.scan_iter(match=f"sabueso:sessions:{ana.tenant}:*a:b")]
            await client.delete(key)
        finally:
            await client.aclose()
        assert names(await store.in_session(ana, "s")) == ["c"]


@pytest.mark.parametrize("cluster", [False, True])
async def test_a_lost_valkey_is_said_and_then_left_alone_for_a_moment(ana, cluster):
    async with closing(valkey_conversations("redis://127.0.0.1:1", timeout_seconds=10, cluster=cluster)) as store:
        for _ in range(2):
            with pytest.raises(DependencyFailed):
                await store.in_session(ana, "s")


async def test_of_one_owner_so_much_is_kept_and_the_oldest_goes_first(make, ana):
    store = await make(max_names=4)
    for number in range(6):
        await store.append(ana, turn(f"a{number}"))
        await asyncio.sleep(0.005)  # Valkey orders by milliseconds
    with pytest.raises(NotFound):
        await store.up_to(ana, "a1")
    assert names(await store.up_to(ana, "a2")) == ["a2"]
    assert await store.forget(ana) == 4
