"""A document is sent, read, embedded, stored and found: the real ingestion, embedding and retrieval together."""

import asyncio
import secrets

import pytest
from grpc import aio

from sabueso.ingestion.v1 import ingestion_pb2 as pb
from sabueso.ingestion.v1 import ingestion_pb2_grpc as rpc
from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from services.embedding import config as embedding_config
from services.embedding import server as embedding_server
from services.ingestion import config as ingestion_config
from services.ingestion import server as ingestion_server
from services.ingestion.valkey_jobs import ValkeyJobStore
from services.retrieval import config as retrieval_config
from services.retrieval import server as retrieval_server
from services.runtime.channels import connect
from services.runtime.testing import SECRET, act_as, listening, running

CONTRACT = """# Contrato CT-2025-0001

## 7. Precio

7.1 Revisión de precios. El precio se revisa cada año según el IPC de la zona euro, con un máximo del 4 % anual.

## 8. Entrega

8.3 Penalización por retraso. Por cada mes de retraso en la entrega se descuenta un 2 % del precio del contrato.
"""


@pytest.fixture
async def channels(valkey_url, tmp_path):
    act_as("acme")
    embedding = embedding_server.build(embedding_config.Settings(identity_secret=SECRET, embedding_model="hash:64"))
    async with listening(embedding) as embedding_address:
        retrieval = retrieval_server.build(
            retrieval_config.Settings(
                identity_secret=SECRET,
                vector_store="memory:",
                embedding_address=embedding_address,
                reranking_address="127.0.0.1:1",
            )
        )
        async with listening(retrieval) as retrieval_address:
            settings = ingestion_config.Settings(
                identity_secret=SECRET,
                embedding_address=embedding_address,
                retrieval_address=retrieval_address,
                spool_dir=tmp_path / "spool",
            )
            jobs = ValkeyJobStore(valkey_url, prefix=f"{{{secrets.token_hex(4)}}}:")
            async with (
                running(ingestion_server.build(settings, jobs)) as ingestion,
                connect(retrieval_address, retrieval_server.DESCRIPTOR) as index,
            ):
                yield rpc.IngestionServiceStub(ingestion), retrieval_pb2_grpc.RetrievalServiceStub(index)


async def ingest(stub, text, **header):
    messages = [pb.SubmitRequest(header=pb.SubmitHeader(collection="contracts", **header))]
    job = (await stub.Submit(iter([*messages, pb.SubmitRequest(content=text.encode())]))).job
    for _ in range(500):
        job = (await stub.GetJob(pb.GetJobRequest(job_id=job.job_id))).job
        if job.status >= pb.JOB_STATUS_READY:
            break
        await asyncio.sleep(0.03)
    assert job.status == pb.JOB_STATUS_READY, job.reason
    return job


def passages_of(answer):
    return [(one.document_id, one.text, one.matched_text) for one in answer.passages]


async def test_the_last_sentence_of_a_long_paragraph_is_found(channels):
    """Longer than the model's window: what is cut off would never be found."""
    ingestion, index = channels
    collection = retrieval_pb2.Collection(name="contracts")
    await index.PutCollection(retrieval_pb2.PutCollectionRequest(collection=collection))
    paragraph = "The caretaker walks around the building each evening and notes what is open. " * 70
    await ingest(ingestion, paragraph + "The spare key is under locker QV-77.", document_id="long", filename="long.txt")
    search = retrieval_pb2.SearchRequest(query="where is the spare key", top_k=1)
    (passage,) = (await index.Search(search)).passages
    assert "locker QV-77" in passage.text


async def test_small_passages_are_found_and_larger_ones_are_read(channels):
    ingestion, index = channels
    chunking = retrieval_pb2.Chunking(
        strategy=retrieval_pb2.CHUNKING_STRATEGY_SENTENCES, max_tokens=30, overlap_tokens=0, parent_tokens=120
    )
    collection = retrieval_pb2.Collection(name="contracts", chunking=chunking)
    await index.PutCollection(retrieval_pb2.PutCollectionRequest(collection=collection))
    await ingest(ingestion, CONTRACT, document_id="d", filename="ct.md")
    search = retrieval_pb2.SearchRequest(query="cada mes de retraso en la entrega se descuenta", top_k=1)
    ((_, text, matched),) = passages_of(await index.Search(search))
    assert matched in text
    assert len(text) > len(matched) > 0


async def test_a_document_is_closed_to_those_without_its_label(channels):
    ingestion, index = channels
    act_as("acme", labels=["board"])
    collection = retrieval_pb2.Collection(name="contracts")
    await index.PutCollection(retrieval_pb2.PutCollectionRequest(collection=collection))
    job = await ingest(ingestion, CONTRACT, document_id="secret", filename="ct.md", labels=["board"])
    search = retrieval_pb2.SearchRequest(query="penalización por retraso")
    assert {one for one, _, _ in passages_of(await index.Search(search))} == {"secret"}
    act_as("acme")
    assert passages_of(await index.Search(search)) == []
    assert not (await ingestion.ListJobs(pb.ListJobsRequest())).jobs
    with pytest.raises(aio.AioRpcError, match="NOT_FOUND"):
        await ingestion.GetJob(pb.GetJobRequest(job_id=job.job_id))


async def test_a_clause_is_found_with_its_place_and_a_new_version_replaces_it(channels):
    ingestion, index = channels
    collection = retrieval_pb2.Collection(name="contracts", description="Contratos")
    await index.PutCollection(retrieval_pb2.PutCollectionRequest(collection=collection))
    job = await ingest(ingestion, CONTRACT, document_id="CT-2025-0001", filename="ct.md", metadata={"year": "2025"})
    search = retrieval_pb2.SearchRequest(query="penalización por retraso en la entrega", top_k=1)
    (passage,) = (await index.Search(search)).passages
    assert passage.document_id == "CT-2025-0001"
    assert passage.title == "Contrato CT-2025-0001"
    assert passage.section == "8. Entrega > 8.3 Penalización por retraso"
    assert "8.3 Penalización por retraso" in passage.text
    assert (passage.language, passage.source, dict(passage.metadata)) == ("es", "ct.md", {"year": "2025"})

    again = await ingest(ingestion, CONTRACT, document_id="CT-2025-0001", filename="ct.md", metadata={"year": "2025"})
    assert (again.chunk_count, again.title) == (job.chunk_count, job.title)
    await ingest(ingestion, CONTRACT.replace("2 %", "3 %"), document_id="CT-2025-0001", filename="ct.md")
    (passage,) = (await index.Search(search)).passages
    assert "3 %" in passage.text
    listed = (await index.ListDocuments(retrieval_pb2.ListDocumentsRequest())).documents
    assert [(one.document_id, one.chunk_count) for one in listed] == [("CT-2025-0001", job.chunk_count)]
