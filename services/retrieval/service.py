"""The servicer: checks requests, calls search and store, answers in the proto's words."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc
from services.retrieval import collection_wire, wire
from services.retrieval.migration import Migrator
from services.retrieval.search import Searcher
from services.retrieval.store import NewChunk, Reader, Store
from services.runtime.context import identity, tenant
from services.runtime.errors import InvalidField

_PAGE, _LARGEST_PAGE = 100, 1000
# Far below what a message may hold: one passage more still fits.
_PAGE_BYTES = 2 * 1024 * 1024


def reader() -> Reader:
    """Who the current call is made for."""
    caller = identity()
    return Reader(caller.tenant, caller.labels)


class RetrievalServicer(retrieval_pb2_grpc.RetrievalServiceServicer):
    """See protos/sabueso/retrieval/v1/retrieval.proto."""

    def __init__(self, store: Store, searcher: Searcher, migrator: Migrator, *, max_document_chunks: int) -> None:
        self._store = store
        self._searcher = searcher
        self._migrator = migrator
        self._max_document_chunks = max_document_chunks

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        result = await self._searcher.search(reader(), wire.search_request(request))
        response = pb.SearchResponse(
            passages=[wire.found_message(one) for one in result.passages],
            degraded=result.degraded,
            routed=[pb.RoutedCollection(name=one.name, score=one.score, chosen=one.chosen) for one in result.routed],
        )
        for stage, seconds in result.stage_seconds.items():
            response.stages[stage].FromNanoseconds(int(seconds * 1e9))
        return response

    async def Upsert(self, request_iterator: AsyncIterator[pb.UpsertRequest], context: Any) -> pb.UpsertResponse:
        first = await anext(aiter(request_iterator), None)
        if first is None or first.WhichOneof("part") != "document":
            raise InvalidField("The first message of `Upsert` must hold `document`.", field="document")
        document = wire.document(first.document)
        chunks = self._chunks(request_iterator)
        stored = await self._store.put_document(reader(), document, chunks)
        return pb.UpsertResponse(chunk_count=stored.chunk_count, replaced=stored.replaced)

    async def _chunks(self, requests: AsyncIterator[pb.UpsertRequest]) -> AsyncGenerator[NewChunk]:
        count = 0
        async for request in requests:
            if request.WhichOneof("part") != "chunk":
                raise InvalidField("Each message after the first must hold `chunk`.", field="chunk")
            count += 1
            if count > self._max_document_chunks:
                limit = self._max_document_chunks
                raise InvalidField(f"A document has at most {limit} chunks; split it.", field="chunk")
            yield wire.chunk(request.chunk)

    async def DeleteDocument(self, request: pb.DeleteDocumentRequest, context: Any) -> pb.DeleteDocumentResponse:
        wire.require_document_id(request.document_id)
        count = await self._store.delete_document(reader(), request.document_id)
        return pb.DeleteDocumentResponse(chunk_count=count)

    async def ListDocuments(self, request: pb.ListDocumentsRequest, context: Any) -> pb.ListDocumentsResponse:
        size = _page_size(request.page_size, _PAGE)
        if request.collection:
            wire.require_collection_name(request.collection, "collection")
        after = wire.after(request.page_token)
        found = await self._store.list_documents(reader(), request.collection, after, size + 1)
        response = pb.ListDocumentsResponse(documents=[wire.document_message(one) for one in found[:size]])
        if len(found) > size:
            response.next_page_token = wire.page_token(found[size - 1].document_id)
        return response

    async def GetDocument(self, request: pb.GetDocumentRequest, context: Any) -> pb.GetDocumentResponse:
        wire.require_document_id(request.document_id)
        document = await self._store.get_document(reader(), request.document_id)
        return pb.GetDocumentResponse(document=wire.document_message(document))

    async def GetChunks(self, request: pb.GetChunksRequest, context: Any) -> pb.GetChunksResponse:
        wire.require_document_id(request.document_id)
        size = _page_size(request.page_size, _LARGEST_PAGE)
        start = wire.position_after(request.page_token)
        document = await self._store.get_document(reader(), request.document_id)
        chunks = await self._store.get_chunks(reader(), request.document_id)
        response = pb.GetChunksResponse(document=wire.document_message(document))
        used = 0
        for chunk in chunks[start : start + size]:
            passage = wire.passage_message(chunk)
            used += passage.ByteSize()
            if used > _PAGE_BYTES and response.passages:
                break
            response.passages.append(passage)
        end = start + len(response.passages)
        if end < len(chunks):
            response.next_page_token = wire.page_token(str(end))
        return response

    async def PutCollection(self, request: pb.PutCollectionRequest, context: Any) -> pb.PutCollectionResponse:
        stored = await self._store.put_collection(reader(), collection_wire.collection(request.collection))
        return pb.PutCollectionResponse(collection=collection_wire.message_of(stored))

    async def MigrateCollection(
        self, request: pb.MigrateCollectionRequest, context: Any
    ) -> pb.MigrateCollectionResponse:
        wire.require_collection_name(request.name, "name")
        if request.cancel:
            collection = await self._migrator.cancel(tenant(), request.name)
        else:
            index = collection_wire.index(request.index) if request.HasField("index") else None
            collection = await self._migrator.begin(tenant(), request.name, index)
        return pb.MigrateCollectionResponse(collection=collection_wire.message_of(collection))

    async def DeleteCollection(self, request: pb.DeleteCollectionRequest, context: Any) -> pb.DeleteCollectionResponse:
        wire.require_collection_name(request.name, "name")
        count = await self._store.delete_collection(reader(), request.name)
        return pb.DeleteCollectionResponse(document_count=count)

    async def ListCollections(self, request: pb.ListCollectionsRequest, context: Any) -> pb.ListCollectionsResponse:
        found = await self._store.list_collections(reader())
        return pb.ListCollectionsResponse(collections=[collection_wire.message_of(one) for one in found])


def _page_size(asked: int, default: int) -> int:
    size = asked or default
    if not 1 <= size <= _LARGEST_PAGE:
        raise InvalidField(f"`page_size` must be 1 to {_LARGEST_PAGE}, or 0 for {default}.", field="page_size")
    return size
