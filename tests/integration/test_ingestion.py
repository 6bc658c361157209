"""A document's way from upload to index, on real servers, a real Valkey and real files."""

import asyncio
import hashlib
import io
import os
import re
import resource
import secrets
import signal
import sys
import time
from contextlib import asynccontextmanager

import docx
import grpc
import pytest
from fpdf import FPDF
from grpc import aio

from local import ports
from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.ingestion.v1 import ingestion_pb2 as pb
from sabueso.ingestion.v1 import ingestion_pb2_grpc as rpc
from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from services.ingestion.config import Settings
from services.ingestion.server import build
from services.ingestion.valkey_jobs import ValkeyJobStore
from services.ingestion.worker import Retry
from services.runtime import errors
from services.runtime.channels import connect
from services.runtime.context import CallContext, Identity, enter, identity, tenant
from services.runtime.server import Served
from services.runtime.testing import SECRET, SIGNER, act_as, listening, running

INGESTION = pb.DESCRIPTOR.services_by_name["IngestionService"]
DONE = (pb.JOB_STATUS_READY, pb.JOB_STATUS_FAILED, pb.JOB_STATUS_CANCELLED)


class WordEmbedding(embedding_pb2_grpc.EmbeddingServiceServicer):
    """A word is a token. Can be told to wait, and counts what it embeds."""

    def __init__(self, model="words"):
        self.model = model
        self.open = asyncio.Event()
        self.open.set()
        self.failures = 0
        self.texts = []
        self.languages = set()

    async def Describe(self, request, context):
        return embedding_pb2.DescribeResponse(model=self.model, dimensions=4, max_tokens=512, token_vectors=True)

    async def CountTokens(self, request, context):
        return embedding_pb2.CountTokensResponse(token_counts=[len(text.split()) for text in request.texts])

    async def Embed(self, request, context):
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise errors.Overloaded("The queue is full.")
        if request.language == "xx":
            raise errors.InvalidField("`language` is unknown.", field="language")
        self.texts += request.texts
        self.languages.add(request.language)
        answers = []
        for text in request.texts:
            one = embedding_pb2.Embedding(dense=[0.5] * 4, token_count=len(text.split()))
            one.sparse.indices.append(1)
            one.sparse.values.append(1.0)
            if request.with_token_vectors:
                one.token_vectors.dimensions = 2
                one.token_vectors.values = b"\0" * 4 * one.token_count
            answers.append(one)
        return embedding_pb2.EmbedResponse(embeddings=answers, model=self.model)


class ListIndex(retrieval_pb2_grpc.RetrievalServiceServicer):
    """Keeps documents in lists, by tenant."""

    def __init__(self):
        self.documents = {}
        self.upserts = 0
        self.failures = 0
        self.writers = []
        self.models = {}
        self.open = asyncio.Event()
        self.open.set()

    async def ListCollections(self, request, context):
        names = {"contracts": "", "policies": "es"}
        collections = [
            retrieval_pb2.Collection(name=n, language=language, embedding_model=self.models.get(n, ""))
            for n, language in names.items()
        ]
        return retrieval_pb2.ListCollectionsResponse(collections=collections)

    async def Upsert(self, request_iterator, context):
        if self.failures:
            self.failures -= 1
            raise errors.DependencyFailed("The store does not answer.", dependency="store")
        messages = [message async for message in request_iterator]
        assert messages[0].WhichOneof("part") == "document"
        header, chunks = messages[0].document, [message.chunk for message in messages[1:]]
        await self.open.wait()
        self.writers.append(identity())
        self.upserts += 1
        replaced = (tenant(), header.document_id) in self.documents
        self.documents[tenant(), header.document_id] = header, chunks
        return retrieval_pb2.UpsertResponse(chunk_count=len(chunks), replaced=replaced)

    async def GetDocument(self, request, context):
        found = self.documents.get((tenant(), request.document_id))
        if found is None:
            raise errors.NotFound("There is no such document.")
        header, chunks = found
        document = retrieval_pb2.Document(
            document_id=header.document_id, title=header.title, content_hash=header.content_hash,
            chunk_count=len(chunks), page_count=header.page_count,
        )  # fmt: skip
        return retrieval_pb2.GetDocumentResponse(document=document)


