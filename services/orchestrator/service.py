"""OrchestratorService: checks a question, runs the agent, translates its events."""

import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from sabueso.orchestrator.v1 import orchestrator_pb2_grpc as rpc
from services.orchestrator import events
from services.orchestrator.agent import Agent
from services.orchestrator.dispatch import Dispatcher
from services.orchestrator.evidence import preview
from services.orchestrator.model import Message, Sampling
from services.orchestrator.query_transform import Transform
from services.orchestrator.result_cache import ResultCache
from services.orchestrator.results import Degraded, Page, Passage, Rows, Source
from services.orchestrator.run import Task
from services.orchestrator.toolbox import Toolbox
from services.orchestrator.turn_cache import CacheMode
from services.runtime.context import current, identity, tenant
from services.runtime.errors import InvalidField, Overloaded

STRATEGY = "react"
_STRATEGIES = ("auto", "react")
_MAX_QUESTION_CHARS = 32_768
_MAX_SYSTEM_CHARS = 32_768
_MAX_HISTORY_MESSAGES = 1_000
_MAX_SECONDS = 600
_MAX_OUTPUT_TOKENS = 8_192
# The caller's own deadline is for the answer and its way back.
_WAY_BACK_SECONDS = 0.2
_CACHE_MODES: Mapping[pb.CacheMode.ValueType, CacheMode] = {
    pb.CACHE_MODE_UNSPECIFIED: CacheMode.USE,
    pb.CACHE_MODE_USE: CacheMode.USE,
    pb.CACHE_MODE_REFRESH: CacheMode.REFRESH,
    pb.CACHE_MODE_OFF: CacheMode.OFF,
}


@dataclass(frozen=True)
class Ceilings:
    """`seconds`: time for an answer where the request says nothing. `max_runs`: answers under way at a time."""

    seconds: float = 60
    max_calls_per_turn: int = 6
    max_runs: int = 256


class OrchestratorServicer(rpc.OrchestratorServiceServicer):
    """The gRPC face of the agent."""

    def __init__(self, agent: Agent, toolbox: Toolbox, cache: ResultCache, ceilings: Ceilings) -> None:
        self._agent = agent
        self._toolbox = toolbox
        self._cache = cache
        self._ceilings = ceilings
        self._running = 0

    async def Run(self, request: pb.RunRequest, context: Any) -> AsyncGenerator[pb.RunResponse]:
        """Streams the events of one answer; headers go out at once when the request is good."""
        if self._running >= self._ceilings.max_runs:
            raise Overloaded("Too many answers are under way.", retry_after=timedelta(seconds=1))
        self._running += 1
        try:
            async with aclosing(self._run(request, context)) as happening:
                async for event in happening:
                    yield _response(event)
        finally:
            self._running -= 1

    async def _run(self, request: pb.RunRequest, call: Any) -> AsyncGenerator[events.Event]:
        started = time.monotonic()
        task = self._task(request)
        mode = _cache_mode(request.options.cache)
        toolset = await self._toolbox.open(
            tenant(),
            collections=request.options.collections,
            only=request.options.tools,
            transform=_transform(request.options.query_transform),
            history=task.history,
            labels=identity().labels,
            question=task.question,
        )
        dispatcher = Dispatcher(toolset, self._cache, mode, self._ceilings.max_calls_per_turn)
        # Nothing is wrong with the request: the gateway can begin its stream before the model has said anything.
        await call.send_initial_metadata(())
        async with aclosing(self._agent.run(task, dispatcher, started)) as happening:
            async for event in happening:
                yield event

    async def ListTools(self, request: pb.ListToolsRequest, context: Any) -> pb.ListToolsResponse:
        """The tools that a run of this tenant would have."""
        toolset = await self._toolbox.open(tenant())
        specs = [tool.spec for tool in toolset.tools.values()]
        return pb.ListToolsResponse(
            tools=(
                pb.Tool(
                    name=spec.name,
                    description=spec.description,
                    parameters_schema_json=json.dumps(spec.parameters, ensure_ascii=False),
                )
                for spec in specs
            )
        )

    def _task(self, request: pb.RunRequest) -> Task:
        options = request.options
        if not request.question.strip():
            raise InvalidField("`question` is empty.", field="question")
        _at_most(len(request.question), _MAX_QUESTION_CHARS, "question", "characters")
        if options.strategy not in ("", *_STRATEGIES):
            raise InvalidField(
                f"`{options.strategy}` is not a strategy; there are: {', '.join(_STRATEGIES)}.",
                field="options.strategy",
            )
        return Task(
            question=request.question,
            history=_history(request),
            max_iterations=_within(options.max_iterations, 1, 10, "options.max_iterations") or 6,
            seconds=self._seconds(options),
            sampling=Sampling(
                temperature=round(_within(options.temperature, 0, 2, "options.temperature"), 4),  # it came as float32
                max_tokens=_within(options.max_output_tokens, 1, _MAX_OUTPUT_TOKENS, "options.max_output_tokens")
                or 1024,
            ),
        )

    def _seconds(self, options: pb.Options) -> float:
        """Time for the answer: what is asked for, and never more than the caller waits."""
        seconds = self._ceilings.seconds
        if options.HasField("deadline"):
            seconds = options.deadline.seconds + options.deadline.nanos / 1e9
            if not 0 < seconds <= _MAX_SECONDS:
                raise InvalidField("`options.deadline` must be above 0 and at most 600 s.", field="options.deadline")
        call = current()
        left = call.seconds_left() if call else None
        return seconds if left is None else min(seconds, max(0.1, left - _WAY_BACK_SECONDS))


