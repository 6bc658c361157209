"""Runs the steps of a plan, each as soon as what it depends on has ended, several at the same time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from services.orchestrator.events import Event, PlanStep

# Steps wait for a reader who is slower than they are.
_MAX_UNSEEN = 64


@dataclass(frozen=True)
class _Ended:
    step: PlanStep
    error: Exception | None


async def run_steps(
    steps: Sequence[PlanStep],
    run: Callable[[PlanStep], AsyncGenerator[Event]],
    at_once: int,
    ended: Collection[str] = (),
) -> AsyncGenerator[Event]:
    """Yields the events of all steps as they happen; `run` has one step done. `ended`: ids of earlier steps.

    Closing the generator, and an exception of one step, cancels all others and waits until they have ended.
    """
    happening = asyncio.Queue[Event | _Ended](_MAX_UNSEEN)
    waiting, done = list(steps), set(ended)
    running: dict[str, asyncio.Task[None]] = {}
    try:
        while waiting or running:
            ready = [step for step in waiting if done.issuperset(step.depends_on)]
            for step in ready[: at_once - len(running)]:
                waiting.remove(step)
                running[step.id] = asyncio.create_task(_one(step, run, happening))
            event = await happening.get()
            if isinstance(event, _Ended):
                if event.error is not None:
                    raise event.error
                await running.pop(event.step.id)
                done.add(event.step.id)
            else:
                yield event
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


async def _one(
    step: PlanStep, run: Callable[[PlanStep], AsyncGenerator[Event]], happening: asyncio.Queue[Event | _Ended]
) -> None:
    error: Exception | None = None
    try:
        async with aclosing(run(step)) as events:
            async for event in events:
                await happening.put(event)
    except Exception as raised:
        error = raised
    await happening.put(_Ended(step, error))
