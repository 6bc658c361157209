"""The end of a run: an answer of our own where there is none, its review, and the last event."""

import secrets
from collections.abc import AsyncGenerator, Iterator

from services.orchestrator.citing.review import Draft, Reviewer
from services.orchestrator.events import Event, Finish, Finished, Shown
from services.orchestrator.partial import partial_answer
from services.orchestrator.refusal import admits
from services.orchestrator.run import Run
from services.orchestrator.stopwatch import Part


def say_partial(run: Run) -> Iterator[Event]:
    """An answer that we write ourselves from the evidence."""
    # What the filters still hold of the model's own words comes before ours.
    yield from run.answer.say("", last=True)
    run.answer.pause()
    run.end_early("empty_answer" if run.answered else "tool_failed")
    said, used = run.answer.said, run.answer.used()
    text = partial_answer(run.task.question, run.evidence, run.reason, said=said, used=used)
    yield from run.answer.say(text, last=True)


async def reviewed(run: Run, reviewer: Reviewer) -> AsyncGenerator[Event]:
    """The events of checking the answer: held text is judged and shown, what is wrong is said, and the evidence."""
    sources, watch = run.evidence.sources, run.tools.stopwatch
    if run.answer.held:
        held = Draft(run.task.question, run.answer.release(), sources, shown=False)
        with watch.during(Part.CHECKING):
            judged = await run.reflection.judge(held, run.task.reflecting, run.checking, run.seconds_left())
        for event in (*judged.findings, *run.degrade(*judged.degraded)):
            yield event
        for event in _conclude(run, judged.answer, judged.note, withdrawn=judged.withdrawn):
            yield event
        # Held text meets the filters only now.
        if not run.answer.text.strip():
            for event in say_partial(run):
                yield event
    # Our own reading of it is our own time; what is waited for meanwhile tells so by itself.
    said = [message.text for message in run.task.history if message.role != "system"]
    draft = Draft(run.task.question, run.answer.text, sources, said=said, support=run.support)
    review = await reviewer.review(draft, run.checking, run.seconds_left())
    for event in (*review.findings, *run.degrade(*review.degraded)):
        yield event
    for event in (*_conclude(run, "", review.note, withdrawn=review.withdrawn), *_shown(run)):
        yield event


def _conclude(run: Run, answer: str, note: str, *, withdrawn: bool) -> Iterator[Event]:
    if answer:
        yield from run.answer.say(answer, last=True)
    if note:
        run.answer.pause()
        yield from run.answer.say(note, last=True)
    if withdrawn:
        run.reason = "unsupported"


def _shown(run: Run) -> Iterator[Event]:
    """What the model was shown, where that is asked for."""
    if run.task.include_evidence:
        used = set(run.answer.used())
        yield from (Shown(mark, source, mark in used) for mark, source in sorted(run.evidence.sources.items()))


def finished(run: Run) -> Finished:
    """The last event."""
    finish, reason, watch = Finish.ANSWERED, run.reason, run.tools.stopwatch
    if run.tools.memory.failed_tools:
        reason = reason or "tool_failed"
    if reason == "unsupported" or _lacks_evidence(run):
        finish, reason = Finish.REFUSED, reason or "no_evidence"
    elif reason:
        finish = Finish.PARTIAL
    return Finished(
        f"ans_{secrets.token_hex(12)}",
        finish,
        reason,
        run.budget.turns,
        run.budget.usage + run.tools.toolset.spent.usage + run.checking.usage,
        watch.read(),
        run.tools.memory.cache_hits,
        run.strategy,
        run.checking.usage,
        watch.seconds(Part.CHECKING),
    )


def _lacks_evidence(run: Run) -> bool:
    """Whether tools were asked, and nothing came of it, or nothing that the answer could use."""
    if not run.called_tools:
        return False
    return not run.found or (run.answered and not run.answer.used() and admits(run.answer.text))
