"""The embedded store's folder: what is left in it, what a kill leaves, which folders it opens."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import qdrant_edge as engine

from services.retrieval.edge.registry_file import FORMAT, UnknownFormat
from services.retrieval.edge.shard import EdgeShard, MissingPayloadIndex
from services.retrieval.edge.store import EdgeStore
from services.retrieval.placement import Placement
from services.retrieval.store import (
    Collection,
    Condition,
    Document,
    Filter,
    Index,
    Migration,
    MigrationState,
    Mode,
    NewChunk,
    Query,
    Reader,
    SparseTerms,
    TokenMatrix,
)

ROOT = Path(__file__).parents[3]
ACME, OTHER = Reader("acme"), Reader("other")
TOKENS = TokenMatrix(2, np.ones((3, 2), "<f2").tobytes())


async def chunks(text, count):
    for n in range(count):
        yield NewChunk(f"{text} {n}", [1.0, float(n)], SparseTerms([1, 2 + n], [1.0, 1.0]), TOKENS)


def count_points(folder, **values):
    """Points in all shards of a closed store that have these payload values, visible to readers or not."""
    total = 0
    for directory in (folder / "shards").glob("*"):
        shard = engine.EdgeShard.load(str(directory))
        must = [engine.FieldCondition(key, match=engine.MatchValue(value)) for key, value in values.items()]
        total += shard.count(engine.CountRequest(filter=engine.Filter(must=must)))
        shard.close()
    return total


def token_files(folder):
    return [path for path in (folder / "tokens").rglob("*") if path.is_file()]


@pytest.fixture
async def store(tmp_path):
    store = EdgeStore(tmp_path)
    await store.open()
    for who in (ACME, OTHER):
        await store.put_collection(who, Collection("docs"))
        await store.put_document(who, Document("d", "docs", "m"), chunks("text", 70))
    yield store
    await store.close()


async def test_nothing_is_left_of_a_deleted_document(store, tmp_path):
    await store.put_document(ACME, Document("d", "docs", "m", title="New"), chunks("new", 4))
    await store.put_document(ACME, Document("e", "docs", "m"), chunks("more", 3))
    assert len(token_files(tmp_path)) == 3
    assert await store.delete_document(ACME, "d") == 4
    await store.close()
    assert count_points(tmp_path, tenant="acme", document_id="d") == 0
    assert count_points(tmp_path, tenant="acme") == 3
    assert count_points(tmp_path, tenant="other") == 70
    assert len(token_files(tmp_path)) == 2
    await store.open()


async def test_nothing_is_left_of_a_deleted_collection(store, tmp_path):
    for n in range(70):
        await store.put_document(ACME, Document(f"d{n}", "docs", "m"), chunks("more", 1))
    assert await store.delete_collection(ACME, "docs") == 71
    await store.close()
    assert count_points(tmp_path, tenant="acme") == 0
    assert count_points(tmp_path, tenant="other") == 70
    assert len(token_files(tmp_path)) == 1
    await store.open()


async def migrate(store, who, model, rounds):
    """Embeds `rounds` documents anew."""
    for _ in range(rounds):
        document, old = await store.next_unmigrated(who.tenant, "docs")
        new = [NewChunk(c.text, [1.0, 2.0, 3.0], SparseTerms([1], [1.0]), TOKENS) for c in old]
        await store.put_second_version(who.tenant, document, new)


async def test_nothing_is_left_of_the_old_vectors_after_a_migration(store, tmp_path):
    await store.delete_collection(OTHER, "docs")
    await store.begin_migration("acme", "docs", Migration(MigrationState.RUNNING, "m2", Index()))
    await migrate(store, ACME, "m2", 1)
    assert len(list((tmp_path / "shards").iterdir())) == 2
    assert await store.end_migration("acme", "docs", MigrationState.DONE)
    assert len(list((tmp_path / "shards").iterdir())) == 1
    assert len(token_files(tmp_path)) == 1
    await store.close()
    assert count_points(tmp_path, tenant="acme") == 70
    await store.open()


async def test_a_migration_goes_on_where_it_was_after_a_restart(store, tmp_path):
    await store.put_document(ACME, Document("e", "docs", "m"), chunks("more", 3))
    await store.begin_migration("acme", "docs", Migration(MigrationState.RUNNING, "m2", Index()))
    await migrate(store, ACME, "m2", 1)
    await store.close()
    await store.open()
    ((tenant, known),) = await store.migrations()
    assert (tenant, known.name, known.migration.done_count, known.migration.total_count) == ("acme", "docs", 1, 2)
    await migrate(store, ACME, "m2", 1)
    assert await store.end_migration("acme", "docs", MigrationState.DONE)
    assert await store.models(ACME, []) == {"docs": "m2"}


async def test_a_migration_that_is_given_up_leaves_nothing(store, tmp_path):
    await store.begin_migration("acme", "docs", Migration(MigrationState.RUNNING, "m2", Index()))
    await migrate(store, ACME, "m2", 1)
    assert await store.end_migration("acme", "docs", MigrationState.CANCELLED)
    assert len(list((tmp_path / "shards").iterdir())) == 1
    assert len(token_files(tmp_path)) == 2


async def test_an_upload_that_a_migration_overtakes_is_asked_for_again(store):
    async def overtaken():
        async for chunk in chunks("text", 2):
            yield chunk
        await store.begin_migration("acme", "docs", Migration(MigrationState.RUNNING, "m", Index(hnsw_m=8)))
        document, old = await store.next_unmigrated("acme", "docs")
        await store.put_second_version("acme", document, [one async for one in chunks("new", len(old))])
        assert await store.end_migration("acme", "docs", MigrationState.DONE)

    with pytest.raises(Exception, match="try again"):
        await store.put_document(ACME, Document("late", "docs", "m"), overtaken())
    assert [d.document_id for d in await store.list_documents(ACME, "", "", 9)] == ["d"]


WRITER = """
import asyncio, sys
from pathlib import Path
import numpy as np
from services.retrieval.edge.store import EdgeStore
from services.retrieval.store import Collection, Document, NewChunk, Reader, SparseTerms, TokenMatrix

