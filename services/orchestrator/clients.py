"""The tools' services over gRPC, as the logic wants them."""

import json
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import numpy as np
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from sabueso.embedding.v1 import embedding_pb2, embedding_pb2_grpc
from sabueso.retrieval.v1 import retrieval_pb2, retrieval_pb2_grpc
from sabueso.sql_tool.v1 import sql_tool_pb2, sql_tool_pb2_grpc
from sabueso.tool_cache.v1 import tool_cache_pb2, tool_cache_pb2_grpc
from sabueso.web_tool.v1 import web_tool_pb2, web_tool_pb2_grpc
from services.orchestrator.arguments import strict_json
from services.orchestrator.documents import Collection, DocumentQuery
from services.orchestrator.result_cache import CacheEntry, CacheKey, Miss, Stored
from services.orchestrator.results import Degraded, Page, Pages, Passage, Passages, Rows
from services.orchestrator.routing.encoder import Encoded
from services.orchestrator.sql_tools import Schema, VerifiedQuery
from services.runtime import errors
from services.runtime.channels import connect

Response = TypeVar("Response")

# The largest integer that every JSON reader keeps exactly (RFC 8259, section 6).
_MAX_EXACT = 2**53
_MAX_BYTES_SHOWN = 32
# A wait may last to its end, and be told of it.
_WAY_BACK_SECONDS = 0.2


async def _answer(call: Awaitable[Response], service: str) -> Response:
    """Awaits a remote call. Raises ServiceError in place of gRPC's error."""
    try:
        return await call
    except aio.AioRpcError as error:
        known = errors.from_rpc(error, service)
        raise known or errors.DependencyFailed(f"{service} failed.", dependency=service) from None


class RetrievalClient:
    """Documents, in retrieval."""

    def __init__(self, address: str) -> None:
        self.channel = connect(address, retrieval_pb2.DESCRIPTOR.services_by_name["RetrievalService"])
        self._stub = retrieval_pb2_grpc.RetrievalServiceStub(self.channel)

    async def search(self, query: DocumentQuery, timeout_seconds: float) -> Passages:
        """See Documents."""
        request = retrieval_pb2.SearchRequest(
            query=query.text,
            top_k=query.top_k,
            collections=query.collections,
            route=query.route,
            mode=retrieval_pb2.SEARCH_MODE_DENSE if query.by_meaning else retrieval_pb2.SEARCH_MODE_UNSPECIFIED,
        )
        response = await _answer(self._stub.Search(request, timeout=timeout_seconds), "retrieval")
        return Passages(
            tuple(
                Passage(
                    document_id=one.document_id,
                    chunk_id=one.chunk_id,
                    title=one.title,
                    source=one.source,
                    page=one.page,
                    section=one.section,
                    language=one.language,
                    text=one.text,
                    collection=one.collection,
                    score=round(one.score, 6),  # it came as float32
                    metadata=dict(one.metadata),
                    suspicious=tuple(
                        (one.matched_text or one.text)[span.start : span.end] for span in one.suspicious_spans
                    ),
                    harmless_by="" if one.scan.score or one.suspicious_spans else one.scan.version,
                )
                for one in response.passages
            ),
            tuple(map(_skipped, response.degraded)),
            collections=tuple(one.name for one in response.routed if one.chosen),
            off_topic=bool(response.routed) and not any(one.chosen for one in response.routed),
        )

    async def collections(self, timeout_seconds: float) -> Sequence[Collection]:
        """See Documents."""
        request = retrieval_pb2.ListCollectionsRequest()
        response = await _answer(self._stub.ListCollections(request, timeout=timeout_seconds), "retrieval")
        return [
            Collection(one.name, one.description, one.document_count, one.update_time.ToMicroseconds() / 1e6)
            for one in response.collections
        ]


