"""How a chunk looks as a Qdrant payload; the same in the embedded engine and on a server."""

import os
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from typing import Any

from services.retrieval.refusals import check_dimensions
from services.retrieval.store import WRITE_BATCH, Document, NewChunk, Reader, Scan, StoredChunk, SuspiciousSpan

TENANT_FIELD = "tenant"
# Payload fields that get an index: every field that is filtered by. `facets` holds metadata as `key␟value`, so that any
# key can be filtered by; an edition is all of a collection's vectors of one model, and names the collection as well.
INDEXED_FIELDS = ("edition", "document_id", "generation", "language", "labels", "facets")
# What a search reads.
CHUNK_FIELDS = (
    *("document_id", "position", "text", "collection", "title", "source", "page", "section", "language"),
    *("metadata", "context", "parent_text", "suspicious", "scan"),
)
# Stands in `labels` where a document has none: the engine cannot look for an empty list by index.
OPEN = "*"
_NAMESPACE = uuid.UUID("6f2b8d0e-5b1c-4a57-9d0a-0c6f5a9be6a1")


def facet(key: str, value: str) -> str:
    """One metadata field as one indexed keyword."""
    return f"{key}\x1f{value}"


def new_generation() -> str:
    """Names one stored version of one document, or of one collection; later ones sort higher."""
    return f"{time.time_ns():020d}-{os.urandom(4).hex()}"


def point_id(*parts: str) -> str:
    """A UUID that is the same for the same parts."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))


def chunk_payload(
    tenant: str, edition: str, generation: str, document: Document, chunk: NewChunk, position: int
) -> dict[str, Any]:
    """Everything of a chunk but its vectors."""
    return {
        TENANT_FIELD: tenant,
        "edition": edition,
        "generation": generation,
        "labels": list(document.labels) or [OPEN],
        "facets": [facet(key, value) for key, value in document.metadata.items()],
        "document_id": document.document_id,
        "position": position,
        "text": chunk.text,
        "collection": document.collection,
        "title": document.title,
        "source": document.source,
        "page": chunk.page,
        "section": chunk.section,
        "language": document.language,
        "metadata": dict(document.metadata),
        "context": chunk.context,
        "parent_text": chunk.parent_text,
        "suspicious": [[one.start, one.end, one.score, one.kind] for one in chunk.suspicious],
        "scan": [chunk.scan.version, chunk.scan.score],
    }


def chunk_of(payload: Mapping[str, Any]) -> StoredChunk:
    """The chunk that `chunk_payload` wrote."""
    said = {name: payload[name] for name in CHUNK_FIELDS if name not in ("suspicious", "scan")}
    # What was stored before there were marks and scans has none.
    suspicious = tuple(SuspiciousSpan(*one) for one in payload.get("suspicious") or ())
    return StoredChunk(**said, suspicious=suspicious, scan=Scan(*payload.get("scan") or ()))


def open_to(reader: Reader) -> list[str]:
    """Values of `labels` of which a document must have one; empty for a reader that sees all."""
    return [] if reader.sees_all else [OPEN, *reader.labels]


async def batches(
    chunks: AsyncIterable[NewChunk], model: str, dimensions: int = 0
) -> AsyncGenerator[Sequence[NewChunk]]:
    """Chunks in groups of WRITE_BATCH. Raises InvalidField when their dense vectors differ in length."""
    batch: list[NewChunk] = []
    async for chunk in chunks:
        check_dimensions(model, dimensions, len(chunk.dense))
        dimensions = len(chunk.dense)
        batch.append(chunk)
        if len(batch) == WRITE_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def each(chunks: Sequence[NewChunk]) -> AsyncGenerator[NewChunk]:
    """A list as a stream."""
    for chunk in chunks:
        yield chunk


async def count(chunks: AsyncIterable[NewChunk]) -> int:
    """Reads a stream to its end."""
    total = 0
    async for _ in chunks:
        total += 1
    return total
