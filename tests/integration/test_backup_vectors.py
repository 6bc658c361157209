"""Backup and restore of both vector stores: the engine's folder while it is in use, and a Qdrant server's snapshots."""

import asyncio
import contextlib
import sqlite3

import pytest
from qdrant_client import AsyncQdrantClient

from services.cli.backup import restoring, saving
from services.cli.backup.edge_folder import EdgeFolder, copy_file
from services.cli.backup.part import Refused
from services.cli.backup.qdrant import QdrantServer
from services.retrieval.edge.store import EdgeStore
from services.retrieval.qdrant.store import QdrantStore
from services.retrieval.store import (
    ALL_LABELS,
    Collection,
    Document,
    Filter,
    Mode,
    NewChunk,
    Query,
    Reader,
    SparseTerms,
    TokenMatrix,
)
from tests.integration import qdrant_http

ACME, OTHER = Reader("acme", (ALL_LABELS,)), Reader("other", (ALL_LABELS,))
TEXTS = {"rail": ["We go by rail.", "Second class."], "hotel": ["120 € a night.", "Book early.", "Keep the bill."]}
DENSE, SPARSE = [0.6, 0.8, 0.0, 0.0], SparseTerms([7], [1.0])


def document(document_id, collection="travel"):
    return Document(document_id=document_id, collection=collection, embedding_model="hash-1", language="en")


async def chunks(texts):
    for text in texts:
        yield NewChunk(text=text, dense=DENSE, sparse=SPARSE, tokens=TokenMatrix(2, b"\0\x3c\0\x3c"))


async def fill(store):
    """Two tenants, one with two documents."""
    for reader, ids in ((ACME, ["rail", "hotel"]), (OTHER, ["rail"])):
        await store.put_collection(reader, Collection(name="travel", description="", language="en"))
        for id_ in ids:
            await store.put_document(reader, document(id_), chunks(TEXTS[id_]))


async def texts_of(store, reader, document_id):
    return [chunk.text for chunk in await store.get_chunks(reader, document_id)]


async def found_by(store, reader):
    query = Query(Mode.HYBRID, "hash-1", DENSE, SPARSE, 10, Filter(), False)
    return sorted(hit.chunk.text for hit in await store.search(reader, query))


@contextlib.asynccontextmanager
async def opened(folder):
    store = EdgeStore(folder)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def save(target, part):
    return saving.save(target, [part], [], lambda line: None).parts[part.name]


def restore(source, part, *, replace=False):
    return restoring.restore(source, [part], lambda line: None, replace=replace)


# Without checksums, which are others' to test: the engine's files are large.
def save_folder(target, part):
    target.mkdir()
    return part.save(target)


