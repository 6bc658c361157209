"""Puts a passage into a retrieval service, for journeys that need something to search."""

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc
from sabueso.type.v1 import vectors_pb2
from services.runtime.channels import connect


async def store_passage(address, model, dimensions):
    """One passage in the collection `docs` of the current task's tenant, with vectors of `model`."""
    async with connect(address, pb.DESCRIPTOR.services_by_name["RetrievalService"]) as channel:
        stub = retrieval_pb2_grpc.RetrievalServiceStub(channel)
        await stub.PutCollection(pb.PutCollectionRequest(collection=pb.Collection(name="docs")))
        chunk = pb.Chunk(
            text="Condiciones especiales",
            dense=[1.0] * dimensions,
            sparse=vectors_pb2.SparseVector(indices=[1], values=[1.0]),
        )
        header = pb.DocumentHeader(document_id="d", collection="docs", embedding_model=model)
        await stub.Upsert(iter([pb.UpsertRequest(document=header), pb.UpsertRequest(chunk=chunk)]))
