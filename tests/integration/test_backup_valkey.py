"""Backup and restore of what Valkey holds: keys, revocations, feedback, conversations, jobs; no counters or caches."""

import gzip
import threading

import pytest
import redis

from services.cli.backup import restoring, saving
from services.cli.backup.part import Refused
from services.cli.backup.valkey_keys import ValkeyKeys
from services.gateway.access.feed import Feed
from services.gateway.access.valkey_store import valkey_access_store
from services.orchestrator.model import Message
from services.orchestrator.sessions.conversation import Bounds, Owner, Turn
from services.orchestrator.sessions.valkey_conversations import valkey_conversations

# Databases of the shared server that nobody else uses.
SOURCE, TARGET = 11, 12
ANA = Owner("acme", "ana")


def save(target, url):
    return saving.save(target, [ValkeyKeys(url)], [], lambda line: None).parts["valkey"]


def restore(source, url, *, replace=False):
    return restoring.restore(source, [ValkeyKeys(url)], lambda line: None, replace=replace)


@pytest.fixture
def source(valkey_url):
    with redis.Redis.from_url(f"{valkey_url}/{SOURCE}") as client:
        client.flushdb()
        yield client


@pytest.fixture
def target(valkey_url):
    with redis.Redis.from_url(f"{valkey_url}/{TARGET}") as client:
        client.flushdb()
        yield client


@pytest.fixture
def urls(valkey_url):
    return f"{valkey_url}/{SOURCE}", f"{valkey_url}/{TARGET}"


async def test_issued_and_revoked_keys_are_there_again(source, target, urls, tmp_path):
    async with valkey_access_store(urls[0], timeout_seconds=10) as store:
        await store.write("keys", "acme/ci", b"issued")
        await store.write("revoked", "abc", b"revoked")
    made = save(tmp_path / "backup", urls[0])
    assert made.counts["issued keys, revocations and limits"] == 4
    assert restore(tmp_path / "backup", urls[1]) == []
    async with valkey_access_store(urls[1], timeout_seconds=10) as store:
        changes = await store.changes(None)
    assert changes.entries["keys"] == {"acme/ci": b"issued"}
    assert changes.entries["revoked"] == {"abc": b"revoked"}


async def test_a_gateway_that_runs_takes_over_what_was_restored(source, urls, tmp_path):
    async with valkey_access_store(urls[0], timeout_seconds=10) as store:
        await store.write("revoked", "early", b"1")
        save(tmp_path / "backup", urls[0])
        await store.write("revoked", "late", b"1")
        feed = Feed(store)
        assert await feed.look()
        before = await store.changes(None)
        restore(tmp_path / "backup", urls[0], replace=True)
        changes = await store.changes(before.version)
        assert await feed.look()
    assert changes.complete, "the gateway would have kept what is gone"
    assert set(changes.entries["revoked"]) == {"early"}


async def test_a_conversation_goes_on_and_ends_when_it_would_have(source, target, urls, tmp_path):
    turn = Turn("answer-1", (Message("user", "¿Hotel?"), Message("assistant", "120 €")), ())
    before = valkey_conversations(urls[0], Bounds(), timeout_seconds=10)
    await before.append(ANA, turn, "chat")
    await before.close()
    ends = {key: source.pexpiretime(key) for key in source.keys("sabueso:sessions:*")}
    save(tmp_path / "backup", urls[0])
    restore(tmp_path / "backup", urls[1])
    assert {key: target.pexpiretime(key) for key in ends} == ends
    after = valkey_conversations(urls[1], Bounds(), timeout_seconds=10)
    assert [one.answer_id for one in await after.in_session(ANA, "chat")] == ["answer-1"]
    await after.close()


def test_what_has_ended_since_stays_away(source, target, urls, tmp_path):
    source.set("sabueso:feedback:{acme}:answer:1", "x", px=1)
    source.set("sabueso:feedback:{acme}:answer:2", "x", ex=1000)
    source.xadd("sabueso:feedback:{acme}:entries", {"said": "good"})
    save(tmp_path / "backup", urls[0])
    restore(tmp_path / "backup", urls[1])
    assert sorted(target.keys()) == [b"sabueso:feedback:{acme}:answer:2", b"sabueso:feedback:{acme}:entries"]


