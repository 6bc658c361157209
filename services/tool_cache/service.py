"""The servicer: checks requests, makes keys, asks the store."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.duration_pb2 import Duration

from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc
from services.runtime.context import identity, tenant
from services.runtime.errors import InvalidField
from services.tool_cache import metrics
from services.tool_cache.keys import CallKey, call_key, require_tool
from services.tool_cache.store import Result, Store

_MOST_CALLS = 64
_LONGEST_TTL_NS = 30 * 24 * 3600 * 10**9


class ToolCacheServicer(tool_cache_pb2_grpc.ToolCacheServiceServicer):
    """See protos/sabueso/tool_cache/v1/tool_cache.proto."""

    def __init__(self, store: Store, *, max_value_bytes: int) -> None:
        self._store = store
        self._max_value_bytes = max_value_bytes

    async def BatchGet(self, request: pb.BatchGetRequest, context: Any) -> pb.BatchGetResponse:
        _require_count(request.calls, "calls")
        keys = [_key(call) for call in request.calls]
        response = pb.BatchGetResponse()
        for found in await self._store.get(keys):
            lookup = response.lookups.add(hit=found is not None)
            metrics.LOOKUPS.labels("miss" if found is None else "hit").inc()
            if found is not None:
                lookup.value = found.value
                lookup.age.FromNanoseconds(int(found.age_seconds * 1e9))
        return response

    async def BatchPut(self, request: pb.BatchPutRequest, context: Any) -> pb.BatchPutResponse:
        _require_count(request.entries, "entries")
        results: list[Result] = []
        for entry in request.entries:
            key = _key(entry.call)
            ttl_ms = _ttl_ms(entry.ttl)
            if ttl_ms == 0:
                metrics.RESULTS.labels("no_ttl").inc()
            elif len(entry.value) > self._max_value_bytes:
                metrics.RESULTS.labels("too_large").inc()
            else:
                results.append(Result(key, entry.value, ttl_ms))
        stored = await self._store.put(results) if results else []
        for one in stored:
            metrics.RESULTS.labels("stored" if one else "outdated").inc()
        return pb.BatchPutResponse(stored_count=sum(stored))

    async def Invalidate(self, request: pb.InvalidateRequest, context: Any) -> pb.InvalidateResponse:
        require_tool(request.tool, "tool")
        await self._store.invalidate(tenant(), request.tool)
        return pb.InvalidateResponse()


def _require_count(items: Sequence[object], field: str) -> None:
    if not 1 <= len(items) <= _MOST_CALLS:
        raise InvalidField(f"`{field}` must be 1 to {_MOST_CALLS}.", field=field)


def _ttl_ms(ttl: Duration) -> int:
    """Milliseconds, rounded up: a short time must not become none."""
    nanoseconds = ttl.seconds * 10**9 + ttl.nanos
    if not 0 <= nanoseconds <= _LONGEST_TTL_NS:
        raise InvalidField("`entry.ttl` must be 0 to 30 days.", field="entry.ttl")
    return -(-nanoseconds // 10**6)


def _key(call: pb.Call) -> CallKey:
    caller = identity()
    return call_key(caller.tenant, call.tool, call.version, call.arguments_json, caller.labels)
