"""What ingestion says of a chunk's scan comes to the orchestrator as far as it clears the text, over a real channel."""

from contextlib import asynccontextmanager

import pytest
from grpc import aio

from sabueso.retrieval.v1 import retrieval_pb2 as pb
from sabueso.retrieval.v1 import retrieval_pb2_grpc as rpc
from services.ingestion.clients import RetrievalClient as Storing
from services.ingestion.cutting.chunking import Chunk
from services.ingestion.document import Description
from services.orchestrator.clients import RetrievalClient as Searching
from services.orchestrator.documents import DocumentQuery
from services.runtime.channels import connect
from services.runtime.recognition.injections.detector import Suspect

DESCRIBED = Description("d", "corpus", "Contract", "c.pdf", "en", {}, "", "")
SPAN = Suspect(0, 3, 0.9, "order")


class Storage(rpc.RetrievalServiceServicer):
    """Finds the chunks that were put."""

    def __init__(self):
        self.chunks = []

    async def Upsert(self, request_iterator, context):
        self.chunks = [one.chunk async for one in request_iterator if one.HasField("chunk")]
        return pb.UpsertResponse(chunk_count=len(self.chunks))

    async def Search(self, request, context):
        found = [pb.Passage(text=one.text, suspicious_spans=one.suspicious_spans, scan=one.scan) for one in self.chunks]
        return pb.SearchResponse(passages=found)


@asynccontextmanager
async def stored():
    storage, server = Storage(), aio.server()
    rpc.add_RetrievalServiceServicer_to_server(storage, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    channel, searching = connect(address), Searching(address)
    try:
        yield storage, Storing(channel), searching
    finally:
        await channel.close()
        await searching.channel.close()
        await server.stop(None)


@pytest.mark.parametrize(
    ("scanned", "harmless_by"),
    [
        ({"scanned_by": "v1"}, "v1"),
        ({"scanned_by": "v1", "scan_score": 0.5}, ""),
        ({"scanned_by": "v1", "suspicious": (SPAN,)}, ""),
        ({}, ""),
    ],
)
async def test_only_a_clean_scan_clears_a_passage(scanned, harmless_by):
    async with stored() as (storage, storing, searching):
        await storing.put(DESCRIBED, iter([(Chunk("Pay at once.", "", (), 1, 0, 3, **scanned), b"")]))
        (passage,) = (await searching.search(DocumentQuery("pay", 5, (), False), 10)).passages
    assert passage.harmless_by == harmless_by
    assert storage.chunks[0].HasField("scan") == ("scanned_by" in scanned)
