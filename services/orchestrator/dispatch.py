"""Runs the tool calls of one model turn: arguments checked, one cache lookup for all, the rest in parallel."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry import trace

from services.orchestrator import metrics
from services.orchestrator.arguments import WrongArguments, unknown_tool
from services.orchestrator.call_memory import CallMemory, Failure
from services.orchestrator.model import Spent, ToolCall
from services.orchestrator.result_cache import CacheKey, Hit, ResultCache
from services.orchestrator.results import Degraded, Found, Passages, Rows
from services.orchestrator.stopwatch import Part, Stopwatch
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

    def part(self, names: Collection[str]) -> "ToolSet":
        """The tools of these names, in their order, at the same expense."""
        tools = {name: tool for name, tool in self.tools.items() if name in names}
        return replace(self, tools=tools, lost={name: lost for name, lost in self.lost.items() if name in names})


@dataclass(frozen=True)
class _Ready:
    """A call whose arguments are good; `calls` are equal calls of the same turn, run once."""

    tool: Tool
    arguments: Any
    key: CacheKey
    calls: list[ToolCall]


@dataclass
class Dispatcher:
    """Runs the calls of one run. `by_model`: a model wrote them, and it is judged. `max_calls`: of the whole run.

    `repeating_turns`: turns so far in which nothing was new.
    """

    toolset: ToolSet
    cache: ResultCache
    cache_mode: CacheMode = CacheMode.USE
    max_calls_per_turn: int = 6
    by_model: bool = True
    max_calls: int = 40
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    memory: CallMemory = field(default_factory=CallMemory)
    repeating_turns: int = field(default=0, init=False)
    _made: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]], init=False)
    _failed_now: set[str] = field(default_factory=set[str], init=False)

    def part(self, names: Collection[str]) -> "Dispatcher":
        """One for a part of the run, with some of its tools. It has seen no result yet, but knows what failed."""
        return replace(self, toolset=self.toolset.part(names))

    @property
    def is_used_up(self) -> bool:
        """Whether no further call is made."""
        return self.memory.calls >= self.max_calls

    async def run(
        self, calls: Sequence[ToolCall], seconds: float, refusal: Callable[[ToolCall], str] = lambda _: ""
    ) -> AsyncGenerator[Outcome]:
        """Yields one outcome a call as each ends; no call takes longer than `seconds`. `refusal`: as the shield's."""
        seconds = max(0.0, seconds)  # what is below zero would be told
        self._failed_now.clear()
        ready: dict[CacheKey, _Ready] = {}
        for call, prepared in self._all_prepared(calls, refusal):
            if isinstance(prepared, Failure):
                yield self._ended(Outcome(call, prepared))
            else:
                ready.setdefault(prepared.key, prepared).calls.append(call)
        turn = TurnCache(self.cache, self.cache_mode)
        try:
            started = self.stopwatch.now()
            with self.stopwatch.during(Part.CACHE):
                known = await turn.look_up([(one.key, one.tool) for one in ready.values()])
            took = self.stopwatch.now() - started
            self.memory.cache_lost = self.memory.cache_lost or turn.lost
            for key, hit in known.items():
                for call in ready.pop(key).calls:
                    yield self._ended(Outcome(call, hit.found, hit, took))
            async with aclosing(self._in_parallel(list(ready.values()), turn, seconds)) as outcomes:
                async for outcome in outcomes:
                    yield self._ended(outcome)
        finally:
            turn.close()

    async def _in_parallel(self, ready: Sequence[_Ready], turn: TurnCache, seconds: float) -> AsyncGenerator[Outcome]:
        running = {asyncio.create_task(self._result(one, turn, seconds)): one for one in ready}
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

    def _all_prepared(
        self, calls: Sequence[ToolCall], refusal: Callable[[ToolCall], str]
    ) -> Sequence[tuple[ToolCall, "_Ready | Failure"]]:
        """Each call with what it needs to be made, or why it is not. Equal calls of one turn are no repetition."""
        now: dict[tuple[str, str], _Ready | Failure] = {}
        prepared: list[tuple[ToolCall, _Ready | Failure]] = []
        for position, call in enumerate(calls):
            if position >= self.max_calls_per_turn:
                most = f"too many calls in one turn; at most {self.max_calls_per_turn} run, call again"
                prepared.append((call, Failure(most, not_made=True)))
                continue
            read = self._read(call)
            key = (read.key.tool, read.key.arguments_json) if isinstance(read, _Ready) else _as_written(call)
            if key not in now:
                now[key] = self._repeated(key, read) if key in self._made else self._allowed(call, read, refusal)
            prepared.append((call, now[key]))
        self.repeating_turns += bool(now) and now.keys() <= self._made
        self._made |= now.keys()
        return prepared

    def _read(self, call: ToolCall) -> "_Ready | Failure":
        """The call with checked arguments, or what is wrong with it."""
        if call.name in self.toolset.lost:
            lost = self.toolset.lost[call.name]
            return Failure(lost.reason, degraded=lost, not_made=True)
        tool = self.toolset.tools.get(call.name)
        if tool is None:
            self._judge(call, valid=False)
            return Failure(unknown_tool(call.name, tuple(self.toolset.tools)), not_made=True)
        try:
            arguments = tool.form.read(call.arguments_json)
        except WrongArguments as error:
            self._judge(call, valid=False)
            return Failure(str(error), not_made=True)
        self._judge(call, valid=True)
        return _Ready(tool, arguments, tool.key(arguments), [])

    def _repeated(self, key: tuple[str, str], read: "_Ready | Failure") -> Failure:
        """What is said to a call that was made, or tried, in an earlier turn."""
        before = read if isinstance(read, Failure) else self.memory.failures.get(key)
        if before is None:
            return Failure("this very call was made before; use its result above, or call differently", not_made=True)
        again = f"{before.message}; this very call was tried before, and is not made again"
        return replace(before, message=again, not_made=True)

    def _allowed(
        self, call: ToolCall, read: "_Ready | Failure", refusal: Callable[[ToolCall], str]
    ) -> "_Ready | Failure":
        """The call, unless something forbids it."""
        if isinstance(read, Failure):
            return read
        if forbidden := refusal(call):
            return Failure(forbidden, not_made=True, refused=True)
        known = self.memory.failures.get((read.key.tool, read.key.arguments_json))
        if known is not None:
            return replace(known, not_made=True)
        if self.memory.is_gone(call.name):
            service = read.tool.service
            gone = Degraded(service, f"{service} failed twice")
            return Failure(f"{service} failed twice and is not asked again", degraded=gone, not_made=True)
        if self.is_used_up:
            return Failure(f"no more calls can be made; at most {self.max_calls} are", not_made=True)
        self.memory.calls += 1
        return read

    def _judge(self, call: ToolCall, *, valid: bool) -> None:
        if self.by_model:
            metrics.MODEL_CALLS.labels(call.model or "unknown", str(valid).lower()).inc()

    async def _result(self, one: _Ready, turn: TurnCache, seconds: float) -> tuple[Found | Failure, Hit | None, float]:
        """The result: of whoever makes the same call now, or of the tool. And the seconds that it took."""
        started = self.stopwatch.now()
        # Half of the time is kept for the tool: whoever makes it may fail.
        patience = min(one.tool.timeout_seconds, seconds / 2)
        with self.stopwatch.during(Part.TOOLS):
            if hit := await turn.from_elsewhere(one.key, one.tool, patience):
                return hit.found, hit, self.stopwatch.now() - started
            left = max(0.0, seconds - (self.stopwatch.now() - started))
            result = await self._called(one, min(one.tool.timeout_seconds, left))
        if isinstance(result, Failure):
            self.memory.failures[one.key.tool, one.key.arguments_json] = result
            turn.let_go(one.key)
        else:
            turn.keep(one.key, one.tool, result, one.tool.cache_sources(one.arguments, result))
        return result, None, self.stopwatch.now() - started

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
        result, name, memory = outcome.result, outcome.call.name, self.memory
        tool = self.toolset.tools.get(name)
        metrics.TOOL_CALLS.labels(tool.kind if tool else "unknown", _status(outcome)).inc()
        memory.cache_hits += outcome.hit is not None
        if tool and outcome.hit is None and not (isinstance(result, Failure) and result.not_made):
            memory.kinds.add(tool.kind)
        if isinstance(result, Failure):
            if result.degraded is not None:
                if not result.not_made and name not in self._failed_now:
                    memory.broke_down(name)
                self._failed_now.add(name)
                memory.failed_tools.add(name)
            return outcome
        if isinstance(result, Passages | Rows):
            self.toolset.internal.append(result)
        memory.worked(name)
        if name not in self._failed_now:
            memory.failed_tools.discard(name)
        return outcome


def _as_written(call: ToolCall) -> tuple[str, str]:
    return call.name, call.arguments_json.strip()


def _status(outcome: Outcome) -> str:
    if isinstance(outcome.result, Failure):
        return "not_made" if outcome.result.not_made else "error"
    return "cached" if outcome.hit else "ok"
