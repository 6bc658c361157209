"""A finished answer as it is offered: what was asked, said, shown and called. No field for a person or a key."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.orchestrator.events import CallStarted, Event, Finished, Shown, Text
from services.orchestrator.evidence import preview
from services.orchestrator.partial import language
from services.orchestrator.results import Degraded, Page, Passage, Reply, Rows, Source

# So that the largest run fits into one message.
_MOST_PASSAGES = 100
_MOST_CHARS = 20_000
_MOST_ROWS = 100


@dataclass(frozen=True)
class ShownPassage:
    """A piece of evidence. `score`: what the ranking gave it; None where nothing ranks."""

    text: str
    source: str
    score: float | None = None


@dataclass(frozen=True)
class MadeCall:
    """A tool call. `turn` counts from 0."""

    tool: str
    arguments_json: str
    turn: int


@dataclass(frozen=True)
class FinishedAnswer:
    """One answer. `metrics`: what its tenant wants measured; of those that take a judge."""

    answer_id: str
    question: str
    answer: str
    language: str
    passages: tuple[ShownPassage, ...]
    calls: tuple[MadeCall, ...]
    end: Finished
    model: str = ""
    trace_id: str = ""
    degraded: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


def answer_of(question: str, happened: Sequence[Event], end: Finished) -> FinishedAnswer:
    """What `happened` comes to."""
    turns = sorted({one.iteration for one in happened if isinstance(one, CallStarted)})
    return FinishedAnswer(
        answer_id=end.answer_id,
        question=question,
        answer="".join(one.text for one in happened if isinstance(one, Text)),
        language=language(question),
        passages=tuple(map(_passage, _sources(happened)))[:_MOST_PASSAGES],
        calls=tuple(
            MadeCall(one.tool, one.arguments_json, turns.index(one.iteration))
            for one in happened
            if isinstance(one, CallStarted)
        ),
        end=end,
        degraded=tuple(dict.fromkeys(one.service for one in happened if isinstance(one, Degraded))),
    )


def kept_part(event: Event) -> Event | None:
    """What of an event is needed for `answer_of`; None for most, so that a run's events are not held."""
    return event if isinstance(event, Text | Shown | CallStarted | Degraded) else None


def _sources(happened: Sequence[Event]) -> list[Source]:
    """In the order of their marks, each once."""
    marked = {one.mark: one.source for one in happened if isinstance(one, Shown)}
    return [source for _, source in sorted(marked.items())]


def _passage(source: Source) -> ShownPassage:
    match source:
        case Passage():
            return ShownPassage(source.text[:_MOST_CHARS], source.document_id, source.score)
        case Page():
            return ShownPassage(f"{source.title}\n{source.snippet}"[:_MOST_CHARS], source.url)
        case Rows():
            rows = preview(source, _MOST_ROWS)
            return ShownPassage(f"{source.statement}\n{rows}"[:_MOST_CHARS], source.source or "sql")
        case Reply():
            return ShownPassage(source.text[:_MOST_CHARS], source.tool)