class House:
    """Addresses and servicers of a running installation."""

    def __init__(self, embedding, index, settings, url):
        self.embedding = embedding
        self.index = index
        self.settings = settings
        self.url = url
        self.prefix = f"{{{secrets.token_hex(4)}}}:"

    def serve(self, **options):
        jobs = ValkeyJobStore(self.url, prefix=self.prefix, lease_seconds=2, **options)
        return build(self.settings, jobs, Retry(max_attempts=3, first_seconds=0.05))


@pytest.fixture
async def house(valkey_url, tmp_path):
    embedding, index = WordEmbedding(), ListIndex()
    first = Served(
        embedding,
        embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server,
        embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"],
    )
    second = Served(
        index,
        retrieval_pb2_grpc.add_RetrievalServiceServicer_to_server,
        retrieval_pb2.DESCRIPTOR.services_by_name["RetrievalService"],
    )
    act_as("acme")
    async with listening(first) as embedding_address, listening(second) as retrieval_address:
        settings = Settings(
            identity_secret=SECRET,
            embedding_address=embedding_address,
            retrieval_address=retrieval_address,
            valkey_url=valkey_url,
            spool_dir=tmp_path / "spool",
            max_document_bytes=40 * 2**20,
            parse_timeout_seconds=60,
        )
        yield House(embedding, index, settings, valkey_url)


def act_with(*labels):
    """Makes the current task a caller of acme that holds these labels."""
    caller = Identity("acme", "test", labels=labels)
    enter(CallContext(caller, SIGNER.sign(caller)))


async def submit(channel, content, collection="contracts", size=256 * 1024, **header):
    async def messages():
        yield pb.SubmitRequest(header=pb.SubmitHeader(collection=collection, **header))
        for start in range(0, len(content), size):
            yield pb.SubmitRequest(content=content[start : start + size])

    return (await rpc.IngestionServiceStub(channel).Submit(messages())).job


async def refusal(channel, content, **header):
    with pytest.raises(aio.AioRpcError) as caught:
        await submit(channel, content, **header)
    return errors.from_rpc(caught.value, "ingestion")


async def ended(channel, job, seconds=20, until=DONE):
    stub = rpc.IngestionServiceStub(channel)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        job = (await stub.GetJob(pb.GetJobRequest(job_id=job.job_id))).job
        if job.status in until:
            return job
        await asyncio.sleep(0.03)
    pytest.fail(f"the job is still {pb.JobStatus.Name(job.status)}: {job.reason}")


