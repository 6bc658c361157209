"""Figures of single parts: hybrid search, SQL, the tool cache, the embedding of a query."""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import numpy as np
from redis.asyncio import Redis

from loadtests.exact_search import ExactSearch, ranked, recall
from loadtests.measuring import NotMeasured, Peer, measure
from loadtests.own_stack import OwnStack
from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.sql_tool.v1 import sql_tool_pb2, sql_tool_pb2_grpc
from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from services.retrieval.edge.store import EdgeStore
from services.retrieval.ranking import Fitness, Fusion, fused
from services.retrieval.store import (
    Collection,
    Document,
    Filter,
    Mode,
    NewChunk,
    Query,
    Reader,
    SparseTerms,
    TokenMatrix,
)
from services.runtime.channels import connect

_CHUNKS, _CHUNKS_A_DOCUMENT, _DIMENSIONS, _QUERIES, _TOP_K = 10_000, 100, 384, 100, 10
_MODEL = "synthetic"
_READER = Reader("bench")
_SQL = "SELECT id, title, amount FROM contracts WHERE signed_on >= $1 AND signed_on < $2 ORDER BY signed_on LIMIT 20"
Thing = TypeVar("Thing")
_CACHED_BYTES = 4_000  # five passages as the orchestrator stores them


async def hybrid_search() -> list[dict[str, Any]]:
    """Search and fusion in the embedded store over 10,000 chunks, without the embedding; then late interaction.

    The peer of the search compares with every chunk.
    """
    chunks, queries = _corpus()
    exact = ExactSearch(chunks)
    with tempfile.TemporaryDirectory() as folder:
        store = EdgeStore(Path(folder))
        await store.open()
        try:
            await store.put_collection(_READER, Collection("all"))
            for start in range(0, _CHUNKS, _CHUNKS_A_DOCUMENT):
                document = Document(str(start), "all", _MODEL)
                await store.put_document(_READER, document, _each(chunks[start : start + _CHUNKS_A_DOCUMENT]))
            turn, peer_turn = _cycle(queries), _cycle(queries)

            async def search() -> None:
                ranked(await store.search(_READER, next(turn)))

            async def compare() -> None:
                query = next(peer_turn)
                exact.best(query.dense, query.sparse, _TOP_K)

            peer = Peer("exact search in numpy", compare)
            figure = await measure("hybrid_search_10k", search, rounds=3 * _QUERIES, peer=peer, seconds=10)
            found = [await _recalls(store, exact, query) for query in queries]
            late = await _late_interaction(store, queries)
        finally:
            await store.close()
    hybrid, dense = (round(float(np.mean(one)), 4) for one in zip(*found, strict=True))
    return [figure.fields(recall_at_10=hybrid, recall_at_10_dense=dense), late]


async def _late_interaction(store: EdgeStore, queries: Sequence[Query]) -> dict[str, Any]:
    """Twenty passages of 150 tokens, read from the store and compared with a query of 20 tokens."""
    dice = np.random.default_rng(3)

    def tokens(count: int) -> TokenMatrix:
        rows = dice.standard_normal((count, _DIMENSIONS))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return TokenMatrix(_DIMENSIONS, rows.astype("<f2").tobytes())

    await store.put_collection(_READER, Collection("tokens"))
    chunks = [
        NewChunk("text", query.dense, SparseTerms([1], [1.0]), tokens=tokens(150))
        for query in queries
        for _ in range(5)
    ]
    await store.put_document(_READER, Document("tokens", "tokens", _MODEL), _each(chunks))
    wanted = tokens(20)
    some = [
        (await store.search(_READER, replace(query, limit=20, filter=Filter(collections=["tokens"]))))[:20]
        for query in queries[:20]
    ]
    turn = _cycle(some)

    async def compare() -> None:
        scores = await store.late_scores(_READER, _MODEL, next(turn), wanted)
        _expect(all(score is not None for score in scores), "a passage has no token vectors")

    return (await measure("late_interaction_20", compare, rounds=300, seconds=5)).fields()


async def sql_query(stack: OwnStack) -> list[dict[str, Any]]:
    """One SELECT on an indexed column through the SQL tool and its guard; the peer is the bare driver."""
    stack.enter_as_demo()
    database = await asyncpg.connect(stack.database_dsn())
    service = sql_tool_pb2.DESCRIPTOR.services_by_name["SqlToolService"]
    async with connect(stack.address("sql_tool"), service) as channel:
        stub = sql_tool_pb2_grpc.SqlToolServiceStub(channel)
        request = sql_tool_pb2.QueryRequest(sql=_SQL, params_json=json.dumps(["2025-01-01", "2025-04-01"]))

        async def through_the_tool() -> None:
            answer = await stub.Query(request, timeout=5)
            _expect(len(answer.result.rows) == 20, "sql_query did not find its rows")

        async def bare() -> None:
            rows = await database.fetch(_SQL, date(2025, 1, 1), date(2025, 4, 1))
            _expect(len(rows) == 20, "the driver did not find its rows")

        try:
            figure = await measure("sql_query", through_the_tool, rounds=300, peer=Peer("asyncpg", bare))
        finally:
            await database.close()
    return [figure.fields()]


