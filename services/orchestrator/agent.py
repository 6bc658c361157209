"""The agent loop (ReAct, Yao et al. 2022): ask the model, run the tools it names, repeat until it answers."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import date

from services.orchestrator import metrics, prompts
from services.orchestrator.dispatch import Dispatcher, Outcome
from services.orchestrator.events import CallStarted, Event, Thought
from services.orchestrator.model import Message, Model, ToolSpec
from services.orchestrator.results import Degraded
from services.orchestrator.run import Limits, Run, Task
from services.runtime.errors import DeadlineExceeded, DependencyFailed, ServiceError

# A turn that may call tools needs room for a statement, however short the answer shall be.
_MIN_TOOL_TURN_TOKENS = 1024


@dataclass(frozen=True)
class Agent:
    """Answers questions with a model and tools. Knows nothing of tenants, gRPC or HTTP."""

    model: Model
    limits: Limits = field(default_factory=Limits)
    today: Callable[[], date] = date.today

    async def run(self, task: Task, tools: Dispatcher, started: float | None = None) -> AsyncGenerator[Event]:
        """Yields what happens; `Finished` comes last. Closing the generator cancels whatever runs.

        The model's failure is raised while there is no evidence; afterwards the answer is partial instead.
        `started`: time.monotonic() from which the task's seconds count.
        """
        lost = tools.toolset.lost
        opening = prompts.opening(task.question, task.history, self.today(), lost, self.limits.history_tokens)
        run = Run(task, self.limits, tools, opening, time.monotonic() if started is None else started)
        for event in run.degrade(*lost.values()):
            yield event
        try:
            async with aclosing(self._answer(run)) as events:
                async for event in events:
                    yield event
        except ServiceError as error:
            if not run.evidence.has_content:
                raise
            for event in run.degrade(Degraded("model", error.message.rstrip("."))):
                yield event
        if not run.answered:
            for event in run.say_partial():
                yield event
        finished = run.end()
        metrics.ANSWERS.labels(finished.finish.value).inc()
        metrics.OVERHEAD_SECONDS.observe(finished.timings.overhead)
        yield finished

    async def _answer(self, run: Run) -> AsyncGenerator[Event]:
        """The loop. When a budget ends it, or the model says nothing, one last turn without tools."""
        specs = [tool.spec for tool in run.tools.toolset.tools.values()]
        while not run.must_end():
            async with aclosing(self._turn(run, specs)) as events:
                async for event in events:
                    yield event
            if not run.turn.calls or run.out_of_time():
                break
            async with aclosing(self._act(run)) as events:
                async for event in events:
                    yield event
        if run.answered or run.broken_off:
            return
        run.messages.append(Message("user", prompts.FINAL))
        async with aclosing(self._turn(run, ())) as events:
            async for event in events:
                yield event
        if run.answered:
            return
        if run.reason != "deadline":
            raise DependencyFailed("The model gave no answer.", dependency="model")
        if not run.called_tools:
            raise DeadlineExceeded("The model did not answer in time.", stage="model")

    async def _turn(self, run: Run, specs: Sequence[ToolSpec]) -> AsyncGenerator[Event]:
        """One model turn. Text is held while it may be a thought, and shown as it comes once there is evidence."""
        live = not specs or run.evidence.has_content
        sampling = run.task.sampling
        if not live:
            sampling = replace(sampling, max_tokens=max(sampling.max_tokens, _MIN_TOOL_TURN_TOKENS))
        run.begin_turn()
        started = time.monotonic()
        try:
            async with aclosing(self.model.stream(run.messages, specs, sampling)) as stream:
                while not run.turn_is_over:
                    # An answer that is being shown may use the time that is kept for the last turn.
                    end = run.tools_end if specs and not run.broken_off else run.ends
                    async with asyncio.timeout(max(0.0, end - time.monotonic())):
                        part = await anext(stream)
                    for event in run.take(part, live=live, final=not specs):
                        yield event
        except TimeoutError:
            run.reason = run.reason or "deadline"
        finally:
            run.model_seconds += time.monotonic() - started

    async def _act(self, run: Run) -> AsyncGenerator[Event]:
        """Runs the turn's calls together and tells the model what they gave, in the order in which it called."""
        calls = run.take_calls()
        yield Thought(run.iterations, run.turn.text)
        for call in calls:
            yield CallStarted(run.iterations, call.id, call.name, call.arguments_json)
        outcomes: dict[str, Outcome] = {}
        async with aclosing(run.tools.run(calls, run.tool_seconds())) as ended:
            async for outcome in ended:
                outcomes[outcome.call.id] = outcome
                for event in run.finished(outcome):
                    yield event
        for call in calls:
            run.observe(outcomes[call.id])
        if run.tools.cache_lost:
            for event in run.degrade(Degraded("tool_cache", "tool_cache does not answer")):
                yield event