def contract_pdf(encrypt=False):
    pdf = FPDF()
    if encrypt:
        pdf.set_encryption(owner_password="owner", user_password="user")
    for number, (head, body) in enumerate(
        [("7. Precio", "7.1 Revisión. El precio se revisa cada año según el IPC, con un máximo del 4 % anual."),
         ("8. Entrega", "8.3 Penalización por retraso. Por cada mes de retraso se descuenta un 2 % del precio.")]
    ):  # fmt: skip
        pdf.add_page()
        if number == 0:
            pdf.set_font("helvetica", "B", 18)
            pdf.cell(0, 12, "Contrato de suministro", new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("helvetica", "B", 12)
        pdf.cell(0, 10, head, new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("helvetica", size=11)
        pdf.multi_cell(0, 6, body)
    return bytes(pdf.output())


def contract_docx():
    document = docx.Document()
    document.core_properties.title = "Supply contract"
    document.add_heading("Special conditions", 1)
    document.add_paragraph("8.3 Late delivery. The provider pays a penalty of 2 % of the price for each month late.")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip([c for row in table.rows for c in row.cells], ["Item", "Price", "Bolt", "2.50"], strict=True):
        cell.text = text
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


async def test_a_pdf_becomes_passages_with_pages_and_clauses(house):
    async with running(house.serve()) as channel:
        job = await submit(
            channel, contract_pdf(), document_id="CT-2025-0001", filename="ct.pdf", metadata={"año": "2025"}
        )
        assert (job.status, job.document_id, job.collection) == (pb.JOB_STATUS_QUEUED, "CT-2025-0001", "contracts")
        job = await ended(channel, job)
    assert (job.status, job.reason, job.page_count, job.title) == (pb.JOB_STATUS_READY, "", 2, "Contrato de suministro")
    header, chunks = house.index.documents["acme", "CT-2025-0001"]
    assert (header.language, header.source, header.embedding_model) == ("es", "ct.pdf", "words")
    assert dict(header.metadata) == {"año": "2025"}
    assert job.chunk_count == len(chunks)
    penalty = next(chunk for chunk in chunks if "8.3" in chunk.text)
    assert penalty.page == 2
    assert penalty.section == "8. Entrega > 8.3 Penalización por retraso"
    assert "descuenta un 2 % del precio" in penalty.text
    assert list(penalty.dense) == [0.5] * 4
    assert penalty.sparse.values
    assert penalty.token_vectors.values
    assert penalty.token_count == len(penalty.text.split())
    assert "es" in house.embedding.languages


async def test_the_title_is_embedded_and_not_stored(house):
    async with running(house.serve()) as channel:
        job = await submit(channel, b"The warranty lasts two years.", title="Framework agreement", document_id="w")
        await ended(channel, job)
    _, chunks = house.index.documents["acme", "w"]
    assert [chunk.text for chunk in chunks] == ["The warranty lasts two years."]
    assert house.embedding.texts == ["Framework agreement\nThe warranty lasts two years."]


async def test_a_docx_keeps_headings_and_tables_in_order(house):
    async with running(house.serve()) as channel:
        job = await ended(channel, await submit(channel, contract_docx(), filename="c.docx", document_id="c"))
    assert (job.status, job.title) == (pb.JOB_STATUS_READY, "Supply contract")
    text = "\n".join(chunk.text for chunk in house.index.documents["acme", "c"][1])
    assert text.index("Special conditions") < text.index("8.3 Late delivery") < text.index("| Bolt | 2.50 |")


async def test_the_language_is_the_senders_else_the_texts_else_the_collections(house):
    english = b"The provider shall deliver the goods within thirty days of the order, and bears all costs."
    async with running(house.serve()) as channel:
        for content, said, expected in ((english, "es", "es"), (english, "", "en"), (b"CT-2025-0001", "", "es")):
            job = await submit(channel, content, collection="policies", language=said, document_id="d")
            assert (await ended(channel, job)).status == pb.JOB_STATUS_READY
            assert house.index.documents["acme", "d"][0].language == expected
            assert house.embedding.languages.pop() == expected
        job = await ended(channel, await submit(channel, english, language="xx"))
    assert (job.status, job.reason) == (pb.JOB_STATUS_FAILED, "`language` is unknown.")


@pytest.mark.parametrize(
    ("content", "filename", "words"),
    [
        (contract_pdf(encrypt=True), "a.pdf", "encrypted"),
        (b"%PDF-1.7\nbroken", "a.pdf", "damaged"),
        (bytes(range(256)) * 40, "noise.bin", "neither text nor a known format"),
        (b"PK\x03\x04broken", "a.docx", "damaged"),
        (b"\x89PNG\r\n\x1a\n0000", "a.txt", "The picture cannot be read"),
        (b"   \n\n ", "blank.txt", "empty"),
    ],
)
async def test_an_unreadable_file_fails_with_its_reason(house, content, filename, words):
    async with running(house.serve()) as channel:
        job = await ended(channel, await submit(channel, content, filename=filename))
    assert job.status == pb.JOB_STATUS_FAILED
    assert words in job.reason
    assert not house.index.documents
    assert not any((house.settings.spool_dir / "jobs").iterdir())


async def test_bytes_win_over_a_wrong_name(house):
    async with running(house.serve()) as channel:
        job = await submit(channel, contract_pdf(), filename="notes.txt", content_type="text/plain", document_id="x")
        job = await ended(channel, job)
    assert (job.status, job.page_count) == (pb.JOB_STATUS_READY, 2)


async def test_a_parser_that_takes_too_much_memory_or_time_fails_alone(house):
    house.settings = house.settings.model_copy(update={"parse_memory_bytes": 2**28, "parse_timeout_seconds": 2})
    bomb = b"<html><body>" + b"<p>x" * 1_000_000
    async with running(house.serve()) as channel:
        job = await ended(channel, await submit(channel, bomb, filename="bomb.html"))
        assert job.status == pb.JOB_STATUS_FAILED
        assert re.search("memory|longer", job.reason)
        job = await ended(channel, await submit(channel, b"Still alive.", document_id="after"))
    assert job.status == pb.JOB_STATUS_READY


async def test_refused_submissions_name_the_field(house):
    async with running(house.serve()) as channel:
        assert (await refusal(channel, b"")).metadata == {"field": "content"}
        assert (await refusal(channel, b"x", document_id="no spaces")).metadata == {"field": "document_id"}
        assert (await refusal(channel, b"x", language="spanish")).metadata == {"field": "language"}
        many = {str(number): "" for number in range(51)}
        assert (await refusal(channel, b"x", metadata=many)).metadata == {"field": "metadata"}
        assert (await refusal(channel, b"x" * (41 * 2**20))).metadata == {"field": "content"}
        assert (await refusal(channel, b"x" * 2**21, size=2**21)).metadata == {"field": "content"}
        missing = await refusal(channel, b"x", collection="nothing")
        assert isinstance(missing, errors.NotFound)
        assert "`nothing`" in missing.message
        assert "`contracts`, `policies`" in missing.message
        with pytest.raises(aio.AioRpcError) as caught:
            await rpc.IngestionServiceStub(channel).Submit(iter([pb.SubmitRequest(content=b"x")]))
        assert errors.from_rpc(caught.value, "ingestion").metadata == {"field": "header"}
    assert not any((house.settings.spool_dir / "jobs").iterdir())


async def test_a_full_queue_refuses_and_says_when_to_come_back(house):
    house.embedding.open.clear()
    async with running(house.serve(max_open=2)) as channel:
        await submit(channel, b"one")
        await submit(channel, b"two")
        full = await refusal(channel, b"three")
        assert isinstance(full, errors.LimitExceeded)
        assert full.metadata == {"setting": "SABUESO_MAX_QUEUED_JOBS"}
        assert full.retry_after.total_seconds() > 0
        house.embedding.open.set()


async def test_jobs_belong_to_their_tenant(house):
    async with running(house.serve()) as channel:
        stub = rpc.IngestionServiceStub(channel)
        job = await ended(channel, await submit(channel, b"Ours alone.", document_id="d"))
        act_as("other")
        for call, request in ((stub.GetJob, pb.GetJobRequest), (stub.CancelJob, pb.CancelJobRequest)):
            with pytest.raises(aio.AioRpcError) as caught:
                await call(request(job_id=job.job_id))
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert not (await stub.ListJobs(pb.ListJobsRequest())).jobs
        await ended(channel, await submit(channel, b"Theirs.", document_id="d"))
        assert [chunk.text for chunk in house.index.documents["acme", "d"][1]] == ["Ours alone."]
        assert [chunk.text for chunk in house.index.documents["other", "d"][1]] == ["Theirs."]
        act_as("acme")
        assert [one.job_id for one in (await stub.ListJobs(pb.ListJobsRequest())).jobs] == [job.job_id]


async def test_the_same_id_replaces_and_the_same_content_is_not_embedded_again(house):
    async with running(house.serve()) as channel:
        first = await ended(channel, await submit(channel, b"Version one.", document_id="d", title="T"))
        embedded = len(house.embedding.texts)
        again = await ended(channel, await submit(channel, b"Version one.", document_id="d", title="T"))
        assert (again.status, again.chunk_count, again.title) == (pb.JOB_STATUS_READY, 1, "T")
        assert again.job_id != first.job_id
        assert (len(house.embedding.texts), house.index.upserts) == (embedded, 1)
        await ended(channel, await submit(channel, b"Version two.", document_id="d", title="T"))
        assert [chunk.text for chunk in house.index.documents["acme", "d"][1]] == ["Version two."]
        await ended(channel, await submit(channel, b"Version two.", document_id="d", title="Another"))
        assert house.index.documents["acme", "d"][0].title == "Another"
        jobs = (await rpc.IngestionServiceStub(channel).ListJobs(pb.ListJobsRequest(document_id="d"))).jobs
        assert [job.title for job in jobs] == ["Another"]


async def test_a_cancelled_job_stores_nothing(house):
    house.embedding.open.clear()
    async with running(house.serve()) as channel:
        stub = rpc.IngestionServiceStub(channel)
        running_job = await submit(channel, b"First.", document_id="a")
        waiting = await submit(channel, b"Second.", document_id="b")
        await ended(channel, running_job, until=[pb.JOB_STATUS_EMBEDDING])
        for job in (waiting, running_job):
            cancelled = (await stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))).job
            assert cancelled.status == pb.JOB_STATUS_CANCELLED
        await asyncio.sleep(1.5)
        house.embedding.open.set()
        after = await ended(channel, await submit(channel, b"Third.", document_id="c"))
        assert after.status == pb.JOB_STATUS_READY
        assert (await ended(channel, running_job)).status == pb.JOB_STATUS_CANCELLED
    assert set(house.index.documents) == {("acme", "c")}
    assert not any((house.settings.spool_dir / "jobs").iterdir())


