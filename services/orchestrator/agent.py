"""Answers a question: a strategy gathers evidence and writes, a reviewer checks, and there is always an answer."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import date

from services.orchestrator import metrics, prompts
from services.orchestrator.citing.review import Reviewer, Unreviewed
from services.orchestrator.conclusion import finished, reviewed, say_partial
from services.orchestrator.conversation.history import Conversation, Windowed
from services.orchestrator.conversation.window import MOST_CHARS, newest
from services.orchestrator.dispatch import Dispatcher
from services.orchestrator.events import Event
from services.orchestrator.model import CHARS_PER_TOKEN, Message
from services.orchestrator.reflecting.reflection import Reflection, Unreflecting
from services.orchestrator.results import Degraded
from services.orchestrator.run import Run, begin
from services.orchestrator.scenario import scenario_of
from services.orchestrator.shield.shield import Shield, Unshielded
from services.orchestrator.stopwatch import Part
from services.orchestrator.strategies.auto import AUTO, Auto
from services.orchestrator.strategies.strategy import Strategy
from services.orchestrator.task import Limits, Task
from services.runtime.errors import ServiceError

# Part of a task's time that summing up its conversation may take.
_HISTORY_SHARE = 0.25


@dataclass(frozen=True)
class Agent:
    """Answers questions with a model and tools. Knows nothing of gRPC or HTTP. `strategies` by name, without auto."""

    strategies: Mapping[str, Strategy]
    limits: Limits = field(default_factory=Limits)
    today: Callable[[], date] = date.today
    reviewer: Reviewer = field(default_factory=Unreviewed)
    reflection: Reflection = field(default_factory=Unreflecting)
    auto: Auto = field(default_factory=Auto)
    conversation: Conversation = field(default_factory=Windowed)

    async def run(self, task: Task, tools: Dispatcher, shield: Shield | None = None) -> AsyncGenerator[Event]:
        """Yields what happens; `Finished` comes last. Closing the generator cancels whatever runs.

        The task's seconds count from the start of the stopwatch of `tools`.
        The model's failure is raised while there is nothing to say; afterwards the answer is partial instead.
        """
        with tools.stopwatch.during(Part.MODEL):
            fitted = await self.conversation.fit(
                task.history, self.limits.history_tokens, tools.toolset.spent, task.seconds * _HISTORY_SHARE
            )
        task = replace(task, history=self.recent(task.history))
        run = self._begun(task, fitted.messages, tools, shield or Unshielded())
        if task.strategy == AUTO:
            yield await self.auto.choose(run, self.strategies.keys())
        else:
            yield run.choose(task.strategy, "as asked")
        routed = run.route.degraded if run.route else ()
        for event in run.degrade(*tools.toolset.lost.values(), *fitted.degraded, *routed):
            yield event
        try:
            async with aclosing(self.strategies[run.strategy].answer(run)) as events:
                async for event in events:
                    yield event
        except ServiceError as error:
            if not (run.found or run.answer.said):
                raise
            for event in run.degrade(Degraded("model", error.message.rstrip("."))):
                yield event
        # The filters may have taken out all that there was, such as a mark of nothing.
        if not (run.answered and run.answer.text.strip()):
            for event in say_partial(run):
                yield event
        async with aclosing(reviewed(run, self.reviewer)) as events:
            async for event in events:
                yield event
        end = finished(run)
        metrics.ANSWERS.labels(end.strategy, end.finish.value).inc()
        metrics.OVERHEAD_SECONDS.observe(end.timings.overhead)
        scenario = scenario_of(end.strategy, end.iterations, tools.memory.kinds)
        metrics.ANSWER_SECONDS.labels(scenario).observe(end.timings.total)
        yield end

    def recent(self, history: Sequence[Message]) -> Sequence[Message]:
        """What of a conversation a run looks at besides what the model reads: that, and no megabytes before it."""
        return newest(history, max(MOST_CHARS, self.limits.history_tokens * CHARS_PER_TOKEN))

    def _begun(self, task: Task, history: Sequence[Message], tools: Dispatcher, shield: Shield) -> Run:
        opening = prompts.opening(
            task.question, history, self.today(), tools.toolset.lost, self.limits.history_tokens, shield.rules
        )
        return begin(task, self.limits, tools, opening, shield, self.reflection)
