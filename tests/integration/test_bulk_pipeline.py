"""Bulk indexing without Ray beside the ingestion service: the same files become the same documents."""

import asyncio
import hashlib
import mimetypes
import secrets
from pathlib import Path

import pytest

from sabueso.ingestion.v1 import ingestion_pb2, ingestion_pb2_grpc
from sabueso.retrieval.v1 import retrieval_pb2 as pb
from services.cli.folder import Choice, find
from services.ingestion.bulk.config import Settings
from services.ingestion.bulk.connections import Connections
from services.ingestion.bulk.corpus import Outcome, Source, Target
from services.ingestion.bulk.files import stamp_of
from services.ingestion.bulk.patience import patiently, reason_of
from services.ingestion.bulk.planning import Planning
from services.ingestion.bulk.preparing import Prepared
from services.ingestion.config import Settings as ServiceSettings
from services.ingestion.parsing import Parser
from services.ingestion.server import build
from services.ingestion.valkey_jobs import ValkeyJobStore
from services.ingestion.worker import Retry
from services.runtime import errors
from services.runtime.channels import connect
from services.runtime.testing import SECRET, act_as, listening
from tests.integration.bulk_servers import WholeIndex, corpus, served_embedding

INGESTION = ingestion_pb2.DESCRIPTOR.services_by_name["IngestionService"]
UNFINISHED = (ingestion_pb2.JOB_STATUS_QUEUED, ingestion_pb2.JOB_STATUS_PARSING, ingestion_pb2.JOB_STATUS_EMBEDDING)
RETRY = Retry(max_attempts=3, first_seconds=0.05)


class Bench:
    """Bulk indexing in this process."""

    def __init__(self, connections, settings, folder, target, parser):
        self.connections, self.target = connections, target
        self.preparation = connections.preparation(folder, parser)
        self.storing = connections.storing()
        self.planning = Planning(self.preparation.pipeline, connections.index, connections.documents, target)

    async def index(self, source):
        """As a worker of Ray does with one file."""
        try:
            prepared = await patiently(lambda: self.preparation.prepare(source), RETRY, self.connections.renew)
            if isinstance(prepared, Outcome):
                return prepared
            return await patiently(lambda: self.storing.store(prepared), RETRY, self.connections.renew)
        except Exception as error:
            return Outcome(source.document_id, source.uri, "failed", reason_of(error), "", source.stamp)


@pytest.fixture(scope="module")
def parser():
    made = Parser(448 * 2**20, 60)
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("here") / "corpus"
    for name, content in corpus().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def sources_in(folder):
    return [Source(str(file.path), file.document_id, stamp_of(file.path)) for file in find([folder], Choice())]


@pytest.fixture
async def index():
    return WholeIndex()


@pytest.fixture
async def addresses(index):
    async with listening(served_embedding()) as embedding, listening(index.served()) as retrieval:
        yield {"embedding_address": embedding, "retrieval_address": retrieval}


@pytest.fixture
async def bench(addresses, parser, tmp_path):
    settings = Settings(identity_secret=SECRET, **addresses)
    connections = Connections(settings, Target("bulk", "corpus"))
    connections.act()
    yield Bench(connections, settings, tmp_path / "scratch", Target("bulk", "corpus"), parser)
    await connections.close()


async def sent_to_the_service(addresses, valkey_url, tmp_path, sources):
    """What `sabueso ingest` and the gateway make of a file; reasons of those that failed, by document id."""
    act_as("sent")
    settings = ServiceSettings(
        identity_secret=SECRET, spool_dir=tmp_path / "spool", valkey_url=valkey_url, workers=2, **addresses
    )
    jobs = ValkeyJobStore(valkey_url, prefix=f"{{{secrets.token_hex(4)}}}:", lease_seconds=10)
    async with listening(build(settings, jobs, RETRY)) as address, connect(address, INGESTION) as channel:
        stub = ingestion_pb2_grpc.IngestionServiceStub(channel)
        ids = []
        for source in sources:
            ids.append((await stub.Submit(messages_of(source))).job.job_id)
        ended = []
        for id_ in ids:
            job = (await stub.GetJob(ingestion_pb2.GetJobRequest(job_id=id_))).job
            while job.status in UNFINISHED:
                await asyncio.sleep(0.05)
                job = (await stub.GetJob(ingestion_pb2.GetJobRequest(job_id=id_))).job
            ended.append(job)
    return {job.document_id: job for job in ended}


async def messages_of(source):
    name = source.uri.rpartition("/")[2]
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    header = ingestion_pb2.SubmitHeader(
        collection="corpus", document_id=source.document_id, filename=name, content_type=media_type
    )
    yield ingestion_pb2.SubmitRequest(header=header)
    content = await asyncio.to_thread(Path(source.uri).read_bytes)
    yield ingestion_pb2.SubmitRequest(content=content)


async def test_a_document_is_the_same_to_the_byte_as_from_the_service(
    addresses, index, bench, folder, valkey_url, tmp_path
):
    index.collections["corpus"].chunking.CopyFrom(pb.Chunking(max_tokens=60, min_tokens=30, parent_tokens=120))
    sources = [one for one in sources_in(folder) if not one.uri.endswith("empty.txt")]
    jobs = await sent_to_the_service(addresses, valkey_url, tmp_path, sources)
    outcomes = {one.document_id: one for one in [await bench.index(source) for source in sources]}

    sent = {id_: messages for (whose, id_), messages in index.documents.items() if whose == "sent"}
    bulk = {id_: messages for (whose, id_), messages in index.documents.items() if whose == "bulk"}
    assert len(sent) == len(sources) - 1
    assert bulk == sent
    for id_, job in jobs.items():
        outcome = outcomes[id_]
        ready = job.status == ingestion_pb2.JOB_STATUS_READY
        assert outcome.state == ("stored" if ready else "failed")
        assert (outcome.reason, outcome.chunk_count) == (job.reason, job.chunk_count)
        assert list(outcome.warnings) == list(job.warnings)
    marked = [id_ for id_, outcome in outcomes.items() if outcome.warnings]
    assert marked == ["corpus/orders.txt"]
    languages = {pb.UpsertRequest.FromString(messages[0]).document.language for messages in bulk.values()}
    assert {"es", "en"} <= languages


