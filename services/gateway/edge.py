"""The outermost layer: request ids, security headers, traces, metrics, and an answer to every failure."""

import logging
import re
import time
import uuid
from typing import Any

from opentelemetry import propagate, trace
from prometheus_client import Counter, Gauge, Histogram
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.errors import INTERNAL, failure_of
from services.gateway.line import HungUp, Line

log = logging.getLogger(__name__)
_tracer = trace.get_tracer("sabueso")
# Asked every few seconds by those who watch us.
_UNTRACED, _no_tracer = ("/healthz", "/readyz", "/metrics"), trace.NoOpTracer()

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


class Edge:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1000})
        answer = _Answer(scope, send)
        line = Line(scope, receive, answer.send)
        scope.setdefault("state", {}).update(line=line, request_id=answer.request_id, answer_headers=answer.headers)
        tracer = _no_tracer if scope["path"] in _UNTRACED else _tracer
        span = tracer.start_as_current_span(
            scope["method"], propagate.extract(answer.request_headers), trace.SpanKind.SERVER, record_exception=False
        )
        with ACTIVE.track_inprogress(), span as current:
            try:
                await line.serve(self._app(scope, line.receive, line.send))
            except HungUp:
                answer.status = 499
                HUNG_UP.labels(route_of(scope)).inc()
            except Exception as error:
                await self._answer_failure(error, answer, scope, line)
            finally:
                answer.observe()
                current.update_name(f"{scope['method']} {route_of(scope)}")
                current.set_attribute("http.response.status_code", answer.status)
                if answer.status >= 500:
                    current.set_status(trace.StatusCode.ERROR)

    async def _answer_failure(self, error: Exception, answer: "_Answer", scope: Scope, line: Line) -> None:
        failure = failure_of(error)
        if failure is INTERNAL:
            log.error("unexpected error", exc_info=error, extra={"request_id": answer.request_id})
        if not answer.started:
            await failure.response()(scope, line.receive, line.send)
        else:
            # The connection is closed in the middle of the answer, which is how HTTP says that it is not complete.
            answer.status = failure.status


class _Answer:
    """What is said of the answer on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._since = time.perf_counter()
        self.request_headers: dict[str, str] = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        given = self.request_headers.get("x-request-id", "")
        self.request_id = given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
        self.headers: dict[str, str] = {"x-request-id": self.request_id, "x-content-type-options": "nosniff"}
        self.status = 500
        self.started = False
        self._first_byte = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self.headers.items():
                headers[name] = value
        elif not self._first_byte and message.get("body"):
            self._first_byte = True
            FIRST_BYTE_SECONDS.labels(route_of(self._scope)).observe(time.perf_counter() - self._since)
        await self._send(message)

    def observe(self) -> None:
        route, took = route_of(self._scope), time.perf_counter() - self._since
        SECONDS.labels(route, str(self.status)).observe(took)
        facts = {"route": route, "status": self.status, "took_ms": round(1000 * took, 1), "request_id": self.request_id}
        log.log(logging.DEBUG if self.status < 400 else logging.INFO, "request", extra=facts)


def route_of(scope: Scope) -> str:
    """The route's template: a label that clients cannot invent."""
    route: Any = scope.get("route")
    return getattr(route, "path", "other")
