"""When the next key expires, as Prometheus is told."""

import pytest
from prometheus_client import REGISTRY

from services.gateway.access.feed import Feed
from services.gateway.access.key_ring import KeyRing
from services.runtime.tenants import TenantDirectory
from services.runtime.testing import SIGNER
from tests.unit.gateway.access.records_made import (
    LosableStore,
    ManualClock,
    in_hours,
    issued,
    keep,
    secret,
    write_tenant,
)


def told():
    return REGISTRY.get_sample_value("sabueso_gateway_next_key_expiry_timestamp_seconds")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def ring_of(tmp_path, clock):
    async def make(*records, **fields):
        write_tenant(tmp_path, "acme", "secret-a", **fields)
        store = LosableStore()
        await keep(store, *records)
        feed = Feed(store)
        await feed.look()
        return KeyRing(TenantDirectory(tmp_path), SIGNER, feed, clock=clock)

    return make


async def test_without_a_key_that_ends_it_is_0(ring_of):
    ring = await ring_of(issued())
    assert (told(), ring.grants.next_end(0)) == (0, 0)


async def test_keys_of_files_and_issued_ones_count(ring_of, clock):
    _ring = await ring_of(issued(expires_at=in_hours(3)), expires_at=in_hours(2))
    assert told() == in_hours(2).timestamp()
    clock.now = in_hours(2.5).timestamp()
    assert told() == in_hours(3).timestamp()
    clock.now = in_hours(4).timestamp()
    assert told() == 0


async def test_a_rotated_key_lives_as_long_as_its_last_secret(ring_of):
    old = secret("old", expires_at=in_hours(1))
    _ring = await ring_of(
        issued("forever", secrets=(old, secret("new"))),
        issued("longer", secrets=(old, secret("newer", expires_at=in_hours(9)))),
    )
    assert told() == in_hours(9).timestamp()


async def test_revoked_keys_and_further_secrets_of_declared_ones_are_no_ends(ring_of):
    _ring = await ring_of(
        issued("gone", expires_at=in_hours(1), revoked_at=in_hours(-1)),
        issued("k0", declared=True, secrets=(secret(expires_at=in_hours(2)),)),
    )
    assert told() == 0


async def test_a_key_that_is_given_more_time_ends_later(ring_of):
    store = LosableStore()
    feed = Feed(store)
    ring = await ring_of()
    await keep(store, issued(expires_at=in_hours(1)))
    await feed.look()
    await keep(store, issued(expires_at=in_hours(8)))
    await feed.look()
    assert feed.snapshot.ends() == (in_hours(8).timestamp(),)
    assert ring.grants.next_end(0) == 0
