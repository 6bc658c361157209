"""What a request to the Responses API asks of the agent."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway.agent import SESSION_ID, Extras, Question
from services.gateway.errors import ApiError
from services.gateway.parameters import check_parameters, described, not_offered
from services.gateway.turns import content_schema, text_of, turn

# Accepted, and without effect.
_IGNORED = {
    "top_p", "service_tier", "safety_identifier", "user", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "parallel_tool_calls", "stream_options", "truncation",
}  # fmt: skip
_REFUSED: Mapping[str, tuple[Any, ...]] = {
    "background": (False,),
    "context_management": ([],),
    "max_tool_calls": (),
    "moderation": (),
    "prompt": (),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "top_logprobs": (0,),
}
_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_NAMES = {
    "turns": "input",
    "max_output_tokens": "max_output_tokens",
    "options.previous_answer_id": "previous_response_id",
    "options.session_id": "conversation",
}
_ITEMS = {
    "type": "array",
    "minItems": 1,
    "maxItems": 1000,
    "items": {
        "type": "object",
        "description": "A message. Tool calls and reasoning of earlier turns may stand between them.",
        "required": ["role", "content"],
        "properties": {
            "type": {"const": "message"},
            "role": {"enum": ["system", "developer", "user", "assistant"]},
            "content": content_schema(_PARTS),
        },
    },
}
# Items of earlier answers that the agent does without: what they found stands in the answers themselves.
_PASSED_OVER = {"reasoning", "mcp_call", "mcp_list_tools", "file_search_call", "web_search_call"}


class TextOptions(BaseModel):
    """The form of the text."""

    model_config = ConfigDict(extra="ignore")

    format: dict[str, Any] | None = None
    verbosity: Any = None


ConversationId = Annotated[str, StringConstraints(pattern=SESSION_ID)]


class Conversation(BaseModel):
    """A conversation, as an object."""

    id: ConversationId


class Reasoning(BaseModel):
    """How much is thought; without effect, the agent's model decides."""

    model_config = ConfigDict(extra="allow")


Items = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000), WithJsonSchema(_ITEMS)]


class ResponsesRequest(BaseModel):
    """A response of the agent."""

    model_config = ConfigDict(extra="allow", json_schema_extra=described(_IGNORED, _REFUSED))

    input: Annotated[str, WithJsonSchema({"type": "string", "minLength": 1})] | Items
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=2**31 - 1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    metadata: (
        Annotated[
            dict[
                Annotated[str, StringConstraints(max_length=64)],
                Annotated[str, StringConstraints(max_length=512)],
            ],
            Field(max_length=16),
        ]
        | None
    ) = None
    include: list[str] | None = None
    text: TextOptions | None = None
    reasoning: Reasoning | None = None
    store: bool | None = Field(
        default=None, description="Keep the response, so that another may follow it. True where nothing is said."
    )
    previous_response_id: str | None = Field(
        default=None, pattern=SESSION_ID, description="The kept response that this one follows."
    )
    conversation: ConversationId | Conversation | None = Field(
        default=None, description="A conversation of this key; it begins with its first response."
    )
    sabueso: Extras = Extras()

    @property
    def stored(self) -> bool:
        """Whether the response is kept."""
        return self.store is not False

    @property
    def conversation_id(self) -> str | None:
        """The conversation that is named."""
        return self.conversation.id if isinstance(self.conversation, Conversation) else self.conversation


def responses_request(asked: Mapping[str, Any]) -> ResponsesRequest:
    """Checks what is asked of the agent. Raises ApiError or ValidationError, naming the parameter."""
    fields = {name: value for name, value in asked.items() if value is not None}
    if fields.get("input") == "":
        raise ApiError(400, "input: it is empty.", code="invalid_field", param="input")
    wanted = ResponsesRequest.model_validate(fields)
    check_parameters(fields, wanted.model_extra or {}, _IGNORED, _REFUSED)
    if wanted.text is not None and (wanted.text.format or {}).get("type", "text") != "text":
        raise not_offered("text.format")
    for name in wanted.include or ():
        if name.endswith("logprobs"):
            raise not_offered("include")
    for name in ("previous_response_id", "conversation"):
        if getattr(wanted, name) and (wanted.sabueso.session_id or wanted.sabueso.previous_answer_id):
            problem = f"{name}: name the conversation here or under `sabueso`, not in both places."
            raise ApiError(400, problem, code="invalid_field", param=name)
    return wanted


def question_of(wanted: ResponsesRequest) -> Question:
    """The request in no API's words. Raises ApiError."""
    turns = [pb.Message(role="system", text=wanted.instructions)] if wanted.instructions else []
    if isinstance(wanted.input, str):
        turns.append(pb.Message(role="user", text=wanted.input))
    else:
        turns += _turns(wanted.input)
    extras = wanted.sabueso.model_copy(
        update={
            "session_id": wanted.conversation_id or wanted.sabueso.session_id,
            "previous_answer_id": wanted.previous_response_id or wanted.sabueso.previous_answer_id,
        }
    )
    return Question(turns, extras, wanted.max_output_tokens, wanted.temperature, _NAMES, store=wanted.stored)


def _turns(items: list[dict[str, Any]]) -> list[pb.Message]:
    turns: list[pb.Message] = []
    calls: dict[str, str] = {}
    for index, item in enumerate(items):
        where = f"input.{index}"
        match item.get("type", "message"):
            case "message":
                if not isinstance(item.get("role"), str):
                    problem = f"{where}.role: say whose turn it is: system, developer, user or assistant."
                    raise ApiError(400, problem, code="invalid_field", param=f"{where}.role")
                turns.append(turn(item["role"], item.get("content"), where, _PARTS))
            case "function_call":
                calls[str(item.get("call_id"))] = f"{item.get('name')}({item.get('arguments')})"
            case "function_call_output":
                call = calls.get(str(item.get("call_id")), "A tool")
                gave = text_of(item.get("output"), f"{where}.output", _PARTS)
                turns.append(pb.Message(role="assistant", text=f"{call} gave: {gave}"))
            case str(kind) if kind in _PASSED_OVER:
                pass
            case kind:
                named = kind if isinstance(kind, str) else json.dumps(kind)
                problem = f"{where}: the agent does not read `{named[:40]}` items; send messages."
                raise ApiError(400, problem, code="unsupported_parameter", param=f"{where}.type")
    return turns


def echo(asked: Mapping[str, Any], wanted: ResponsesRequest) -> dict[str, Any]:
    """What an answer repeats of its request, as OpenAI's does, with the defaults of what is missing."""
    conversation = wanted.conversation_id
    return {
        "background": False,
        "conversation": {"id": conversation} if conversation else None,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "max_tool_calls": None,
        "metadata": cast(dict[str, str] | None, asked.get("metadata")) or {},
        "parallel_tool_calls": True,
        "previous_response_id": wanted.previous_response_id,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": wanted.stored,
        "temperature": asked.get("temperature"),
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "truncation": "disabled",
        "user": asked.get("user"),
    }
