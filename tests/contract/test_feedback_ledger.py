"""Every ledger of feedback keeps the last word of each, and nothing of another tenant's."""

import asyncio
import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from services.gateway.feedback.ledger import AnswerFacts, Feedback, MemoryLedger, order
from services.gateway.feedback.valkey_ledger import valkey_ledger
from services.runtime.errors import DependencyFailed, NotFound

WORD = Feedback("ans-1", "app", "ana", 1.0, "Right.", ("clear",), {"case": "7"})
ANSWER = AnswerFacts("ans-1", "react", "answered", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


@asynccontextmanager
async def memory(_url, **options):
    yield MemoryLedger(**options)


LEDGERS = {"memory": memory, "valkey": valkey_ledger}


@pytest_asyncio.fixture(params=list(LEDGERS))
async def make(request):
    url = request.getfixturevalue("valkey_url") if request.param == "valkey" else ""
    async with AsyncExitStack() as stack:
        yield lambda **options: stack.enter_async_context(LEDGERS[request.param](url, **options))


@pytest.fixture
def tenant():
    return f"t-{uuid.uuid4().hex}"


async def test_feedback_is_kept_with_the_facts_of_its_answer(make, tenant):
    ledger = await make()
    await ledger.remember(tenant, ANSWER)
    kept = await ledger.keep(tenant, WORD)
    assert (kept.changed, kept.entry.feedback, kept.entry.answer) == (True, WORD, ANSWER)
    assert await ledger.entries(tenant, "", 10) == [kept.entry]
    assert kept.entry.created_at > 1_700_000_000


async def test_an_answer_that_nobody_gave_is_not_found(make, tenant):
    ledger = await make()
    await ledger.remember(tenant, ANSWER)
    for who, what in ((tenant, replace(WORD, answer_id="ans-2")), (f"{tenant}-other", WORD)):
        with pytest.raises(NotFound):
            await ledger.keep(who, what)
    assert await ledger.entries(f"{tenant}-other", "", 10) == []


async def test_the_last_word_of_each_person_counts(make, tenant):
    ledger = await make()
    await ledger.remember(tenant, ANSWER)
    for word in (
        WORD,
        replace(WORD, end_user="bea"),
        replace(WORD, key="other"),
        replace(WORD, score=-1.0, comment="No, wrong."),
    ):
        assert (await ledger.keep(tenant, word)).changed
    entries = await ledger.entries(tenant, "", 10)
    assert [(one.feedback.key, one.feedback.end_user, one.feedback.score) for one in entries] == [
        ("app", "bea", 1.0),
        ("other", "ana", 1.0),
        ("app", "ana", -1.0),
    ]


async def test_the_same_said_twice_is_one_entry(make, tenant):
    ledger = await make()
    await ledger.remember(tenant, ANSWER)
    first = await ledger.keep(tenant, WORD)
    again = await ledger.keep(tenant, WORD)
    assert (again.changed, again.entry.id) == (False, first.entry.id)
    assert len(await ledger.entries(tenant, "", 10)) == 1


async def test_parts_of_a_name_cannot_stand_for_another(make, tenant):
    ledger = await make()
    await ledger.remember(tenant, ANSWER)
    await ledger.keep(tenant, replace(WORD, key="a", end_user='b", "c'))
    await ledger.keep(tenant, replace(WORD, key='a", "b', end_user="c"))
    assert len(await ledger.entries(tenant, "", 10)) == 2


async def test_entries_come_in_pages_oldest_first(make, tenant):
    ledger = await make()
    await ledger.remember(tenant, ANSWER)
    for number in range(7):
        await ledger.keep(tenant, replace(WORD, end_user=str(number)))
    seen, after = [], ""
    while page := await ledger.entries(tenant, after, 3):
        assert len(page) <= 3
        seen += page
        after = page[-1].id
    assert [one.feedback.end_user for one in seen] == [str(number) for number in range(7)]
    assert [order(one.id) for one in seen] == sorted(order(one.id) for one in seen)


async def test_the_oldest_go_when_there_are_too_many(make, tenant):
    ledger = await make(most_entries=3)
    await ledger.remember(tenant, ANSWER)
    for number in range(6):
        await ledger.keep(tenant, replace(WORD, end_user=str(number)))
    assert [one.feedback.end_user for one in await ledger.entries(tenant, "", 10)] == ["3", "4", "5"]
    # One whose entry went is free to speak again.
    assert (await ledger.keep(tenant, replace(WORD, end_user="0"))).changed
    assert [one.feedback.end_user for one in await ledger.entries(tenant, "", 10)] == ["4", "5", "0"]


async def test_everybody_may_speak_at_once(make, tenant):
    ledger = await make()
    await ledger.remember(tenant, ANSWER)
    await asyncio.gather(*(ledger.keep(tenant, replace(WORD, end_user=str(number % 5))) for number in range(50)))
    entries = await ledger.entries(tenant, "", 100)
    assert sorted(one.feedback.end_user for one in entries) == ["0", "1", "2", "3", "4"]


# Only what is shared can be lost or grow old.


async def test_what_is_too_old_goes_with_its_place_in_the_index(valkey_url, tenant):
    async with valkey_ledger(valkey_url, retention_seconds=3600) as ledger, Redis.from_url(valkey_url) as redis:
        await ledger.remember(tenant, ANSWER)
        prefix = f"sabueso:feedback:{{{tenant}}}:"
        await redis.xadd(f"{prefix}entries", {"who": "old", "said": "{}", "answer": "{}"}, id="1-1")
        await redis.hset(f"{prefix}index", "old", "1-1")
        kept = await ledger.keep(tenant, WORD)
        assert [one.id for one in await ledger.entries(tenant, "", 10)] == [kept.entry.id]
        assert await redis.hlen(f"{prefix}index") == 1
        async for key in redis.scan_iter(f"{prefix}*"):
            assert 0 < await redis.ttl(key) <= 30 * 86400


async def test_a_lost_store_is_told_to_whoever_gives_feedback_but_holds_up_no_answer(tenant):
    async with valkey_ledger("redis://127.0.0.1:1") as ledger:
        await ledger.remember(tenant, ANSWER)
        for asking in (ledger.keep(tenant, WORD), ledger.entries(tenant, "", 10)):
            with pytest.raises(DependencyFailed):
                await asking
