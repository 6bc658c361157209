"""Passages as points on a Qdrant server: written in batches of a megabyte, read whole, compared token by token."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Sequence
from typing import Any

import numpy as np
from qdrant_client import models

from services.retrieval import payload, token_codec
from services.retrieval.payload import TENANT_FIELD
from services.retrieval.qdrant import requests as asked
from services.retrieval.qdrant.calls import answered
from services.retrieval.qdrant.places import Places
from services.retrieval.qdrant.rows import Target, Version
from services.retrieval.store import Document, NewChunk, Reader, StoredChunk, TokenMatrix

# Qdrant advises against requests above 5 MB: they time out under load. Less than that, because a megabyte of vectors
# keeps this process's interpreter busy for 25 milliseconds, in which nobody else gets served.
_BATCH_BYTES = 1_000_000
_PAGE = 256
_MOST_TOKEN_REQUESTS = 64
# Of a point beside its texts and vectors: ids, names of fields.
_OVERHEAD_BYTES = 1_000


class Points:
    """All methods raise DependencyFailed."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._client = places.client

    async def write(
        self, tenant: str, document: Document, generation: str, target: Target, chunks: AsyncIterable[NewChunk]
    ) -> AsyncGenerator[int]:
        """Writes the chunks; yields the number of each batch once it is stored. Raises InvalidField."""
        position = 0
        model = target.placement.model
        known = await self._places.dimensions(self._places.name(target.placement))
        async for arrived in payload.batches(chunks, model, known):
            for batch in by_bytes(arrived):
                token_dimensions = next((c.tokens.dimensions for c in batch if c.tokens and c.tokens.values), 0)
                name = await self._places.require(target, len(batch[0].dense), token_dimensions)
                points = await asyncio.to_thread(_points, tenant, document, generation, target.edition, batch, position)
                await answered(self._client.upsert, name, points, wait=True)
                position += len(batch)
                yield len(batch)

    async def read(self, tenant: str, version: Version) -> list[StoredChunk]:
        """The version's chunks that are there, in reading order."""
        name = self._places.name(version.placement)
        if not version.chunk_count or not await self._places.dimensions(name):
            return []
        mine = asked.all_of([asked.equals(TENANT_FIELD, tenant), asked.equals("generation", version.generation)])
        found: list[StoredChunk] = []
        offset: Any = None
        while True:
            records, offset = await answered(
                self._client.scroll, name, mine, limit=_PAGE, offset=offset, with_payload=list(payload.CHUNK_FIELDS)
            )
            found += [payload.chunk_of(record.payload) for record in records if record.payload]
            if offset is None:
                return sorted(found, key=lambda chunk: chunk.position)

    async def similarities(
        self, reader: Reader, name: str, ids: Sequence[str], tokens: TokenMatrix
    ) -> dict[str, list[float]]:
        """Best cosine of each of the tokens with each point that has some, by id.

        One request a token; the tokens of a long query are asked for in groups, whose mean counts.
        """
        rows = token_codec.unit_rows(tokens)
        if not len(rows) or await self._places.token_dimensions(name) != tokens.dimensions:
            return {}
        groups = [group.tolist() for group in np.array_split(rows, min(len(rows), _MOST_TOKEN_REQUESTS))]
        must: list[models.Condition] = [
            asked.equals(TENANT_FIELD, reader.tenant),
            models.HasIdCondition(has_id=list(ids)),
        ]
        if not reader.sees_all:
            must.append(asked.any_of("labels", payload.open_to(reader)))
        matching = asked.all_of(must)
        exact = models.SearchParams(exact=True) if self._places.indexed else None
        requests = [
            models.QueryRequest(query=group, using=asked.TOKENS, filter=matching, params=exact, limit=len(ids))
            for group in groups
        ]
        answers = await answered(self._client.query_batch_points, name, requests)
        found: dict[str, list[float]] = {}
        for group, answer in zip(groups, answers, strict=True):
            for point in answer.points:
                found.setdefault(str(point.id), []).append(point.score / len(group))
        # Without those that went while the batch was answered.
        return {id: best for id, best in found.items() if len(best) == len(groups)}


def by_bytes(chunks: Sequence[NewChunk]) -> Iterator[Sequence[NewChunk]]:
    """Groups whose requests stay below 5 MB, as far as single chunks do."""
    group: list[NewChunk] = []
    total = 0
    for chunk in chunks:
        size = _size_bytes(chunk)
        if group and total + size > _BATCH_BYTES:
            yield group
            group, total = [], 0
        group.append(chunk)
        total += size
    if group:
        yield group


def _size_bytes(chunk: NewChunk) -> int:
    texts = sum(len(text.encode()) for text in (chunk.text, chunk.section, chunk.context, chunk.parent_text))
    # The server gets tokens as float32, where they come as float16.
    tokens = 2 * len(chunk.tokens.values) if chunk.tokens else 0
    return _OVERHEAD_BYTES + texts + 4 * len(chunk.dense) + 8 * len(chunk.sparse.indices) + tokens


def _points(
    tenant: str, document: Document, generation: str, edition: str, batch: Sequence[NewChunk], position: int
) -> list[models.PointStruct]:
    return [_point(tenant, document, generation, edition, chunk, at) for at, chunk in enumerate(batch, start=position)]


def _point(
    tenant: str, document: Document, generation: str, edition: str, chunk: NewChunk, position: int
) -> models.PointStruct:
    vectors: dict[str, Any] = {
        asked.DENSE: list(chunk.dense),
        asked.SPARSE: models.SparseVector(indices=list(chunk.sparse.indices), values=list(chunk.sparse.values)),
    }
    if chunk.tokens is not None and chunk.tokens.values:
        vectors[asked.TOKENS] = token_codec.unit_rows(chunk.tokens).tolist()
    return models.PointStruct(
        id=payload.point_id(tenant, document.document_id, generation, str(position)),
        vector=vectors,
        payload=payload.chunk_payload(tenant, edition, generation, document, chunk, position),
    )