async def cache_lookup(stack: OwnStack) -> list[dict[str, Any]]:
    """A batch of four lookups that hit; the peer is one MGET of the same bytes."""
    stack.enter_as_demo()
    value = json.dumps("x" * (_CACHED_BYTES - 2)).encode()
    calls = [
        tool_cache_pb2.Call(tool="sql_query", arguments_json=json.dumps({"query": n}), version="bench")
        for n in range(4)
    ]
    entries = [tool_cache_pb2.Entry(call=call, value=value) for call in calls]
    for entry in entries:
        entry.ttl.FromSeconds(300)
    names = [f"bench:{n}" for n in range(4)]
    service = tool_cache_pb2.DESCRIPTOR.services_by_name["ToolCacheService"]
    async with connect(stack.address("tool_cache"), service) as channel, _valkey(stack) as valkey:
        stub = tool_cache_pb2_grpc.ToolCacheServiceStub(channel)
        await stub.BatchPut(tool_cache_pb2.BatchPutRequest(entries=entries), timeout=5)
        await valkey.mset(dict.fromkeys(names, value))
        request = tool_cache_pb2.BatchGetRequest(calls=calls)

        async def look_up() -> None:
            answer = await stub.BatchGet(request, timeout=5)
            _expect(all(one.value == value for one in answer.lookups), "the cache forgot what was put")

        async def mget() -> None:
            _expect(await valkey.mget(names) == [value] * 4, "Valkey forgot what was set")

        figure = await measure("cache_lookup_4", look_up, rounds=500, peer=Peer("MGET", mget))
        await valkey.delete(*names)
    return [figure.fields()]


async def query_embedding(stack: OwnStack) -> list[dict[str, Any]]:
    """One query as a search embeds it; then four at once, each of which waits for the others."""
    stack.enter_as_demo()
    service = embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"]
    async with connect(stack.address("embedding"), service) as channel:
        stub = embedding_pb2_grpc.EmbeddingServiceStub(channel)

        async def embed() -> float:
            request = embedding_pb2.EmbedRequest(
                texts=["¿qué condiciones especiales se repiten en los contratos con proveedores de la UE?"],
                input_type=embedding_pb2.INPUT_TYPE_QUERY,
                language="es",
                with_sparse=True,
                with_token_vectors=True,
            )
            started = time.perf_counter()
            await stub.Embed(request, timeout=10)
            return (time.perf_counter() - started) * 1000

        async def embed_beside_others() -> float:
            times = await asyncio.gather(*(embed() for _ in range(4)))
            return sum(times) / len(times)

        alone = await measure("query_embedding", embed, rounds=100, seconds=6)
        peer = Peer("one caller", embed)
        crowd = await measure("query_embedding_4_callers", embed_beside_others, rounds=50, peer=peer, seconds=8)
    return [alone.fields(), crowd.fields()]


def _corpus() -> tuple[list[NewChunk], list[Query]]:
    """Chunks around 200 topics with the words of a Zipf distribution, and queries that resemble some of them."""
    dice = np.random.default_rng(7)
    topics = dice.standard_normal((200, _DIMENSIONS))
    vectors = topics[dice.integers(200, size=_CHUNKS)] + 0.7 * dice.standard_normal((_CHUNKS, _DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    text = "Cláusula 8.3. Penalización por retraso en la entrega. " * 12
    chunks: list[NewChunk] = []
    for vector in vectors:
        terms = np.unique(dice.zipf(1.2, 80) % 50_000)
        weights = dice.uniform(0.5, 2.0, len(terms))
        chunks.append(NewChunk(text, vector.tolist(), SparseTerms(terms.tolist(), weights.tolist())))
    queries: list[Query] = []
    for at in dice.choice(_CHUNKS, _QUERIES, replace=False):
        vector = vectors[at] + 0.03 * dice.standard_normal(_DIMENSIONS)
        terms = dice.choice(np.array(chunks[at].sparse.indices), 6, replace=False)
        sparse = SparseTerms(terms.tolist(), [1.0] * 6)
        queries.append(Query(Mode.HYBRID, _MODEL, (vector / np.linalg.norm(vector)).tolist(), sparse))
    return chunks, queries


async def _recalls(store: EdgeStore, exact: ExactSearch, query: Query) -> tuple[float, float]:
    """Recall@10 of the hybrid and of the dense search."""
    hits = await store.search(_READER, query)
    dense = sorted(await store.search(_READER, replace(query, mode=Mode.DENSE)), key=lambda hit: -hit.dense)[:_TOP_K]
    place = {hit.chunk.chunk_id: int(hit.chunk.document_id) + hit.chunk.position for hit in (*hits, *dense)}
    best = set(exact.best(query.dense, query.sparse, _TOP_K))
    scores = fused(hits, Mode.HYBRID, Fusion.CALIBRATED, Fitness())
    order = sorted(range(len(hits)), key=lambda at: -scores[at])[:_TOP_K]
    found = {place[hits[at].chunk.chunk_id] for at in order}
    return (
        len(best & found) / _TOP_K,
        recall([place[hit.chunk.chunk_id] for hit in dense], exact.dense_scores(query.dense)),
    )


async def _each(chunks: Sequence[NewChunk]) -> AsyncGenerator[NewChunk]:
    for chunk in chunks:
        yield chunk


def _cycle(things: Sequence[Thing]) -> Iterator[Thing]:
    while True:
        yield from things


def _valkey(stack: OwnStack) -> Redis:
    return Redis.from_url(f"redis://{stack.address('valkey')}")


def _expect(true: bool, otherwise: str) -> None:
    if not true:
        raise NotMeasured(otherwise)
