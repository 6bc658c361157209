"""ASGI middleware: one span and one set of numbers for each request for a model, whatever becomes of it.

It stands inside of admission, which has parsed the request, and around everything that answers it: queueing, retries
and fallbacks are one call to the client, and so one span, from the request to the last byte or the hang-up.
"""

import asyncio
import contextlib
import functools
import re
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from opentelemetry import trace
from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.answer import AGENT
from services.gateway.errors import failure_of
from services.gateway.metering import Meter
from services.gateway.telemetry import conventions as names
from services.gateway.telemetry import tracing
from services.gateway.telemetry.content import Recorded, input_messages
from services.gateway.telemetry.conventions import VERSIONS, Conventions, Version
from services.gateway.telemetry.metrics import (
    FIRST_TOKEN_SECONDS,
    OTHER,
    OUTPUT_TOKEN_SECONDS,
    REQUEST_SECONDS,
    TOKENS,
    ModelNames,
)

_tracer = trace.get_tracer("sabueso")
_PROVIDER, _OURS = "vllm", "sabueso"
# Said by a piece that holds a token: a role and a comment are none.
_TOKEN = re.compile(
    rb'"(?:content|reasoning_content|reasoning|refusal|text|arguments|delta)":\s?"(?=[^"])|"tool_calls":\s?\[\{'
)
_ERROR = re.compile(rb'data: ?\{"error":|"type": ?"(?:response\.failed|error)"')
_ERROR_CODE = re.compile(rb'"code": ?"([a-z_]{1,64})"')
_LONGEST_NAME = 100
_nothing = contextlib.nullcontext()


# Finding a series by its labels costs more than observing it. Names are few: ModelNames sees to it.
@functools.lru_cache(maxsize=4096)
def _request_seconds(operation: str, model: str, outcome: str) -> Histogram:
    return REQUEST_SECONDS.labels(operation, model, outcome)


@functools.lru_cache(maxsize=4096)
def _tokens(model: str, kind: str) -> Counter:
    return TOKENS.labels(model, kind)


class ModelCalls:
    """The middleware."""

    def __init__(
        self, app: ASGIApp, known: Callable[[str], bool], version: Version = "genai-0.1", *, content: bool = False
    ) -> None:
        """`known`: whether a model of that name is configured. `content`: whether spans hold prompts and answers."""
        self._app = app
        self._names = ModelNames(lambda name: name == AGENT or known(name))
        self._conventions = VERSIONS[version]
        self._content = content
        self._traces = tracing.is_on()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: MutableMapping[str, Any] = scope.get("state", {})
        operation = self._conventions.operations.get(scope.get("path", ""))
        if operation is None or state.get("asked") is None:
            return await self._app(scope, receive, send)
        meter: Meter = state["meter"]
        if meter.model == AGENT:
            operation = self._conventions.agent_operation
        call = _Call(self._conventions, operation, state, self._content, traced=self._traces)
        try:
            with call.current():
                await self._app(scope, receive, call.through(send))
        except asyncio.CancelledError:
            call.failure = "cancelled"
            raise
        except Exception as error:
            call.failure = failure_of(error).code
            raise
        finally:
            call.end(self._names)


