"""Tells the trace of an answer what a person thought of it.

OpenTelemetry has an event for it. Langfuse makes no scores from OTLP (they have an API of their own there), but takes
attributes named `langfuse.trace.metadata.…` into the trace's metadata, where they can be filtered and counted.
"""

from opentelemetry import trace

from services.gateway.telemetry import conventions as names

_tracer = trace.get_tracer("sabueso")
_LANGFUSE = "langfuse.trace.metadata."


def place() -> tuple[str, str]:
    """Trace and span of what is being done now, in hex; both empty where nothing is traced."""
    here = trace.get_current_span().get_span_context()
    return (format(here.trace_id, "032x"), format(here.span_id, "016x")) if here.is_valid else ("", "")


def record(
    *, answer_id: str, trace_id: str = "", span_id: str = "", name: str = "user_feedback", value: float, label: str = ""
) -> None:
    """Puts a score into the trace of an answer. `trace_id`, `span_id`: of `place` when it was answered.

    No comment: it is a person's words. An answer that was not traced gets a trace of its own for it.
    """
    answer = _span_of(trace_id, span_id)
    attributes: dict[str, str | float] = {
        names.RESPONSE_ID: answer_id,
        names.EVALUATION_NAME: name,
        names.EVALUATION_SCORE: value,
        **({names.EVALUATION_LABEL: label} if label else {}),
    }
    links = [trace.Link(answer)] if answer is not None else []
    within = None if answer is None else trace.set_span_in_context(trace.NonRecordingSpan(answer))
    with _tracer.start_as_current_span(
        f"feedback {name}", within, attributes={**attributes, f"{_LANGFUSE}{name}": value}, links=links
    ) as span:
        span.add_event(names.EVALUATION_EVENT, attributes)


def _span_of(trace_id: str, span_id: str) -> trace.SpanContext | None:
    try:
        found = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(trace.TraceFlags.SAMPLED))
    except ValueError:
        return None
    return found if found.is_valid else None
