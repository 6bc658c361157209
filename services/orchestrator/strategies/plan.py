"""Plan and solve (Wang et al. 2023) over a graph: sub-questions go to specialists, in parallel where they can."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import date

from opentelemetry import trace

from services.orchestrator.events import Event, Planned, PlanStep, StepFinished
from services.orchestrator.model import Model, estimate_tokens
from services.orchestrator.planning import prompts
from services.orchestrator.planning.graph import levels
from services.orchestrator.planning.planner import NoPlan, Planner
from services.orchestrator.planning.schedule import run_steps
from services.orchestrator.planning.step import NOTHING_FOUND, StepResult, opening, specialists_of, told
from services.orchestrator.planning.transcript import calls_of
from services.orchestrator.run import Run
from services.orchestrator.strategies.react import React, synthesise
from services.orchestrator.tools import for_specialist
from services.runtime.errors import ServiceError


@dataclass(frozen=True)
class PlanPolicy:
    """`at_once`: steps that run at the same time. `iterations`: model turns of one step that may call tools.

    `share`: of the time for tools, what the first plan's steps may take, the rest is for those of the second; and of
    the tokens, what steps may take, the rest is for reading all of it and answering.
    """

    at_once: int = 4
    iterations: int = 4
    share: float = 0.7


@dataclass
class _Progress:
    """What has become of a plan. `specialists`: what each is there for.

    `runs` are the nested runs by step.
    """

    run: Run
    specialists: Mapping[str, str]
    steps: list[PlanStep] = field(default_factory=list[PlanStep])
    results: dict[str, StepResult] = field(default_factory=dict[str, StepResult])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])

    def ended(self, result: StepResult) -> StepFinished:
        """Notes what a step has found; the event that says so."""
        self.results[result.step.id] = result
        return StepFinished(result.step.id, result.found, result.why)

    def in_order(self) -> list[StepResult]:
        """Results in the order of the plan."""
        return [self.results[step.id] for step in self.steps if step.id in self.results]


@dataclass(frozen=True)
class Plan:
    """Plans, has the steps done, looks once what is missing, and answers from everything that was found.

    `specialist` does the steps; `model` writes the answer, and does all of it by itself where there is nothing to plan.
    `specialists` by name do theirs in place of `specialist`.
    """

    planner: Planner
    specialist: Model
    model: Model
    policy: PlanPolicy = field(default_factory=PlanPolicy)
    today: Callable[[], date] = date.today
    tracer: trace.Tracer = field(default_factory=lambda: trace.get_tracer("sabueso"))
    specialists: Mapping[str, Model] = field(default_factory=dict[str, Model])

    async def answer(self, run: Run) -> AsyncGenerator[Event]:
        """See Strategy."""
        progress = _Progress(run, specialists_of(run.tools.toolset.tools))
        steps, why = await self._steps(progress)
        if len(steps) < 2:
            yield run.choose("react", why or "the question is one thing")
            events = React(self.model).answer(run)
        else:
            events = self._followed(progress, steps)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _steps(self, progress: _Progress) -> tuple[tuple[PlanStep, ...], str]:
        """The plan's steps; why there are none."""
        if not progress.run.tools.toolset.tools:
            return (), "there are no tools"
        try:
            return await self.planner.plan(progress.run, progress.specialists), ""
        except NoPlan as no_plan:
            return (), str(no_plan)

    async def _followed(self, progress: _Progress, steps: tuple[PlanStep, ...]) -> AsyncGenerator[Event]:
        run, revision = progress.run, 1
        while steps:
            yield Planned(steps, revision)
            async with aclosing(self._carried_out(progress, steps, revision)) as events:
                async for event in events:
                    yield event
            if revision == 2 or run.out_of_time():
                break
            steps, revision = await self.planner.missing(run, progress.specialists, progress.in_order()), 2
        lead = f"{prompts.FINDINGS}\n{told(progress.in_order(), run.shield)}"
        runs = [progress.runs[step.id] for step in progress.steps if step.id in progress.runs]
        run.messages += calls_of(runs, _room(run) - estimate_tokens(lead))
        for result in progress.in_order():
            if result.limit:
                run.end_early(result.limit)
        async with aclosing(synthesise(self.model, run, lead)) as events:
            async for event in events:
                yield event

    async def _carried_out(
        self, progress: _Progress, steps: tuple[PlanStep, ...], revision: int
    ) -> AsyncGenerator[Event]:
        """Runs the steps of one revision; what they find is in `progress` then."""
        done, longest = set(progress.results), levels(steps)
        progress.steps += steps
        spare = progress.run.tool_seconds() * (1 - self.policy.share if revision == 1 else 0)

        def run(step: PlanStep) -> AsyncGenerator[Event]:
            left = sum(one.id not in progress.results for one in steps)
            # Time is shared with what has to wait for this step, be it for its answer or for its place.
            rounds = max(longest[step.id], -(-left // self.policy.at_once))
            seconds = (progress.run.tool_seconds() - spare) / rounds
            tokens = int(_room(progress.run) * self.policy.share) // max(1, left)
            return self._step(progress, step, seconds, tokens)

        async with aclosing(run_steps(steps, run, self.policy.at_once, done)) as events:
            async for event in events:
                yield event

    async def _step(self, progress: _Progress, step: PlanStep, seconds: float, tokens: int) -> AsyncGenerator[Event]:
        """One step as a nested run. It never raises ServiceError: a step that fails leaves a gap."""
        run, earlier = progress.run, [progress.results[one] for one in step.depends_on]
        if earlier and not any(one.found for one in earlier):
            yield progress.ended(StepResult(step, why="what it depends on was not found"))
            return
        child = run.child(
            step.id,
            step.question,
            opening(step, earlier, self.today(), run.shield),
            tools=for_specialist(run.tools.toolset.tools, step.specialist),
            seconds=seconds,
            iterations=self.policy.iterations,
            tokens=tokens,
        )
        progress.runs[step.id] = child
        model = self.specialists.get(step.specialist, self.specialist)
        why = ""
        specialist = {"sabueso.plan.specialist": step.specialist or "all"}
        with self.tracer.start_as_current_span(f"plan step {step.id}", attributes=specialist):
            try:
                async with aclosing(React(model).answer(child)) as events:
                    async for event in events:
                        yield event
            except ServiceError as error:
                why = error.message.rstrip(".")
        why = why or child.reason or ("" if child.found else NOTHING_FOUND)
        yield progress.ended(StepResult(step, child.text, child.found, why, child.reason))


def _room(run: Run) -> int:
    """Tokens that may still be spent, apart from the last turn's own."""
    return max(0, run.budget.left - run.task.sampling.max_tokens)