class SqlClient:
    """Database, in sql_tool."""

    def __init__(self, address: str) -> None:
        self.channel = connect(address, sql_tool_pb2.DESCRIPTOR.services_by_name["SqlToolService"])
        self._stub = sql_tool_pb2_grpc.SqlToolServiceStub(self.channel)

    async def query(self, sql: str, params_json: str, source: str, timeout_seconds: float) -> Rows:
        """See Database."""
        request = sql_tool_pb2.QueryRequest(sql=sql, params_json=params_json, source=source)
        response = await _answer(self._stub.Query(request, timeout=timeout_seconds), "sql_tool")
        return _rows(sql, params_json, response.result)

    async def schema(self, about: str, timeout_seconds: float) -> Schema:
        """See Database."""
        request = sql_tool_pb2.DescribeSchemaRequest(question=about)
        response = await _answer(self._stub.DescribeSchema(request, timeout=timeout_seconds), "sql_tool")
        sources = tuple(one.name for one in response.sources)
        return Schema(response.text, response.version, tuple(response.tables), sources)

    async def verified_queries(self, timeout_seconds: float) -> Sequence[VerifiedQuery]:
        """See Database."""
        request = sql_tool_pb2.ListVerifiedQueriesRequest()
        response = await _answer(self._stub.ListVerifiedQueries(request, timeout=timeout_seconds), "sql_tool")
        return [
            VerifiedQuery(
                name=one.name,
                description=one.description,
                schema=json.loads(one.parameters_schema_json or "{}"),
                examples=tuple((example.question, example.arguments_json) for example in one.examples),
                version=one.version,
                defect=one.defect,
            )
            for one in response.queries
        ]

    async def run_verified(self, name: str, arguments_json: str, timeout_seconds: float) -> Rows:
        """See Database."""
        request = sql_tool_pb2.RunVerifiedQueryRequest(name=name, arguments_json=arguments_json)
        response = await _answer(self._stub.RunVerifiedQuery(request, timeout=timeout_seconds), "sql_tool")
        return _rows(response.sql, response.params_json, response.result)


class WebClient:
    """Web, in web_tool."""

    def __init__(self, address: str) -> None:
        self.channel = connect(address, web_tool_pb2.DESCRIPTOR.services_by_name["WebToolService"])
        self._stub = web_tool_pb2_grpc.WebToolServiceStub(self.channel)

    async def search(self, query: str, internal_terms: Sequence[str], timeout_seconds: float) -> Pages:
        """See Web."""
        request = web_tool_pb2.SearchRequest(query=query, internal_terms=internal_terms)
        response = await _answer(self._stub.Search(request, timeout=timeout_seconds), "web_tool")
        pages = tuple(Page(one.url, one.title, one.snippet, one.published) for one in response.results)
        partial = (Degraded("web_tool", "some search engines did not answer"),) if response.unresponsive_engines else ()
        return Pages(pages, partial, response.redacted_query)


class CacheClient:
    """CacheStore, in tool_cache."""

    def __init__(self, address: str) -> None:
        self.channel = connect(address, tool_cache_pb2.DESCRIPTOR.services_by_name["ToolCacheService"])
        self._stub = tool_cache_pb2_grpc.ToolCacheServiceStub(self.channel)

    async def get(self, keys: Sequence[CacheKey], timeout_seconds: float, *, lease: bool) -> Sequence[Stored | Miss]:
        """See CacheStore."""
        request = tool_cache_pb2.BatchGetRequest(calls=map(_as_call, keys), lease=lease)
        response = await _answer(self._stub.BatchGet(request, timeout=timeout_seconds), "tool_cache")
        return [_looked_up(one, leasing=lease) for one in response.lookups]

    async def wait(self, key: CacheKey, seconds: float) -> Stored | Miss:
        """See CacheStore."""
        request = tool_cache_pb2.WaitRequest(call=_as_call(key), timeout=_duration(seconds))
        response = await _answer(self._stub.Wait(request, timeout=seconds + _WAY_BACK_SECONDS), "tool_cache")
        return _looked_up(response.lookup, leasing=True)

    async def put(self, entries: Sequence[CacheEntry], timeout_seconds: float) -> None:
        """See CacheStore."""
        request = tool_cache_pb2.BatchPutRequest(
            entries=(
                tool_cache_pb2.Entry(
                    call=_as_call(entry.key),
                    value=entry.value,
                    ttl=Duration(seconds=entry.ttl_seconds),
                    sources=entry.sources,
                    snapshot=entry.snapshot,
                    lease_token=entry.lease,
                )
                for entry in entries
            )
        )
        await _answer(self._stub.BatchPut(request, timeout=timeout_seconds), "tool_cache")

    async def release(self, leases: Sequence[tuple[CacheKey, str]], timeout_seconds: float) -> None:
        """See CacheStore."""
        request = tool_cache_pb2.ReleaseRequest(
            leases=(tool_cache_pb2.Lease(call=_as_call(key), token=lease) for key, lease in leases)
        )
        await _answer(self._stub.Release(request, timeout=timeout_seconds), "tool_cache")


