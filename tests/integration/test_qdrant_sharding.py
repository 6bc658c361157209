"""How collections are spread over a Qdrant cluster: what the server is asked for, when a place is made and afterwards.

No Qdrant cluster is had here: the loopback server keeps what it is told of copies, as a cluster does.
"""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import models

from services.retrieval.declared import DeclaredCollections
from services.retrieval.migration import Migrator, ServedModel
from services.retrieval.qdrant.replication import Replication, missing_copies, most, replication
from services.retrieval.qdrant.store import QdrantStore
from services.retrieval.store import (
    Collection,
    Distribution,
    Document,
    Index,
    Migration,
    MigrationState,
    Mode,
    NewChunk,
    Query,
    Reader,
    SparseTerms,
)
from services.runtime.errors import DependencyFailed, InvalidField
from services.runtime.tenants import BadTenantFile, TenantDirectory, load
from tests.contract import qdrant_loopback

READER = Reader("acme", ("*",))
WIDE = Distribution(shard_number=6, replication_factor=2, on_disk=True)


class Nodes(ThreadingHTTPServer):
    """The HTTP interface of a cluster, as far as it tells of its nodes."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Cluster)
        self.count = 3
        self.refuses = False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Cluster(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        assert self.path == "/cluster"
        raft = {"term": 1, "commit": 1, "pending_operations": 0, "leader": 0, "role": "Leader", "is_voter": True}
        enabled = {
            "status": "enabled",
            "peer_id": 0,
            "peers": {str(one): {"uri": f"http://node-{one}:6335/"} for one in range(self.server.count)},
            "raft_info": raft,
            "consensus_thread_status": {
                "consensus_thread_status": "working", "last_update": "2026-01-01T00:00:00Z"
            },
            "message_send_failures": {},
        }  # fmt: skip
        result = enabled if self.server.count > 1 else {"status": "disabled"}
        content = json.dumps({"result": result, "status": "ok", "time": 0}).encode()
        self.send_response(403 if self.server.refuses else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def nodes():
    server = Nodes()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def server():
    async with qdrant_loopback.running() as server:
        yield server


@contextlib.asynccontextmanager
async def opened(server, nodes, **defaults):
    store = QdrantStore(server.connect(nodes.url), defaults=Distribution(**defaults))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(server, nodes):
    async with opened(server, nodes) as store:
        yield store


async def put(store, collection, *, model="model", document_id="doc"):
    async def chunks():
        yield NewChunk("word", [1.0, 0.0], SparseTerms([1], [1.0]))

    await store.put_document(READER, Document(document_id, collection, model), chunks())


def made(server):
    """Requests that made places of passages."""
    return [one for name, one in server.settings.items() if not name.endswith("registry")]


async def collection(store, name="docs"):
    return next(one for one in await store.list_collections(READER) if one.name == name)


class TestNewPlaces:
    async def test_a_place_is_made_with_the_shards_and_copies_that_its_collection_wishes(self, server, store):
        await store.put_collection(READER, Collection("docs", distribution=WIDE))
        await put(store, "docs")
        (asked,) = made(server)
        assert (asked.shard_number, asked.replication_factor, asked.write_consistency_factor) == (6, 2, 2)
        dense = asked.vectors_config.params_map.map["dense"]
        assert (dense.on_disk, dense.hnsw_config.on_disk) == (True, True)
        assert (await collection(store)).differs == ""

    async def test_a_collection_without_a_wish_shares_the_place_of_those_before_it(self, server, store):
        for name in ("docs", "more"):
            await store.put_collection(READER, Collection(name))
            await put(store, name, document_id=name)
        (asked,) = made(server)
        fields = ("shard_number", "replication_factor", "write_consistency_factor")
        assert not any(asked.HasField(field) for field in fields)
        assert not asked.vectors_config.params_map.map["dense"].HasField("on_disk")

    async def test_what_the_service_has_for_all_counts_for_the_registry_too(self, server, nodes):
        async with opened(server, nodes, shard_number=4, replication_factor=3, on_disk=True) as store:
            await store.put_collection(READER, Collection("docs"))
            await put(store, "docs")
        registry, place = server.settings["sabueso-registry"], made(server)[0]
        assert (registry.replication_factor, registry.write_consistency_factor) == (3, 2)
        assert not registry.HasField("shard_number")
        assert (place.shard_number, place.replication_factor) == (4, 3)
        assert place.vectors_config.params_map.map["dense"].on_disk


class TestLiveChanges:
    async def test_more_copies_are_made_of_every_shard_of_a_place_that_is_there(self, server, store):
        await store.put_collection(READER, Collection("docs"))
        await put(store, "docs")
        (place,) = [name for name in server.settings if not name.endswith("registry")]
        server.holders[place] = {0: [0], 1: [1], 2: [1]}
        await store.put_collection(READER, Collection("docs", distribution=Distribution(replication_factor=2)))
        assert server.parameters[place] == {"replication_factor": 2, "write_consistency_factor": 2}
        assert all(len(set(on)) == 2 for on in server.holders[place].values())
        assert len(server.copied) == 3
        assert (await collection(store)).differs == ""

    async def test_a_place_that_several_share_has_the_copies_of_the_one_that_wishes_most(self, server, store):
        for name, factor in (("docs", 3), ("more", 2)):
            await store.put_collection(READER, Collection(name))
            await put(store, name, document_id=name)
            await store.put_collection(READER, Collection(name, distribution=Distribution(replication_factor=factor)))
        (place,) = [name for name in server.settings if not name.endswith("registry")]
        assert server.parameters[place]["replication_factor"] == 3

    async def test_a_change_that_says_nothing_of_it_leaves_the_wish_as_it_was(self, server, store):
        await store.put_collection(READER, Collection("docs", distribution=WIDE))
        await store.put_collection(READER, Collection("docs", description="New."))
        assert (await collection(store)).distribution == WIDE

    async def test_a_registry_gets_more_copies_when_the_service_is_told_so(self, server, nodes):
        async with opened(server, nodes):
            pass
        server.holders["sabueso-registry"] = {0: [0]}
        async with opened(server, nodes, replication_factor=3):
            pass
        assert server.parameters["sabueso-registry"] == {"replication_factor": 3, "write_consistency_factor": 2}
        assert sorted(server.holders["sabueso-registry"][0]) == [0, 1, 2]

    async def test_copies_that_are_missing_are_made_at_the_next_start(self, server, store, nodes):
        await store.put_collection(READER, Collection("docs", distribution=Distribution(replication_factor=2)))
        await put(store, "docs")
        (place,) = [name for name in server.settings if not name.endswith("registry")]
        server.holders[place] = {0: [0]}
        async with opened(server, nodes):
            assert server.holders[place] == {0: [0, 1]}

    async def test_a_server_that_does_not_tell_of_its_nodes_refuses_no_document(self, server, store, nodes, caplog):
        nodes.refuses = True
        wish = Collection("docs", distribution=Distribution(replication_factor=2))
        await store.put_collection(READER, wish)
        await put(store, "docs")
        assert any("copies of passages could not be made" in record.message for record in caplog.records)
        with pytest.raises(DependencyFailed):
            await store.put_collection(READER, wish)

    async def test_on_a_server_that_is_no_cluster_only_the_number_is_noted(self, server, nodes):
        nodes.count = 1
        async with opened(server, nodes) as store:
            await store.put_collection(READER, Collection("docs"))
            await put(store, "docs")
            await store.put_collection(READER, Collection("docs", distribution=Distribution(replication_factor=2)))
        assert server.copied == []

    async def test_a_new_number_of_shards_waits_for_a_migration_and_says_so(self, server, store):
        await store.put_collection(READER, Collection("docs"))
        await put(store, "docs")
        changed = await store.put_collection(READER, Collection("docs", distribution=WIDE))
        assert "`shard_number` is the default, not 6" in changed.differs
        assert "`sabueso collections migrate docs`" in changed.differs
        await put(store, "docs", document_id="second")
        assert len(made(server)) == 1
        await store.begin_migration("acme", "docs", Migration(MigrationState.RUNNING, "model", Index()))
        while (found := await store.next_unmigrated("acme", "docs")) is not None:
            chunk = NewChunk("word", [1.0, 0.0], SparseTerms([1], [1.0]))
            await store.put_second_version("acme", found[0], [chunk])
        assert await store.end_migration("acme", "docs", MigrationState.DONE)
        assert [one.shard_number for one in made(server)] == [0, 6]
        assert (await collection(store)).differs == ""
        query = Query(Mode.SPARSE, "model", [1.0, 0.0], SparseTerms([1], [1.0]), 10)
        assert len(await store.search(READER, query)) == 2

    async def test_an_empty_collection_takes_a_new_number_of_shards_at_once(self, server, store):
        await store.put_collection(READER, Collection("docs"))
        changed = await store.put_collection(READER, Collection("docs", distribution=WIDE))
        assert changed.differs == ""
        await put(store, "docs")
        assert made(server)[0].shard_number == 6

    async def test_a_migration_that_only_spreads_anew_is_begun(self, server, store):
        class Served:
            async def served(self):
                return ServedModel("model", False)

            async def embed_passages(self, chunks, language):
                return [NewChunk(one.text, [1.0, 0.0], SparseTerms([1], [1.0])) for one in chunks]

        migrator = Migrator(store, Served(), lambda tenant: None)
        await store.put_collection(READER, Collection("docs"))
        await put(store, "docs")
        with pytest.raises(InvalidField, match="already"):
            await migrator.begin("acme", "docs", None)
        await store.put_collection(READER, Collection("docs", distribution=WIDE))
        await migrator.begin("acme", "docs", None)
        await migrator.close()


class TestTenantsFiles:
    def write(self, folder, **distribution):
        content = {"id": "acme", "collections": {"docs": {"distribution": distribution}}}
        (folder / "acme.yaml").write_text(yaml.safe_dump(content))

    async def test_a_declared_wish_is_applied_and_changed_with_the_file(self, server, store, tmp_path, caplog):
        self.write(tmp_path, shard_number=6, replication_factor=2)
        for _ in range(2):
            declared = DeclaredCollections(store, TenantDirectory(tmp_path))
            await declared.start()
            await declared.stop()
        await put(store, "docs")
        assert made(server)[0].shard_number == 6
        self.write(tmp_path, shard_number=12, replication_factor=2)
        declared = DeclaredCollections(store, TenantDirectory(tmp_path))
        await declared.start()
        await declared.stop()
        assert any("migrate docs" in record.reason for record in caplog.records if hasattr(record, "reason"))

    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"shard_number": -1}, "collections.docs.distribution.shard_number"),
            ({"shards": 3}, "collections.docs.distribution.shards"),
            ({"replication_factor": 2, "write_consistency_factor": 3}, "write_consistency_factor must not be above"),
        ],
    )
    def test_a_wrong_wish_is_named_by_its_field(self, tmp_path, wrong, named):
        self.write(tmp_path, **wrong)
        with pytest.raises(BadTenantFile, match=named):
            load(tmp_path)


PEERS = st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True)


@given(PEERS, st.data(), st.integers(0, 8))
def test_missing_copies_bring_every_shard_to_its_number_and_never_two_to_one_node(peers, data, factor):
    holders = {
        shard: data.draw(st.lists(st.sampled_from(peers), min_size=1, unique=True))
        for shard in range(data.draw(st.integers(0, 6)))
    }
    here, active = peers[0], models.ReplicaState.ACTIVE
    info = models.CollectionClusterInfo(
        peer_id=here,
        shard_count=len(holders),
        local_shards=[
            models.LocalShardInfo(shard_id=shard, points_count=0, state=active)
            for shard, on in holders.items()
            if here in on
        ],
        remote_shards=[
            models.RemoteShardInfo(shard_id=shard, peer_id=peer, state=active)
            for shard, on in holders.items()
            for peer in on
            if peer != here
        ],
        shard_transfers=[],
    )
    before = {shard: list(on) for shard, on in holders.items()}
    for copy in missing_copies(info, peers, factor):
        assert copy.from_peer_id in before[copy.shard_id]
        assert copy.to_peer_id not in holders[copy.shard_id]
        holders[copy.shard_id].append(copy.to_peer_id)
    for shard, on in holders.items():
        assert len(on) == max(len(before[shard]), min(factor, len(peers)))


def test_a_shard_without_an_active_copy_is_left_alone():
    dead = models.RemoteShardInfo(shard_id=0, peer_id=1, state=models.ReplicaState.DEAD)
    info = models.CollectionClusterInfo(
        peer_id=0, shard_count=1, local_shards=[], remote_shards=[dead], shard_transfers=[]
    )
    assert missing_copies(info, [0, 1, 2], 2) == []


def test_a_copy_that_is_under_way_is_not_asked_for_again():
    moving = models.ShardTransferInfo(**{"shard_id": 0, "from": 0, "to": 1, "sync": True})
    here = models.LocalShardInfo(shard_id=0, points_count=0, state=models.ReplicaState.ACTIVE)
    info = models.CollectionClusterInfo(
        peer_id=0, shard_count=1, local_shards=[here], remote_shards=[], shard_transfers=[moving]
    )
    assert missing_copies(info, [0, 1, 2], 2) == []


@pytest.mark.parametrize(
    ("factor", "consistency", "acknowledging"), [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 2), (5, 0, 3), (3, 1, 1)]
)
def test_without_a_number_the_majority_of_the_copies_acknowledges(factor, consistency, acknowledging):
    assert Replication(factor, consistency).acknowledging == acknowledging


def test_a_collection_overrides_what_the_service_has_for_all():
    assert replication(Distribution(replication_factor=3), Distribution(replication_factor=2)) == Replication(3, 0)
    assert replication(None, Distribution(0, 2, 1)) == Replication(2, 1)
    assert most([]) == Replication()
    assert most([Replication(2), Replication(3, 1)]) == Replication(3, 2)