async def test_a_tenants_share_and_a_full_spool_are_refused_by_name(house):
    house.embedding.open.clear()
    async with running(house.serve(max_open_per_tenant=1)) as channel:
        await submit(channel, b"one")
        full = await refusal(channel, b"two")
        assert isinstance(full, errors.LimitExceeded)
        assert full.metadata == {"setting": "SABUESO_MAX_QUEUED_JOBS_PER_TENANT"}
        act_as("bravo")
        await submit(channel, b"three")
    house.settings = house.settings.model_copy(update={"spool_max_bytes": 2**20})
    act_as("corp")
    async with running(house.serve()) as channel:
        full = await refusal(channel, b"x" * 2**20)
    assert isinstance(full, errors.LimitExceeded)
    assert full.metadata == {"setting": "SABUESO_SPOOL_MAX_BYTES"}
    assert full.retry_after.total_seconds() > 0


async def test_one_tenants_bulk_load_does_not_hold_up_anothers_file(house):
    house.embedding.open.clear()
    async with running(house.serve()) as channel:
        bulk = [await submit(channel, b"Bulk.", document_id=f"bulk{number}") for number in range(30)]
        await ended(channel, bulk[0], until=[pb.JOB_STATUS_EMBEDDING])
        act_as("bravo")
        single = await submit(channel, b"Single.", document_id="single")
        house.embedding.open.set()
        assert (await ended(channel, single)).status == pb.JOB_STATUS_READY
        act_as("acme")
        assert (await ended(channel, bulk[-1])).status == pb.JOB_STATUS_READY
    order = [document_id for _, document_id in house.index.documents]
    assert order.index("single") <= 1
    assert len(order) == 31 == house.index.upserts


