"""How a chunk looks as a Qdrant payload; the same in the embedded engine and on a server."""

import hashlib
import os
import re
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from typing import Any

from services.retrieval.store import WRITE_BATCH, Document, NewChunk, StoredChunk
from services.runtime.errors import InvalidField, NotFound

# Payload fields that get an index. `facets` holds metadata as `key␟value`, so that any key can be filtered by.
TENANT_FIELD = "tenant"
INDEXED_FIELDS = ("collection", "document_id", "generation", "language", "facets")
_CHUNK_FIELDS = ("document_id", "position", "text", "collection", "title", "source", "page", "section", "language")
_NAMESPACE = uuid.UUID("6f2b8d0e-5b1c-4a57-9d0a-0c6f5a9be6a1")


def facet(key: str, value: str) -> str:
    """One metadata field as one indexed keyword."""
    return f"{key}\x1f{value}"


def new_generation() -> str:
    """Names one stored version of one document; later ones sort higher."""
    return f"{time.time_ns():020d}-{os.urandom(4).hex()}"


def point_id(*parts: str) -> str:
    """A UUID that is the same for the same parts."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))


def physical_name(model: str) -> str:
    """Name of the physical collection of an embedding model: vectors of different models do not compare."""
    readable = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:40]
    return f"chunks-{readable}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"


def chunk_payload(tenant: str, generation: str, document: Document, chunk: NewChunk, position: int) -> dict[str, Any]:
    """Everything of a chunk but its vectors."""
    return {
        TENANT_FIELD: tenant,
        "generation": generation,
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
        "facets": [facet(key, value) for key, value in document.metadata.items()],
    }


def chunk_of(payload: Mapping[str, Any]) -> StoredChunk:
    """The chunk that `chunk_payload` wrote."""
    return StoredChunk(metadata=payload["metadata"], **{name: payload[name] for name in _CHUNK_FIELDS})


async def batches(chunks: AsyncIterable[NewChunk], dimensions: int = 0) -> AsyncGenerator[Sequence[NewChunk]]:
    """Chunks in groups of WRITE_BATCH. Raises InvalidField when their dense vectors differ in length."""
    batch: list[NewChunk] = []
    async for chunk in chunks:
        dimensions = dimensions or len(chunk.dense)
        if len(chunk.dense) != dimensions:
            raise InvalidField(
                f"`chunk.dense` has {len(chunk.dense)} values; vectors of this model have {dimensions}.",
                field="chunk.dense",
            )
        batch.append(chunk)
        if len(batch) == WRITE_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def count(chunks: AsyncIterable[NewChunk]) -> int:
    """Reads a stream to its end."""
    total = 0
    async for _ in chunks:
        total += 1
    return total


def no_collection(name: str) -> NotFound:
    """The error for a collection that the tenant does not have."""
    return NotFound(f"There is no collection `{name}`; create it with PutCollection.", collection=name)


def no_document(document_id: str) -> NotFound:
    """The error for a document that the tenant does not have."""
    return NotFound(f"There is no document `{document_id}`.", document_id=document_id)