async def test_a_second_time_nothing_is_parsed_or_stored(bench, index, folder):
    (source,) = (one for one in sources_in(folder) if one.uri.endswith("contrato.md"))
    assert (await bench.index(source)).state == "stored"
    again = await bench.index(source)
    assert (again.state, len(index.upserts)) == ("unchanged", 1)
    assert again.chunk_count == (await bench.connections.index.stored(source.document_id)).chunk_count
    assert again.sha256 == hashlib.sha256(corpus()["contrato.md"]).hexdigest()


async def test_an_empty_file_is_told_as_such(bench, folder):
    (source,) = (one for one in sources_in(folder) if one.uri.endswith("empty.txt"))
    assert (await bench.index(source)).state == "empty"


async def test_a_file_that_is_gone_or_too_large_fails_with_a_reason(bench, tmp_path, addresses, parser):
    gone = await bench.index(Source(str(tmp_path / "gone.txt"), "corpus/gone.txt"))
    assert (gone.state, gone.reason) == ("failed", "It cannot be read: No such file or directory.")
    large = tmp_path / "large.txt"
    large.write_text("word " * 50)
    settings = Settings(identity_secret=SECRET, max_document_bytes=100, **addresses)
    connections = Connections(settings, bench.target)
    small = Bench(connections, settings, tmp_path / "small", bench.target, parser)
    outcome = await small.index(Source(str(large), "corpus/large.txt"))
    await connections.close()
    assert "larger than 100 bytes" in outcome.reason


async def test_a_store_that_is_away_for_a_moment_is_waited_for(bench, index, folder):
    (source,) = (one for one in sources_in(folder) if one.uri.endswith("short.txt"))
    index.failures = 2
    assert (await bench.index(source)).state == "stored"
    index.failures = 3
    (other,) = (one for one in sources_in(folder) if one.uri.endswith("prices.csv"))
    outcome = await bench.index(other)
    assert (outcome.state, outcome.reason) == ("failed", "The store does not answer. Given up; run it again.")


async def test_what_is_up_to_date_is_known_without_reading_it(bench, index, folder):
    sources = [one for one in sources_in(folder) if one.uri.endswith((".txt", ".md"))]
    outcomes = [await bench.index(source) for source in sources]
    known = {one.document_id: one.sha256 for one in outcomes}

    plan = await bench.planning.plan(sources, known)
    assert plan.todo == []
    assert [one.state for one in plan.done].count("unchanged") == len(sources) - 1
    assert {one.state for one in plan.done} == {"unchanged", "empty"}
    # Nothing is known of the file's content: it has to be read.
    assert (await bench.planning.plan(sources, {})).todo == sources
    # Deleted behind the ledger's back.
    del index.documents["bulk", "corpus/short.txt"]
    plan = await bench.planning.plan(sources, known)
    assert [one.document_id for one in plan.todo] == ["corpus/short.txt"]


async def test_another_way_of_cutting_makes_everything_be_done_anew(bench, index, folder):
    sources = [one for one in sources_in(folder) if one.uri.endswith("contrato.md")]
    outcomes = [await bench.index(source) for source in sources]
    known = {one.document_id: one.sha256 for one in outcomes}
    index.collections["corpus"].chunking.CopyFrom(pb.Chunking(max_tokens=60, min_tokens=30))
    assert (await bench.planning.plan(sources, known)).todo == sources
    index.collections["corpus"].chunking.Clear()
    changed = {id_: hashlib.sha256(b"new").hexdigest() for id_ in known}
    assert (await bench.planning.plan(sources, changed)).todo == sources


async def test_a_document_of_another_collection_is_left_alone(bench, index, folder):
    (source,) = (one for one in sources_in(folder) if one.uri.endswith("short.txt"))
    await bench.index(source)
    elsewhere = Planning(
        bench.preparation.pipeline, bench.connections.index, bench.connections.documents, Target("bulk", "other")
    )
    plan = await elsewhere.plan([source], {})
    assert plan.todo == []
    assert "There is a document `corpus/short.txt` in `corpus`" in plan.done[0].reason


async def test_a_collection_that_is_not_there_is_named_before_anything_is_done(bench, folder):
    missing = Planning(
        bench.preparation.pipeline, bench.connections.index, bench.connections.documents, Target("bulk", "mising")
    )
    with pytest.raises(errors.NotFound, match="There is no collection `mising`; existing are: `corpus`, `other`"):
        await missing.plan(sources_in(folder), {})


async def test_prepared_documents_hold_no_vectors(bench, folder):
    """They wait in memory: it is their texts that wait, and nothing many times as large."""
    (source,) = (one for one in sources_in(folder) if one.uri.endswith("contrato.md"))
    prepared = await bench.preparation.prepare(source)
    assert isinstance(prepared, Prepared)
    assert prepared.token_vectors
    assert not list((bench.preparation.pipeline.spool.content("x").parent.parent).iterdir())