async def test_a_document_is_stored_with_its_labels_and_in_the_name_of_its_sender(house):
    act_with("hr", "board")
    async with running(house.serve()) as channel:
        job = await submit(channel, b"Salaries.", document_id="d", labels=["hr"])
        job = await ended(channel, job)
    header, _ = house.index.documents["acme", "d"]
    assert (job.status, job.chunk_count, job.total_chunk_count) == (pb.JOB_STATUS_READY, 1, 1)
    assert list(header.labels) == ["hr"]
    assert header.content_sha256 == job.content_sha256 == hashlib.sha256(b"Salaries.").hexdigest()
    assert house.index.writers == [Identity("acme", "test", labels=("hr", "board"))]


async def test_labels_that_the_caller_does_not_hold_are_refused(house):
    async with running(house.serve()) as channel:
        act_with("hr")
        missing = await refusal(channel, b"x", labels=["hr", "board"])
        assert isinstance(missing, errors.NotPermitted)
        assert "`board`" in missing.message
        for labels in (["*"], [""], ["x" * 101], [str(number) for number in range(51)]):
            assert (await refusal(channel, b"x", labels=labels)).metadata == {"field": "labels"}
        act_with("*")
        assert (await ended(channel, await submit(channel, b"x", labels=["any"]))).status == pb.JOB_STATUS_READY


async def test_whoever_may_not_read_a_document_neither_sees_nor_ends_its_job(house):
    house.embedding.open.clear()
    async with running(house.serve()) as channel:
        stub = rpc.IngestionServiceStub(channel)
        act_with("hr")
        job = await submit(channel, b"Salaries.", document_id="d", labels=["hr"])
        act_with("sales")
        assert not (await stub.ListJobs(pb.ListJobsRequest())).jobs
        for call in (
            stub.GetJob(pb.GetJobRequest(job_id=job.job_id)),
            stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id)),
        ):
            with pytest.raises(aio.AioRpcError) as caught:
                await call
            assert isinstance(errors.from_rpc(caught.value, "ingestion"), errors.NotFound)
        assert isinstance(await refusal(channel, b"Nothing.", document_id="d"), errors.NotPermitted)
        act_with("*")
        assert [one.job_id for one in (await stub.ListJobs(pb.ListJobsRequest())).jobs] == [job.job_id]
        house.embedding.open.set()
        assert (await ended(channel, job)).status == pb.JOB_STATUS_READY


