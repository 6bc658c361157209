"""The Qdrant store on a loopback server: lost answers, several replicas at once, crashes, servers that will not do."""

import asyncio
import contextlib
import random
import zlib

import grpc
import numpy as np
import pytest
from qdrant_client import grpc as wire
from qdrant_client import models

from services.retrieval.qdrant.places import UnusableServer
from services.retrieval.qdrant.rows import document_id
from services.retrieval.qdrant.store import QdrantStore
from services.retrieval.store import (
    Collection,
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
from services.runtime.errors import DependencyFailed, InvalidField, ModelMismatch, NotFound, Overloaded
from tests.contract import qdrant_loopback

MODEL, NEXT_MODEL = "model-one", "model-two"
READER = Reader("acme")
NEXT = Migration(MigrationState.RUNNING, NEXT_MODEL, Index())


@pytest.fixture
async def server():
    async with qdrant_loopback.running() as server:
        yield server


@contextlib.asynccontextmanager
async def replica(server, **options):
    store = QdrantStore(server.connect(**options))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(server):
    async with replica(server) as store:
        await store.put_collection(READER, Collection("docs"))
        yield store


@pytest.fixture
async def other(server, store):
    """A second replica."""
    async with replica(server) as other:
        yield other


def chunk(text, tokens=None):
    words = sorted({zlib.crc32(word.encode()) for word in text.split()})
    vector = np.random.default_rng(words[0]).standard_normal(8).tolist()
    return NewChunk(text, vector, SparseTerms(words, [1.0] * len(words)), tokens)


async def put(store, document_id, *texts, model=MODEL, **fields):
    async def stream():
        for text in texts:
            yield chunk(text)

    return await store.put_document(READER, Document(document_id, "docs", model, **fields), stream())


async def texts(store, word="word", model=MODEL):
    wanted = chunk(word)
    query = Query(Mode.SPARSE, model, wanted.dense, wanted.sparse, 100, Filter())
    return sorted(hit.chunk.text for hit in await store.search(READER, query))


async def migrate(store):
    while (found := await store.next_unmigrated("acme", "docs")) is not None:
        document, chunks = found
        await store.put_second_version("acme", document, [chunk(one.text) for one in chunks])


async def points(server, name):
    """Payloads of all points of a collection."""
    records, _ = await server.memory.scroll(name, limit=10_000)
    return [record.payload for record in records]


async def places(server):
    found = (await server.memory.get_collections()).collections
    return [one.name for one in found if not one.name.endswith("registry")]


async def check_no_orphans(server, store):
    """Every point is of a version that counts or will count, every version is whole, and nothing is noted as loose."""
    registry = await points(server, "sabueso-registry")
    documents = [one for one in registry if one["kind"] == "document"]
    collections = {one["collection"]: one["row"] for one in registry if one["kind"] == "collection"}
    expected = {}
    for one in documents:
        row = collections[one["collection"]]
        for edition, version in one["row"]["versions"].items():
            if edition in (row["edition"], row["next_edition"]):
                expected[version["generation"]] = version["chunk_count"]
    there = [point["generation"] for place in await places(server) for point in await points(server, place)]
    assert {generation: there.count(generation) for generation in there} == {g: n for g, n in expected.items() if n}
    assert [one for one in registry if one["kind"] in ("generation", "edition")] == []


async def at_first(server, method, happens, where=lambda request: True):
    """Lets `happens` come in between, before the first such call is served."""
    done = []

    async def interrupt(called, request):
        if called == method and not done and where(request):
            done.append(True)
            await happens()

    server.interruption = interrupt
    return done


class TestServers:
    async def test_an_older_server_is_refused(self):
        async with qdrant_loopback.running("1.18.2") as old:
            store = QdrantStore(old.connect())
            with pytest.raises(UnusableServer, match=r"1\.18\.2; sabueso needs 1\.19"):
                await store.open()
            await store.close()

    async def test_collections_of_another_format_are_refused_with_the_way_out(self, server):
        await server.memory.create_collection("sabueso-registry", vectors_config={}, metadata={"format": 0})
        store = QdrantStore(server.connect())
        with pytest.raises(UnusableServer, match="delete the collections `sabueso-"):
            await store.open()
        await store.close()

    async def test_a_missing_payload_index_is_made_at_start(self, server, store):
        await put(store, "d", "word")
        (place,) = await places(server)
        for name, field in ((place, "labels"), (place, "tenant"), ("sabueso-registry", "revision")):
            del server.indexes[name][field]
        async with replica(server):
            assert {"labels", "tenant"} <= set(server.indexes[place])
            assert "revision" in server.indexes["sabueso-registry"]

    async def test_a_payload_index_that_cannot_be_made_keeps_the_service_from_starting(self, server, store):
        await put(store, "d", "word")
        (place,) = await places(server)
        del server.indexes[place]["tenant"]
        server.refused_indexes = {"tenant"}
        late = QdrantStore(server.connect())
        with pytest.raises(UnusableServer, match=f"`{place}` on the Qdrant server has no payload index for tenant"):
            await late.open()
        await late.close()

    async def test_places_are_made_with_indexes_and_strict_mode_before_data(self, server, store):
        seen = []

        async def note(method, request):
            seen.append((method, getattr(request, "collection_name", "")))

        server.interruption = note
        await put(store, "d", "word")
        (place,) = await places(server)
        calls = [method for method, name in seen if name == place]
        assert calls.index("CreateFieldIndex") < calls.index("Upsert")
        assert "CreateFieldIndex" not in calls[calls.index("Upsert") :]
        strict = server.settings[place].strict_mode_config
        assert (strict.enabled, strict.unindexed_filtering_retrieve, strict.unindexed_filtering_update) == (
            True,
            False,
            False,
        )
        assert server.indexes[place]["tenant"].params.is_tenant

    async def test_a_server_that_is_gone_is_said_to_be_gone(self, server):
        async with replica(server, timeout=1) as store:
            server.lost_answers["Scroll"] = [grpc.StatusCode.UNAVAILABLE] * 3
            with pytest.raises(DependencyFailed, match="does not answer"):
                await store.list_collections(READER)

    async def test_stores_of_different_prefixes_do_not_meet(self, server, store):
        await put(store, "d", "word")
        apart = QdrantStore(server.connect(), prefix="other-")
        await apart.open()
        assert await apart.list_collections(READER) == []
        await apart.close()


class TestRequests:
    async def test_each_batch_is_sent_once(self, server, store):
        await put(store, "first", "word")
        before = server.calls["Upsert"]
        await put(store, "d", *[f"word n{n}" for n in range(130)])
        # Three batches of at most 64, the note that they are loose, and the document.
        assert server.calls["Upsert"] - before == 5

    @pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])
    @pytest.mark.parametrize("method", ["Upsert", "OverwritePayload", "Delete", "QueryBatch", "Scroll", "Get"])
    async def test_a_lost_answer_changes_nothing(self, server, store, status, method):
        await put(store, "d", "word one", content_hash="1")
        server.lost_answers[method] = [status]
        assert (await put(store, "d", "word two", "word three", content_hash="2")).chunk_count == 2
        assert await texts(store) == ["word three", "word two"]
        assert server.lost_answers[method] == []
        await check_no_orphans(server, store)

    async def test_a_refusal_is_not_tried_again(self, server, store):
        await put(store, "d", "word")
        before = server.calls["QueryBatch"]
        server.lost_answers["QueryBatch"] = [grpc.StatusCode.INVALID_ARGUMENT]
        with pytest.raises(DependencyFailed, match="refused"):
            await texts(store)
        assert server.calls["QueryBatch"] - before == 1

    async def test_a_reply_from_a_replica_that_lags_behind_loses_nothing(self, server, store):
        await put(store, "d", "word one", content_hash="1")

        async def lag():
            server.replayed_answers["Get"].append(await server.Get(registry_point("d"), None))

        done = await at_first(server, "OverwritePayload", lag, is_document)
        await put(store, "d", "word two", content_hash="2")
        assert done
        assert await texts(store) == ["word two"]
        assert len(await store.get_chunks(READER, "d")) == 1
        await store.begin_migration("acme", "docs", NEXT)
        await at_first(server, "OverwritePayload", lag, is_document)
        await migrate(store)
        assert await end(store)
        assert await texts(store, model=NEXT_MODEL) == ["word two"]
        assert len(await store.get_chunks(READER, "d")) == 1

    async def test_requests_stay_below_five_megabytes(self, server, store):
        rng = np.random.default_rng(3)
        tokens = TokenMatrix(384, rng.standard_normal((300, 384)).astype("<f2").tobytes())

        async def stream():
            for n in range(24):
                yield chunk(f"word n{n}", tokens)

        await store.put_document(READER, Document("d", "docs", MODEL), stream())
        assert 500_000 < server.request_bytes["Upsert"] < 5_000_000
        assert len(await store.get_chunks(READER, "d")) == 24

    async def test_token_vectors_may_come_later_than_the_first_passages(self, server, store):
        await put(store, "without", "word")
        tokens = TokenMatrix(4, np.ones((3, 4), "<f2").tobytes())

        async def stream(matrix):
            yield chunk("word with", matrix)

        await store.put_document(READER, Document("with", "docs", MODEL), stream(tokens))
        wanted = chunk("word")
        hits = await store.search(READER, Query(Mode.SPARSE, MODEL, wanted.dense, wanted.sparse))
        scores = await store.late_scores(READER, MODEL, hits, tokens)
        found = {hit.chunk.document_id: score for hit, score in zip(hits, scores, strict=True)}
        assert found == {"without": None, "with": pytest.approx(1.0, abs=1e-3)}
        with pytest.raises(InvalidField, match="2 values a token"):
            await store.put_document(
                READER, Document("short", "docs", MODEL), stream(TokenMatrix(2, np.ones((3, 2), "<f2").tobytes()))
            )

    async def test_a_search_takes_few_calls(self, server, store):
        await put(store, "d", *[f"word n{n}" for n in range(60)])
        server.calls.clear()
        wanted = chunk("word n3")
        await store.search(READER, Query(Mode.HYBRID, MODEL, wanted.dense, wanted.sparse, 10))
        assert server.calls == {"Scroll": 2, "QueryBatch": 2, "Get": 1}


