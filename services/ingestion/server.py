"""Wires the ingestion service and runs it."""

import socket

from grpc import aio

from sabueso.ingestion.v1 import ingestion_pb2 as pb
from sabueso.ingestion.v1 import ingestion_pb2_grpc as rpc
from services.ingestion.clients import EMBEDDING, RETRIEVAL, EmbeddingClient, RetrievalClient
from services.ingestion.config import Settings
from services.ingestion.document import Pipeline
from services.ingestion.jobs import Job, JobStore
from services.ingestion.parsing import Parser
from services.ingestion.service import IngestionService
from services.ingestion.spool import Spool
from services.ingestion.valkey_jobs import ValkeyJobStore
from services.ingestion.worker import Retry, Workers
from services.runtime import context
from services.runtime.channels import connect
from services.runtime.context import CallContext, Identity
from services.runtime.identity import Signer
from services.runtime.server import Served, run


def build(settings: Settings, jobs: JobStore | None = None, retry: Retry | None = None) -> Served:
    """The service with its workers. `jobs` is Valkey unless given. Call it inside the event loop."""
    if jobs is None:
        jobs = ValkeyJobStore(
            settings.valkey_url.get_secret_value(),
            max_open=settings.max_queued_jobs,
            retention_seconds=settings.job_retention_days * 86400,
        )
    spool = Spool(settings.spool_dir, settings.max_document_bytes)
    channels = connect(settings.embedding_address, EMBEDDING), connect(settings.retrieval_address, RETRIEVAL)
    index = RetrievalClient(channels[1])
    pipeline = Pipeline(
        Parser(settings.parse_memory_bytes, settings.parse_timeout_seconds),
        spool,
        EmbeddingClient(channels[0]),
        index,
        settings.sizes,
        settings.token_vector_chunks,
    )
    workers = Workers(
        jobs,
        spool,
        pipeline,
        owner=f"{socket.gethostname()}:{settings.port}",
        count=settings.workers,
        act_for=_acting(Signer(settings.identity_secret.get_secret_value())),
        retry=retry or Retry(),
    )
    service = IngestionService(
        jobs, spool, index, max_document_bytes=settings.max_document_bytes, notify=workers.notify
    )
    return Served(
        service,
        rpc.add_IngestionServiceServicer_to_server,
        pb.DESCRIPTOR.services_by_name["IngestionService"],
        warm_up=workers.start,
        close=_closing(workers, jobs, channels),
    )


def _acting(signer: Signer):
    """Acts for the tenant that submitted: its own token has expired long before its turn comes."""

    def act_for(job: Job) -> None:
        identity = Identity(job.submission.tenant, job.submission.principal)
        context.enter(CallContext(identity, signer.sign(identity)))

    return act_for


def _closing(workers: Workers, jobs: JobStore, channels: tuple[aio.Channel, ...]):
    async def close() -> None:
        await workers.close()
        await jobs.close()
        for channel in channels:
            await channel.close()

    return close


def main() -> None:
    """Runs until SIGTERM."""
    settings = Settings.read()

    async def make() -> list[Served]:
        return [build(settings)]

    run("ingestion", settings, make)


if __name__ == "__main__":
    main()
