import asyncio
import logging
from dataclasses import replace

from services.gateway.access.feed import AGE_SECONDS, Feed
from services.gateway.access.records import Revocation
from services.gateway.access.store import MemoryAccessStore, Version
from tests.unit.gateway.access.records_made import (
    ISSUED,
    NOW,
    LosableStore,
    ManualClock,
    issued,
    keep,
    sha256,
)


async def test_a_look_takes_over_what_was_changed_before_it():
    store = LosableStore()
    feed = Feed(store)
    assert await feed.look()
    await keep(store, issued())
    assert await feed.look()
    assert feed.snapshot.find(sha256(ISSUED)).id == "ci"
    await store.write("keys", "acme/ci", None)
    assert await feed.look()
    assert feed.snapshot.find(sha256(ISSUED)) is None


async def test_a_thousand_who_ask_at_once_cost_a_few_looks():
    store = LosableStore()
    feed = Feed(store)
    assert all(await asyncio.gather(*(feed.look(sparingly=True) for _ in range(1000))))
    assert store.asked <= 2


async def test_one_after_the_other_they_are_held_back():
    store, clock = LosableStore(), ManualClock(1000.0)
    feed = Feed(store, clock=clock)
    await feed.look(sparingly=True)
    waiting = asyncio.create_task(feed.look(sparingly=True))
    await asyncio.sleep(0)
    assert store.asked == 1
    assert await waiting
    assert store.asked == 2


async def test_the_first_key_of_all_is_no_sign_of_a_loss(caplog):
    class Unborn(LosableStore):
        """Has no epoch before the first write, as in Valkey."""

        async def changes(self, since):
            found = await super().changes(since)
            return found and replace(found, version=Version("e" if found.version.number else "", found.version.number))

    store = Unborn()
    feed = Feed(store)
    await feed.look()
    await keep(store, issued())
    await feed.look()
    assert len(feed.snapshot) == 1
    assert not caplog.records


async def test_one_who_gives_up_does_not_take_the_look_from_the_others():
    store = LosableStore()
    feed = Feed(store)
    await keep(store, issued())
    looks = [asyncio.create_task(feed.look()) for _ in range(3)]
    await asyncio.sleep(0)
    looks[0].cancel()
    assert await looks[1]
    assert await looks[2]
    assert len(feed.snapshot) == 1


async def test_it_follows_by_itself_through_a_loss():
    store = LosableStore()
    feed = Feed(store, look_seconds=0.01)
    feed.watch()
    try:
        await _until(lambda: feed.is_current)
        store.lost = True
        await _until(lambda: not feed.is_current)
        await keep(store, issued())
        store.lost = False
        await _until(lambda: len(feed.snapshot) == 1)
        assert feed.is_current
    finally:
        await feed.close()


async def test_the_age_of_what_is_known_can_be_watched():
    store, clock = LosableStore(), ManualClock(1000.0)
    feed = Feed(store, clock=clock)
    assert AGE_SECONDS.collect()[0].samples[0].value == -1
    await feed.look()
    clock.now += 7
    store.lost = True
    await feed.look()
    assert AGE_SECONDS.collect()[0].samples[0].value == 7


async def test_a_store_that_lost_its_data_opens_no_revoked_key_again(caplog):
    before, after = MemoryAccessStore(), MemoryAccessStore()
    await keep(before, issued(), ("secret-a", Revocation(tenant="acme", key="k0", since=NOW)))

    class Restored(LosableStore):
        """Answers from one store first, and from another later."""

        current = before

        async def changes(self, since):
            return await self.current.changes(since)

    store = Restored()
    feed = Feed(store)
    await feed.look()
    store.current = after
    with caplog.at_level(logging.ERROR):
        await feed.look()
    assert "lost its state" in caplog.text
    assert len(feed.snapshot) == 0
    assert feed.snapshot.revoked_since(sha256("secret-a")) == NOW


async def _until(fact):
    async with asyncio.timeout(30):
        while not fact():
            await asyncio.sleep(0.005)
