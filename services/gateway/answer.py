"""Puts an agent's run, event by event, into the words of OpenAI's chat completions."""

import time
import uuid
from collections.abc import Mapping
from typing import Any

from google.protobuf.duration_pb2 import Duration

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.gateway import notices
from services.gateway.annotations import annotation, evidence, parsed

AGENT = "sabueso"
# The same answer bears one id with two beginnings: ours, and that of the Responses API.
ANSWER_PREFIX, RESPONSE_PREFIX = "ans_", "resp_"

_FINISHES = {pb.FINISH_ANSWERED: "answered", pb.FINISH_PARTIAL: "partial", pb.FINISH_REFUSED: "refused"}
_STATUSES = {pb.TOOL_CALL_STATUS_OK: "ok", pb.TOOL_CALL_STATUS_ERROR: "error"}


class Answer:
    """What is known of a run so far. `add` takes its events in order."""

    def __init__(
        self, cache_mode: str, uid: str = "", began: float | None = None, *, with_evidence: bool = False
    ) -> None:
        """`uid` and `began`, in seconds of the epoch: of an answer that was begun before; of a new one its own.

        `with_evidence`: what the model was shown is told too.
        """
        self.uid = uid or uuid.uuid4().hex
        self.id = f"chatcmpl-{self.uid}"
        self.began = time.time() if began is None else began
        self.created = int(self.began)
        self.finished: pb.Finished | None = None
        self.cache_mode = cache_mode
        self.with_evidence = with_evidence
        self._text: list[str] = []
        self._citations: dict[int, pb.Citation] = {}
        self._steps: dict[tuple[int, str], dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._degraded: list[dict[str, str]] = []
        self._chosen: list[dict[str, Any]] = []
        self._plans: list[dict[str, Any]] = []
        self._findings: list[dict[str, Any]] = []
        self._suspicions: list[dict[str, Any]] = []
        self._oldest_s: float | None = None
        self._evidence: list[dict[str, Any]] = []
        self._gateway_ms: float | None = None

    def waited(self, seconds: float) -> None:
        """Notes how long the caller has waited by now; what of it the run does not account for is the gateway's."""
        total = (self.finished or pb.Finished()).timings.total
        self._gateway_ms = round(max(0.0, seconds * 1000 - total.seconds * 1000 - total.nanos / 1e6), 1)

    def add(self, event: pb.RunResponse) -> dict[str, Any] | None:
        """Takes the next event; returns it as a step for people to watch, if it is one."""
        match event.WhichOneof("event"):
            case "thought":
                return self._thought(event.thought)
            case "tool_call_started":
                return self._started(event.tool_call_started)
            case "tool_call_finished":
                return self._ended(event.tool_call_finished)
            case "text_delta":
                self._text.append(event.text_delta.text)
            case "citation":
                self._citations.setdefault(event.citation.mark, event.citation)
            case "evidence":
                self._evidence.append(evidence(event.evidence))
            case "finished":
                self.finished = event.finished
            case "degraded" | "chosen" | "plan" | "step_finished" | "finding" | "suspicion" as kind:
                return {"event": kind, **self._note(event)}
            case None:
                pass  # an event of a newer orchestrator
        return None

    def _note(self, event: pb.RunResponse) -> dict[str, Any]:
        """Takes an event about the run as a whole; returns its facts."""
        match event.WhichOneof("event"):
            case "degraded":
                facts: dict[str, Any] = {"service": event.degraded.service, "reason": event.degraded.reason}
                self._degraded.append(facts)
            case "chosen":
                facts = notices.chosen(event.chosen)
                self._chosen.append(facts)
            case "plan":
                facts = notices.plan(event.plan)
                self._plans.append(notices.plan(event.plan, open_ended=True))
            case "step_finished":
                facts = notices.step_finished(event.step_finished)
                self._end_step(facts)
            case "finding":
                facts = notices.finding(event.finding)
                self._findings.append(facts)
            case _:
                facts = notices.suspicion(event.suspicion)
                self._suspicions.append(facts)
        return facts

    def _end_step(self, facts: dict[str, Any]) -> None:
        for step in (step for plan in self._plans for step in plan["steps"]):
            if step["id"] == facts["step_id"]:
                step.update(found=facts["found"], reason=facts["reason"])

    @property
    def completed(self) -> int:
        """When it ended, in seconds of the epoch."""
        return int(self.began + self.timings_ms()["total"] / 1000)

    @property
    def answer_id(self) -> str:
        """What the orchestrator is asked to call the answer: known before there is one, and by the ids of both APIs."""
        return f"{ANSWER_PREFIX}{self.uid}"

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._text)

    def annotations(self) -> list[dict[str, Any]]:
        """One entry a mark, in the order of the marks."""
        text = self.text
        return [annotation(self._citations[mark], text) for mark in sorted(self._citations)]

    def summary(self) -> dict[str, Any]:
        """What `sabueso` says of the finished run."""
        end = self.finished or pb.Finished()
        return {
            "answer_id": end.answer_id,
            "strategy": end.strategy,
            "finish": finish_word(end.finish),
            "reason": end.reason or None,
            "iterations": end.iterations,
            "chosen": self._chosen,
            "plan": self._plans[-1] if self._plans else None,
            "plans": self._plans,
            "steps": [self._steps[place] for place in sorted(self._steps)],
            "findings": self._findings,
            "suspicions": self._suspicions,
            "degraded": self._degraded,
            "cache": {"mode": self.cache_mode, "hits": end.cache_hit_count, "oldest_age_s": self._oldest_s},
            "timings_ms": self.timings_ms(),
            "tokens": _tokens(end.usage),
            "estimated_tokens": end.usage.estimated_tokens,
            "checking": {"tokens": _tokens(end.checking_usage), "duration_ms": _ms(end.checking_duration)},
            **({"evidence": self._evidence} if self.with_evidence else {}),
        }

    def timings_ms(self) -> dict[str, float]:
        """Where the time went: the parts of the run, and `total` of them; `gateway` is all else that the caller waited.

        An answer that is read again has no `gateway`: what its readers waited for then, nobody knows.
        """
        timings = (self.finished or pb.Finished()).timings
        told = {name: _ms(getattr(timings, name)) for name in ("model", "tools", "cache", "overhead", "total")}
        return told if self._gateway_ms is None else told | {"gateway": self._gateway_ms}

    def usage(self) -> dict[str, int]:
        """Tokens over all model turns, in OpenAI's form."""
        usage = (self.finished or pb.Finished()).usage
        return {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }

    def finish_reason(self) -> str:
        """`length` when the tokens ran out, else `stop`."""
        return "length" if self.finished is not None and self.finished.reason == "tokens" else "stop"

    def completion(self) -> dict[str, Any]:
        """The whole answer at once."""
        message = {
            "role": "assistant",
            "content": self.text,
            "refusal": None,
            "annotations": self.annotations(),
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason()}
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": AGENT,
            "choices": [choice],
            "usage": self.usage(),
            "sabueso": self.summary(),
        }

    def chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None, **extra: Any) -> dict[str, Any]:
        """A piece of a streamed answer."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._piece([choice], **extra)

    def usage_chunk(self) -> dict[str, Any]:
        """The piece with the tokens; it has no choices."""
        return self._piece([], usage=self.usage())

    def server_timing(self) -> str:
        """Value of the `Server-Timing` header (W3C), in milliseconds."""
        return ", ".join(f"{name};dur={ms:g}" for name, ms in self.timings_ms().items())

    def _piece(self, choices: list[dict[str, Any]], **extra: Any) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": AGENT,
            "choices": choices,
            **extra,
        }

    def _step(self, told: pb.Thought | pb.ToolCallStarted) -> dict[str, Any]:
        step: dict[str, Any] = {**_place(told), "thought": "", "calls": []}
        return self._steps.setdefault((told.iteration, told.step_id), step)

    def _thought(self, thought: pb.Thought) -> dict[str, Any]:
        self._step(thought)["thought"] = thought.text
        return {"event": "thought", **_place(thought), "thought": thought.text}

    def _started(self, started: pb.ToolCallStarted) -> dict[str, Any]:
        call: dict[str, Any] = {"tool": started.tool, "arguments": _arguments(started.arguments_json)}
        call.update(status="running", from_cache=False, duration_ms=None, summary="")
        self._calls[started.call_id] = call
        self._step(started)["calls"].append(call)
        facts = {"tool": call["tool"], "arguments": call["arguments"]}
        return {"event": "tool_call_started", **_place(started), "call_id": started.call_id, **facts}

    def _ended(self, ended: pb.ToolCallFinished) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "status": _STATUSES.get(ended.status, "error"),
            "from_cache": ended.from_cache,
            "duration_ms": _ms(ended.duration),
            "summary": ended.summary,
        }
        if ended.from_cache:
            facts["cache"] = _cache(ended)
            self._oldest_s = max(self._oldest_s or 0, facts["cache"]["age_s"])
        # How documents were searched, where that is more than the arguments say.
        if ended.queries:
            facts["queries"] = list(ended.queries)
        if ended.query_transform:
            facts["query_transform"] = ended.query_transform
        if ended.collections:
            facts["collections"] = list(ended.collections)
        call = self._calls.get(ended.call_id)
        if call is not None:
            call.update(facts)
        named = {"iteration": ended.iteration, "call_id": ended.call_id, "tool": ended.tool}
        return {"event": "tool_call_finished", **named, **facts}


def answer_id_of(response_id: str) -> str:
    """The id under which the orchestrator keeps a response; an answer's own id is good too."""
    if not response_id.startswith(RESPONSE_PREFIX):
        return response_id
    return ANSWER_PREFIX + response_id.removeprefix(RESPONSE_PREFIX)


def finish_word(finish: "pb.Finish.ValueType") -> str:
    """How a run ended, as callers see it."""
    return _FINISHES.get(finish, "partial")


def _cache(ended: pb.ToolCallFinished) -> dict[str, Any]:
    """How old a result is, and what it was made for where that is other words than the call's."""
    facts: dict[str, Any] = {"kind": "exact", "age_s": round(_ms(ended.cache_age) / 1000, 1)}
    if ended.cache_matched_text:
        facts.update(kind="semantic", matched=ended.cache_matched_text, similarity=round(ended.cache_similarity, 4))
    return facts


def _ms(duration: Duration) -> float:
    return round(duration.seconds * 1000 + duration.nanos / 1e6, 1)


def _place(told: pb.Thought | pb.ToolCallStarted) -> dict[str, Any]:
    """Where in the run: the model turn, and the step of the plan where there is one."""
    return {"iteration": told.iteration} | ({"step_id": told.step_id} if told.step_id else {})


def _tokens(usage: pb.Usage) -> dict[str, int]:
    return {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens}


def _arguments(text: str) -> Any:
    """The arguments as an object; as the model wrote them where they are not JSON."""
    return parsed(text, {}, otherwise=text)
