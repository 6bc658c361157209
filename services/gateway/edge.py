"""The outermost layer: request ids, security headers, traces, metrics, and an answer to every failure."""

import contextlib
import functools
import logging
import os
import re
import time
from typing import Any

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.errors import INTERNAL, failure_of
from services.gateway.line import HungUp, Line
from services.gateway.telemetry import access_log, tracing
from services.runtime.api_keys import holds_key

log = logging.getLogger(__name__)
_tracer = trace.get_tracer("sabueso")
# W3C trace context alone, no baggage.
_trace_context = TraceContextTextMapPropagator()
_TRACE_HEADERS = (b"traceparent", b"tracestate")
# Asked every few seconds by those who watch us.
_QUIET, _no_tracer = ("/healthz", "/readyz", "/metrics"), trace.NoOpTracer()
_no_span = contextlib.nullcontext(trace.INVALID_SPAN)

_SANE_ID = re.compile(r"[A-Za-z0-9._-]{8,128}")
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 120)

SECONDS = Histogram(
    "sabueso_gateway_request_duration_seconds", "Time to the last byte.", ["route", "status"], buckets=_BUCKETS
)
FIRST_BYTE_SECONDS = Histogram(
    "sabueso_gateway_first_byte_seconds", "Time to the first byte of the body.", ["route"], buckets=_BUCKETS
)
ACTIVE = Gauge("sabueso_gateway_active_requests", "Requests that are being answered.")
HUNG_UP = Counter("sabueso_gateway_hung_up_total", "Requests whose client left before the end.", ["route"])


# Finding a series by its labels costs more than observing it.
@functools.lru_cache(maxsize=1024)
def _seconds_of(route: str, status: int) -> Histogram:
    return SECONDS.labels(route, str(status))


@functools.lru_cache(maxsize=256)
def _first_byte_of(route: str) -> Histogram:
    return FIRST_BYTE_SECONDS.labels(route)


class Edge:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, *, access_log: bool = True) -> None:
        """`access_log`: whether each request is a line of the log."""
        self._app = app
        self._access_log = access_log
        self._traces = tracing.is_on()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1000})
        # Facts that a client claims for everything behind us to see; the trace alone is taken from it.
        scope["headers"] = [one for one in scope["headers"] if one[0] != b"baggage"]
        answer = _Answer(scope, send)
        line = Line(scope, receive, answer.send)
        scope.setdefault("state", {}).update(
            line=line, request_id=answer.request_id, answer_headers=answer.headers, received=answer.since
        )
        quiet = scope["path"] in _QUIET
        ACTIVE.inc()
        with self._span(scope, answer, quiet=quiet) as current:
            try:
                await line.serve(self._app(scope, line.receive, line.send))
            except HungUp:
                answer.status, answer.hung_up = 499, True
                HUNG_UP.labels(route_of(scope)).inc()
            except Exception as error:
                await self._answer_failure(error, answer, scope, line)
            finally:
                ACTIVE.dec()
                self._observe(answer, scope, quiet=quiet)
                if current.is_recording():
                    _describe(current, scope, answer)
                # It leads to the server's side of the request, which leads here: a tenth of all work would be to find
                # such garbage.
                del scope["state"]["line"]

    def _span(self, scope: Scope, answer: "_Answer", *, quiet: bool) -> contextlib.AbstractContextManager[trace.Span]:
        if not answer.trace and (quiet or not self._traces):
            return _no_span
        return (_no_tracer if quiet else _tracer).start_as_current_span(
            scope["method"], _trace_context.extract(answer.trace), trace.SpanKind.SERVER, record_exception=False
        )

    async def _answer_failure(self, error: Exception, answer: "_Answer", scope: Scope, line: Line) -> None:
        failure = failure_of(error)
        if failure is INTERNAL:
            log.error("unexpected error", exc_info=error, extra={"request_id": answer.request_id})
        if not answer.started:
            await failure.response()(scope, line.receive, line.send)
        else:
            # The connection is closed in the middle of the answer, which is how HTTP says that it is not complete.
            answer.status = failure.status

    def _observe(self, answer: "_Answer", scope: Scope, *, quiet: bool) -> None:
        route, took = route_of(scope), time.perf_counter() - answer.since
        _seconds_of(route, answer.status).observe(took)
        if answer.first_byte_seconds is not None:
            _first_byte_of(route).observe(answer.first_byte_seconds)
        if not self._access_log:
            return
        facts: dict[str, Any] = {
            "method": scope["method"],
            "route": route,
            "status": answer.status,
            "duration_ms": round(1000 * took, 1),
            "request_id": answer.request_id,
        }
        if answer.first_byte_seconds is not None:
            facts["first_byte_ms"] = round(1000 * answer.first_byte_seconds, 1)
        if answer.hung_up:
            facts["hung_up"] = True
        access_log.note(scope["state"], facts, quiet=quiet)


def _describe(span: trace.Span, scope: Scope, answer: "_Answer") -> None:
    route = route_of(scope)
    span.update_name(f"{scope['method']} {route}")
    span.set_attributes(
        {
            "http.request.method": scope["method"],
            "http.route": route,
            "http.response.status_code": answer.status,
            "sabueso.request_id": answer.request_id,
        }
    )
    caller = scope["state"].get("caller")
    if caller is not None:
        span.set_attribute("sabueso.tenant", caller.tenant.id)
    if answer.status >= 500:
        span.set_status(trace.StatusCode.ERROR)


class _Answer:
    """What is said of the answer on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self.since = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self.trace = {name.decode(): headers[name].decode("latin-1") for name in _TRACE_HEADERS if name in headers}
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        # It is logged: a key that somebody sends as one is not.
        self.request_id = given if _SANE_ID.fullmatch(given) and not holds_key(given) else os.urandom(16).hex()
        self.headers: dict[str, str] = {"x-request-id": self.request_id, "x-content-type-options": "nosniff"}
        self.status = 500
        self.started = False
        self.hung_up = False
        self.first_byte_seconds: float | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            ours = {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in self.headers.items()}
            message["headers"] = [*(one for one in message["headers"] if one[0].lower() not in ours), *ours.items()]
        elif self.first_byte_seconds is None and message.get("body"):
            self.first_byte_seconds = time.perf_counter() - self.since
        await self._send(message)


def route_of(scope: Scope) -> str:
    """The route's template: a label that clients cannot invent."""
    route: Any = scope.get("route")
    return getattr(route, "path", "other")
