"""Giving a collection another model while it is searched."""

import asyncio
from dataclasses import replace

import pytest

from services.retrieval.memory_store import MemoryStore
from services.retrieval.migration import Migrator, ServedModel
from services.retrieval.store import (
    Collection,
    Document,
    Index,
    MigrationState,
    Mode,
    NewChunk,
    Quantization,
    Query,
    Reader,
    SparseTerms,
)
from services.runtime.errors import DependencyFailed, InvalidField, ModelMismatch, NotFound

ACME = Reader("acme", ("*",))


class NewModel:
    """Serves `new`; waits before each batch while `gate` is closed, and fails as often as told."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures = []
        self.name = "new"
        self.batches = []

    async def served(self):
        return ServedModel(self.name, False)

    async def embed_passages(self, chunks, language):
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop()
        self.batches.append(([chunk.text for chunk in chunks], language))
        return [NewChunk(chunk.text, [0.0, 1.0, 0.0], SparseTerms([1], [1.0]), page=chunk.page) for chunk in chunks]


async def put(store, name, text="text", model="old"):
    async def chunks():
        yield NewChunk(text, [1.0, 0.0] if model == "old" else [0.0, 1.0, 0.0], SparseTerms([1], [1.0]), page=3)

    await store.put_document(ACME, Document(name, "docs", model, language="es", content_hash=text), chunks())


async def migrating(*names):
    store = MemoryStore()
    await store.put_collection(ACME, Collection("docs"))
    for name in names:
        await put(store, name)
    embedder, acted = NewModel(), []
    return Migrator(store, embedder, acted.append), store, embedder, acted


async def found(store, model):
    vector = [1.0, 0.0] if model == "old" else [0.0, 1.0, 0.0]
    hits = await store.search(ACME, Query(Mode.DENSE, model, vector, SparseTerms([], [])))
    return sorted((hit.chunk.document_id, hit.chunk.text) for hit in hits)


async def ended(store):
    async with asyncio.timeout(5):
        while True:
            migration = (await store.list_collections(ACME))[0].migration
            if migration.state is not MigrationState.RUNNING:
                return migration
            await asyncio.sleep(0.01)


async def test_searches_see_the_old_vectors_until_all_new_ones_are_there():
    migrator, store, embedder, acted = await migrating("a", "b")
    embedder.gate.clear()
    begun = await migrator.begin("acme", "docs", None)
    assert begun.migration.state is MigrationState.RUNNING
    await asyncio.sleep(0.02)
    assert (await store.models(ACME, ["docs"])) == {"docs": "old"}
    assert await found(store, "old") == [("a", "text"), ("b", "text")]
    assert await found(store, "new") == []
    embedder.gate.set()
    migration = await ended(store)
    assert (migration.state, migration.done_count, migration.total_count) == (MigrationState.DONE, 2, 2)
    assert await found(store, "new") == [("a", "text"), ("b", "text")]
    assert await found(store, "old") == []
    assert embedder.batches == [(["text"], "es"), (["text"], "es")]
    assert set(acted) == {"acme"}
    assert [one.page for one in await store.get_chunks(ACME, "a")] == [3]


async def test_what_comes_changes_and_goes_meanwhile_is_right_in_the_end():
    migrator, store, embedder, _ = await migrating("a", "b", "c")
    embedder.gate.clear()
    await migrator.begin("acme", "docs", None)
    await asyncio.sleep(0.02)
    await put(store, "a", "changed")
    await put(store, "d")
    await store.delete_document(ACME, "b")
    embedder.gate.set()
    assert (await ended(store)).state is MigrationState.DONE
    assert await found(store, "new") == [("a", "changed"), ("c", "text"), ("d", "text")]


async def test_after_the_switch_documents_of_the_old_model_are_refused():
    migrator, store, _, _ = await migrating("a")
    await migrator.begin("acme", "docs", None)
    await ended(store)
    with pytest.raises(ModelMismatch):
        await put(store, "b")
    await put(store, "b", model="new")


async def test_it_goes_on_after_a_restart():
    migrator, store, embedder, _ = await migrating("a", "b")
    embedder.gate.clear()
    await migrator.begin("acme", "docs", None)
    await asyncio.sleep(0.02)
    await migrator.close()
    embedder.gate.set()
    again = Migrator(store, embedder, lambda tenant: None)
    await again.start()
    assert (await ended(store)).state is MigrationState.DONE


async def test_a_failing_service_is_waited_for():
    migrator, store, embedder, _ = await migrating("a")
    embedder.failures = [DependencyFailed("gone", dependency="embedding")]
    await migrator.begin("acme", "docs", None)
    assert (await ended(store)).state is MigrationState.DONE


async def test_a_migration_that_cannot_go_on_says_why_and_changes_nothing():
    migrator, store, embedder, _ = await migrating("a")
    embedder.failures = [InvalidField("`texts` is wrong.", field="texts")]
    await migrator.begin("acme", "docs", None)
    migration = await ended(store)
    assert (migration.state, migration.reason) == (MigrationState.FAILED, "`texts` is wrong.")
    assert await found(store, "old") == [("a", "text")]


async def test_another_model_behind_the_address_ends_it():
    migrator, store, embedder, _ = await migrating("a", "b")
    embedder.gate.clear()
    await migrator.begin("acme", "docs", None)
    await asyncio.sleep(0.02)
    embedder.name = "newest"
    embedder.gate.set()
    migration = await ended(store)
    assert migration.state is MigrationState.FAILED
    assert "newest" in migration.reason


async def test_it_can_be_stopped_and_begun_anew():
    migrator, store, embedder, _ = await migrating("a")
    embedder.gate.clear()
    await migrator.begin("acme", "docs", None)
    await asyncio.sleep(0.02)
    stopped = await migrator.cancel("acme", "docs")
    assert stopped.migration.state is MigrationState.CANCELLED
    assert await found(store, "old") == [("a", "text")]
    embedder.gate.set()
    await migrator.begin("acme", "docs", None)
    assert (await ended(store)).state is MigrationState.DONE


async def test_the_index_can_be_changed_under_the_same_model():
    migrator, store, embedder, _ = await migrating("a")
    embedder.name = "old"
    with pytest.raises(InvalidField, match="already"):
        await migrator.begin("acme", "docs", None)
    wanted = replace(Index(), quantization=Quantization.SCALAR)
    with pytest.raises(InvalidField):
        await store.put_collection(ACME, Collection("docs", index=wanted))


async def test_an_unknown_collection_is_not_found():
    migrator, _, _, _ = await migrating()
    with pytest.raises(NotFound):
        await migrator.begin("acme", "nothing", None)
    with pytest.raises(NotFound):
        await migrator.cancel("acme", "nothing")
