"""The servicer: checks requests, makes keys, asks the store."""

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import Any

import pydantic_core
from google.protobuf.duration_pb2 import Duration

from sabueso.tool_cache.v1 import tool_cache_pb2 as pb
from sabueso.tool_cache.v1 import tool_cache_pb2_grpc
from services.runtime import context as call_context
from services.runtime.context import identity, tenant
from services.runtime.errors import DependencyFailed, InvalidField
from services.tool_cache import metrics
from services.tool_cache.flights import Flights
from services.tool_cache.generations import require_sources
from services.tool_cache.keys import CallKey, argument_text, call_key, require_tool, with_text
from services.tool_cache.semantic_lookup import Alike, SemanticLookup, TextCall
from services.tool_cache.store import Lease, Lookup, Outcome, Result, Store

_MOST_CALLS = 64
_LONGEST_TTL_NS = 30 * 24 * 3600 * 10**9
_LONGEST_WAIT_SECONDS, _WAIT_SECONDS = 60, 5
# Kept of a caller's time.
_RESERVE_SECONDS = 0.05
_RESULTS = {kind: metrics.LOOKUPS.labels(kind) for kind in ("hit", "semantic", "wait", "miss", "stale", "bypass")}


class ToolCacheServicer(tool_cache_pb2_grpc.ToolCacheServiceServicer):
    """See protos/sabueso/tool_cache/v1/tool_cache.proto."""

    def __init__(
        self, store: Store, flights: Flights, semantic: SemanticLookup | None = None, *, max_value_bytes: int
    ) -> None:
        """Without `semantic` only equal calls serve."""
        self._store = store
        self._flights = flights
        self._semantic = semantic
        self._max_value_bytes = max_value_bytes

    async def BatchGet(self, request: pb.BatchGetRequest, context: Any) -> pb.BatchGetResponse:
        _require_count(request.calls, "calls")
        asked = [self._asked(call) for call in request.calls]
        try:
            found = await self._flights.get([key for key, _ in asked], lease=request.lease)
            alike = await self._alike(asked, found)
        except DependencyFailed:
            _RESULTS["bypass"].inc(len(asked))
            raise
        response = pb.BatchGetResponse()
        for lookup, near in zip(found, alike, strict=True):
            _write(response.lookups.add(), lookup, near)
            _RESULTS[
                "semantic" if near else "hit" if lookup.value is not None else "stale" if lookup.stale else "miss"
            ].inc()
        return response

    async def Wait(self, request: pb.WaitRequest, context: Any) -> pb.WaitResponse:
        key, _ = self._asked(request.call)
        seconds = _wait_seconds(request)
        metrics.WAITING.inc()
        try:
            found = await self._flights.wait(key, seconds)
        except DependencyFailed:
            metrics.WAITS.labels("bypass").inc()
            raise
        finally:
            metrics.WAITING.dec()
        response = pb.WaitResponse()
        _write(response.lookup, found, None)
        metrics.WAITS.labels("result" if found.value is not None else "lease" if found.token else "timeout").inc()
        if found.value is not None:
            _RESULTS["wait"].inc()
        return response

    async def BatchPut(self, request: pb.BatchPutRequest, context: Any) -> pb.BatchPutResponse:
        _require_count(request.entries, "entries")
        asked = [self._asked(entry.call) for entry in request.entries]
        results = [self._result(key, entry) for (key, _), entry in zip(asked, request.entries, strict=True)]
        try:
            outcomes = await self._store.put(results)
        except DependencyFailed:
            metrics.RESULTS.labels("bypass").inc(len(results))
            raise
        self._flights.wake([result.key for result in results])
        stored: list[tuple[TextCall, int]] = []
        for (_, text), entry, result, outcome in zip(asked, request.entries, results, outcomes, strict=True):
            too_large = len(entry.value) > self._max_value_bytes
            metrics.RESULTS.labels("too_large" if too_large else outcome.value).inc()
            if outcome is Outcome.STORED:
                metrics.SIZE.observe(len(entry.value))
                if text is not None:
                    stored.append((text, result.ttl_ms))
        if self._semantic is not None:
            self._semantic.remember(stored)
        return pb.BatchPutResponse(stored_count=outcomes.count(Outcome.STORED))

    async def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.ReleaseResponse:
        _require_count(request.leases, "leases")
        await self._flights.release([Lease(self._asked(one.call)[0], one.token) for one in request.leases])
        return pb.ReleaseResponse()

    async def Invalidate(self, request: pb.InvalidateRequest, context: Any) -> pb.InvalidateResponse:
        sources = require_sources(request.sources, "sources")
        if request.tool or not sources:
            require_tool(request.tool, "tool")
        await self._store.invalidate(tenant(), request.tool, sources)
        return pb.InvalidateResponse()

    def _asked(self, call: pb.Call) -> tuple[CallKey, TextCall | None]:
        """The key of a call, and what may serve instead."""
        caller = identity()
        key = call_key(caller.tenant, call.tool, call.version, call.arguments_json, caller.labels)
        if not call.semantic_argument:
            return key, None
        if not 0 <= call.min_similarity <= 1:  # nor NaN
            raise InvalidField("`call.min_similarity` must be 0 to 1.", field="call.min_similarity")
        text = argument_text(key, call.semantic_argument)
        if self._semantic is None:
            return key, None
        if day := self._semantic.day(text):
            key = with_text(key, call.semantic_argument, text, day)
        if call.min_similarity == 0:
            return key, None
        return key, TextCall(key, call.semantic_argument, text, call.min_similarity)

    async def _alike(
        self, asked: Sequence[tuple[CallKey, TextCall | None]], found: Sequence[Lookup]
    ) -> Sequence[Alike | None]:
        """Results of near-equal calls for those that missed. Their leases end, or all when the caller goes."""
        alike: list[Alike | None] = [None] * len(asked)
        texts = [(at, text) for at, (_, text) in enumerate(asked) if text is not None and found[at].value is None]
        if self._semantic is None or not texts:
            return alike
        leases = [
            Lease(key, lookup.token) if lookup.token else None for (key, _), lookup in zip(asked, found, strict=True)
        ]
        near: Sequence[Alike | None] = [None] * len(texts)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_seconds_left()):
                    near = await self._semantic.find([text for _, text in texts])
        except BaseException:
            self._flights.release_later([lease for lease in leases if lease])
            raise
        for (at, _), one in zip(texts, near, strict=True):
            alike[at] = one
        self._flights.release_later([lease for lease, one in zip(leases, alike, strict=True) if lease and one])
        return alike

    def _result(self, key: CallKey, entry: pb.Entry) -> Result:
        ttl_ms = _ttl_ms(entry.ttl)
        sources = require_sources(entry.sources, "entry.sources")
        if len(entry.value) > self._max_value_bytes:
            return Result(key, b"", 0, token=entry.lease_token)
        if ttl_ms:
            _require_json(entry.value)
        if entry.snapshot < 0:
            raise InvalidField("`entry.snapshot` must not be negative.", field="entry.snapshot")
        # What "today" meant when the tool began is known by the key of the lease. Over midnight it is another one.
        only_leased = bool(key.day)
        return Result(key, entry.value, ttl_ms, sources, entry.snapshot, entry.lease_token, only_leased)


