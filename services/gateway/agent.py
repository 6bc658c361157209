"""Runs the agent for the endpoints that offer it: what it is asked, its events in order, its answer as a stream."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from grpc import aio
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.access.callers import Caller
from services.gateway.admission import caller_of, meter_of
from services.gateway.answer import Answer, answer_id_of
from services.gateway.clients import Clients, failure_behind
from services.gateway.errors import ApiError, Failure, failure_of
from services.gateway.feedback.ledger import Ledger, facts_of
from services.gateway.metering import Meter
from services.gateway.streams.events import KEEP_ALIVE, with_pauses
from services.gateway.streams.pieces import event_stream
from services.runtime import errors

Step = dict[str, Any] | None
SESSION_ID = r"^[A-Za-z0-9_-]{1,128}$"
Places = Callable[[Caller], AbstractAsyncContextManager[None]]
Events = AsyncGenerator[tuple[pb.RunResponse, Step]]

# The agent's own deadline ends an answer in good order; the call's comes a little later, for when it does not.
_GRACE_SECONDS = 2.0


class Extras(BaseModel):
    """What the agent understands beyond OpenAI's API."""

    model_config = ConfigDict(extra="forbid", strict=True)

    strategy: Literal["auto", "react", "router", "rag", "plan"] = "auto"
    collections: list[str] = Field(default=[], max_length=50)
    tools: list[str] = Field(default=[], max_length=50)
    max_iterations: int | None = Field(default=None, ge=1, le=10)
    deadline_ms: int | None = Field(default=None, ge=1, le=600_000)
    query_transform: Literal["none", "hyde", "multi_query", "decompose", "step_back", "multi_step", "auto"] | None = (
        None
    )
    cache: Literal["use", "refresh", "off"] = "use"
    model: str = Field(
        default="",
        max_length=200,
        description="Served name of the model that answers; of those that the key may call (scope `models`).",
    )
    include_steps: bool = False
    include_evidence: bool = Field(
        default=False, description="Tell all that the model was shown, with what of it is cited: `evidence`."
    )
    labels: list[str] | None = Field(
        default=None, max_length=100, description="Answer a person who holds these labels only."
    )
    reflection: Literal["off", "mark", "drop"] | None = Field(
        default=None, description="The model checks its own answer: what is not supported is marked, or left out."
    )
    session_id: str | None = Field(
        default=None,
        pattern=SESSION_ID,
        description="A conversation that is kept for this key: what was said before is known, and this is added.",
    )
    previous_answer_id: str | None = Field(
        default=None, pattern=SESSION_ID, description="The kept answer that this question follows."
    )


@dataclass(frozen=True)
class Question:
    """What the agent is asked, in no API's words. The last user's turn is the question, the others its history."""

    turns: Sequence[pb.Message]
    extras: Extras
    max_output_tokens: int | None
    temperature: float | None
    # How the API calls the fields that the orchestrator may refuse: `turns`, `max_output_tokens`, and others by theirs.
    names: Mapping[str, str]
    # Whether the answer is kept, so that another question may follow it; `memo` is kept with it.
    store: bool = False
    memo: str = ""


class Rendering(Protocol):
    """Puts a run into one API's words, piece by piece."""

    def begin(self) -> Iterable[bytes]:
        """What comes as soon as the agent has accepted the question."""
        ...

    def add(self, event: pb.RunResponse, step: Step) -> Iterable[bytes]:
        """What an event adds. `step`: the event as people watch it, if it is one."""
        ...

    def end(self) -> Iterable[bytes]:
        """What comes after `finished`."""
        ...

    def fail(self, failure: Failure) -> Iterable[bytes]:
        """How an answer breaks off that has begun."""
        ...


