"""One step of a plan: who works on it, what he is told and given, and what came out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from services.orchestrator.events import PlanStep
from services.orchestrator.model import Message
from services.orchestrator.planning import prompts
from services.orchestrator.results import Reply
from services.orchestrator.shield.shield import Shield
from services.orchestrator.tools import Tool, for_specialist

_MAX_ANSWER_CHARS = 2_000
NOTHING_FOUND = "nothing was found"


@dataclass(frozen=True)
class StepResult:
    """What a step found: an answer with marks of the run's sources. `found`: there is something to go on.

    `why` says why it is not, or not all, in a few words; `limit` names the budget that ended it, if one did.
    """

    step: PlanStep
    answer: str = ""
    found: bool = False
    why: str = ""
    limit: str = ""

    def as_json(self) -> Mapping[str, Any]:
        """For a model."""
        told = {"step": self.step.id, "question": self.step.question, "found": self.found, "answer": _cut(self.answer)}
        return {name: value for name, value in told.items() if value != ""} | (
            {"problem": self.why} if self.why else {}
        )


def specialists_of(tools: Mapping[str, Tool]) -> tuple[str, ...]:
    """Those who have a tool."""
    return tuple(name for name in prompts.ABOUT_SPECIALISTS if for_specialist(tools, name))


def opening(step: PlanStep, earlier: Sequence[StepResult], today: date, shield: Shield) -> list[Message]:
    """What a specialist is told. `earlier`: what the steps found that this one depends on, which is untrusted text."""
    question = step.question
    if earlier:
        shown = told(earlier, shield)
        question = f"{question}\n\n<{prompts.EARLIER_TAG}>\n{shown}\n</{prompts.EARLIER_TAG}>"
    return [
        Message("system", prompts.specialist_prompt(step.specialist, today, shield.rules)),
        Message("user", question),
    ]


def told(results: Sequence[StepResult], shield: Shield, **more: Any) -> str:
    """What steps found as a JSON object, marked as what it is; it cannot close a tag that it stands in."""
    found = json.dumps(more | {"steps": [one.as_json() for one in results]}, ensure_ascii=False)
    return shield.present(found.replace("<", "\\u003c"), Reply(prompts.EARLIER_TAG, "{}", found))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_ANSWER_CHARS else text[:_MAX_ANSWER_CHARS] + "…"