def test_counters_and_caches_are_left_out(source, urls, tmp_path):
    source.set("{ingestion}:job:1", "kept")
    for name in ("sabueso:limits:{acme}:tenant:requests", "cache:{acme}:1", "sabueso:mcp:notices"):
        source.set(name, "x")
    made = save(tmp_path / "backup", urls[0])
    assert sum(made.counts.values()) == made.counts["ingestion jobs"] == 1
    content = gzip.decompress((tmp_path / "backup/valkey/keys.jsonl.gz").read_bytes())
    assert len(content.splitlines()) == 1


@pytest.mark.parametrize("pause", [0.0, 0.02], ids=["without a pause", "now and then"])
def test_keys_that_come_while_it_is_read_are_whole_with_their_group(source, urls, tmp_path, pause):
    """A key that names another never comes without it, whether or not both were there when the reading began."""
    done = threading.Event()

    def talk():
        client, number = redis.Redis.from_url(urls[0]), 0
        while not done.wait(pause):
            number += 1
            with client.pipeline(transaction=True) as pipeline:
                pipeline.hset(f"sabueso:sessions:acme:{{ana}}:a:{number}", "v", "text")
                pipeline.set("sabueso:sessions:acme:{ana}:s:chat", str(number))
                pipeline.set(f"sabueso:sessions:acme:{{ana}}:s:chat {number}", str(number))
                pipeline.hset(f"{{ingestion}}:job:new-{number}", "status", "QUEUED")
                pipeline.lpush(f"{{ingestion}}:queue:tenant-{number % 7}", f"new-{number}")
                pipeline.execute()
        client.close()

    for name in range(2000):
        source.set(f"{{ingestion}}:job:{name}", "x")
    thread = threading.Thread(target=talk)
    thread.start()
    try:
        made = save(tmp_path / "backup", urls[0])
    finally:
        done.set()
        thread.join()
    assert made.counts["ingestion jobs"] >= 2000
    restore(tmp_path / "backup", urls[0], replace=True)
    heads = [source.get(key).decode() for key in source.scan_iter("sabueso:sessions:acme:{ana}:s:*")]
    assert [head for head in heads if not source.exists(f"sabueso:sessions:acme:{{ana}}:a:{head}")] == []
    jobs = {key.decode() for key in source.scan_iter("{ingestion}:job:new-*")}
    queued = {job.decode() for key in source.scan_iter("{ingestion}:queue:*") for job in source.lrange(key, 0, -1)}
    assert {f"{{ingestion}}:job:{job}" for job in queued} == jobs


def test_keys_are_replaced_only_when_that_is_said(source, urls, tmp_path):
    source.set("{ingestion}:job:1", "old")
    save(tmp_path / "backup", urls[0])
    source.set("{ingestion}:job:1", "new")
    source.set("{ingestion}:job:2", "new")
    source.set("sabueso:limits:{acme}:x", "counts")
    with pytest.raises(Refused, match="2 keys in Valkey"):
        restore(tmp_path / "backup", urls[0])
    assert restore(tmp_path / "backup", urls[0], replace=True) == []
    assert source.get("{ingestion}:job:1") == b"old"
    assert sorted(source.keys()) == [b"sabueso:limits:{acme}:x", b"{ingestion}:job:1"]


def test_values_that_a_server_cannot_read_are_refused(source, target, urls, tmp_path):
    source.set("{ingestion}:job:1", "x")
    save(tmp_path / "backup", urls[0])
    path = tmp_path / "backup/valkey/keys.jsonl.gz"
    row = gzip.decompress(path.read_bytes()).replace(b'"dump": "AAF4', b'"dump": "AAF5')
    path.write_bytes(gzip.compress(row))
    with pytest.raises(Refused, match="was changed or is damaged"):
        restore(tmp_path / "backup", urls[1])
    saved = ValkeyKeys(urls[0]).save(tmp_path)
    (tmp_path / "keys.jsonl.gz").write_bytes(gzip.compress(row))
    with pytest.raises(Refused, match=r"come from valkey \d"):
        ValkeyKeys(urls[1]).restore(tmp_path, saved, replace=False)


def test_a_server_that_is_away_is_told(tmp_path):
    with pytest.raises(Refused, match="Valkey"):
        save(tmp_path / "backup", "redis://127.0.0.1:9")
