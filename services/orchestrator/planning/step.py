"""One step of a plan: who works on it, what he is told and given, and what came out."""

import json
import re
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
# Of foreign tools, in what the planner reads.
_MOST_NAMED, _MAX_ABOUT_CHARS = 16, 160
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
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


def specialists_of(tools: Mapping[str, Tool]) -> dict[str, str]:
    """Those who have a tool, and what each is there for; foreign tools, which nobody knows, are named one by one."""
    own = {name: for_specialist(tools, name) for name in prompts.ABOUT_SPECIALISTS}
    told = {name: about for name, about in prompts.ABOUT_SPECIALISTS.items() if own[name]}
    if foreign := [tool for tool in own["external"].values() if tool.origin]:
        named = [_named(tool) for tool in foreign[:_MOST_NAMED]]
        more = [f"and {len(foreign) - _MOST_NAMED} more"] if len(foreign) > _MOST_NAMED else []
        told["external"] = " ".join([told["external"], "; ".join([*named, *more])])
    return told


def _named(tool: Tool) -> str:
    first = _SENTENCE_END.split(tool.description.strip(), maxsplit=1)[0]
    about = first if len(first) <= _MAX_ABOUT_CHARS else first[: _MAX_ABOUT_CHARS - 1] + "…"
    return f"`{tool.name}` ({'may change something: ' if tool.writes else ''}{about.rstrip('.')})"


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
