"""What the orchestrator says, as messages."""

import json
import zlib
from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.orchestrator import events
from services.orchestrator.evidence import preview
from services.orchestrator.model import Usage
from services.orchestrator.results import Degraded, Page, Passage, Reply, Rows, Source
from services.orchestrator.tool_calls import Progress, Result
from services.orchestrator.tools import Tool


def tool(one: Tool) -> pb.Tool:
    """A tool with the whole schema of its arguments."""
    schema = json.dumps(one.form.schema, ensure_ascii=False)
    return pb.Tool(
        name=one.name,
        description=one.description,
        parameters_schema_json=schema,
        kind=one.kind,
        writes=one.writes,
    )


def call_response(event: Progress | Result) -> pb.CallToolResponse:
    """An event of a single call."""
    match event:
        case Progress():
            return pb.CallToolResponse(progress=pb.ToolProgress(message=event.message))
        case Result():
            result = pb.ToolResult(
                text=event.text,
                structured_json=json.dumps(event.structured, ensure_ascii=False, separators=(",", ":")),
                failed=event.failed,
                from_cache=event.from_cache,
                duration=duration(event.duration_seconds),
                sources=(citation(mark, source) for mark, source in enumerate(event.sources, 1)),
            )
            return pb.CallToolResponse(result=result)


def run_response(event: events.Event) -> pb.RunResponse:
    """An event of a run."""
    match event:
        case events.Text():
            return pb.RunResponse(text_delta=pb.TextDelta(text=event.text))
        case events.Cited():
            return pb.RunResponse(citation=citation(event.mark, event.source))
        case events.Shown():
            score = event.source.score if isinstance(event.source, Passage) else 0
            shown = pb.Evidence(source=citation(event.mark, event.source), score=score, cited=event.cited)
            return pb.RunResponse(evidence=shown)
        case events.Thought() | events.CallStarted() | events.CallFinished():
            return _step(event)
        case events.Finding() | events.Suspicion() | Degraded():
            return _notice(event)
        case events.Chosen():
            chosen = pb.Chosen(strategy=event.strategy, reason=event.reason, confidence=event.confidence)
            return pb.RunResponse(chosen=chosen)
        case events.Planned():
            return pb.RunResponse(plan=_plan(event))
        case events.StepFinished():
            ended = pb.StepFinished(step_id=event.step_id, found=event.found, reason=event.reason)
            return pb.RunResponse(step_finished=ended)
        case events.Finished():
            return pb.RunResponse(finished=_finished(event))


def record(told: Sequence[pb.RunResponse], end: events.Finished, memo: str) -> bytes:
    """A run as it can be told again."""
    happened = pb.GetAnswerResponse(events=(*told, run_response(end)), memo=memo)
    return zlib.compress(happened.SerializeToString(), level=1)


def recorded(record: bytes) -> pb.GetAnswerResponse:
    """What `record` has made a record of."""
    return pb.GetAnswerResponse.FromString(zlib.decompress(record))


def _step(event: events.Thought | events.CallStarted | events.CallFinished) -> pb.RunResponse:
    match event:
        case events.Thought():
            thought = pb.Thought(iteration=event.iteration, text=event.text, step_id=event.step_id)
            return pb.RunResponse(thought=thought)
        case events.CallStarted():
            started = pb.ToolCallStarted(
                iteration=event.iteration,
                call_id=event.call_id,
                tool=event.tool,
                arguments_json=event.arguments_json,
                step_id=event.step_id,
            )
            return pb.RunResponse(tool_call_started=started)
        case events.CallFinished():
            return pb.RunResponse(tool_call_finished=_call_finished(event))


def _notice(event: events.Finding | events.Suspicion | Degraded) -> pb.RunResponse:
    match event:
        case events.Finding():
            kind = pb.FindingKind.Value(f"FINDING_KIND_{event.kind.name}")
            finding = pb.Finding(kind=kind, text=event.text, mark=event.mark, reason=event.reason)
            return pb.RunResponse(finding=finding)
        case events.Suspicion():
            action = pb.SuspicionAction.Value(f"SUSPICION_ACTION_{event.action.name}")
            suspicion = pb.Suspicion(
                call_id=event.call_id, tool=event.tool, action=action, score=event.score, reason=event.reason
            )
            return pb.RunResponse(suspicion=suspicion)
        case Degraded():
            return pb.RunResponse(degraded=pb.Degraded(service=event.service, reason=event.reason))


def _plan(event: events.Planned) -> pb.Plan:
    steps = (
        pb.PlanStep(id=one.id, question=one.question, specialist=one.specialist, depends_on=one.depends_on)
        for one in event.steps
    )
    return pb.Plan(steps=steps, revision=event.revision)


def _call_finished(event: events.CallFinished) -> pb.ToolCallFinished:
    cached = event.cached
    return pb.ToolCallFinished(
        iteration=event.iteration,
        call_id=event.call_id,
        tool=event.tool,
        status=pb.TOOL_CALL_STATUS_OK if event.ok else pb.TOOL_CALL_STATUS_ERROR,
        from_cache=cached is not None,
        duration=duration(event.duration_seconds),
        summary=event.summary,
        queries=event.queries,
        query_transform=event.query_transform,
        collections=event.collections,
        cache_age=duration(cached.age_seconds) if cached else None,
        cache_matched_text=cached.matched_text if cached else "",
        cache_similarity=cached.similarity if cached else 0,
    )


def citation(mark: int, source: Source) -> pb.Citation:
    """A source, under its mark."""
    match source:
        case Passage():
            document = pb.DocumentSource(
                document_id=source.document_id,
                chunk_id=source.chunk_id,
                title=source.title,
                source=source.source,
                page=source.page,
                section=source.section,
                quote=source.text,
            )
            return pb.Citation(mark=mark, document=document)
        case Rows():
            sql = pb.SqlSource(
                statement=source.statement,
                params_json=source.params_json,
                row_count=len(source.rows),
                preview_json=preview(source),
            )
            return pb.Citation(mark=mark, sql=sql)
        case Page():
            return pb.Citation(mark=mark, web=pb.WebSource(url=source.url, title=source.title, quote=source.snippet))
        case Reply():
            said = pb.ToolSource(tool=source.tool, arguments_json=source.arguments_json, quote=source.text)
            return pb.Citation(mark=mark, tool=said)


_FINISH = {
    events.Finish.ANSWERED: pb.FINISH_ANSWERED,
    events.Finish.PARTIAL: pb.FINISH_PARTIAL,
    events.Finish.REFUSED: pb.FINISH_REFUSED,
}


def _finished(event: events.Finished) -> pb.Finished:
    timings = event.timings
    return pb.Finished(
        answer_id=event.answer_id,
        strategy=event.strategy,
        finish=_FINISH[event.finish],
        iterations=event.iterations,
        usage=_usage(event.usage),
        timings=pb.Timings(
            model=duration(timings.model),
            tools=duration(timings.tools),
            cache=duration(timings.cache),
            overhead=duration(timings.overhead),
            total=duration(timings.total),
        ),
        cache_hit_count=event.cache_hits,
        reason=event.reason,
        checking_usage=_usage(event.checking),
        checking_duration=duration(event.checking_seconds),
        conversation_id=event.conversation_id,
    )


def _usage(usage: Usage) -> pb.Usage:
    return pb.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        estimated_tokens=usage.estimated,
    )


def duration(seconds: float) -> Duration:
    """Seconds as a message."""
    message = Duration()
    message.FromNanoseconds(int(seconds * 1e9))
    return message
