"""The servicer: checks requests, calls search and store, answers in the proto's words."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc
from services.retrieval import wire
from services.retrieval.search import Searcher
from services.retrieval.store import Collection, NewChunk, Store
from services.runtime.context import tenant
from services.runtime.errors import InvalidField


class RetrievalServicer(retrieval_pb2_grpc.RetrievalServiceServicer):
    """See protos/sabueso/retrieval/v1/retrieval.proto."""

    def __init__(self, store: Store, searcher: Searcher, *, max_document_chunks: int) -> None:
        self._store = store
        self._searcher = searcher
        self._max_document_chunks = max_document_chunks

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        result = await self._searcher.search(tenant(), wire.search_request(request))
        response = pb.SearchResponse(
            passages=[wire.found_message(one) for one in result.passages], degraded=result.degraded
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
        stored = await self._store.put_document(tenant(), document, chunks)
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
        count = await self._store.delete_document(tenant(), request.document_id)
        return pb.DeleteDocumentResponse(chunk_count=count)

    async def ListDocuments(self, request: pb.ListDocumentsRequest, context: Any) -> pb.ListDocumentsResponse:
        size = request.page_size or 100
        if not 1 <= size <= 1000:
            raise InvalidField("`page_size` must be 1 to 1000, or 0 for 100.", field="page_size")
        if request.collection:
            wire.require_collection_name(request.collection, "collection")
        after = wire.after(request.page_token)
        found = await self._store.list_documents(tenant(), request.collection, after, size + 1)
        response = pb.ListDocumentsResponse(documents=[wire.document_message(one) for one in found[:size]])
        if len(found) > size:
            response.next_page_token = wire.page_token(found[size - 1])
        return response

    async def GetChunks(self, request: pb.GetChunksRequest, context: Any) -> pb.GetChunksResponse:
        wire.require_document_id(request.document_id)
        document = await self._store.get_document(tenant(), request.document_id)
        chunks = await self._store.get_chunks(tenant(), request.document_id)
        return pb.GetChunksResponse(
            document=wire.document_message(document), passages=[wire.passage_message(one) for one in chunks]
        )

    async def PutCollection(self, request: pb.PutCollectionRequest, context: Any) -> pb.PutCollectionResponse:
        wanted = request.collection
        wire.require_collection_name(wanted.name, "collection.name")
        wire.require_language(wanted.language, "collection.language")
        collection = Collection(wanted.name, wanted.description, wanted.language)
        stored = await self._store.put_collection(tenant(), collection)
        return pb.PutCollectionResponse(collection=wire.collection_message(stored))

    async def DeleteCollection(self, request: pb.DeleteCollectionRequest, context: Any) -> pb.DeleteCollectionResponse:
        wire.require_collection_name(request.name, "name")
        count = await self._store.delete_collection(tenant(), request.name)
        return pb.DeleteCollectionResponse(document_count=count)

    async def ListCollections(self, request: pb.ListCollectionsRequest, context: Any) -> pb.ListCollectionsResponse:
        found = await self._store.list_collections(tenant())
        return pb.ListCollectionsResponse(collections=[wire.collection_message(one) for one in found])
