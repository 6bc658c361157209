from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.access.records import Override
from services.gateway.access.snapshot import Snapshot
from services.gateway.access.store import Changes, Version
from services.runtime.tenants import Ceilings
from tests.unit.gateway.access.records_made import ISSUED, issued, secret, sha256


def changes(complete=False, **entries):
    return Changes(Version("e", 1), complete, entries)


async def test_a_key_that_gets_another_secret_is_found_by_no_old_one():
    snapshot = Snapshot()
    await snapshot.apply(changes(keys={"acme/ci": issued().to_bytes()}))
    await snapshot.apply(changes(keys={"acme/ci": issued(secrets=(secret("other"),)).to_bytes()}))
    assert snapshot.find(sha256(ISSUED)) is None
    assert snapshot.find(sha256("other")).id == "ci"


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b"{}", b'{"secrets": [{"sha256": "zz"}]}', b"\xff"])
async def test_a_key_that_cannot_be_read_opens_nothing_and_harms_no_other(value):
    snapshot = Snapshot()
    await snapshot.apply(changes(keys={"acme/bad": value, "acme/ci": issued().to_bytes()}))
    assert snapshot.find(sha256(ISSUED)).id == "ci"
    assert snapshot.key("acme/bad") is None
    assert [key.id for key in snapshot.keys_of("acme")] == ["ci"]


async def test_a_record_without_rights_that_can_be_read_opens_nothing():
    snapshot = Snapshot()
    broken = issued().to_bytes().replace(b'"tenant":"acme"', b'"tenant":"Not A Name"')
    await snapshot.apply(changes(keys={"acme/ci": broken}))
    assert snapshot.find(sha256(ISSUED)) is None


async def test_what_a_newer_gateway_added_to_a_record_is_no_hindrance():
    snapshot = Snapshot()
    await snapshot.apply(changes(keys={"acme/ci": issued().to_bytes()[:-1] + b',"colour":"red"}'}))
    assert snapshot.find(sha256(ISSUED)).id == "ci"


async def test_a_revocation_that_cannot_be_read_revokes():
    snapshot = Snapshot()
    await snapshot.apply(changes(revoked={sha256("a"): b"{", "no digest": b"{}"}))
    assert snapshot.revoked_since(sha256("a")) < datetime.now(UTC)
    assert snapshot.revoked_since(sha256("b")) is None


async def test_an_override_names_only_what_it_replaces():
    override = Override(requests_per_minute=0, models={"mini": Ceilings(daily_tokens=1)})
    snapshot = Snapshot()
    await snapshot.apply(changes(limits={"acme": override.to_bytes(), "other": b"{"}))
    read = snapshot.override("acme")
    assert read.changes() == {"requests_per_minute": 0}
    assert read.models == {"mini": Ceilings(daily_tokens=1)}
    assert snapshot.override("other") is None


_names = st.sampled_from(["acme/a", "acme/b", "other/a"])
_steps = st.lists(st.tuples(st.booleans(), st.dictionaries(_names, st.none() | st.sampled_from("xyz"), max_size=3)))


@given(_steps)
async def test_after_any_changes_exactly_the_secrets_that_are_kept_are_found(steps):
    snapshot, kept = Snapshot(), {}
    for complete, entries in steps:
        values = {
            field: None if name is None else issued(id="ci", secrets=(secret(field + name),)).to_bytes()
            for field, name in entries.items()
        }
        await snapshot.apply(changes(complete, keys=values))
        kept = {**({} if complete else kept), **entries}
        kept = {field: name for field, name in kept.items() if name is not None}
        known = {field + name for field, name in kept.items()}
        assert len(snapshot) == len(kept)
        for text in (field + name for field in ("acme/a", "acme/b", "other/a") for name in "xyz"):
            assert (snapshot.find(sha256(text)) is not None) == (text in known)
