"""ReAct (Yao et al. 2022): ask the model, run the tools that it names, repeat until it answers."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from services.orchestrator import prompts
from services.orchestrator.events import Event
from services.orchestrator.first_calls import FirstCalls, Remembering
from services.orchestrator.model import Message, Model
from services.orchestrator.run import Run
from services.orchestrator.turns import act, think
from services.runtime.errors import DeadlineExceeded, DependencyFailed, LimitExceeded

# A model that writes what is no call, though it was told so, is not told again.
_MOST_REPAIRS = 1


@dataclass(frozen=True)
class React:
    """The loop. When a budget ends it, or the model says nothing, one last turn without tools."""

    model: Model
    remembering: Remembering = field(default_factory=Remembering)

    async def answer(self, run: Run) -> AsyncGenerator[Event]:
        """See Strategy."""
        first = FirstCalls(run, self.remembering)
        needed = await run.wants_evidence()
        if needed and (calls := await first.recall()):
            yield run.choose("react", "with the calls that answered the same question before")
            async with aclosing(act(run, run.decide(calls))) as events:
                async for event in events:
                    yield event
        while needed and not run.must_end():
            async with aclosing(think(self.model, run, with_tools=True)) as events:
                async for event in events:
                    yield event
            if run.turn.malformed and not run.turn.calls and run.repairs < _MOST_REPAIRS:
                run.repair()
                continue
            if not run.turn.calls or run.out_of_time():
                break
            first.note(calls := run.take_calls())
            async with aclosing(act(run, calls)) as events:
                async for event in events:
                    yield event
        async with aclosing(synthesise(self.model, run)) as events:
            async for event in events:
                yield event
        first.keep()


async def synthesise(model: Model, run: Run, lead: str = "") -> AsyncGenerator[Event]:
    """The last turn, without tools, unless there is an answer; `lead` is what the model reads right before it.

    Raises ServiceError where there is nothing to answer from instead.
    """
    if run.answered or run.broken_off:
        return
    if last := "\n\n".join(filter(None, (lead, prompts.FINAL if run.called_tools or run.iterations else ""))):
        run.messages.append(Message("user", last))
    async with aclosing(think(model, run, with_tools=False)) as events:
        async for event in events:
            yield event
    if run.answered or (run.called_tools and run.reason):
        return
    match run.reason:
        case "tokens":
            raise LimitExceeded("The question needs more tokens than one answer may use.", setting="run_tokens")
        case "deadline":
            raise DeadlineExceeded("The model did not answer in time.", stage="model")
        case _:
            raise DependencyFailed("The model gave no answer.", dependency="model")
