"""What an answer says of how it came about: the strategy, the plan, and what was found wrong."""

from typing import Any

from google.protobuf.descriptor import EnumDescriptor

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb

Facts = dict[str, Any]


def chosen(event: pb.Chosen) -> Facts:
    """Which strategy answers and why. `confidence` is null where no router was asked."""
    return {
        "strategy": event.strategy,
        "reason": event.reason,
        "confidence": round(event.confidence, 4) if event.confidence else None,
    }


def plan(event: pb.Plan, *, open_ended: bool = False) -> Facts:
    """The sub-questions. `specialist` is null where all tools may be used.

    `open_ended`: with room for what becomes of each, `found` and `reason`, null until it has ended.
    """
    outcome: Facts = {"found": None, "reason": None} if open_ended else {}
    steps: list[Facts] = [
        {
            "id": one.id,
            "question": one.question,
            "specialist": one.specialist or None,
            "depends_on": list(one.depends_on),
            **outcome,
        }
        for one in event.steps
    ]
    return {"revision": event.revision, "steps": steps}


def step_finished(event: pb.StepFinished) -> Facts:
    """What has become of a sub-question. `reason` is null where it found all that it looked for."""
    return {"step_id": event.step_id, "found": event.found, "reason": event.reason or None}


def finding(event: pb.Finding) -> Facts:
    """What of the answer is not supported. `mark` is null where it is not about one."""
    kind = _word(pb.FindingKind.DESCRIPTOR, event.kind, "FINDING_KIND_")
    return {"kind": kind, "text": event.text, "mark": event.mark or None, "reason": event.reason}


def suspicion(event: pb.Suspicion) -> Facts:
    """Text that gives orders, and what was done about it; never the text itself."""
    return {
        "tool": event.tool,
        "call_id": event.call_id,
        "action": _word(pb.SuspicionAction.DESCRIPTOR, event.action, "SUSPICION_ACTION_"),
        "score": round(event.score, 4),
        "reason": event.reason,
    }


def _word(enum: EnumDescriptor, value: int, prefix: str) -> str:
    """The value's name without its prefix; one of a newer orchestrator is `unspecified`."""
    named = enum.values_by_number.get(value) or enum.values_by_number[0]
    return named.name.removeprefix(prefix).lower()
