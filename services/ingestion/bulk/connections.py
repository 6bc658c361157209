"""Connects one process of a bulk run with the services around it, and makes the service's pipeline of them."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from services.ingestion.bulk.clients import DocumentList
from services.ingestion.bulk.config import Settings
from services.ingestion.bulk.corpus import PRINCIPAL, Target
from services.ingestion.bulk.preparing import DeferringEmbedders, Preparation
from services.ingestion.bulk.storing import Storing
from services.ingestion.clients import (
    EMBEDDING,
    RETRIEVAL,
    TOOL_CACHE,
    EmbeddingClient,
    EmbeddingClients,
    RetrievalClient,
    ToolCacheClient,
)
from services.ingestion.document import Embedder, Embedders, Index, NoResultCache, Pipeline, ResultCache
from services.ingestion.parsing import Parser
from services.ingestion.spool import Spool
from services.ingestion.suspicion import Screening
from services.ingestion.vector_cache import DiskVectorCache
from services.runtime import context
from services.runtime.channels import connect
from services.runtime.context import ALL_LABELS, CallContext, Identity
from services.runtime.identity import Signer
from services.runtime.tenants import GuardDocuments, TenantDirectory

# Of the encoders that a run started, as of now: one that was started anew may be elsewhere.
Addresses = Callable[[], Sequence[str]]
_ANY_SIZE = 2**50


class RunEmbedders:
    """Embedders that a run started itself: one model, and calls spread evenly over all of them."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._known: list[str] = []
        self._clients: list[EmbeddingClient] = []
        self._closing: list[Callable[[float | None], Awaitable[None]]] = []

    async def embedder_for(self, model: str) -> Embedder:
        """See Embedders."""
        if not self._clients:
            await self.renew()
        return await EmbeddingClients(self._clients[-1:]).embedder_for(model)

    async def renew(self) -> None:
        """Looks where they are now."""
        now = sorted(await asyncio.to_thread(self._addresses))
        if now != self._known:
            channel = connect(f"ipv4:///{','.join(now)}", EMBEDDING)
            # The one before is left to calls that are still under way.
            self._closing.append(channel.close)
            self._clients.append(EmbeddingClient(channel))
            self._known = now

    async def close(self) -> None:
        """Lets go of them."""
        for close in self._closing:
            await close(None)


class Connections:
    """Make it inside the event loop. `addresses` tells where the run's own encoders are; None: it has none."""

    def __init__(self, settings: Settings, target: Target, addresses: Addresses | None = None) -> None:
        self._settings = settings
        self._target = target
        self._signer = Signer(settings.identity_secret.get_secret_value())
        retrieval = connect(settings.retrieval_address, RETRIEVAL)
        self._closing = [retrieval.close]
        self.index: Index = RetrievalClient(retrieval)
        self.documents = DocumentList(retrieval)
        self._own = RunEmbedders(addresses) if addresses else None
        self.embedders: Embedders = self._own or self._services()
        self.results: ResultCache = NoResultCache()
        if settings.tool_cache_address:
            cache = connect(settings.tool_cache_address, TOOL_CACHE)
            self._closing.append(cache.close)
            self.results = ToolCacheClient(cache)

    def _services(self) -> EmbeddingClients:
        channels = [connect(address, EMBEDDING) for address in self._settings.embedding_addresses]
        self._closing += [channel.close for channel in channels]
        return EmbeddingClients([EmbeddingClient(channel) for channel in channels])

    def act(self) -> None:
        """Makes the current task a caller of the tenant that may read every document of it."""
        identity = Identity(self._target.tenant, PRINCIPAL, labels=(ALL_LABELS,))
        context.enter(CallContext(identity, self._signer.sign(identity)))

    async def renew(self) -> None:
        """After a failure: what was started anew may be elsewhere."""
        if self._own is not None:
            await self._own.renew()

    def pipeline(self, folder: Path, parser: Parser) -> Pipeline:
        """The service's, with everything but vectors and index. Files wait in `folder`."""
        settings = self._settings
        return Pipeline(
            parser,
            Spool(folder, settings.max_document_bytes, _ANY_SIZE),
            DeferringEmbedders(self.embedders),
            self.index,
            DiskVectorCache(folder, 0),
            settings.sizes,
            settings.token_vector_chunks,
            settings.max_document_chunks,
            screening=_screening(settings.tenants_dir),
        )

    def preparation(self, folder: Path, parser: Parser) -> Preparation:
        """Files become passages, which wait in `folder` meanwhile."""
        pipeline = self.pipeline(folder, parser)
        return Preparation(pipeline, self._target, self._settings.max_document_bytes, self.act)

    def storing(self) -> Storing:
        """Passages get vectors, and are stored."""
        return Storing(self.embedders, self.index, self.results, self.act)

    async def close(self) -> None:
        """Lets go of all."""
        if self._own is not None:
            await self._own.close()
        for close in self._closing:
            await close(None)


def scratch() -> "tempfile.TemporaryDirectory[str]":
    """A folder that goes with its process."""
    return tempfile.TemporaryDirectory(prefix="sabueso-bulk-", ignore_cleanup_errors=True)


def _screening(folder: Path | None) -> Screening:
    """By the tenants' files as they are at the start of the run."""
    if folder is None:
        return Screening()
    tenants = TenantDirectory(folder)

    def policy_of(tenant_id: str) -> GuardDocuments:
        tenant = tenants.get(tenant_id)
        return tenant.guard.documents if tenant else GuardDocuments()

    return Screening(policy_of)
