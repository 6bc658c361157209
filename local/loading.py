"""Waits until the stack serves, and gives it the demo: databases, tenants' files, documents."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from demo import database, tenants
from local.postgres import Cluster
from sabueso.ingestion.v1 import ingestion_pb2 as ingestion_pb
from sabueso.ingestion.v1 import ingestion_pb2_grpc as ingestion_rpc
from sabueso.retrieval.v1 import retrieval_pb2 as retrieval_pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc as retrieval_rpc
from services.runtime import context
from services.runtime.channels import connect
from services.runtime.identity import Signer

_PIECE_BYTES = 256 * 1024
_GIVEN_UP = (ingestion_pb.JOB_STATUS_FAILED, ingestion_pb.JOB_STATUS_CANCELLED)


class NotUp(Exception):
    """Something did not come up, or did not take its data; the message says what."""


async def wait_for_postgres(cluster: Cluster, check: Callable[[], None]) -> None:
    """Returns when PostgreSQL accepts connections. `check` may raise to give up early."""
    deadline = time.monotonic() + 60
    while True:
        try:
            connection = await asyncpg.connect(cluster.dsn(), timeout=5)
        except (OSError, asyncpg.PostgresError, TimeoutError):
            if time.monotonic() > deadline:
                raise NotUp("PostgreSQL did not start within 60 s; `make logs SERVICE=postgres` tells why.") from None
            check()
            await asyncio.sleep(0.1)
        else:
            await connection.close()
            return


async def load_databases(cluster: Cluster, home: Path, keys: Mapping[str, str]) -> None:
    """Makes each tenant's database, and writes the reader role's DSN where the SQL tool looks for it."""
    for tenant_id in keys:
        tenant = tenants.describe(tenant_id)
        source = tenant.source()
        if source is None:
            continue
        loaded = await database.load_database(cluster.dsn(), tenant, secrets.token_urlsafe(24))
        # For sql_tool, and for evaluation, which judges statements by their rows.
        for path in (home / "secrets" / source.dsn_secret, home / "gateway-keys" / f"{tenant_id}.dsn"):
            path.touch(mode=0o600)
            path.write_text(loaded.dsn)
        if loaded.fresh:
            print(f"• loaded the tables of tenant {tenant_id}")


async def wait_for_services(
    addresses: Mapping[str, str], urls: Mapping[str, str], within_seconds: float, check: Callable[[], None]
) -> None:
    """Returns when every gRPC service says SERVING and every URL answers 200. `check` may raise to give up early."""
    deadline = time.monotonic() + within_seconds
    names = [*addresses, *urls]
    while names:
        probes = [_answers(urls[name]) if name in urls else _serves(addresses[name]) for name in names]
        names = [name for name, serves in zip(names, await asyncio.gather(*probes), strict=True) if not serves]
        if names and time.monotonic() > deadline:
            raise NotUp(f"{', '.join(names)} did not serve within {within_seconds:.0f} s; `make logs` tells why.")
        if names:
            check()
            await asyncio.sleep(0.4)


async def load_documents(addresses: Mapping[str, str], signer: Signer, home: Path) -> None:
    """Gives each demo tenant its collections and documents; those that are there already are not sent again.

    Over gRPC and not through the gateway: loading must not spend the requests of a tenant with small limits.
    """
    version = _demo_version()
    async with connect(addresses["retrieval"]) as retrieval, connect(addresses["ingestion"]) as ingestion:
        stubs = retrieval_rpc.RetrievalServiceStub(retrieval), ingestion_rpc.IngestionServiceStub(ingestion)
        for tenant_id in tenants.TENANTS:
            identity = context.Identity(tenant_id, "demo-loader")
            context.enter(context.CallContext(identity, signer.sign(identity)))
            await _load_tenant(tenant_id, *stubs, home, version)


async def _load_tenant(tenant_id: str, retrieval: Any, ingestion: Any, home: Path, version: str) -> None:
    mark = home / f"demo-documents-{tenant_id}"
    if mark.exists() and mark.read_text() == version:
        return
    # Imported only here: the writers of PDF and Word cost two seconds, and later starts do not need them.
    from demo import documents

    wanted = documents.of_tenant(tenant_id)
    print(f"• loading {len(wanted)} documents of tenant {tenant_id}")
    for name, collection in tenants.describe(tenant_id).collections.items():
        made = retrieval_pb.Collection(name=name, description=collection.description, language=collection.language)
        await retrieval.PutCollection(retrieval_pb.PutCollectionRequest(collection=made))
    for document in wanted:
        await ingestion.Submit(_pieces(document))
    await _until_ready(ingestion, {document.document_id for document in wanted})
    mark.write_text(version)


async def _pieces(document: Any) -> AsyncGenerator[ingestion_pb.SubmitRequest]:
    header = ingestion_pb.SubmitHeader(
        collection=document.collection,
        document_id=document.document_id,
        filename=document.filename,
        content_type=document.media_type,
        title=document.title,
        language=document.language,
        metadata=document.metadata,
    )
    yield ingestion_pb.SubmitRequest(header=header)
    for start in range(0, len(document.content), _PIECE_BYTES):
        yield ingestion_pb.SubmitRequest(content=document.content[start : start + _PIECE_BYTES])


def _demo_version() -> str:
    """Changes with whatever the documents are made from."""
    digest = hashlib.sha256()
    for path in sorted(Path(tenants.__file__).parent.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


async def _until_ready(ingestion: Any, ids: set[str]) -> None:
    deadline = time.monotonic() + 300
    while True:
        listed = (await ingestion.ListJobs(ingestion_pb.ListJobsRequest())).jobs
        jobs = [job for job in listed if job.document_id in ids]
        failed = [job for job in jobs if job.status in _GIVEN_UP]
        if failed:
            reasons = "; ".join(f"{job.document_id}: {job.reason}" for job in failed[:3])
            raise NotUp(f"{len(failed)} demo documents were not taken: {reasons}")
        if len(jobs) == len(ids) and all(job.status == ingestion_pb.JOB_STATUS_READY for job in jobs):
            return
        if time.monotonic() > deadline:
            raise NotUp("the demo's documents were not searchable within 5 minutes; `make logs SERVICE=ingestion`")
        await asyncio.sleep(0.3)


async def _serves(address: str) -> bool:
    async with aio.insecure_channel(address) as channel:
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)
        except aio.AioRpcError:
            return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING


async def _answers(url: str) -> bool:
    async with httpx2.AsyncClient(timeout=2, trust_env=False) as http:
        try:
            return (await http.get(url)).status_code == 200
        except httpx2.HTTPError:
            return False
