"""Runs the tool calls of one model turn: arguments checked, one cache lookup for all, the rest in parallel."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace

from services.orchestrator import metrics
from services.orchestrator.arguments import WrongArguments
from services.orchestrator.model import Spent, ToolCall
from services.orchestrator.result_cache import CacheKey, Hit, ResultCache
from services.orchestrator.results import Degraded, Found, Passages, Rows
from services.orchestrator.tools import Tool
from services.orchestrator.turn_cache import CacheMode, TurnCache
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
# Results that come soon after another are stored together with it.
_LINGER_SECONDS = 0.02


@dataclass(frozen=True)
class Failure:
    """Why a call gave nothing. `degraded` is set when the service, not the call, was at fault.

    What helps to mend it: a `hint`, a `code` of the service's closed list, and the `position` in the statement, from 1.
    `field` names what is wrong of the call.
    """

    message: str
    hint: str = ""
    degraded: Degraded | None = None
    code: str = ""
    position: str = ""
    field: str = ""


@dataclass(frozen=True)
class Outcome:
    """How one call ended. `hit` is set where the cache had the result."""

    call: ToolCall
    result: Found | Failure
    hit: Hit | None = None
    duration_seconds: float = 0


@dataclass(frozen=True)
class ToolSet:
    """The tools of one run. `lost` names those that exist but whose service does not answer.

    `spent`: what the tools' own model turns have cost so far. `internal`: what they found inside the company.
    """

    tools: Mapping[str, Tool]
    lost: Mapping[str, Degraded] = field(default_factory=dict[str, Degraded])
    spent: Spent = field(default_factory=Spent)
    internal: list[Passages | Rows] = field(default_factory=list[Passages | Rows])


@dataclass(frozen=True)
class _Ready:
    """A call whose arguments are good; `calls` are equal calls of the same turn, run once."""

    tool: Tool
    arguments: Any
    key: CacheKey
    calls: list[ToolCall]


@dataclass
class Dispatcher:
    """Runs the calls of one run, and remembers what failed in it. `by_model`: a model wrote them, and it is judged."""

    toolset: ToolSet
    cache: ResultCache
    cache_mode: CacheMode = CacheMode.USE
    max_calls_per_turn: int = 6
    by_model: bool = True
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
        turn = TurnCache(self.cache, self.cache_mode)
        try:
            started = time.perf_counter()
            known = await turn.look_up([(one.key, one.tool) for one in ready.values()])
            took = time.perf_counter() - started
            self.cache_seconds += took
            self.cache_lost = self.cache_lost or turn.lost
            for key, hit in known.items():
                for call in ready.pop(key).calls:
                    yield self._ended(Outcome(call, hit.found, hit, took))
            async with aclosing(self._in_parallel(list(ready.values()), turn, seconds)) as outcomes:
                async for outcome in outcomes:
                    yield self._ended(outcome)
        finally:
            turn.close()

    async def _in_parallel(self, ready: Sequence[_Ready], turn: TurnCache, seconds: float) -> AsyncGenerator[Outcome]:
        started = time.perf_counter()
        running = {asyncio.create_task(self._made(one, turn, seconds)): one for one in ready}
        waiting = set(running)
        try:
            while waiting:
                linger = _LINGER_SECONDS if turn.has_unsaid else None
                done, waiting = await asyncio.wait(waiting, timeout=linger, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    turn.flush()
                for task in (task for task in running if task in done):  # a set has no order
                    result, hit, took = task.result()
                    for call in running[task].calls:
                        yield Outcome(call, result, hit, took)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            self.tools_seconds += time.perf_counter() - started

    def _prepared(self, call: ToolCall, position: int) -> _Ready | Failure:
        """The call with checked arguments, or what is wrong with it."""
        if position >= self.max_calls_per_turn:
            return Failure(f"too many calls in one turn; at most {self.max_calls_per_turn} run, call again")
        if call.name in self.toolset.lost:
            lost = self.toolset.lost[call.name]
            return Failure(lost.reason, degraded=lost)
        tool = self.toolset.tools.get(call.name)
        if tool is None:
            self._judge(valid=False)
            return Failure(f"there is no tool `{call.name}`; there are: {', '.join(self.toolset.tools) or 'none'}")
        try:
            arguments = tool.form.read(call.arguments_json)
        except WrongArguments as error:
            self._judge(valid=False)
            return Failure(str(error))
        self._judge(valid=True)
        key = tool.key(arguments)
        return self._failures.get((key.tool, key.arguments_json)) or _Ready(tool, arguments, key, [])

    def _judge(self, *, valid: bool) -> None:
        if self.by_model:
            metrics.MODEL_CALLS.labels(str(valid).lower()).inc()

    async def _made(self, one: _Ready, turn: TurnCache, seconds: float) -> tuple[Found | Failure, Hit | None, float]:
        """The result: of whoever makes the same call now, or of the tool. And the seconds that it took."""
        started = time.perf_counter()
        # Half of the time is kept for the tool: whoever makes it may fail.
        patience = min(one.tool.timeout_seconds, seconds / 2)
        if hit := await turn.from_elsewhere(one.key, one.tool, patience):
            return hit.found, hit, time.perf_counter() - started
        left = seconds - (time.perf_counter() - started)
        result = await self._called(one, min(one.tool.timeout_seconds, left))
        if isinstance(result, Failure):
            self._failures[one.key.tool, one.key.arguments_json] = result
            turn.let_go(one.key)
        else:
            turn.keep(one.key, one.tool, result, one.tool.cache_sources(one.arguments, result))
        return result, None, time.perf_counter() - started

    async def _called(self, one: _Ready, seconds: float) -> Found | Failure:
        service = one.tool.service
        # OpenTelemetry's conventions for generative AI.
        named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": one.tool.name}
        with _tracer.start_as_current_span(f"execute_tool {one.tool.name}", attributes=named):
            try:
                async with asyncio.timeout(seconds):
                    return await one.tool.call(one.arguments, seconds)
            except _MENDABLE as error:
                hint, code, position = (error.metadata.get(name, "") for name in ("hint", "code", "position"))
                wrong = error.metadata.get("field", "")
                return Failure(error.message, hint=hint, code=code, position=position, field=wrong)
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
        result, name = outcome.result, outcome.call.name
        tool = self.toolset.tools.get(name)
        status = "error" if isinstance(result, Failure) else "cached" if outcome.hit else "ok"
        metrics.TOOL_CALLS.labels(tool.kind if tool else "unknown", status).inc()
        self.cache_hits += outcome.hit is not None
        if isinstance(result, Failure):
            if result.degraded is not None:
                self._failed_now.add(name)
                self.failed_tools.add(name)
            return outcome
        if isinstance(result, Passages | Rows):
            self.toolset.internal.append(result)
        if name not in self._failed_now:
            self.failed_tools.discard(name)
        return outcome