async def test_a_document_that_is_being_stored_is_ready_when_its_cancellation_answers(house):
    house.index.open.clear()
    async with running(house.serve()) as channel:
        stub = rpc.IngestionServiceStub(channel)
        job = await submit(channel, b"Too late.", document_id="d")
        await ended(channel, job, until=[pb.JOB_STATUS_EMBEDDING])
        await asyncio.sleep(0.3)
        cancelling = asyncio.create_task(_answer(stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))))
        await asyncio.sleep(0.3)
        assert not cancelling.done()
        house.index.open.set()
        assert (await cancelling).job.status == pb.JOB_STATUS_READY
    assert ("acme", "d") in house.index.documents


async def _answer(call):
    return await call


async def test_the_same_text_is_not_embedded_twice(house):
    async with running(house.serve()) as channel:
        for number in range(3):
            await ended(channel, await submit(channel, b"Boilerplate.", title="T", document_id=f"d{number}"))
        act_as("bravo")
        await ended(channel, await submit(channel, b"Boilerplate.", title="T", document_id="d"))
    assert house.embedding.texts == ["T\nBoilerplate."] * 2, "once a tenant"
    assert house.index.upserts == 4


async def test_a_collection_of_another_model_is_a_clear_failure(house):
    house.index.models["contracts"] = "older-model"
    async with running(house.serve()) as channel:
        job = await ended(channel, await submit(channel, b"x", document_id="d"))
    assert job.status == pb.JOB_STATUS_FAILED
    for word in ("`older-model`", "`words`", "sabueso collections migrate"):
        assert word in job.reason


async def test_each_collection_is_embedded_by_the_service_of_its_model(house):
    other = WordEmbedding("other")
    served = Served(
        other,
        embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server,
        embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"],
    )
    house.index.models["policies"] = "other"
    async with listening(served) as address:
        addresses = f"{house.settings.embedding_address},{address}"
        house.settings = house.settings.model_copy(update={"embedding_address": addresses})
        async with running(house.serve()) as channel:
            for name in ("contracts", "policies"):
                job = await submit(channel, name.encode(), collection=name, document_id=name)
                assert (await ended(channel, job)).status == pb.JOB_STATUS_READY
    models = {id_: header.embedding_model for (_, id_), (header, _) in house.index.documents.items()}
    assert models == {"contracts": "words", "policies": "other"}


async def test_a_job_waits_for_services_that_are_busy_and_does_not_embed_twice(house):
    house.embedding.failures = 1
    house.index.failures = 1
    async with running(house.serve()) as channel:
        job = await ended(channel, await submit(channel, b"Patience.", document_id="d"))
    assert (job.status, job.reason) == (pb.JOB_STATUS_READY, "")
    assert house.embedding.texts == ["Patience."]


async def test_a_job_is_given_up_after_its_last_attempt(house):
    house.index.failures = 99
    async with running(house.serve()) as channel:
        job = await ended(channel, await submit(channel, b"Hopeless.", document_id="d"))
    assert job.status == pb.JOB_STATUS_FAILED
    assert job.reason == "The store does not answer. Given up after 3 attempts."


async def test_a_stopped_service_goes_on_after_its_restart(house):
    house.embedding.open.clear()
    async with running(house.serve()) as channel:
        job = await submit(channel, b"Survivor.", document_id="d")
        await ended(channel, job, until=[pb.JOB_STATUS_EMBEDDING])
    house.embedding.open.set()
    async with running(house.serve()) as channel:
        assert (await ended(channel, job)).status == pb.JOB_STATUS_READY
    assert house.index.upserts == 1


async def test_a_killed_process_finishes_its_jobs_once_after_its_restart(house, valkey_url):
    text = "\n\n".join(f"# Part {n}\n\n" + f"word{n} " * 300 for n in range(40)).encode()
    house.embedding.open.clear()
    port = ports.pick(1, ports.random_start())[0]
    async with started(house, port) as (process, channel):
        jobs = [await submit(channel, text, document_id=f"d{n}", filename="d.md") for n in range(2)]
        await ended(channel, jobs[0], until=[pb.JOB_STATUS_EMBEDDING])
        process.send_signal(signal.SIGKILL)
        await process.wait()
    house.embedding.open.set()
    async with started(house, port) as (_, channel):
        done = [await ended(channel, job) for job in jobs]
    assert [job.status for job in done] == [pb.JOB_STATUS_READY] * 2
    assert house.index.upserts == 2
    assert len(house.index.documents["acme", "d0"][1]) == done[0].chunk_count == 40