ACME = Reader("acme")
TOKENS = TokenMatrix(2, np.ones((3, 2), "<f2").tobytes())

async def chunks():
    for n in range(200):
        yield NewChunk(f"half {n}", [1.0, float(n)], SparseTerms([1, 2 + n], [1.0, 1.0]), TOKENS)
    print("written", flush=True)
    await asyncio.sleep(60)

async def main():
    store = EdgeStore(Path(sys.argv[1]))
    await store.open()
    await store.put_collection(ACME, Collection("docs"))
    await store.put_document(ACME, Document("half", "docs", "m"), chunks())

asyncio.run(main())
"""


async def test_what_a_kill_leaves_half_written_is_not_seen_and_swept(tmp_path):
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(tmp_path), cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert await asyncio.wait_for(writer.stdout.readline(), 60) == b"written\n"
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        await writer.wait()
    assert count_points(tmp_path, tenant="acme") == 192
    assert len(token_files(tmp_path)) == 1
    store = EdgeStore(tmp_path)
    await store.open()
    query = Query(Mode.HYBRID, "m", [1.0, 1.0], SparseTerms([1], [1.0]))
    assert await store.search(ACME, query) == []
    assert await store.list_documents(ACME, "", "", 9) == []
    await store.close()
    assert count_points(tmp_path, tenant="acme") == 0
    assert token_files(tmp_path) == []


@pytest.mark.parametrize("found", [0, FORMAT - 1, FORMAT + 1])
async def test_a_folder_of_another_format_is_refused_with_what_to_do(tmp_path, found):
    connection = sqlite3.connect(tmp_path / "registry.sqlite")
    connection.executescript(f"CREATE TABLE documents (tenant TEXT); PRAGMA user_version = {found};")
    connection.close()
    for _ in range(2):  # and the folder is let go of again
        with pytest.raises(UnknownFormat, match=f"{tmp_path} .*format {found}.*delete the folder and ingest again"):
            await EdgeStore(tmp_path).open()


def test_a_shard_without_an_index_of_a_filtered_field_is_refused(tmp_path):
    for missing in ("tenant", "labels"):
        shard = EdgeShard.create(tmp_path / missing, Placement("m"), 2)
        shard._shard.update(engine.UpdateOperation.delete_field_index(missing))
        shard.close()
        with pytest.raises(MissingPayloadIndex, match=missing):
            EdgeShard.load(tmp_path / missing, Placement("m"))


def test_a_new_shard_wakes_no_threads_to_be_searched(tmp_path):
    EdgeShard.create(tmp_path / "shard", Placement("m"), 2).close()
    kept = json.loads((tmp_path / "shard" / "edge_config.json").read_text())
    assert kept["max_search_threads"] == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_few_passages_behind_a_filter_are_found_in_a_large_index(tmp_path):
    rng = np.random.default_rng(0)
    centres = 2 * rng.standard_normal((50, 64))
    vectors = (rng.standard_normal((20_000, 64)) + centres[rng.integers(0, 50, 20_000)]).astype("f4")
    everyone = Reader("acme", ("*",))
    store = EdgeStore(tmp_path, index_after_chunks=15_000)
    await store.open()
    # 10 %, 2 % and 0.1 % of the passages.
    sizes = {"tenth": 2_000, "fiftieth": 400, "thousandth": 20, "docs": 17_580}
    start = 0
    for name, size in sizes.items():
        await store.put_collection(everyone, Collection(name))
        document = Document(name, name, "m", metadata={"part": name}, labels=(name,))
        await store.put_document(everyone, document, _dense(vectors[start : start + size]))
        start += size
        before = {folder.name for folder in (tmp_path / "shards").iterdir()}
    while before <= {folder.name for folder in (tmp_path / "shards").iterdir()}:
        await asyncio.sleep(0.2)
    for name in sizes:
        held, within = Reader("acme", (name,)), Filter(collections=[name])
        for reader, wanted in (
            (everyone, within),
            (held, Filter()),
            (held, Filter(conditions=[Condition("part", [name])])),
        ):
            assert await _recall(store, reader, wanted, vectors[::397]) >= 0.98
    await store.close()


async def _dense(vectors):
    for vector in vectors:
        yield NewChunk("x", vector.tolist(), SparseTerms([], []))


async def _recall(store, reader, wanted, queries):
    """Recall@10 against comparing with every vector that the filter lets through."""
    everything = await store.search(
        reader, Query(Mode.DENSE, "m", queries[0].tolist(), SparseTerms([], []), 20_000, wanted, with_vectors=True)
    )
    held = {hit.chunk.chunk_id: np.array(hit.vector) for hit in everything}
    found = 0
    for query in queries:
        exact = sorted(held, key=lambda one: -float(held[one] @ query))[:10]
        hits = await store.search(reader, Query(Mode.DENSE, "m", query.tolist(), SparseTerms([], []), 10, wanted))
        found += len(set(exact) & {hit.chunk.chunk_id for hit in hits})
    return found / (len(queries) * 10)