class TestReplicas:
    async def test_replicas_see_what_any_of_them_stored(self, store, other):
        await put(store, "d", "word one")
        assert await texts(other) == ["word one"]
        await other.delete_document(READER, "d")
        assert await texts(store) == []

    async def test_a_document_that_is_replaced_while_others_search_is_always_there_once(self, server, store, other):
        await put(store, "d", *[f"word v0 n{n}" for n in range(4)])
        writing = True

        async def read():
            count = 0
            while writing:
                found = await texts(other)
                assert len(found) == 4
                assert len({text.split()[1] for text in found}) == 1
                count += 1
            return count

        reading = asyncio.ensure_future(read())
        for version in range(1, 8):
            await put(store, "d", *[f"word v{version} n{n}" for n in range(4)])
        writing = False
        assert await reading > 3
        await check_no_orphans(server, store)

    async def test_of_two_uploads_at_once_the_one_that_began_later_stays(self, server, store, other):
        await put(store, "other", "text")
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow():
            yield chunk("word slow")
            begun.set()
            await go_on.wait()
            yield chunk("word slower")

        earlier = asyncio.ensure_future(store.put_document(READER, Document("d", "docs", MODEL), slow()))
        await begun.wait()
        await put(other, "d", "word later")
        go_on.set()
        await earlier
        assert await texts(other) == ["word later"]
        await check_no_orphans(server, store)

    async def test_first_uploads_to_an_empty_collection_may_come_together(self, server, store, other):
        await asyncio.gather(*(put(one, f"d{n}", f"word n{n}") for n, one in enumerate([store, other] * 4)))
        assert len(await texts(store)) == 8
        assert await store.models(READER, ["docs"]) == {"docs": MODEL}
        await check_no_orphans(server, store)

    async def test_an_empty_collection_gets_one_model_though_two_are_offered_at_once(self, server, store, other):
        results = await asyncio.gather(
            put(store, "a", "word a"), put(other, "b", "word b", model=NEXT_MODEL), return_exceptions=True
        )
        refused = [one for one in results if isinstance(one, Exception)]
        assert all(isinstance(one, ModelMismatch | Overloaded) for one in refused)
        (model,) = (await store.models(READER, ["docs"])).values()
        held = [d.document_id for d in await store.list_documents(READER, "docs", "", 10)]
        assert len(held) == 2 - len(refused) <= 1
        assert len(await texts(store, model=model)) == len(held)
        await check_no_orphans(server, store)

    async def test_a_model_that_was_claimed_between_two_steps_of_an_upload_is_given_back(self, server, store, other):
        uploads = {}
        at_claim = asyncio.Event()

        async def interrupt(method, request):
            if method == "Upsert" and request.HasField("update_mode") and "later" not in uploads:
                # The first upload has its model; now another one, which saw the collection empty, takes it away.
                uploads["later"] = asyncio.ensure_future(put(other, "b", "word b", model=NEXT_MODEL))
                await at_claim.wait()
            elif method == "OverwritePayload" and "later" in uploads and not at_claim.is_set():
                at_claim.set()
                await uploads["first"]

        server.interruption = interrupt
        uploads["first"] = asyncio.ensure_future(put(store, "a", "word a"))
        assert (await uploads["first"]).chunk_count == 1
        with pytest.raises(Overloaded):
            await uploads["later"]
        assert await store.models(READER, ["docs"]) == {"docs": MODEL}
        assert await texts(other) == ["word a"]
        await check_no_orphans(server, store)

    async def test_a_delete_during_an_upload_does_not_leave_half_a_document(self, server, store, other):
        await put(store, "d", "word old")
        done = await at_first(server, "OverwritePayload", lambda: other.delete_document(READER, "d"))
        await put(store, "d", "word new")
        assert done
        assert await texts(store) == []
        with pytest.raises(NotFound):
            await store.get_document(READER, "d")
        await check_no_orphans(server, store)

    async def test_a_collection_that_goes_during_an_upload_takes_the_document_with_it(self, server, store, other):
        await put(store, "a", "word a")
        done = await at_first(
            server,
            "Upsert",
            lambda: other.delete_collection(READER, "docs"),
            lambda request: request.collection_name.endswith("registry") and request.HasField("update_mode"),
        )
        with pytest.raises(NotFound, match="`docs`"):
            await put(store, "b", "word b")
        assert done
        assert await store.list_documents(READER, "", "", 10) == []
        await check_no_orphans(server, store)
        await store.put_collection(READER, Collection("docs"))
        assert await texts(store) == []

    async def test_a_document_that_is_stored_while_a_migration_ends_is_not_lost(self, server, store, other):
        for n in range(3):
            await put(store, f"d{n}", f"word n{n}")
        await store.begin_migration("acme", "docs", NEXT)
        await migrate(store)
        done = await at_first(server, "OverwritePayload", lambda: end(other), lambda request: is_document(request))
        with pytest.raises(ModelMismatch):
            await put(store, "d1", "word changed")
        assert done
        assert await texts(store, model=NEXT_MODEL) == ["word n0", "word n1", "word n2"]
        assert (await store.get_document(READER, "d1")).embedding_model == NEXT_MODEL
        await check_no_orphans(server, store)

    async def test_a_new_document_that_is_stored_while_a_migration_ends_is_refused(self, server, store, other):
        await put(store, "d0", "word n0")
        await store.begin_migration("acme", "docs", NEXT)
        await migrate(store)
        done = await at_first(server, "Upsert", lambda: end(other), lambda r: r.HasField("update_mode"))
        with pytest.raises(ModelMismatch):
            await put(store, "d1", "word n1")
        assert done
        assert [d.document_id for d in await store.list_documents(READER, "docs", "", 10)] == ["d0"]
        await check_no_orphans(server, store)

    async def test_a_migration_does_not_end_over_a_document_that_was_stored_meanwhile(self, server, store, other):
        await put(store, "d0", "word n0")
        await store.begin_migration("acme", "docs", NEXT)
        await migrate(store)
        done = await at_first(
            server, "OverwritePayload", lambda: put(other, "d1", "word n1"), lambda request: not is_document(request)
        )
        assert not await store.end_migration("acme", "docs", MigrationState.DONE)
        assert done
        assert await texts(store) == ["word n0", "word n1"]
        await migrate(store)
        assert await store.end_migration("acme", "docs", MigrationState.DONE)
        assert await texts(store, model=NEXT_MODEL) == ["word n0", "word n1"]
        await check_no_orphans(server, store)

    async def test_uploads_wait_while_a_switch_is_being_decided(self, server, store, other):
        await put(store, "d0", "word n0")
        await store.begin_migration("acme", "docs", NEXT)
        waiting = []

        async def upload():
            waiting.append(asyncio.ensure_future(put(other, "d1", "word n1")))
            await asyncio.sleep(0.2)
            assert not waiting[0].done()

        # Counting what lacks a second version comes after the decision has begun.
        await at_first(
            server, "Count", upload, lambda request: len(request.filter.must_not) > 0 and is_switching(server)
        )
        assert not await store.end_migration("acme", "docs", MigrationState.DONE)
        assert (await waiting[0]).chunk_count == 1
        assert await texts(store) == ["word n0", "word n1"]

    async def test_two_replicas_may_run_the_same_migration(self, server, store, other):
        for n in range(6):
            await put(store, f"d{n}", f"word n{n}")
        await store.begin_migration("acme", "docs", NEXT)
        await asyncio.gather(migrate(store), migrate(other))
        ended = await asyncio.gather(end(store), end(other))
        assert any(ended)
        assert len(await texts(other, model=NEXT_MODEL)) == 6
        await check_no_orphans(server, store)

    async def test_after_any_mixture_of_writes_nothing_is_lost_or_left_over(self, server, store, other):
        chance = random.Random(5)

        async def write(one, n):
            for turn in range(6):
                id = f"d{chance.randrange(4)}"
                with contextlib.suppress(NotFound, Overloaded):
                    if chance.random() < 0.3:
                        await one.delete_document(READER, id)
                    else:
                        await put(one, id, *[f"word {id} w{n} t{turn} c{c}" for c in range(chance.randrange(1, 4))])

        await asyncio.gather(*(write(one, n) for n, one in enumerate([store, other, store, other])))
        held = await store.list_documents(READER, "docs", "", 10)
        assert sum(document.chunk_count for document in held) == len(await texts(other))
        for document in held:
            chunks = await other.get_chunks(READER, document.document_id)
            assert len({one.text.split()[2:4][0] + one.text.split()[3] for one in chunks}) == 1
        await check_no_orphans(server, store)