@asynccontextmanager
async def started(house, port):
    """The service as a process of its own, as in production."""
    settings = house.settings
    environment = {
        "PATH": os.environ["PATH"],
        "SABUESO_IDENTITY_SECRET": SECRET,
        "SABUESO_HOST": "127.0.0.1",
        "SABUESO_PORT": str(port),
        "SABUESO_METRICS_PORT": "0",
        "SABUESO_EMBEDDING_ADDRESS": settings.embedding_address,
        "SABUESO_RETRIEVAL_ADDRESS": settings.retrieval_address,
        "SABUESO_VALKEY_URL": house.url,
        "SABUESO_SPOOL_DIR": str(settings.spool_dir),
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "services.ingestion.server", env=environment)
    async with connect(f"127.0.0.1:{port}", INGESTION) as channel:
        await asyncio.wait_for(channel.channel_ready(), 20)
        yield process, channel
    if process.returncode is None:
        process.terminate()
        await asyncio.wait_for(process.wait(), 10)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("megabytes", [3, pytest.param(30, marks=pytest.mark.slow)])
async def test_a_long_text_stays_within_bounds(house, megabytes):
    house.settings = house.settings.model_copy(update={"token_vector_chunks": 100})
    sentence = "The provider delivers the goods within thirty days of the order. "
    text = ("\n\n".join(f"{n}. Clause number {n}\n\n" + sentence * 60 for n in range(1, 254 * megabytes))).encode()
    assert len(text) > megabytes * 990_000
    async with running(house.serve()) as channel:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        job = await submit(channel, text, filename="long.txt", document_id="long")
        job = await ended(channel, job, seconds=120)
        grown_kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert job.status == pb.JOB_STATUS_READY, job.reason
    assert grown_kibibytes < 20 * 1024 * megabytes + 100_000
    chunks = house.index.documents["acme", "long"][1]
    assert len(chunks) == job.chunk_count > 500 * megabytes
    assert max(chunk.token_count for chunk in chunks) <= 350
    assert not chunks[0].HasField("token_vectors")


class NotingCache(tool_cache_pb2_grpc.ToolCacheServiceServicer):
    """Notes what is forgotten for whom; or hangs."""

    def __init__(self):
        self.forgotten = []
        self.hanging = False

    async def Invalidate(self, request, context):
        self.forgotten.append((tenant(), request.tool, list(request.sources)))
        if self.hanging:
            await asyncio.sleep(60)
        return tool_cache_pb2.InvalidateResponse()


@asynccontextmanager
async def with_cache(house, address=None):
    cache = NotingCache()
    served = Served(
        cache,
        tool_cache_pb2_grpc.add_ToolCacheServiceServicer_to_server,
        tool_cache_pb2.DESCRIPTOR.services_by_name["ToolCacheService"],
    )
    async with listening(served) as listens_at:
        house.settings = house.settings.model_copy(update={"tool_cache_address": address or listens_at})
        async with running(house.serve()) as channel:
            yield cache, channel


async def test_what_was_answered_before_a_document_came_is_forgotten_in_the_name_of_its_tenant(house):
    async with with_cache(house) as (cache, channel):
        for text in (b"First text.", b"First text.", b"Second text."):
            job = await ended(channel, await submit(channel, text, document_id="d", filename="d.txt"))
            assert job.status == pb.JOB_STATUS_READY
    assert cache.forgotten == [("acme", "", ["collection:contracts", "collection:*"])] * 2


async def test_a_document_is_ready_although_the_cache_hangs_or_is_lost(house):
    async with with_cache(house) as (cache, channel):
        cache.hanging = True
        job = await ended(channel, await submit(channel, b"Text.", document_id="d", filename="d.txt"))
        assert (job.status, len(cache.forgotten)) == (pb.JOB_STATUS_READY, 1)
    async with with_cache(house, "127.0.0.1:1") as (cache, channel):
        job = await ended(channel, await submit(channel, b"Other.", document_id="d", filename="d.txt"))
        assert (job.status, cache.forgotten) == (pb.JOB_STATUS_READY, [])