def _cache_mode(mode: pb.CacheMode.ValueType) -> CacheMode:
    if mode not in _CACHE_MODES:
        raise InvalidField(f"`options.cache` {mode} is unknown.", field="options.cache")
    return _CACHE_MODES[mode]


def _transform(name: str) -> Transform | None:
    """The wanted transformation; None where the request leaves it to the settings."""
    if name and name not in {one.value for one in Transform}:
        known = ", ".join(one.value for one in Transform)
        raise InvalidField(
            f"`{name}` is not a query transformation; there are: {known}.", field="options.query_transform"
        )
    return Transform(name) if name else None


def _history(request: pb.RunRequest) -> list[Message]:
    _at_most(len(request.history), _MAX_HISTORY_MESSAGES, "history", "messages")
    for index, message in enumerate(request.history):
        if message.role not in ("system", "user", "assistant"):
            raise InvalidField(
                f"`{message.role}` is not a role; there are: system, user, assistant.", field=f"history[{index}].role"
            )
    system = sum(len(message.text) for message in request.history if message.role == "system")
    _at_most(system, _MAX_SYSTEM_CHARS, "history", "characters of system messages")
    return [Message(message.role, message.text) for message in request.history]


def _at_most(size: int, limit: int, field: str, unit: str) -> None:
    if size > limit:
        raise InvalidField(f"`{field}` has {size} {unit}; at most {limit} are allowed.", field=field)


def _within(value: Any, least: int, most: int, field: str) -> Any:
    """`value`, where 0 stands for the default."""
    if value and not least <= value <= most:
        raise InvalidField(f"`{field}` is {value}; it must be {least} to {most}.", field=field)
    return value


def _response(event: events.Event) -> pb.RunResponse:
    match event:
        case events.Text():
            return pb.RunResponse(text_delta=pb.TextDelta(text=event.text))
        case events.Thought():
            return pb.RunResponse(thought=pb.Thought(iteration=event.iteration, text=event.text))
        case events.CallStarted():
            return pb.RunResponse(
                tool_call_started=pb.ToolCallStarted(
                    iteration=event.iteration,
                    call_id=event.call_id,
                    tool=event.tool,
                    arguments_json=event.arguments_json,
                )
            )
        case events.CallFinished():
            return pb.RunResponse(tool_call_finished=_call_finished(event))
        case events.Cited():
            return pb.RunResponse(citation=_citation(event.mark, event.source))
        case Degraded():
            return pb.RunResponse(degraded=pb.Degraded(service=event.service, reason=event.reason))
        case events.Finished():
            return pb.RunResponse(finished=_finished(event))


def _call_finished(event: events.CallFinished) -> pb.ToolCallFinished:
    cached = event.cached
    return pb.ToolCallFinished(
        iteration=event.iteration,
        call_id=event.call_id,
        tool=event.tool,
        status=pb.TOOL_CALL_STATUS_OK if event.ok else pb.TOOL_CALL_STATUS_ERROR,
        from_cache=cached is not None,
        duration=_duration(event.duration_seconds),
        summary=event.summary,
        queries=event.queries,
        query_transform=event.query_transform,
        collections=event.collections,
        cache_age=_duration(cached.age_seconds) if cached else None,
        cache_matched_text=cached.matched_text if cached else "",
        cache_similarity=cached.similarity if cached else 0,
    )


def _citation(mark: int, source: Source) -> pb.Citation:
    match source:
        case Passage():
            document = pb.DocumentSource(
                document_id=source.document_id,
                chunk_id=source.chunk_id,
                title=source.title,
                source=source.source,
                page=source.page,
                section=source.section,
                quote=source.text,
            )
            return pb.Citation(mark=mark, document=document)
        case Rows():
            sql = pb.SqlSource(
                statement=source.statement,
                params_json=source.params_json,
                row_count=len(source.rows),
                preview_json=preview(source),
            )
            return pb.Citation(mark=mark, sql=sql)
        case Page():
            return pb.Citation(mark=mark, web=pb.WebSource(url=source.url, title=source.title, quote=source.snippet))


_FINISH = {
    events.Finish.ANSWERED: pb.FINISH_ANSWERED,
    events.Finish.PARTIAL: pb.FINISH_PARTIAL,
    events.Finish.REFUSED: pb.FINISH_REFUSED,
}


def _finished(event: events.Finished) -> pb.Finished:
    timings = event.timings
    return pb.Finished(
        answer_id=event.answer_id,
        strategy=STRATEGY,
        finish=_FINISH[event.finish],
        iterations=event.iterations,
        usage=pb.Usage(
            prompt_tokens=event.usage.prompt_tokens,
            completion_tokens=event.usage.completion_tokens,
        ),
        timings=pb.Timings(
            model=_duration(timings.model),
            tools=_duration(timings.tools),
            cache=_duration(timings.cache),
            overhead=_duration(timings.overhead),
            total=_duration(timings.total),
        ),
        cache_hit_count=event.cache_hits,
        reason=event.reason,
    )


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(int(seconds * 1e9))
    return duration
