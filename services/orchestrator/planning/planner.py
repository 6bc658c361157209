"""Has a model take a question apart, and say afterwards what is missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from services.orchestrator.events import PlanStep
from services.orchestrator.model import Message, Model, Sampling
from services.orchestrator.planning import prompts
from services.orchestrator.planning.forms import check_schema, plan_schema, read_check, read_plan
from services.orchestrator.planning.graph import MAX_STEPS, BadPlan, graph
from services.orchestrator.planning.step import StepResult, told
from services.orchestrator.run import Run
from services.orchestrator.turns import ask

_MAX_TOKENS = 1024
_REPAIR = "This plan cannot be used: {complaint}. Write it again, whole, as one JSON object."


class NoPlan(Exception):
    """There is no plan to follow; the message says why, in one line for people."""


@dataclass(frozen=True)
class Planner:
    """Asks `model`. `seconds`: time for one turn."""

    model: Model
    seconds: float = 10
    max_steps: int = MAX_STEPS

    async def plan(self, run: Run, specialists: Mapping[str, str]) -> tuple[PlanStep, ...]:
        """The steps that answer the run's question: one turn, and one more where the first plan cannot be used.

        `specialists`: who there is, and what each is there for. Raises NoPlan.
        """
        conversation = run.messages[1:]  # our own rules are for those who answer
        messages = [Message("system", prompts.plan_prompt(specialists, self.max_steps)), *conversation]
        sampling = Sampling(max_tokens=_MAX_TOKENS, json_schema=plan_schema(specialists, self.max_steps))
        text = await self._asked(run, messages, sampling)
        try:
            return graph(read_plan(text), specialists, max_steps=self.max_steps)
        except BadPlan as bad:
            complaint = Message("user", _REPAIR.format(complaint=bad))
        text = await self._asked(run, [*messages, Message("assistant", text), complaint], sampling)
        try:
            return graph(read_plan(text), specialists, max_steps=self.max_steps)
        except BadPlan as bad:
            raise NoPlan(f"the plan cannot be used: {bad}") from None

    async def missing(
        self, run: Run, specialists: Mapping[str, str], results: Sequence[StepResult]
    ) -> tuple[PlanStep, ...]:
        """Steps for what is essential and was not found; none where enough was found, or that cannot be told."""
        shown = told(results, run.shield, question=run.task.question)
        messages = [Message("system", prompts.check_prompt(specialists, self.max_steps)), Message("user", shown)]
        sampling = Sampling(max_tokens=_MAX_TOKENS, json_schema=check_schema(specialists, self.max_steps))
        try:
            check = read_check(await self._asked(run, messages, sampling))
            return graph(check.drafts, specialists, [one.step for one in results], self.max_steps)
        except (BadPlan, NoPlan):
            return ()

    async def _asked(self, run: Run, messages: Sequence[Message], sampling: Sampling) -> str:
        sampling = replace(sampling, temperature=run.task.sampling.temperature)
        text = await ask(self.model, run, messages, sampling, min(self.seconds, run.tool_seconds() / 3))
        if not text.strip():
            raise NoPlan("the model wrote no plan")
        return text
