"""What a bulk run asks of other services besides what the ingestion service asks."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from grpc import aio

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc as rpc
from services.ingestion.document import StoredDocument
from services.runtime import errors

_PAGE = 1000
_PAGE_SECONDS = 30


@dataclass(frozen=True)
class Listed:
    """A document that is stored."""

    document_id: str
    stored: StoredDocument


class DocumentList:
    """All documents of the tenant, over gRPC."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stub = rpc.RetrievalServiceStub(channel)

    async def documents(self) -> AsyncIterator[Listed]:
        """By id. Raises the errors of services/runtime."""
        token = ""
        while True:
            request = pb.ListDocumentsRequest(page_size=_PAGE, page_token=token)
            try:
                page = await self._stub.ListDocuments(request, timeout=_PAGE_SECONDS)
            except aio.AioRpcError as error:
                raise errors.from_rpc(error, "retrieval") or error from error
            for one in page.documents:
                stored = StoredDocument(one.content_hash, one.title, one.chunk_count, one.page_count, one.collection)
                yield Listed(one.document_id, stored)
            token = page.next_page_token
            if not token:
                return
            await asyncio.sleep(0)
