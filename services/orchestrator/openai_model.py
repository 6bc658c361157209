"""A model behind any OpenAI-compatible URL, such as the gateway's model route or vLLM itself."""

import asyncio
import codecs
import contextlib
import copy
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

import openai
from opentelemetry import propagate, trace

from services.orchestrator.arguments import strict_json
from services.orchestrator.calling.profiles import OPENAI, Profile
from services.orchestrator.model import (
    Delta,
    Message,
    Sampling,
    ToolCall,
    ToolSpec,
    Turn,
    Usage,
    estimate_tokens,
)
from services.runtime.errors import DeadlineExceeded, DependencyFailed, LimitExceeded

log = logging.getLogger(__name__)
_tracer = trace.get_tracer("sabueso")

# The agent bounds a whole turn; these bound silence.
_CONNECT_SECONDS, _SILENCE_SECONDS = 2.0, 120.0
_RETRY_SECONDS = 0.2
# For the end mark of a turn that is whole.
_END_SECONDS = 1.0
# It is read when what the turn said is on its way: at the end of an answer, or at tools that take longer.
_END_AFTER_SECONDS = 0.003
_END = object()
_UTF_16 = codecs.getincrementaldecoder("utf-16-le")


@dataclass
class _PartialCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class _PartialTurn:
    """Puts a turn together from chunks. Calls come in pieces, told apart by their index."""

    text: list[str] = field(default_factory=list[str])
    calls: list[_PartialCall] = field(default_factory=list[_PartialCall])
    by_index: dict[int, _PartialCall] = field(default_factory=dict[int, _PartialCall])
    usage: Usage | None = None
    finish: str = ""
    # Some servers cut a character beyond U+FFFF in two.
    _whole: codecs.IncrementalDecoder = field(default_factory=lambda: _UTF_16("replace"))

    def add(self, chunk: Any) -> str:
        """The text in `chunk`, any JSON. Raises ValueError for what is no chunk."""
        try:
            return self._added(chunk)
        except (AttributeError, TypeError, LookupError) as error:
            raise ValueError("no chunk of a chat completion") from error

    def _added(self, chunk: Any) -> str:
        if usage := chunk.get("usage"):
            self.usage = _usage(usage.get("prompt_tokens"), usage.get("completion_tokens"))
        if not chunk.get("choices"):
            return ""
        choice = chunk["choices"][0]
        self.finish = choice.get("finish_reason") or self.finish
        delta: Any = choice["delta"]
        for piece in delta.get("tool_calls") or ():
            self._add_call(piece)
        text = self._whole.decode(_as_utf_16(delta.get("content") or ""))
        self.text.append(text)
        return text

    def _add_call(self, piece: Any) -> None:
        index, id_ = piece.get("index"), piece.get("id")
        call = self.by_index.get(index)
        # Some servers number every call 0 and send each whole: another id is another call.
        if call is None or (id_ and call.id and id_ != call.id):
            call = self.by_index[index] = _PartialCall()
            self.calls.append(call)
        call.id = call.id or "" + (id_ or "")
        if function := piece.get("function"):
            call.name = call.name or "" + (function.get("name") or "")
            call.arguments += function.get("arguments") or ""

    @property
    def is_whole(self) -> bool:
        """Whether nothing but the end mark can follow: usage comes last, and with each chunk only from some servers."""
        return bool(self.finish) and self.usage is not None

    def turn(self, prompt_tokens: int) -> Turn:
        """The whole turn; `prompt_tokens` where the server does not say."""
        text = "".join(self.text)
        calls = [ToolCall(*map(_text, (call.id, call.name, call.arguments))) for call in self.calls]
        written = estimate_tokens(text) + sum(estimate_tokens(call.arguments_json) for call in calls)
        return Turn(text, tuple(calls), self.usage or Usage.estimate(prompt_tokens, written), self.finish == "length")