def restore_folder(saved, part, *, replace=False):
    source, made = saved
    part.restore(source, made, replace=replace)
    return part.check(made)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What was saved while the store was in use: its folder, and what it says of itself."""
    folder = tmp_path_factory.mktemp("saved")

    async def make():
        async with opened(folder / "vectors") as store:
            await fill(store)
            made = save_folder(folder / "backup", EdgeFolder(folder / "vectors"))
            await store.delete_document(ACME, "rail")
        return made

    return folder / "backup", asyncio.run(make())


async def test_a_store_in_use_is_saved_and_opens_elsewhere_as_it_was(saved, tmp_path):
    assert saved[1].counts == {"collections": 2, "documents": 3}
    assert saved[1].warnings == []
    assert restore_folder(saved, EdgeFolder(tmp_path)) == []
    async with opened(tmp_path) as store:
        assert await texts_of(store, ACME, "rail") == TEXTS["rail"]
        assert await found_by(store, ACME) == sorted(TEXTS["rail"] + TEXTS["hotel"])
        assert await found_by(store, OTHER) == sorted(TEXTS["rail"])
        await store.put_document(OTHER, document("hotel"), chunks(["No hotel."]))
        assert await texts_of(store, OTHER, "hotel") == ["No hotel."]


def test_the_holes_of_the_engines_files_cost_no_room(saved):
    files = [path.stat() for path in saved[0].rglob("*") if path.is_file()]
    assert sum(file.st_blocks * 512 for file in files) < sum(file.st_size for file in files) / 4


async def test_a_store_with_documents_says_so_and_is_replaced_only_when_nobody_has_it_open(saved, tmp_path):
    async with opened(tmp_path) as store:
        await store.put_collection(ACME, Collection(name="travel", description="", language="en"))
        await store.put_document(ACME, document("rail"), chunks(["We fly."]))
        assert EdgeFolder(tmp_path).occupied().startswith("1 documents in")
        with pytest.raises(Refused, match="stop retrieval first"):
            restore_folder(saved, EdgeFolder(tmp_path), replace=True)
        assert await texts_of(store, ACME, "rail") == ["We fly."]
    assert restore_folder(saved, EdgeFolder(tmp_path), replace=True) == []
    async with opened(tmp_path) as store:
        assert await texts_of(store, ACME, "rail") == TEXTS["rail"]
    assert {path.name for path in tmp_path.iterdir() if path.suffix not in (".sqlite-wal", ".sqlite-shm")} == {
        "lock",
        "registry.sqlite",
        "shards",
        "tokens",
    }


@pytest.fixture
def vectors(saved, tmp_path):
    """A store that nobody has open."""
    restore_folder(saved, EdgeFolder(tmp_path / "vectors"))
    return tmp_path / "vectors"


def test_a_store_that_never_rests_is_refused_or_saved_with_a_warning(vectors, tmp_path):
    with contextlib.closing(sqlite3.connect(vectors / "registry.sqlite", isolation_level=None)) as registry:
        registry.execute("PRAGMA journal_mode=WAL")  # as the store does

        def copy_while_documents_come_in(source, target):
            registry.execute("INSERT INTO hidden VALUES ('acme', hex(randomblob(8)))")
            copy_file(source, target)

        with pytest.raises(Refused, match="let ingestion rest"):
            save_folder(tmp_path / "refused", EdgeFolder(vectors, copy=copy_while_documents_come_in))
        busy = EdgeFolder(vectors, while_written=True, copy=copy_while_documents_come_in)
        made = save_folder(tmp_path / "backup", busy)
    assert "documents changed meanwhile" in made.warnings[0]
    assert restore_folder((tmp_path / "backup", made), EdgeFolder(tmp_path / "new")) == []


def test_a_store_that_rests_after_a_change_is_saved_anew(vectors, tmp_path):
    changes = []

    def copy_and_change_once(source, target):
        copy_file(source, target)
        if not changes:
            changes.append(source)
            with contextlib.closing(sqlite3.connect(vectors / "registry.sqlite", isolation_level=None)) as registry:
                registry.execute("INSERT INTO hidden VALUES ('acme', 'edition')")

    made = save_folder(tmp_path / "backup", EdgeFolder(vectors, copy=copy_and_change_once))
    assert (changes != [], made.warnings) == (True, [])


def lose_a_passage(folder):
    with contextlib.closing(sqlite3.connect(folder / "registry.sqlite")) as registry, registry:
        registry.execute("UPDATE versions SET chunk_count = chunk_count + 1 WHERE document_id = 'hotel'")


def test_documents_that_lack_passages_are_named_at_the_backup_and_after_the_restore(vectors, tmp_path):
    lose_a_passage(vectors)
    made = save_folder(tmp_path / "backup", EdgeFolder(vectors))
    told = "1 documents lack passages and must be ingested again: acme/hotel"
    assert made.warnings == [told]
    assert restore_folder((tmp_path / "backup", made), EdgeFolder(tmp_path / "new")) == [told]


@pytest.fixture(scope="module")
def contents():
    """What a Qdrant server holds after the store has written to it: payloads by point, by collection."""

    async def make():
        client = AsyncQdrantClient(":memory:")
        store = QdrantStore(client, payload_indexes=False)
        await store.open()
        await fill(store)
        found = {}
        for one in (await client.get_collections()).collections:
            records, _ = await client.scroll(one.name, limit=100)
            found[one.name] = {str(record.id): record.payload for record in records}
        await store.close()
        return found

    return asyncio.run(make())


@pytest.fixture
def server(contents):
    with qdrant_http.running() as server:
        server.collections = {name: dict(points) for name, points in contents.items()}
        server.collections["somebody-elses"] = {"1": {}}
        yield server


@pytest.fixture
def empty():
    with qdrant_http.running() as server:
        yield server


def test_collections_of_a_server_are_restored_on_another_the_registry_last(server, empty, tmp_path, contents):
    made = save(tmp_path / "backup", QdrantServer(server.url))
    assert server.snapshots == {}, "snapshots were left on the server's disk"
    assert made.counts == {name: len(points) for name, points in contents.items()}
    assert made.warnings == ()
    assert restore(tmp_path / "backup", QdrantServer(empty.url)) == []
    assert empty.collections == contents
    assert empty.uploads[-1] == ("sabueso-registry", "snapshot")


def test_a_change_between_two_snapshots_makes_all_of_them_anew(server, tmp_path):
    times = []

    def once(name):
        times.append(name)
        if len(times) == 1:
            server.collections["sabueso-registry"]["new"] = {"kind": "generation"}

    server.interruption = once
    made = save(tmp_path / "backup", QdrantServer(server.url))
    assert len(times) == 2 * len(made.files)
    assert made.warnings == ()


def test_a_server_that_never_rests_is_refused_or_saved_with_a_warning(server, tmp_path):
    registry = server.collections["sabueso-registry"]
    server.interruption = lambda name: registry.update({f"new-{len(registry)}": {"kind": "generation"}})
    with pytest.raises(Refused, match="scale it to 0"):
        save(tmp_path / "backup", QdrantServer(server.url))
    assert not (tmp_path / "backup").exists()
    made = save(tmp_path / "backup", QdrantServer(server.url, while_written=True))
    assert "documents changed meanwhile" in made.warnings[0]


def test_a_server_with_documents_is_replaced_only_when_that_is_said(server, tmp_path, contents):
    save(tmp_path / "backup", QdrantServer(server.url))
    server.collections["sabueso-chunks-late"] = {"1": {"generation": "g"}}
    with pytest.raises(Refused, match="points in sabueso-registry"):
        restore(tmp_path / "backup", QdrantServer(server.url))
    assert restore(tmp_path / "backup", QdrantServer(server.url), replace=True) == []
    assert server.collections == {**contents, "somebody-elses": {"1": {}}}


def test_lost_passages_of_a_server_are_named(server, empty, tmp_path):
    place = next(points for name, points in server.collections.items() if "chunks" in name)
    lost = next(
        id_ for id_, payload in place.items() if (payload["tenant"], payload["document_id"]) == ("acme", "hotel")
    )
    del place[lost]
    told = "1 documents lack passages and must be ingested again: acme/hotel"
    assert save(tmp_path / "backup", QdrantServer(server.url)).warnings == (told,)
    assert restore(tmp_path / "backup", QdrantServer(empty.url)) == [told]


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [("peers", 3, "cluster of 3 nodes"), ("api_key", "secret", "401"), ("collections", {}, "nothing of sabueso")],
)
def test_a_server_that_cannot_be_saved_says_why(server, tmp_path, attribute, value, words):
    setattr(server, attribute, value)
    with pytest.raises(Refused, match=words):
        save(tmp_path / "backup", QdrantServer(server.url))


def test_a_snapshot_that_was_damaged_on_its_way_is_refused_and_deleted(server, tmp_path):
    server.damage = lambda content: content.replace(b"rail", b"tram")
    with pytest.raises(Refused, match="came damaged"):
        save(tmp_path / "backup", QdrantServer(server.url))
    assert server.snapshots == {}


def test_a_key_opens_a_server_that_wants_one(server, tmp_path):
    server.api_key = "secret"
    assert save(tmp_path / "backup", QdrantServer(server.url, "secret")).facts == {"version": "1.20.1"}


def test_a_snapshot_of_another_minor_version_is_refused_before_anything_is_deleted(server, tmp_path, contents):
    save(tmp_path / "backup", QdrantServer(server.url))
    server.version = "1.21.0"
    with pytest.raises(Refused, match="same minor version"):
        restore(tmp_path / "backup", QdrantServer(server.url), replace=True)
    assert server.collections.keys() >= contents.keys()


def test_a_server_that_is_away_is_told(tmp_path):
    with pytest.raises(Refused, match="does not answer"):
        save(tmp_path / "backup", QdrantServer("http://127.0.0.1:9"))