def _write(into: pb.Lookup, found: Lookup, near: Alike | None) -> None:
    """`near` takes the place of a miss."""
    known = near.lookup if near else found
    into.snapshot = found.snapshot
    if known.value is None:
        into.lease_token = found.token
        return
    into.hit = True
    into.value = known.value
    into.kind = pb.LOOKUP_KIND_SEMANTIC if near else pb.LOOKUP_KIND_EXACT
    fraction, seconds = math.modf(known.age_seconds)
    into.age.seconds, into.age.nanos = int(seconds), int(fraction * 1e9)
    metrics.AGE.observe(known.age_seconds)
    if near:
        into.similarity, into.matched_text = near.similarity, near.text


def _require_count(items: Sequence[object], field: str) -> None:
    if not 1 <= len(items) <= _MOST_CALLS:
        raise InvalidField(f"`{field}` must be 1 to {_MOST_CALLS}.", field=field)


def _require_json(value: bytes) -> None:
    """Nothing else is remembered: whoever reads it back needs no trust in who wrote it."""
    try:
        pydantic_core.from_json(value, allow_inf_nan=False, cache_strings=False)
    except ValueError:
        metrics.RESULTS.labels("not_json").inc()
        raise InvalidField("`entry.value` is not valid JSON.", field="entry.value") from None


def _ttl_ms(ttl: Duration) -> int:
    """Milliseconds, rounded up: a short time must not become none."""
    nanoseconds = ttl.seconds * 10**9 + ttl.nanos
    if not 0 <= nanoseconds <= _LONGEST_TTL_NS:
        raise InvalidField("`entry.ttl` must be 0 to 30 days.", field="entry.ttl")
    return -(-nanoseconds // 10**6)


def _wait_seconds(request: pb.WaitRequest) -> float:
    """As asked, but not beyond the caller's own time."""
    seconds = request.timeout.seconds + request.timeout.nanos / 1e9 if request.HasField("timeout") else _WAIT_SECONDS
    if not 0 <= seconds <= _LONGEST_WAIT_SECONDS:
        raise InvalidField(f"`timeout` must be 0 to {_LONGEST_WAIT_SECONDS} s.", field="timeout")
    left = _seconds_left()
    return seconds if left is None else min(seconds, left)


def _seconds_left() -> float | None:
    """Of the caller's time, less what the answer needs to reach it."""
    current = call_context.current()
    left = current.seconds_left() if current else None
    return None if left is None else max(0.0, left - _RESERVE_SECONDS)