class OpenAIModel:
    """A Model over chat completions."""

    def __init__(
        self, base_url: str, name: str, api_key: Callable[[], str], *, profile: Profile = OPENAI, attempts: int = 2
    ) -> None:
        """`base_url` ends in `/v1`; `api_key` is asked at every call; a turn is begun `attempts` times at most."""
        self._name = name
        self._profile = profile
        self._api_key = api_key
        self._attempts = attempts
        # The client's own retries would sleep through a tenant's whole deadline on `Retry-After`.
        timeout = openai.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        # aiohttp's transport: headers and body leave together, and a compiled parser reads what comes.
        http = openai.DefaultAioHttpClient(timeout=timeout)
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key="per-call", max_retries=0, timeout=timeout, http_client=http
        )
        self._ending = set[asyncio.Task[None]]()

    def named(self, name: str, profile: Profile) -> "OpenAIModel":
        """The model that the same server serves under `name`; it has no connections of its own to be closed."""
        other = copy.copy(self)
        other._name, other._profile = name, profile
        return other

    async def close(self) -> None:
        """Closes the connections."""
        await asyncio.gather(*self._ending)
        await self._client.close()

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """See Model. Raises also DeadlineExceeded when the server falls silent."""
        # The gateway says which model it was and what it cost; twice said, sums over traces would be double.
        span = _tracer.start_span("model turn")
        partial = _PartialTurn()
        try:
            chunks = await self._begun(messages, tools, sampling, _headers(self._api_key(), span))
            try:
                while not partial.is_whole and (chunk := await anext(chunks, _END)) is not _END:
                    text = partial.add(chunk)
                    if text:
                        yield Delta(text)
            finally:
                await self._end(chunks, whole=partial.is_whole)
            if not partial.finish:
                raise DependencyFailed("The model broke off.", dependency="model")
            yield partial.turn(sum(message.tokens for message in messages))
        except (openai.OpenAIError, ValueError, RecursionError) as error:
            _raise_known(error)
        finally:
            span.end()

    async def _end(self, chunks: openai.AsyncStream[object], *, whole: bool) -> None:
        """Closes a stream. Of a whole turn the end mark is read beside it, which lets the connection be used again."""
        if not whole:
            return await chunks.close()
        ending = asyncio.create_task(_read_to_end(chunks), name="end of a model's stream")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _begun(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        headers: Mapping[str, str],
    ) -> openai.AsyncStream[object]:
        """The stream of a turn. A server that cannot be reached, or is at fault, gets another chance.

        The client's `post`, and not its typed method: that walks through request and chunks field by field, which takes
        5 ms a turn, and changes nothing in them.
        """
        extras: dict[str, Any] = {"tools": [_as_tool(tool, self._profile) for tool in tools]} if tools else {}
        if tools and not sampling.may_call:
            extras["tool_choice"] = "none"  # the prompt begins as before, and what the server knows of it still serves
        if sampling.json_schema is not None:
            extras["response_format"] = _as_format(sampling.json_schema)
        body = {
            "model": self._name,
            "messages": [_as_message(message, self._profile) for message in messages],
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **extras,
        }
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._client.post(
                    "/chat/completions",
                    cast_to=object,
                    body=body,
                    options={"headers": headers},
                    stream=True,
                    stream_cls=openai.AsyncStream[object],
                )
            except (openai.APIConnectionError, openai.InternalServerError) as error:
                if attempt == self._attempts or _is_late(error):
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
        raise AssertionError("unreachable: attempts is at least 1")


async def _read_to_end(chunks: openai.AsyncStream[object]) -> None:
    # Whatever comes of it: the turn is whole, and a connection that is lost is replaced.
    await asyncio.sleep(_END_AFTER_SECONDS)
    with contextlib.suppress(openai.OpenAIError, ValueError, TimeoutError):
        async with chunks, asyncio.timeout(_END_SECONDS):
            while await anext(chunks, _END) is not _END:
                pass


def _raise_known(error: openai.OpenAIError | ValueError | RecursionError) -> NoReturn:
    """Raises what the failure means to us; the server's words stay here, they may quote the prompt."""
    status = error.status_code if isinstance(error, openai.APIStatusError) else 0
    log.warning("a model turn failed", extra={"error": type(error).__name__, "status": status})
    if isinstance(error, openai.RateLimitError):
        retry_after = error.response.headers.get("retry-after", "")
        wait = timedelta(seconds=int(retry_after)) if retry_after.isdecimal() else None
        raise LimitExceeded(
            "The model's limit for this tenant is used up.", setting="model", retry_after=wait
        ) from None
    if _is_late(error):
        raise DeadlineExceeded("The model did not answer in time.", stage="model") from None
    said = "refused the request" if 400 <= status < 500 else "does not answer"
    raise DependencyFailed(f"The model {said}.", dependency="model") from None


def _is_late(error: BaseException) -> bool:
    """Whether it is about time. The transport calls connections that are refused or lost a time-out, too."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, TimeoutError):
        cause = cause.__cause__
    return cause is not None


def _headers(token: str, span: trace.Span) -> Mapping[str, str]:
    headers = {"Authorization": f"Bearer {token}"}
    propagate.inject(headers, trace.set_span_in_context(span))
    return headers


def _as_message(message: Message, profile: Profile) -> dict[str, Any]:
    as_json: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls and profile.null_content and not message.text:
        as_json["content"] = None
    if message.calls:
        as_json["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _as_object(call)}}
            for call in message.calls
        ]
    if message.call_id:
        as_json["tool_call_id"] = message.call_id
    return as_json


def _as_object(call: ToolCall) -> str:
    """The arguments as they may be sent back: chat templates parse them, and one that is no JSON would end the run."""
    try:
        return call.arguments_json if isinstance(strict_json(call.arguments_json), dict) else "{}"
    except ValueError:
        return json.dumps({"unreadable": call.arguments_json})


def _usage(*tokens: Any) -> Usage | None:
    """What the server counted; None where it has not."""
    return Usage(*tokens) if all(isinstance(one, int) and one >= 0 for one in tokens) else None


def _text(text: str) -> str:
    """`text`, with a replacement character for half a surrogate pair: no message could carry that."""
    return _as_utf_16(text).decode("utf-16-le", "replace")


def _as_utf_16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _as_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": schema.get("title", "answer"), "schema": dict(schema)}}


def _as_tool(tool: ToolSpec, profile: Profile) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    if profile.strict:
        function["strict"] = True
    return {"type": "function", "function": function}