class Agent:
    """The agent behind its endpoints."""

    def __init__(
        self,
        clients: Clients,
        ledger: Ledger,
        *,
        deadline_seconds: float,
        keep_alive_seconds: float = 15,
        accept_seconds: float = 1,
        runs: Places = lambda _: nullcontext(),
    ) -> None:
        """`ledger` remembers answers for feedback; `runs` gives each run its place, and bounds how many there are.

        `accept_seconds`: a streamed answer starts after that even if the agent has not accepted the request yet. A
        failure before then has its own HTTP status; a later one is an error event.
        """
        self._clients = clients
        self._ledger = ledger
        self._deadline_seconds = deadline_seconds
        self._keep_alive_seconds = keep_alive_seconds
        self._accept_seconds = accept_seconds
        self._runs = runs

    async def answer(
        self,
        request: Request,
        question: Question,
        answer: Answer,
        take: Callable[[pb.RunResponse, Step], object] | None = None,
    ) -> None:
        """Fills `answer` to its end; `take` sees each event. Raises ApiError, ServiceError and AioRpcError."""
        _, events = await self._begun(request, question, answer)
        async with aclosing(events):
            async for event, step in events:
                if take is not None:
                    take(event, step)
        answer.waited(_waited(request))

    async def stream(self, request: Request, question: Question, answer: Answer, rendering: Rendering) -> Response:
        """The answer as it comes. Raises what is known before it begins; what comes later is an event."""
        call, events = await self._begun(request, question, answer)
        first = asyncio.ensure_future(anext(events))
        accepted = asyncio.ensure_future(call.initial_metadata())
        asking = asyncio.current_task()
        if asking is not None:  # should the client go before the answer has begun, nobody else ends the run
            asking.add_done_callback(lambda _: first.cancel())
        try:
            await asyncio.wait({first, accepted}, timeout=self._accept_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            accepted.cancel()
        if call.done():  # a refusal comes with its headers: wait for what it says
            await asyncio.wait({first})
        if first.done():
            first.result()  # raises what has its own status
        return event_stream(self._pieces(_resumed(first, events), rendering, lambda: answer.waited(_waited(request))))

    async def _begun(self, request: Request, question: Question, answer: Answer) -> tuple[Any, Events]:
        """The call and its events, as soon as there is a place for it; whoever reads the events gives it back."""
        seconds = (question.extras.deadline_ms or self._deadline_seconds * 1000) / 1000
        wanted = run_request(question, seconds, answer.answer_id)
        place = AsyncExitStack()
        await place.enter_async_context(self._runs(caller_of(request)))
        call = self._clients.orchestrator.Run(wanted, timeout=seconds + _GRACE_SECONDS)
        return call, self._observed(request, answer, _events(call, question), place)

    async def _pieces(self, events: Events, rendering: Rendering, ended: Callable[[], None]) -> AsyncGenerator[bytes]:
        """The pieces of a stream. `ended` is told right before what comes last."""
        async with aclosing(with_pauses(events, self._keep_alive_seconds)) as paced:
            for piece in rendering.begin():
                yield piece
            try:
                async for item in paced:
                    if item is None:
                        yield KEEP_ALIVE
                        continue
                    for piece in rendering.add(*item):
                        yield piece
            except (ApiError, errors.ServiceError, aio.AioRpcError) as error:
                for piece in rendering.fail(failure_of(error)):
                    yield piece
                return
        ended()
        for piece in rendering.end():
            yield piece

    async def _observed(
        self, request: Request, answer: Answer, events: AsyncGenerator[pb.RunResponse], place: AsyncExitStack
    ) -> Events:
        """The events, each taken into `answer`, which is remembered before its end is told."""
        async with place, aclosing(events):
            async for event in events:
                step = answer.add(event)
                if event.HasField("finished"):
                    _tell_meter(meter_of(request), answer, event.finished)
                    await self._ledger.remember(caller_of(request).tenant.id, facts_of(event.finished))
                yield event, step


def _tell_meter(meter: Meter, answer: Answer, end: pb.Finished) -> None:
    # Its turns were charged one by one, as requests of their own: here they are only told.
    meter.usage(end.usage.prompt_tokens, end.usage.completion_tokens)
    meter.response_id = end.answer_id
    meter.conversation_id = end.conversation_id
    meter.finish_reasons.append(answer.finish_reason())


def _waited(request: Request) -> float:
    """Seconds since the first byte of the request came."""
    now = time.perf_counter()
    return now - getattr(request.state, "received", now)


def agents_caller(request: Request) -> Caller:
    """Who asks the agent. Raises a 403 when they may not."""
    caller = caller_of(request)
    if caller.internal:
        raise ApiError(403, "The agent does not ask itself.", code="not_permitted", param="model")
    caller.require("agent")
    return caller


def run_request(question: Question, deadline_seconds: float, answer_id: str = "") -> pb.RunRequest:
    """The request in the orchestrator's words. Raises ApiError where no question comes last.

    `answer_id`: what the answer shall be called.
    """
    turns = list(question.turns)
    asked = max((index for index, turn in enumerate(turns) if turn.role == "user"), default=None)
    if asked is None or any(turn.role == "assistant" for turn in turns[asked:]):
        param = question.names["turns"]
        raise ApiError(400, f"{param}: the last one must be the user's question.", code="invalid_field", param=param)
    extras = question.extras
    options = pb.Options(
        strategy=extras.strategy,
        collections=extras.collections,
        tools=extras.tools,
        max_iterations=extras.max_iterations or 0,
        cache=pb.CacheMode.Value(f"CACHE_MODE_{extras.cache.upper()}"),
        max_output_tokens=question.max_output_tokens or 0,
        temperature=question.temperature,
        query_transform=extras.query_transform or "",
        reflection=extras.reflection or "",
        session_id=extras.session_id or "",
        previous_answer_id=answer_id_of(extras.previous_answer_id or ""),
        store=question.store,
        answer_id=answer_id,
        memo=question.memo if question.store else "",
        include_evidence=extras.include_evidence,
        model=extras.model,
    )
    options.deadline.FromMilliseconds(round(deadline_seconds * 1000))
    asking = turns.pop(asked)
    return pb.RunRequest(question=asking.text, history=turns, options=options)


async def _events(call: Any, question: Question) -> AsyncGenerator[pb.RunResponse]:
    """The run's events up to `finished`. Closing it cancels the run. Raises ServiceError or AioRpcError."""
    try:
        async for event in call:
            yield event
            if event.HasField("finished"):
                return
    except aio.AioRpcError as error:
        raise _in_callers_words(failure_behind(error, "orchestrator"), question.names) from None
    finally:
        call.cancel()
    raise errors.DependencyFailed("The orchestrator stopped in the middle of an answer.", dependency="orchestrator")


async def _resumed(first: "asyncio.Future[tuple[pb.RunResponse, Step]]", rest: Events) -> Events:
    """`first`, which is being waited for already, and then the rest."""
    try:
        async with aclosing(rest):
            yield await first
            async for event in rest:
                yield event
    finally:
        first.cancel()


def _in_callers_words(error: Exception, names: Mapping[str, str]) -> Exception:
    """The orchestrator names its own fields; the caller knows others."""
    if isinstance(error, errors.NotFound) and "answer" in error.metadata:
        param = names.get("options.previous_answer_id", "sabueso.previous_answer_id")
        return ApiError(404, error.message, code="previous_answer_not_found", param=param)
    if not isinstance(error, errors.InvalidField):
        return error
    field = error.metadata.get("field", "")
    if field in ("question", "history"):
        named = names["turns"]
    elif field == "options.max_output_tokens":
        named = names["max_output_tokens"]
    elif field == "options.temperature":
        named = "temperature"
    else:
        named = names.get(field) or field.replace("options.", "sabueso.")
    return errors.InvalidField(error.message, field=named)
