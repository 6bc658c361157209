"""POST /v1/chat/completions: the agent under the name `sabueso`, any other model straight to its pool."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Literal, cast

from grpc import aio
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.admission import caller_of
from services.gateway.answer import AGENT, Answer
from services.gateway.clients import Clients, failure_behind
from services.gateway.errors import ApiError, failure_of
from services.gateway.pool import ModelPool
from services.gateway.streaming import DONE, KEEP_ALIVE, event_stream, sse, with_pauses
from services.runtime import errors

# The agent's own deadline ends an answer in good order; the call's comes a little later, for when it does not.
_GRACE_SECONDS = 2.0

# OpenAI's parameters that change nothing here: accepted, and without effect.
_IGNORED = {
    "user", "metadata", "store", "seed", "top_p", "frequency_penalty", "presence_penalty", "service_tier",
    "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "verbosity",
    "parallel_tool_calls",
}  # fmt: skip
# Refused, because an answer without them would not be what was asked for; allowed when they ask for nothing.
_REFUSED: Mapping[str, tuple[Any, ...]] = {
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "stop": ([], ""),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
}


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
    include_steps: bool = False
    labels: list[str] | None = Field(
        default=None, max_length=100, description="Answer a person who holds these labels only."
    )


class ChatMessage(BaseModel):
    """A turn of the conversation."""

    role: str
    content: Any = None


class StreamOptions(BaseModel):
    """How to stream."""

    include_usage: bool = False


class AgentRequest(BaseModel):
    """A chat completion of the agent."""

    model_config = ConfigDict(extra="allow")

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=2**31 - 1)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=2**31 - 1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    sabueso: Extras = Extras()


class Chat:
    """The endpoint."""

    def __init__(
        self,
        clients: Clients,
        pool: ModelPool,
        *,
        deadline_seconds: float,
        keep_alive_seconds: float = 15,
        accept_seconds: float = 1,
    ) -> None:
        """`accept_seconds`: a streamed answer starts after that even if the agent has not accepted the request yet.

        A failure before then has its own HTTP status; a later one is an error event.
        """
        self._clients = clients
        self._pool = pool
        self._deadline_seconds = deadline_seconds
        self._keep_alive_seconds = keep_alive_seconds
        self._accept_seconds = accept_seconds

    async def complete(self, request: Request) -> Response:
        """Answers a chat completion, streamed or not."""
        body = await request.body()
        asked = parse(body)
        caller = caller_of(request)
        if asked["model"] != AGENT:
            caller.require("models")
            return await self._pool.relay(request, caller, asked["model"], body)
        if caller.internal:
            raise ApiError(403, "The agent does not ask itself.", code="not_permitted", param="model")
        caller.require("agent")
        wanted = agent_request(asked)
        caller.narrow(wanted.sabueso.labels)
        answer = Answer(wanted.sabueso.cache)
        call = self._call(wanted)
        events = _events(call)
        if wanted.stream:
            return await self._stream(wanted, answer, call, events)
        async with aclosing(events):
            async for event in events:
                answer.add(event)
        return JSONResponse(answer.completion(), headers={"Server-Timing": answer.server_timing()})

    def _call(self, wanted: AgentRequest) -> Any:
        seconds = (wanted.sabueso.deadline_ms or self._deadline_seconds * 1000) / 1000
        return self._clients.orchestrator.Run(run_request(wanted, seconds), timeout=seconds + _GRACE_SECONDS)

    async def _stream(
        self, wanted: AgentRequest, answer: Answer, call: Any, events: AsyncGenerator[pb.RunResponse]
    ) -> Response:
        first = asyncio.ensure_future(anext(events))
        accepted = asyncio.ensure_future(call.initial_metadata())
        request = asyncio.current_task()
        if request is not None:  # should the client go before the answer has begun, nobody else ends the run
            request.add_done_callback(lambda _: first.cancel())
        try:
            await asyncio.wait({first, accepted}, timeout=self._accept_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            accepted.cancel()
        if call.done():  # a refusal comes with its headers: wait for what it says
            await asyncio.wait({first})
        if first.done():
            first.result()  # raises what has its own status
        return event_stream(self._pieces(wanted, answer, _resumed(first, events)))

    async def _pieces(
        self, wanted: AgentRequest, answer: Answer, events: AsyncGenerator[pb.RunResponse]
    ) -> AsyncGenerator[bytes]:
        with_usage = wanted.stream_options is not None and wanted.stream_options.include_usage
        extra: dict[str, Any] = {"usage": None} if with_usage else {}
        async with aclosing(with_pauses(events, self._keep_alive_seconds)) as paced:
            yield sse(answer.chunk({"role": "assistant", "content": ""}, **extra))
            try:
                async for event in paced:
                    if event is None:
                        yield KEEP_ALIVE
                        continue
                    step = answer.add(event)
                    if step is not None and wanted.sabueso.include_steps:
                        yield sse(answer.chunk({}, sabueso={"step": step}, **extra))
                    elif event.HasField("text_delta"):
                        yield sse(answer.chunk({"content": event.text_delta.text}, **extra))
            except (errors.ServiceError, aio.AioRpcError) as error:
                yield sse(failure_of(error).body())
                return
        annotations = answer.annotations()
        if annotations:
            yield sse(answer.chunk({"annotations": annotations}, sabueso={"annotations": annotations}, **extra))
        yield sse(answer.chunk({}, answer.finish_reason(), sabueso=answer.summary(), **extra))
        if with_usage:
            yield sse(answer.usage_chunk())
        yield DONE


def parse(body: bytes) -> dict[str, Any]:
    """A chat request as far as every model has it: an object with one `model`. Raises ApiError."""
    try:
        from_json(body)  # bounds the nesting, which the other parser would follow to the end of the stack
        asked = json.loads(body, object_pairs_hook=_object)
    except ValueError:
        raise ApiError(400, "The body is not valid JSON.", code="invalid_json") from None
    if not isinstance(asked, dict):
        raise ApiError(400, "The body is not a JSON object.", code="invalid_json")
    asked = cast(dict[str, Any], asked)
    if not isinstance(asked.get("model"), str) or not asked["model"]:
        raise ApiError(400, "model: name the model to ask, such as `sabueso`.", code="missing_model", param="model")
    return asked


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    # The bytes go on as they came, and the pool may read the other of two: what was checked must be what is used.
    if "model" in found and sum(name == "model" for name, _ in pairs) > 1:
        raise ApiError(400, "model: given twice.", code="invalid_field", param="model")
    return found


def agent_request(asked: Mapping[str, Any]) -> AgentRequest:
    """Checks what is asked of the agent. Raises ApiError or ValidationError, naming the parameter."""
    fields = {name: value for name, value in asked.items() if value is not None}
    wanted = AgentRequest.model_validate(fields)
    for name in wanted.model_extra or {}:
        if name == "model" or name in _IGNORED:
            continue
        if name not in _REFUSED:
            raise ApiError(
                400, f"Unrecognized request argument supplied: {name}.", code="unknown_parameter", param=name
            )
        if fields[name] not in _REFUSED[name]:
            message = f"{name}: the agent `{AGENT}` does not offer this. Leave it out, or ask a model directly."
            raise ApiError(400, message, code="unsupported_parameter", param=name)
    return wanted


def run_request(wanted: AgentRequest, deadline_seconds: float) -> pb.RunRequest:
    """The request in the orchestrator's words: the last message is the question, the others are its history."""
    turns = [_turn(index, message) for index, message in enumerate(wanted.messages)]
    asked = max((index for index, turn in enumerate(turns) if turn.role == "user"), default=None)
    if asked is None or any(turn.role == "assistant" for turn in turns[asked:]):
        raise ApiError(
            400, "messages: the last one must be the user's question.", code="invalid_field", param="messages"
        )
    extras = wanted.sabueso
    options = pb.Options(
        strategy=extras.strategy,
        collections=extras.collections,
        tools=extras.tools,
        max_iterations=extras.max_iterations or 0,
        cache=pb.CacheMode.Value(f"CACHE_MODE_{extras.cache.upper()}"),
        max_output_tokens=wanted.max_completion_tokens or wanted.max_tokens or 0,
        temperature=wanted.temperature,
        query_transform=extras.query_transform or "",
    )
    options.deadline.FromMilliseconds(round(deadline_seconds * 1000))
    question = turns.pop(asked)
    return pb.RunRequest(question=question.text, history=turns, options=options)


