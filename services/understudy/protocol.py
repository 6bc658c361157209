"""The part of OpenAI's chat API that the understudy understands. Unknown fields are accepted, as vLLM accepts them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.understudy.conversation import Call, Message, Tool
from services.understudy.reply import Choice


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")


class TextPart(_Part):
    """A piece of a message's content."""

    type: Literal["text", "input_text", "refusal"]
    text: str = ""


class FunctionCall(_Part):
    """What an assistant's tool call names."""

    name: str
    arguments: str = ""


class ToolCall(_Part):
    """A call that an assistant message holds."""

    id: str = ""
    function: FunctionCall


class ChatMessage(_Part):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str = ""
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class FunctionSpec(_Part):
    """A function on offer."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolSpec(_Part):
    """A tool on offer."""

    type: Literal["function"] = "function"
    function: FunctionSpec


class NamedFunction(_Part):
    """Names the function that must be called."""

    name: str


class NamedChoice(_Part):
    """A tool choice that names a function."""

    type: Literal["function"] = "function"
    function: NamedFunction


class StreamOptions(_Part):
    """What a stream carries besides the answer."""

    include_usage: bool | None = False


class JsonSchema(_Part):
    """The schema of a structured answer."""

    schema_: dict[str, Any] = Field(default_factory=dict[str, Any], alias="schema")


class ResponseFormat(_Part):
    """The form of the answer."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None


class ChatRequest(_Part):
    """Body of POST /v1/chat/completions."""

    model: str = ""
    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[ToolSpec] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    n: int | None = Field(default=1, ge=1, le=1)
    stop: str | list[str] | None = None
    response_format: ResponseFormat | None = None

    @property
    def token_limit(self) -> int | None:
        """Ceiling of the answer in tokens, if there is one."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stops(self) -> list[str]:
        """Texts that end the answer."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [stop for stop in stops if stop]

    def offered(self) -> list[Tool]:
        """Tools as plain data."""
        functions = [tool.function for tool in self.tools or []]
        return [Tool(one.name, one.description or "", one.parameters or {}) for one in functions]

    def plain_messages(self) -> list[Message]:
        """Messages as plain data."""
        return [
            Message(
                role=one.role,
                text=one.text,
                calls=tuple((c.id, Call(c.function.name, c.function.arguments)) for c in one.tool_calls or ()),
                call_id=one.tool_call_id,
                name=one.name,
            )
            for one in self.messages
        ]

    def choice(self) -> Choice:
        """What the caller demands."""
        named = self.tool_choice.function.name if isinstance(self.tool_choice, NamedChoice) else ""
        mode = "named" if named else str(self.tool_choice or ("auto" if self.tools else "none"))
        schema: dict[str, Any] | None = None
        if self.response_format and self.response_format.type == "json_object":
            schema = {}
        elif self.response_format and self.response_format.type == "json_schema":
            schema = self.response_format.json_schema.schema_ if self.response_format.json_schema else {}
        return Choice(mode, named, self.parallel_tool_calls is not False, schema)
