"""Logs, metrics and traces of a process. Nothing is exported unless it is configured."""

import logging
import sys

from opentelemetry import trace
from prometheus_client import Histogram, start_http_server
from pythonjsonlogger.json import JsonFormatter

from services.runtime.settings import ServerSettings

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

CALL_SECONDS = Histogram(
    "sabueso_call_duration_seconds", "Time of gRPC calls served.", ["service", "method", "code"], buckets=_BUCKETS
)


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
        "trafilatura",
    ):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if settings.metrics_port:
        start_http_server(settings.metrics_port, addr=settings.host.strip("[]"))
    if settings.otlp_endpoint:
        _start_tracing(service, settings.otlp_endpoint)


def _start_tracing(service: str, endpoint: str) -> None:
    # Imported here: they cost 15 MB and 200 ms, and most try-outs have no collector.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": f"sabueso-{service}"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True)))
    trace.set_tracer_provider(provider)
