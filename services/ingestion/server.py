"""Wires the ingestion service and runs it."""

import socket
from collections.abc import Sequence

from grpc import aio

from sabueso.ingestion.v1 import ingestion_pb2 as pb
from sabueso.ingestion.v1 import ingestion_pb2_grpc as rpc
from services.ingestion.clients import (
    EMBEDDING,
    RETRIEVAL,
    TOOL_CACHE,
    EmbeddingClient,
    EmbeddingClients,
    RetrievalClient,
    ToolCacheClient,
)
from services.ingestion.config import Settings
from services.ingestion.document import NoResultCache, Pipeline
from services.ingestion.jobs import Job, JobStore
from services.ingestion.parsing import Parser
from services.ingestion.service import IngestionService
from services.ingestion.spool import Spool
from services.ingestion.suspicion import Screening
from services.ingestion.valkey_jobs import ValkeyJobStore
from services.ingestion.vector_cache import DiskVectorCache
from services.ingestion.worker import Retry, Workers
from services.runtime import context
from services.runtime.channels import connect
from services.runtime.context import CallContext, Identity
from services.runtime.identity import Signer
from services.runtime.server import Served, run
from services.runtime.tenants import GuardDocuments, TenantDirectory


def build(settings: Settings, jobs: JobStore | None = None, retry: Retry | None = None) -> Served:
    """The service with its workers. `jobs` is Valkey unless given. Call it inside the event loop."""
    if jobs is None:
        jobs = ValkeyJobStore(
            settings.valkey_url.get_secret_value(),
            max_open=settings.max_queued_jobs,
            max_open_per_tenant=settings.max_queued_jobs_per_tenant,
            retention_seconds=settings.job_retention_days * 86400,
        )
    spool = Spool(settings.spool_dir / "jobs", settings.max_document_bytes, settings.spool_max_bytes)
    embedding = [connect(address, EMBEDDING) for address in settings.embedding_addresses]
    retrieval = connect(settings.retrieval_address, RETRIEVAL)
    caches = [connect(address, TOOL_CACHE) for address in filter(None, [settings.tool_cache_address])]
    index = RetrievalClient(retrieval)
    tenants = TenantDirectory(settings.tenants_dir) if settings.tenants_dir else None
    parser = Parser(settings.parse_memory_bytes, settings.parse_timeout_seconds)
    pipeline = Pipeline(
        parser,
        spool,
        EmbeddingClients([EmbeddingClient(channel) for channel in embedding]),
        index,
        DiskVectorCache(settings.spool_dir / "vectors", settings.vector_cache_bytes),
        settings.sizes,
        settings.token_vector_chunks,
        settings.max_document_chunks,
        ToolCacheClient(caches[0]) if caches else NoResultCache(),
        Screening() if tenants is None else Screening(lambda tenant_id: _documents_policy(tenants, tenant_id)),
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
        warm_up=_starting(workers, parser, tenants),
        close=_closing(workers, parser, jobs, [*embedding, retrieval, *caches], tenants),
    )


def _acting(signer: Signer):
    """Acts for whoever submitted, with no more rights: their own token has expired long before the job's turn comes."""

    def act_for(job: Job) -> None:
        sender = job.submission
        identity = Identity(sender.tenant, sender.principal, labels=sender.caller_labels)
        context.enter(CallContext(identity, signer.sign(identity)))

    return act_for


def _documents_policy(tenants: TenantDirectory, tenant_id: str) -> GuardDocuments:
    tenant = tenants.get(tenant_id)
    return tenant.guard.documents if tenant else GuardDocuments()


def _starting(workers: Workers, parser: Parser, tenants: TenantDirectory | None):
    async def start() -> None:
        if tenants is not None:
            tenants.watch()
        parser.start()
        await workers.start()

    return start


def _closing(
    workers: Workers,
    parser: Parser,
    jobs: JobStore,
    channels: Sequence[aio.Channel],
    tenants: TenantDirectory | None,
):
    async def close() -> None:
        if tenants is not None:
            await tenants.close()
        await workers.close()
        parser.close()
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
