"""OrchestratorService: checks a question, runs the agent, translates its events."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from opentelemetry import trace

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from sabueso.orchestrator.v1 import orchestrator_pb2_grpc as rpc
from services.orchestrator import named_model, wire
from services.orchestrator.agent import Agent
from services.orchestrator.arguments import short_name
from services.orchestrator.dispatch import Dispatcher
from services.orchestrator.model import Message, Sampling
from services.orchestrator.query_transform import Transform
from services.orchestrator.reflecting.reflection import Reflecting
from services.orchestrator.result_cache import ResultCache
from services.orchestrator.sampling.sampler import Sampler, Unsampled
from services.orchestrator.sessions.sessions import SessionOptions, Sessions
from services.orchestrator.shield.tenant_shield import Shields
from services.orchestrator.stopwatch import Part, Stopwatch
from services.orchestrator.strategies.auto import AUTO
from services.orchestrator.task import Task
from services.orchestrator.tool_calls import ToolCalls, Wanted
from services.orchestrator.toolbox import Toolbox
from services.orchestrator.turn_cache import CacheMode
from services.runtime.context import current, identity, tenant
from services.runtime.errors import InvalidField, Overloaded

_MAX_QUESTION_CHARS = 32_768
_MAX_SYSTEM_CHARS = 32_768
_MAX_MEMO_CHARS = 65_536
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
    """`seconds`: time for an answer where the request says nothing. `max_calls`: tool calls of one answer.

    `max_runs`: answers under way at a time; `max_tool_calls`: single calls under way at a time. `reflecting`: where the
    request says nothing.
    """

    seconds: float = 60
    max_calls_per_turn: int = 6
    max_runs: int = 256
    max_tool_calls: int = 256
    max_calls: int = 40
    reflecting: Reflecting = Reflecting.OFF


class OrchestratorServicer(rpc.OrchestratorServiceServicer):
    """The gRPC face of the agent and of its tools."""

    def __init__(
        self,
        agent: Agent,
        toolbox: Toolbox,
        cache: ResultCache,
        calls: ToolCalls,
        ceilings: Ceilings,
        sessions: Sessions | None = None,
        shields: Shields | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self._agent = agent
        self._shields = shields
        self._sampler = sampler
        self._sessions = sessions or Sessions()
        self._calls = calls
        self._toolbox = toolbox
        self._cache = cache
        self._ceilings = ceilings
        self._running = 0
        self._calling = 0

    async def Run(self, request: pb.RunRequest, context: Any) -> AsyncGenerator[pb.RunResponse]:
        """Streams the events of one answer; headers go out at once when the request is good."""
        if self._running >= self._ceilings.max_runs:
            raise Overloaded("Too many answers are under way.", retry_after=timedelta(seconds=1))
        self._running += 1
        try:
            async with aclosing(self._run(request, context)) as happening:
                async for event in happening:
                    yield event
        finally:
            self._running -= 1

    async def _run(self, request: pb.RunRequest, call: Any) -> AsyncGenerator[pb.RunResponse]:
        stopwatch = Stopwatch()
        stopwatch.follow()
        asked = self._task(request)
        named_model.ask(request.options.model)
        with stopwatch.during(Part.CACHE):
            conversation = await self._sessions.open(identity(), _session_options(request.options))
        task = replace(asked, history=(*conversation.history, *asked.history))
        mode = _cache_mode(request.options.cache, "options.cache")
        transform = _transform(request.options.query_transform)
        with stopwatch.during(Part.TOOLS):
            toolset = await self._toolbox.open(
                tenant(),
                collections=request.options.collections,
                only=request.options.tools,
                transform=transform,
                history=task.history,
                labels=identity().labels,
                question=task.question,
            )
        dispatcher = Dispatcher(
            toolset,
            self._cache,
            mode,
            max_calls_per_turn=self._ceilings.max_calls_per_turn,
            max_calls=self._ceilings.max_calls,
            stopwatch=stopwatch,
        )
        # Nothing is wrong with the request: the gateway can begin its stream before the model has said anything.
        await call.send_initial_metadata(())
        said = (*asked.history, Message("user", asked.question))
        recent = self._agent.recent(task.history)
        shield = self._shields and self._shields.shield_of(tenant(), toolset.tools, task.question, recent)
        if conversation_id := conversation.id(request.options.answer_id):
            trace.get_current_span().set_attribute("gen_ai.conversation.id", conversation_id)
        told: list[pb.RunResponse] = []
        record = partial(wire.record, told, memo=request.options.memo)
        sample = self._sampler.sample(tenant(), task) if self._sampler else Unsampled(task)
        running = sample.seen(self._agent.run(sample.task, dispatcher, shield))
        async with aclosing(sample.ended(conversation.kept(running, said, record))) as happening:
            async for event in happening:
                told.append(wire.run_response(event))
                yield told[-1]

    async def ListTools(self, request: pb.ListToolsRequest, context: Any) -> pb.ListToolsResponse:
        """The tools that a run of this tenant would have."""
        toolset = await self._toolbox.open(tenant())
        return pb.ListToolsResponse(tools=map(wire.tool, toolset.tools.values()))

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Any) -> pb.DeleteSessionResponse:
        """Forgets conversations of the caller."""
        count = await self._sessions.forget(
            identity(),
            session_id=request.session_id,
            answer_id=request.answer_id,
            everything=request.everything,
        )
        return pb.DeleteSessionResponse(answer_count=count)

    async def GetAnswer(self, request: pb.GetAnswerRequest, context: Any) -> pb.GetAnswerResponse:
        """A stored answer of the caller, as it was told."""
        if not request.answer_id:
            raise InvalidField("`answer_id` is empty.", field="answer_id")
        return wire.recorded(await self._sessions.read(identity(), request.answer_id))

    async def CallTool(self, request: pb.CallToolRequest, context: Any) -> AsyncGenerator[pb.CallToolResponse]:
        """Streams signs of life of one tool, and its result."""
        if not request.name:
            raise InvalidField("`name` is empty.", field="name")
        wanted = Wanted(
            request.name,
            request.arguments_json,
            _cache_mode(request.cache, "cache"),
            _asked_seconds(request, "deadline"),
        )
        if self._calling >= self._ceilings.max_tool_calls:
            raise Overloaded("Too many tools are at work.", retry_after=timedelta(seconds=1))
        self._calling += 1
        try:
            async with aclosing(self._calls.run(wanted, identity(), _patience())) as happening:
                async for event in happening:
                    yield wire.call_response(event)
        finally:
            self._calling -= 1

    def _task(self, request: pb.RunRequest) -> Task:
        options = request.options
        if not request.question.strip():
            raise InvalidField("`question` is empty.", field="question")
        _at_most(len(request.question), _MAX_QUESTION_CHARS, "question", "characters")
        _at_most(len(options.memo), _MAX_MEMO_CHARS, "options.memo", "characters")
        strategies = (AUTO, *self._agent.strategies)
        if options.strategy not in ("", *strategies):
            raise InvalidField(
                f"`{short_name(options.strategy)}` is not a strategy; there are: {', '.join(strategies)}.",
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
            strategy=options.strategy or AUTO,
            reflecting=_reflecting(options.reflection) or self._ceilings.reflecting,
            tenant_id=tenant(),
            include_evidence=options.include_evidence,
        )

    def _seconds(self, options: pb.Options) -> float:
        """Time for the answer: what is asked for, and never more than the caller waits."""
        seconds, patience = _asked_seconds(options, "options.deadline") or self._ceilings.seconds, _patience()
        return seconds if patience is None else min(seconds, patience)


def _session_options(options: pb.Options) -> SessionOptions:
    """What the request says of conversations."""
    return SessionOptions(options.session_id, options.previous_answer_id, options.store, options.answer_id)


def _asked_seconds(asked: pb.Options | pb.CallToolRequest, field: str) -> float | None:
    """The time that is asked for, if any."""
    if not asked.HasField("deadline"):
        return None
    seconds = asked.deadline.seconds + asked.deadline.nanos / 1e9
    if not 0 < seconds <= _MAX_SECONDS:
        raise InvalidField(f"`{field}` must be above 0 and at most {_MAX_SECONDS} s.", field=field)
    return seconds


def _patience() -> float | None:
    """Seconds that the caller waits for an answer; None is for ever."""
    call = current()
    left = call.seconds_left() if call else None
    return None if left is None else max(0.1, left - _WAY_BACK_SECONDS)


def _cache_mode(mode: pb.CacheMode.ValueType, field: str) -> CacheMode:
    if mode not in _CACHE_MODES:
        raise InvalidField(f"`{field}` {mode} is unknown.", field=field)
    return _CACHE_MODES[mode]


def _transform(name: str) -> Transform | None:
    """The wanted transformation; None where the request leaves it to the settings."""
    if name and name not in {one.value for one in Transform}:
        known = ", ".join(one.value for one in Transform)
        raise InvalidField(
            f"`{short_name(name)}` is not a query transformation; there are: {known}.", field="options.query_transform"
        )
    return Transform(name) if name else None


def _reflecting(name: str) -> Reflecting | None:
    """What is asked for; None where the request leaves it to the settings."""
    if name and name not in {one.value for one in Reflecting}:
        known = ", ".join(one.value for one in Reflecting)
        raise InvalidField(
            f"`{short_name(name)}` is no kind of reflection; there are: {known}.", field="options.reflection"
        )
    return Reflecting(name) if name else None


def _history(request: pb.RunRequest) -> list[Message]:
    _at_most(len(request.history), _MAX_HISTORY_MESSAGES, "history", "messages")
    for index, message in enumerate(request.history):
        if message.role not in ("system", "user", "assistant"):
            raise InvalidField(
                f"`{short_name(message.role)}` is not a role; there are: system, user, assistant.",
                field=f"history[{index}].role",
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
