"""POST /v1/chat/completions: the agent under the name `sabueso`, any other model straight to its pool."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.admission import asked_of
from services.gateway.agent import Agent, Extras, Question, Step, agents_caller
from services.gateway.answer import AGENT, Answer
from services.gateway.errors import Failure
from services.gateway.kept import memo_of
from services.gateway.parameters import check_parameters, described
from services.gateway.passing import pass_on, with_served_model
from services.gateway.pools.routing import ModelPools
from services.gateway.streams.events import DONE, sse
from services.gateway.turns import content_schema, turn

# OpenAI's parameters that change nothing here: accepted, and without effect.
_IGNORED = {
    "user", "metadata", "seed", "top_p", "frequency_penalty", "presence_penalty", "service_tier",
    "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "reasoning_effort",
    "verbosity", "parallel_tool_calls",
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
_PARTS = {"text": "text", "refusal": "refusal"}
_NAMES = {"turns": "messages", "max_output_tokens": "max_completion_tokens"}


class ChatMessage(BaseModel):
    """A turn of the conversation."""

    role: Annotated[str, WithJsonSchema({"enum": ["system", "developer", "user", "assistant"]})]
    content: Annotated[Any, WithJsonSchema(content_schema(_PARTS))] = None


class StreamOptions(BaseModel):
    """How to stream."""

    include_usage: bool = False


class AgentRequest(BaseModel):
    """A chat completion of the agent."""

    model_config = ConfigDict(extra="allow", json_schema_extra=described(_IGNORED, _REFUSED))

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=2**31 - 1)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=2**31 - 1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    store: bool | None = Field(
        default=None, description="Keep the answer, so that `sabueso.previous_answer_id` of another may name it."
    )
    sabueso: Extras = Extras()


class Chat:
    """The endpoint."""

    def __init__(self, agent: Agent, pool: ModelPools) -> None:
        self._agent = agent
        self._pool = pool

    async def complete(self, request: Request) -> Response:
        """Answers a chat completion, streamed or not."""
        asked = asked_of(request)
        if asked["model"] != AGENT:
            return await pass_on(self._pool, request, "/v1/chat/completions")
        caller = agents_caller(request)
        wanted = agent_request(asked)
        caller.narrow(wanted.sabueso.labels)
        answer = Answer(wanted.sabueso.cache, with_evidence=wanted.sabueso.include_evidence)
        question = replace(question_of(wanted), memo=memo_of(answer, {}))
        question = await with_served_model(self._pool, request, question)
        if wanted.stream:
            return await self._agent.stream(request, question, answer, ChatChunks(wanted, answer))
        await self._agent.answer(request, question, answer)
        return JSONResponse(answer.completion(), headers={"Server-Timing": answer.server_timing()})


class ChatChunks:
    """An answer as chunks of a chat completion. The stock client skips what stands under `sabueso`."""

    def __init__(self, wanted: AgentRequest, answer: Answer) -> None:
        self._answer = answer
        self._with_steps = wanted.sabueso.include_steps
        self._with_usage = wanted.stream_options is not None and wanted.stream_options.include_usage
        self._extra: dict[str, Any] = {"usage": None} if self._with_usage else {}

    def begin(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def add(self, event: pb.RunResponse, step: Step) -> Iterator[bytes]:
        if step is not None and self._with_steps:
            yield self._chunk({}, sabueso={"step": step})
        elif event.text_delta.text:
            yield self._chunk({"content": event.text_delta.text})

    def end(self) -> Iterator[bytes]:
        annotations = self._answer.annotations()
        if annotations:
            yield self._chunk({"annotations": annotations}, sabueso={"annotations": annotations})
        yield self._chunk({}, self._answer.finish_reason(), sabueso=self._answer.summary())
        if self._with_usage:
            yield sse(self._answer.usage_chunk())
        yield DONE

    def fail(self, failure: Failure) -> Iterator[bytes]:
        yield sse(failure.body())

    def _chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None, **extra: Any) -> bytes:
        return sse(self._answer.chunk(delta, finish_reason, **extra, **self._extra))


def agent_request(asked: Mapping[str, Any]) -> AgentRequest:
    """Checks what is asked of the agent. Raises ApiError or ValidationError, naming the parameter."""
    fields = {name: value for name, value in asked.items() if value is not None}
    wanted = AgentRequest.model_validate(fields)
    check_parameters(fields, wanted.model_extra or {}, _IGNORED, _REFUSED)
    return wanted


def question_of(wanted: AgentRequest) -> Question:
    """The request in no API's words. Raises ApiError."""
    return Question(
        turns=[turn(one.role, one.content, f"messages.{index}", _PARTS) for index, one in enumerate(wanted.messages)],
        extras=wanted.sabueso,
        max_output_tokens=wanted.max_completion_tokens or wanted.max_tokens,
        temperature=wanted.temperature,
        names=_NAMES,
        store=bool(wanted.store),
    )