class _Call:
    """One of them. `failure`: why it failed, empty if it did not."""

    def __init__(
        self,
        conventions: Conventions,
        operation: str,
        state: MutableMapping[str, Any],
        content: bool,
        *,
        traced: bool,
    ) -> None:
        self._conventions, self._operation, self._state = conventions, operation, state
        self._meter: Meter = state["meter"]
        self._since = time.perf_counter()
        self._first_piece = self._first_token = 0.0
        self._status, self._streamed = 0, False
        self._recorded = Recorded() if content else None
        self.failure = ""
        self.span = trace.INVALID_SPAN
        if traced:
            self.span = _tracer.start_span(
                f"{operation} {self._meter.model[:_LONGEST_NAME]}".strip(),
                kind=trace.SpanKind.CLIENT,
                attributes=self._asked(state["asked"]),
            )

    def current(self) -> contextlib.AbstractContextManager[object]:
        """The block in which the span is the current one, if there is one."""
        if not self.span.get_span_context().is_valid:
            return _nothing
        return trace.use_span(self.span, record_exception=False, set_status_on_exception=False)

    def through(self, send: Send) -> Send:
        """`send`, observed."""

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._status = message["status"]
                kind = next((v for k, v in message["headers"] if k.lower() == b"content-type"), b"")
                self._streamed = kind.startswith(b"text/event-stream")
            elif message.get("body"):
                self._take(message["body"])
            await send(message)

        return observed

    def _take(self, piece: bytes) -> None:
        if self._recorded is not None:
            self._recorded.add(piece)
        if not self._streamed:
            return
        if not self._first_piece and not piece.startswith(b":"):
            self._first_piece = time.perf_counter()
        if not self._first_token and _TOKEN.search(piece):
            self._first_token = time.perf_counter()
        # An answer that has begun has no other way to say that it failed.
        if _ERROR.search(piece):
            code = _ERROR_CODE.search(piece)
            self.failure = code.group(1).decode() if code else "error"

    def _asked(self, asked: dict[str, Any]) -> dict[str, str | int | float | bool]:
        """What is known of a call before it is answered."""
        agent = self._meter.model == AGENT
        attributes: dict[str, str | int | float | bool] = {
            names.OPERATION: self._operation,
            self._conventions.provider: _OURS if agent else _PROVIDER,
            names.REQUEST_MODEL: self._meter.model[:_LONGEST_NAME],
        }
        if agent:
            attributes[names.AGENT_NAME] = AGENT
        for parameter, (name, kind) in names.PARAMETERS.items():
            value = asked.get(parameter)
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63:
                attributes[name] = kind(value)
        if self._conventions.streamed and asked.get("stream") is True:
            attributes[self._conventions.streamed] = True
        return attributes

    def end(self, known: ModelNames) -> None:
        """Ends the span and counts. Once."""
        took = time.perf_counter() - self._since
        if self._state.get("guard_blocked"):
            self.failure = "content_blocked"
        if self._status >= 400 and not self.failure:
            self.failure = str(self._status)
        meter = self._meter
        label = known.label_of(meter.model, answered=bool(self._status and not self.failure))
        self._state["model_label"] = label
        outcome = "cancelled" if self.failure == "cancelled" else "error" if self.failure else "ok"
        _request_seconds(self._operation, label, outcome).observe(took)
        self._count(label)
        self._describe(label)
        self.span.end()

    def _count(self, label: str) -> None:
        meter = self._meter
        spent = meter.dispatched or meter.exact  # the agent's own turns were dispatched as requests of their own
        if spent and not (self.failure and not meter.completion_tokens):
            _tokens(label, "input").inc(meter.prompt_tokens)
            _tokens(label, "output").inc(meter.completion_tokens)
        if self._first_token:
            FIRST_TOKEN_SECONDS.labels(label).observe(self._first_token - self._since)
            if not self.failure and meter.completion_tokens > 1:
                seconds = (time.perf_counter() - self._first_token) / (meter.completion_tokens - 1)
                OUTPUT_TOKEN_SECONDS.labels(label).observe(seconds)

    def _describe(self, label: str) -> None:
        span, meter = self.span, self._meter
        if not span.is_recording():
            return
        if label == OTHER:  # a name that nobody serves is the client's own words
            span.update_name(self._operation)
        for name, value in (
            (names.RESPONSE_MODEL, meter.response_model),
            (names.RESPONSE_ID, meter.response_id),
            (names.CONVERSATION_ID, meter.conversation_id),
            (names.FINISH_REASONS, meter.finish_reasons),
            (names.ERROR_TYPE, self.failure),
            (self._conventions.first_chunk_seconds, self._first_piece and self._first_piece - self._since),
        ):
            if name and value:
                span.set_attribute(name, value)
        if meter.dispatched or meter.exact:
            span.set_attribute(names.INPUT_TOKENS, meter.prompt_tokens)
            span.set_attribute(names.OUTPUT_TOKENS, meter.completion_tokens)
        routing = self._state.get("routing")
        if routing is not None:
            span.set_attribute("sabueso.attempts", int(getattr(routing, "attempts", 1)))
        if self._recorded is not None:
            self._tell_content(self._recorded)
        if self.failure:
            span.set_status(trace.StatusCode.ERROR)

    def _tell_content(self, recorded: Recorded) -> None:
        asked, said = input_messages(self._state["asked"]), recorded.messages()
        if self._conventions.input_messages:
            self.span.set_attribute(self._conventions.input_messages, asked)
            self.span.set_attribute(self._conventions.output_messages, said)
        else:
            self.span.add_event("gen_ai.content.prompt", {"gen_ai.prompt": asked})
            self.span.add_event("gen_ai.content.completion", {"gen_ai.completion": said})
