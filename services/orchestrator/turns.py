"""The moves of every strategy: a model turn, the tool calls that it asks for, and a question of our own."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing

from services.orchestrator.call_memory import Failure
from services.orchestrator.dispatch import Outcome
from services.orchestrator.events import Cached, CallFinished, CallStarted, Event, Suspicion, SuspicionAction, Thought
from services.orchestrator.model import Delta, Message, Model, Sampling, ToolCall, Turn, Usage, estimate_tokens
from services.orchestrator.patience import Patience
from services.orchestrator.results import Degraded, Passages, summary
from services.orchestrator.run import Run
from services.orchestrator.stopwatch import Part
from services.runtime.errors import DependencyFailed, ServiceError

# A model that says nothing for longer is lost, not slow: the first word takes a fraction of it.
_SILENCE_SECONDS = 2.0


async def think(model: Model, run: Run, *, with_tools: bool) -> AsyncGenerator[Event]:
    """One model turn. Text is held while it may be a thought, and shown as it comes once there is evidence."""
    live, sampling = run.shows(with_tools=with_tools), run.sampling(with_tools=with_tools)
    run.turn = Turn()
    if not sampling.max_tokens:
        run.end_early("tokens")
        return
    offered, prompt, written = run.offered(with_tools=with_tools), run.prompt_tokens(with_tools=with_tools), 0
    run.begin_turn()
    heard = run.now()
    with run.budget.holding(prompt + sampling.max_tokens), closing(Patience(run.now)) as patience:
        try:
            async with aclosing(model.stream(run.messages, offered, sampling)) as stream:
                while not run.turn_is_over:
                    # An answer that is being shown may use the time that is kept for the last turn.
                    end = run.tools_end if with_tools and not run.broken_off else run.ends
                    part, heard = await _next(stream, run, patience, end), run.now()
                    written += estimate_tokens(part.text) if isinstance(part, Delta) else 0
                    for event in run.take(part, live=live, final=not with_tools):
                        yield event
        except TimeoutError:
            run.end_early("deadline")
            run.budget.spend(Usage.estimate(prompt, written))
            if run.now() - heard >= _SILENCE_SECONDS:
                for event in run.degrade(Degraded("model", "The model does not answer")):
                    yield event
        except ServiceError:
            if written:
                run.budget.spend(Usage.estimate(prompt, written))
            raise


async def act(run: Run, calls: Sequence[ToolCall]) -> AsyncGenerator[Event]:
    """Runs calls of the transcript's last message together, and notes what they gave in the order of the calls."""
    outcomes: dict[str, Outcome] = {}
    async with aclosing(run.tools.run(calls, run.tool_seconds(), run.shield.refusal)) as ended, _ahead(ended) as first:
        yield Thought(run.step, run.turn.text, run.step_id)
        for call in calls:
            yield CallStarted(run.step, call.id, call.name, call.arguments_json, run.step_id)
        outcome = await first
        while outcome is not None:
            outcomes[outcome.call.id] = outcome
            for event in _ended(run, outcome):
                yield event
            outcome = await anext(ended, None)
    for call in calls:
        for event in await run.observe(outcomes[call.id]):
            yield event
    if run.tools.memory.cache_lost:
        for event in run.degrade(Degraded("tool_cache", "tool_cache does not answer")):
            yield event


@asynccontextmanager
async def _ahead(ended: AsyncGenerator[Outcome]) -> AsyncGenerator[asyncio.Task[Outcome | None]]:
    """The first of what ends: the calls are on their way while the reader is told of them."""

    async def first() -> Outcome | None:
        return await anext(ended, None)

    task = asyncio.create_task(first())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask(model: Model, run: Run, messages: Sequence[Message], sampling: Sampling, seconds: float) -> str:
    """One turn of which the reader sees nothing. Empty where it is late, fails, or there are no tokens for it."""
    prompt = sum(message.tokens for message in messages)
    sampling = run.within_budget(sampling, prompt)
    if not sampling.max_tokens:
        return ""
    end, written = min(run.now() + seconds, run.ends), 0
    with run.budget.holding(prompt + sampling.max_tokens), closing(Patience(run.now)) as patience:
        try:
            async with aclosing(model.stream(messages, (), sampling)) as stream:
                while True:
                    part = await _next(stream, run, patience, end)
                    if isinstance(part, Turn):
                        run.budget.spend(part.usage)
                        return part.text.strip()
                    written += estimate_tokens(part.text)
        except TimeoutError:
            run.budget.spend(Usage.estimate(prompt, written))
        except ServiceError:  # who asks goes on without
            if written:
                run.budget.spend(Usage.estimate(prompt, written))
    return ""


async def _next(stream: AsyncGenerator[Delta | Turn], run: Run, patience: Patience, end: float) -> Delta | Turn:
    """The next part of a turn, until `end`. Raises TimeoutError; DependencyFailed where a turn just stops."""
    with run.tools.stopwatch.during(Part.MODEL):
        part = await patience.wait(anext(stream, None), end)
    if part is None:
        raise DependencyFailed("The model broke off.", dependency="model")
    return part


def _ended(run: Run, outcome: Outcome) -> Iterator[Event]:
    """The events of a call's end."""
    call, result, hit = outcome.call, outcome.result, outcome.hit
    failed = isinstance(result, Failure)
    found = result if isinstance(result, Passages) else Passages(())
    yield CallFinished(
        run.step,
        call.id,
        call.name,
        not failed,
        Cached(hit.age_seconds, hit.matched_text, hit.similarity) if hit else None,
        outcome.duration_seconds,
        result.message if isinstance(result, Failure) else summary(result),
        found.queries,
        found.transform,
        found.collections,
    )
    if not isinstance(result, Failure):
        yield from run.degrade(*result.degraded)
        return
    if result.refused:
        yield Suspicion(call.id, call.name, SuspicionAction.CALL_REFUSED, result.message)
    if result.degraded is not None:
        yield from run.degrade(result.degraded)
