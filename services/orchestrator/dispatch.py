"""Runs the tool calls of one model turn: arguments checked, one cache lookup for all, the rest in parallel."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum

from opentelemetry import trace
from pydantic import ValidationError

from services.orchestrator import metrics
from services.orchestrator.model import Spent, ToolCall
from services.orchestrator.result_cache import CacheKey, ResultCache
from services.orchestrator.results import Degraded, Found
from services.orchestrator.tools import Arguments, Tool
from services.runtime.errors import (
    InvalidField,
    LimitExceeded,
    NotFound,
    NotPermitted,
    ServiceError,
    SqlError,
)

log = logging.getLogger(__name__)
_tracer = trace.get_tracer("sabueso")
# What the model can mend by calling differently. Everything else is the service's fault.
_MENDABLE = (InvalidField, SqlError, NotPermitted, NotFound, LimitExceeded)


class CacheMode(Enum):
    """How to use the tool cache."""

    USE = "use"
    REFRESH = "refresh"
    OFF = "off"


@dataclass(frozen=True)
class Failure:
    """Why a call gave nothing. `degraded` is set when the service, not the call, was at fault."""

    message: str
    hint: str = ""
    degraded: Degraded | None = None


@dataclass(frozen=True)
class Outcome:
    """How one call ended."""

    call: ToolCall
    result: Found | Failure
    from_cache: bool = False
    duration_seconds: float = 0


@dataclass(frozen=True)
class ToolSet:
    """The tools of one run. `lost` names those that exist but whose service does not answer.

    `spent`: what the tools' own model turns have cost so far.
    """

    tools: Mapping[str, Tool]
    lost: Mapping[str, Degraded] = field(default_factory=dict[str, Degraded])
    spent: Spent = field(default_factory=Spent)


@dataclass(frozen=True)
class _Ready:
    """A call whose arguments are good; `calls` are equal calls of the same turn, run once."""

    tool: Tool
    arguments: Arguments
    key: CacheKey
    calls: list[ToolCall]


@dataclass
class Dispatcher:
    """Runs the calls of one run, and remembers what failed in it."""

    toolset: ToolSet
    cache: ResultCache
    cache_mode: CacheMode = CacheMode.USE
    max_calls_per_turn: int = 6
    cache_seconds: float = field(default=0, init=False)
    tools_seconds: float = field(default=0, init=False)
    cache_hits: int = field(default=0, init=False)
    cache_lost: bool = field(default=False, init=False)
    failed_tools: set[str] = field(default_factory=set[str], init=False)
    _failed_now: set[str] = field(default_factory=set[str], init=False)
    _failures: dict[tuple[str, str], Failure] = field(default_factory=dict[tuple[str, str], Failure], init=False)

    async def run(self, calls: Sequence[ToolCall], seconds: float) -> AsyncGenerator[Outcome]:
        """Yields one outcome a call as each ends; no call takes longer than `seconds`."""
        self._failed_now.clear()
        ready: dict[CacheKey, _Ready] = {}
        for position, call in enumerate(calls):
            prepared = self._prepared(call, position)
            if isinstance(prepared, Failure):
                yield self._ended(Outcome(call, prepared))
            else:
                ready.setdefault(prepared.key, prepared).calls.append(call)
        started = time.perf_counter()
        known = await self._lookup(list(ready.values()))
        took = time.perf_counter() - started
        self.cache_seconds += took
        for key, found in known.items():
            for call in ready.pop(key).calls:
                self.cache_hits += 1
                yield self._ended(Outcome(call, found, from_cache=True, duration_seconds=took))
        async with aclosing(self._in_parallel(list(ready.values()), seconds)) as outcomes:
            async for outcome in outcomes:
                yield self._ended(outcome)

    async def _in_parallel(self, ready: Sequence[_Ready], seconds: float) -> AsyncGenerator[Outcome]:
        started = time.perf_counter()
        running = {asyncio.create_task(self._timed(one, seconds)): one for one in ready}
        fresh: list[tuple[CacheKey, Found, int]] = []
        waiting = set(running)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in (task for task in running if task in done):  # a set has no order
                    one, (result, took) = running[task], task.result()
                    if not isinstance(result, Failure) and not result.degraded and one.tool.cache_ttl_seconds:
                        fresh.append((one.key, result, one.tool.cache_ttl_seconds))
                    for call in one.calls:
                        yield Outcome(call, result, duration_seconds=took)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            self.tools_seconds += time.perf_counter() - started
            if fresh and self.cache_mode is not CacheMode.OFF:
                self.cache.put_later(fresh)

    def _prepared(self, call: ToolCall, position: int) -> _Ready | Failure:
        """The call with checked arguments, or what is wrong with it."""
        if position >= self.max_calls_per_turn:
            return Failure(f"too many calls in one turn; at most {self.max_calls_per_turn} run, call again")
        if call.name in self.toolset.lost:
            lost = self.toolset.lost[call.name]
            return Failure(lost.reason, degraded=lost)
        tool = self.toolset.tools.get(call.name)
        if tool is None:
            metrics.MODEL_CALLS.labels("false").inc()
            return Failure(f"there is no tool `{call.name}`; there are: {', '.join(self.toolset.tools) or 'none'}")
        try:
            arguments = tool.arguments.model_validate_json(call.arguments_json or "{}")
        except ValidationError as error:
            metrics.MODEL_CALLS.labels("false").inc()
            return Failure(_what_is_wrong(error))
        metrics.MODEL_CALLS.labels("true").inc()
        version = tool.cache_version + tool.cache_context(arguments)
        key = CacheKey(tool.name, json.dumps(arguments.model_dump(mode="json"), sort_keys=True), version)
        return self._failures.get((key.tool, key.arguments_json)) or _Ready(tool, arguments, key, [])

    async def _lookup(self, ready: Sequence[_Ready]) -> Mapping[CacheKey, Found]:
        wanted = [(one.key, one.tool.result) for one in ready if one.tool.cache_ttl_seconds]
        if not wanted or self.cache_mode is not CacheMode.USE:
            return {}
        known = await self.cache.get(wanted)
        self.cache_lost = self.cache_lost or known is None
        return {key: found for (key, _), found in zip(wanted, known or (), strict=False) if found is not None}

    async def _timed(self, one: _Ready, seconds: float) -> tuple[Found | Failure, float]:
        started = time.perf_counter()
        result = await self._called(one, min(one.tool.timeout_seconds, seconds))
        if isinstance(result, Failure):
            self._failures[one.key.tool, one.key.arguments_json] = result
        return result, time.perf_counter() - started

    async def _called(self, one: _Ready, seconds: float) -> Found | Failure:
        service = one.tool.service
        with _tracer.start_as_current_span(f"tool {one.tool.name}"):
            try:
                async with asyncio.timeout(seconds):
                    return await one.tool.call(one.arguments, seconds)
            except _MENDABLE as error:
                return Failure(error.message, hint=error.metadata.get("hint", ""))
            except ServiceError as error:
                timed_out = error.reason == "DEADLINE_EXCEEDED"
                reason = f"timeout after {seconds:.3g}s" if timed_out else error.message.rstrip(".")
            except TimeoutError:
                reason = f"timeout after {seconds:.3g}s"
            except Exception:
                log.exception("unexpected error of a tool", extra={"tool": one.tool.name})
                reason = f"{service} failed"
        return Failure(reason, degraded=Degraded(service, reason))

    def _ended(self, outcome: Outcome) -> Outcome:
        """Counts the outcome. A tool has failed for good unless it succeeds in a later turn."""
        failed = isinstance(outcome.result, Failure)
        name = outcome.call.name if outcome.call.name in self.toolset.tools else "unknown"
        status = "error" if failed else "cached" if outcome.from_cache else "ok"
        metrics.TOOL_CALLS.labels(name, status).inc()
        if isinstance(outcome.result, Failure):
            if outcome.result.degraded is not None:
                self._failed_now.add(outcome.call.name)
                self.failed_tools.add(outcome.call.name)
        elif outcome.call.name not in self._failed_now:
            self.failed_tools.discard(outcome.call.name)
        return outcome


def _what_is_wrong(error: ValidationError) -> str:
    """Each wrong argument by name, for the model to mend."""
    said: list[str] = []
    for one in error.errors(include_url=False, include_input=False):
        where = ".".join(map(str, one["loc"]))
        said.append(f"{where}: {one['msg']}" if where else one["msg"])
    return "invalid arguments: " + "; ".join(said)
