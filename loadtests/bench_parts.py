"""Figures of single services of a stack: SQL, the tool cache, the embedding of a query."""

import asyncio
import json
import time
from datetime import date
from typing import Any

import asyncpg
from redis.asyncio import Redis

from loadtests.measuring import NotMeasured
from loadtests.own_stack import OwnStack
from loadtests.side_by_side import Peer, measure
from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.sql_tool.v1 import sql_tool_pb2, sql_tool_pb2_grpc
from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from services.runtime.channels import connect

_SQL = "SELECT id, title, amount FROM contracts WHERE signed_on >= $1 AND signed_on < $2 ORDER BY signed_on LIMIT 20"
_CACHED_BYTES = 4_000  # five passages as the orchestrator stores them


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


def _valkey(stack: OwnStack) -> Redis:
    return Redis.from_url(f"redis://{stack.address('valkey')}")


def _expect(true: bool, otherwise: str) -> None:
    if not true:
        raise NotMeasured(otherwise)
