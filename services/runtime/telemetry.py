"""Logs, metrics and traces of a process. Nothing is exported unless it is configured."""

import logging
import sys
from typing import TYPE_CHECKING
from urllib.parse import unquote

from opentelemetry import trace
from prometheus_client import Gauge, Histogram, start_http_server
from pythonjsonlogger.json import JsonFormatter

from services.runtime.listening import address_of
from services.runtime.settings import ServerSettings, WrongSetting, checked

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

CALL_SECONDS = Histogram(
    "sabueso_call_duration_seconds", "Time of gRPC calls served.", ["service", "method", "code"], buckets=_BUCKETS
)

# Other series of a service begin with its first call: its absence could not be told from silence.
SERVICE_INFO = Gauge("sabueso_service_info", "1, with the name of the service that this process is.", ["service"])


class _TraceIds(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            record.trace_id = format(context.trace_id, "032x")
        return True


def start(service: str, settings: ServerSettings) -> None:
    """Sets up JSON logs on stderr, and metrics and traces where configured. Once, at the start of a process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            "{asctime}{levelname}{name}{message}",
            style="{",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
            static_fields={"service": service},
        )
    )
    handler.addFilter(_TraceIds())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    # These name URLs and statements at INFO: prompts and document text must not reach the log.
    for noisy in (
        "httpx",
        "httpcore",
        "httpx2",
        "httpcore2",
        "openai",
        "grpc",
        "uvicorn.access",
        "asyncpg",
        "pdfminer",
        "urllib3",
        "trafilatura",
    ):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    SERVICE_INFO.labels(service).set(1)
    if settings.metrics_port:
        start_http_server(settings.metrics_port, addr=address_of(settings.host))
    if settings.otlp_endpoint:
        with checked():
            _start_tracing(service, settings)


def _start_tracing(service: str, settings: ServerSettings) -> None:
    # Imported here: they cost 15 MB and 200 ms, and most try-outs have no collector.
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    headers = headers_of(settings.otlp_headers.get_secret_value())
    exporter = _http_exporter if settings.otlp_protocol == "http/protobuf" else _grpc_exporter
    provider = TracerProvider(resource=Resource.create({"service.name": f"sabueso-{service}"}))
    provider.add_span_processor(BatchSpanProcessor(exporter(settings.otlp_endpoint, headers)))
    trace.set_tracer_provider(provider)


def headers_of(text: str) -> dict[str, str]:
    """Headers of `name=value,name=value`, as OTEL_EXPORTER_OTLP_HEADERS has them. Raises WrongSetting."""
    headers: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip().isascii():
            raise WrongSetting("write `name=value`, with commas between several", "SABUESO_OTLP_HEADERS")
        headers[name.strip().lower()] = unquote(value.strip())
    return headers


def _grpc_exporter(endpoint: str, headers: dict[str, str]) -> "SpanExporter":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"), headers=headers)


def _http_exporter(endpoint: str, headers: dict[str, str]) -> "SpanExporter":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    path = "/v1/traces"
    return OTLPSpanExporter(endpoint=endpoint.rstrip("/").removesuffix(path) + path, headers=headers)