def _turn(index: int, message: ChatMessage) -> pb.Message:
    where = f"messages.{index}"
    role = "system" if message.role == "developer" else message.role
    if role not in ("system", "user", "assistant"):
        problem = f"{where}.role: `{role}` is not one of system, developer, user, assistant."
        raise ApiError(400, problem, code="unsupported_parameter", param=f"{where}.role")
    return pb.Message(role=role, text=_text(message.content, f"{where}.content"))


def _text(content: Any, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for part in cast(list[Any], content) if isinstance(content, list) else [content]:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": str(other)} if other != "text":
                problem = f"{where}: the agent `{AGENT}` reads text; `{other[:40]}` is not offered."
                raise ApiError(400, problem, code="unsupported_parameter", param=where)
            case _:
                problem = f'{where}: send a string, or a list of {{"type": "text", "text": "…"}}.'
                raise ApiError(400, problem, code="invalid_field", param=where)
    return "\n".join(texts)


async def _events(call: Any) -> AsyncGenerator[pb.RunResponse]:
    """The run's events up to `finished`. Closing it cancels the run. Raises ServiceError or AioRpcError."""
    try:
        async for event in call:
            yield event
            if event.HasField("finished"):
                return
    except aio.AioRpcError as error:
        raise _in_callers_words(failure_behind(error, "orchestrator")) from None
    finally:
        call.cancel()
    raise errors.DependencyFailed("The orchestrator stopped in the middle of an answer.", dependency="orchestrator")


async def _resumed(
    first: "asyncio.Future[pb.RunResponse]", rest: AsyncGenerator[pb.RunResponse]
) -> AsyncGenerator[pb.RunResponse]:
    """`first`, which is being waited for already, and then the rest."""
    try:
        async with aclosing(rest):
            yield await first
            async for event in rest:
                yield event
    finally:
        first.cancel()


def _in_callers_words(error: Exception) -> Exception:
    """The orchestrator names its own fields; the caller knows others."""
    if not isinstance(error, errors.InvalidField):
        return error
    field = error.metadata.get("field", "")
    if field in ("question", "history"):
        named = "messages"
    elif field == "options.max_output_tokens":
        named = "max_completion_tokens"
    elif field == "options.temperature":
        named = "temperature"
    else:
        named = field.replace("options.", "sabueso.")
    return errors.InvalidField(error.message, field=named)