class TestCrashes:
    async def test_a_cancelled_upload_leaves_nothing(self, server, store):
        begun = asyncio.Event()

        async def endless():
            for n in range(100):
                yield chunk(f"word n{n}")
            begun.set()
            await asyncio.sleep(60)

        task = asyncio.ensure_future(store.put_document(READER, Document("d", "docs", MODEL), endless()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await check_no_orphans(server, store)

    async def test_what_a_killed_upload_left_behind_is_swept_once_it_is_old(self, server, store):
        await put(store, "kept", "word kept")

        async def gone(method, request):
            if method == "Delete":
                raise ValueError("nor can it clean up")

        server.interruption = gone

        async def broken():
            for n in range(70):
                yield chunk(f"word n{n}")
            raise InvalidField("bad", field="chunk")

        with pytest.raises(InvalidField):
            await store.put_document(READER, Document("d", "docs", MODEL), broken())
        server.interruption = None
        (place,) = await places(server)
        assert await texts(store) == ["word kept"]
        async with replica(server):
            assert await noted(server) == 1  # it may be at work still
            assert len(await points(server, place)) == 1 + 64
        await make_old(server)
        async with replica(server) as late:
            assert await texts(late) == ["word kept"]
        await check_no_orphans(server, store)

    async def test_a_note_of_what_counts_deletes_nothing(self, server, store):
        await put(store, "d", "word one", content_hash="1")
        server.lost_answers["OverwritePayload"] = [grpc.StatusCode.UNAVAILABLE] * 3
        with pytest.raises(DependencyFailed):
            await put(store, "d", "word two", content_hash="2")
        # The change was made, and nobody was told.
        assert await texts(store) == ["word two"]
        await make_old(server)
        async with replica(server) as late:
            assert await texts(late) == ["word two"]
        await check_no_orphans(server, store)

    async def test_a_switch_that_nobody_cleaned_up_after_is_swept(self, server, store):
        await put(store, "d", "word one")
        await store.begin_migration("acme", "docs", NEXT)
        await migrate(store)
        old_place = (await places(server))[0]

        async def die():
            server.interruption = None
            server.lost_answers["Delete"] = [grpc.StatusCode.UNAVAILABLE] * 3
            raise ValueError("killed")

        async def before_cleaning(method, request):
            if method == "Delete" and request.collection_name == old_place:
                await die()

        server.interruption = before_cleaning
        with pytest.raises(DependencyFailed):
            await store.end_migration("acme", "docs", MigrationState.DONE)
        server.lost_answers.clear()
        assert await texts(store, model=NEXT_MODEL) == ["word one"]
        assert len(await points(server, old_place)) == 1
        await make_old(server)
        async with replica(server):
            assert await points(server, old_place) == []
        await check_no_orphans(server, store)

    async def test_a_switch_that_was_never_decided_is_decided_at_the_next_try(self, server, store, other):
        await put(store, "d", "word one")
        await store.begin_migration("acme", "docs", NEXT)
        await migrate(store)
        server.lost_answers["Count"] = [grpc.StatusCode.INVALID_ARGUMENT]

        async def only_then(method, request):
            if method == "Count" and is_switching(server):
                server.interruption = None
                raise ValueError("killed")

        server.lost_answers.clear()
        server.interruption = only_then
        with pytest.raises(DependencyFailed):
            await store.end_migration("acme", "docs", MigrationState.DONE)
        assert await texts(other) == ["word one"]
        assert await end(other)
        assert await texts(other, model=NEXT_MODEL) == ["word one"]


async def end(store):
    return await store.end_migration("acme", "docs", MigrationState.DONE)


def registry_point(id):
    return wire.GetPoints(
        collection_name="sabueso-registry",
        ids=[wire.PointId(uuid=document_id("acme", id))],
        with_payload=wire.WithPayloadSelector(enable=True),
    )


def is_document(request):
    return request.payload["kind"].string_value == "document"


def is_switching(server):
    collection = server.memory._client.collections["sabueso-registry"]
    return any(one.get("row", {}).get("switching") for one in collection.payload)


async def noted(server):
    return sum(one["kind"] in ("generation", "edition") for one in await points(server, "sabueso-registry"))


async def make_old(server):
    """Two hours go by for what is noted as loose."""
    for kind in ("generation", "edition"):
        matching = models.Filter(must=[models.FieldCondition(key="kind", match=models.MatchValue(value=kind))])
        old = {"begin_time": "2020-01-01T00:00:00+00:00"}
        await server.memory.set_payload("sabueso-registry", old, models.FilterSelector(filter=matching))