class EmbeddingClient:
    """QueryEncoder, in embedding."""

    def __init__(self, address: str) -> None:
        self.channel = connect(address, embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"])
        self._stub = embedding_pb2_grpc.EmbeddingServiceStub(self.channel)

    async def encode(self, texts: Sequence[str], seconds: float) -> Encoded:
        """See QueryEncoder."""
        request = embedding_pb2.EmbedRequest(texts=texts, input_type=embedding_pb2.INPUT_TYPE_QUERY)
        response = await _answer(self._stub.Embed(request, timeout=seconds), "embedding")
        if len(response.embeddings) != len(texts):
            raise errors.DependencyFailed("embedding did not answer with one vector a text.", dependency="embedding")
        return Encoded(response.model, np.array([one.dense for one in response.embeddings], np.float32))


def _skipped(name: str) -> Degraded:
    """What retrieval left out: a service that failed, or `<service> skipped` where its time ran out."""
    service = name.removesuffix(" skipped")
    return Degraded(service, f"{service} does not answer" if service == name else f"{service} took too long")


def _as_call(key: CacheKey) -> tool_cache_pb2.Call:
    return tool_cache_pb2.Call(
        tool=key.tool,
        arguments_json=key.arguments_json,
        version=key.version,
        semantic_argument=key.semantic_argument,
        min_similarity=key.min_similarity,
    )


def _looked_up(lookup: tool_cache_pb2.Lookup, *, leasing: bool) -> Stored | Miss:
    if lookup.hit:
        age = lookup.age.ToMilliseconds() / 1000
        return Stored(lookup.value, age, lookup.matched_text, lookup.similarity, lookup.snapshot)
    # Without a snapshot the store is lost, and nobody is making anything.
    made_elsewhere = leasing and not lookup.lease_token and bool(lookup.snapshot)
    return Miss(lookup.snapshot, lookup.lease_token, made_elsewhere)


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(int(seconds * 1e9))
    return duration


def _rows(statement: str, params_json: str, result: sql_tool_pb2.ResultSet) -> Rows:
    return Rows(
        statement=statement,
        params_json=params_json,
        columns=tuple(column.name for column in result.columns),
        rows=tuple(tuple(_as_json(cell) for cell in row.cells) for row in result.rows),
        truncated=result.truncated,
        source=result.source,
        tables=tuple(result.tables),
        volatile=result.volatile,
    )


def _as_json(cell: sql_tool_pb2.Cell) -> Any:
    """The cell as a value of JSON; what JSON would not keep exactly becomes text."""
    kind = cell.WhichOneof("kind")
    if kind is None:
        return None
    value = getattr(cell, kind)
    match kind:
        case "integer_value":
            return value if abs(value) <= _MAX_EXACT else str(value)
        case "real_value":
            return value if abs(value) != float("inf") and value == value else str(value)
        case "json_value":
            try:
                return strict_json(value)
            except ValueError:  # what we could not write again as it is stays text
                return value
        case "bytes_value":
            return "\\x" + value[:_MAX_BYTES_SHOWN].hex() + ("…" if len(value) > _MAX_BYTES_SHOWN else "")
        case _:
            return value
