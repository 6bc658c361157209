"""The state of one run: transcript, evidence, what was said, and the budgets that end it."""

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from services.orchestrator.citations import CitationFilter
from services.orchestrator.dispatch import Dispatcher, Failure, Outcome
from services.orchestrator.events import Cached, CallFinished, Cited, Event, Finish, Finished, Text, Timings
from services.orchestrator.evidence import Evidence, error_observation
from services.orchestrator.model import Delta, Message, Sampling, ToolCall, Turn, Usage
from services.orchestrator.partial import partial_answer
from services.orchestrator.results import Degraded, Passages, summary

# What is left for handing over an answer when the model has lost the race against the deadline.
_LAST_WORDS_SECONDS = 0.25
# Less is no time for a tool.
_LEAST_TOOL_SECONDS = 0.05


@dataclass(frozen=True)
class Task:
    """One question and the ceilings of its answer. `seconds`: time for all of it."""

    question: str
    history: Sequence[Message] = ()
    max_iterations: int = 6
    seconds: float = 60
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True)
class Limits:
    """Ceilings of every run. The last `reserve_seconds` of a run are kept for its last turn."""

    run_tokens: int = 60_000
    history_tokens: int = 4_000
    observation_chars: int = 24_000
    reserve_seconds: float = 10


@dataclass
class Run:
    """`started`, `tools_end` and `ends` are of time.monotonic(). `reason` says why the run ends early.

    `broken_off`: the text of the current turn is being shown, and has not come to its end.
    """

    task: Task
    limits: Limits
    tools: Dispatcher
    messages: list[Message]
    started: float
    turn: Turn = field(default_factory=Turn)
    turn_is_over: bool = False
    broken_off: bool = False
    iterations: int = 0
    usage: Usage = field(default_factory=Usage)
    reason: str = ""
    answered: bool = False
    model_seconds: float = 0
    _said: bool = False
    _gap: bool = False
    _call_ids: set[str] = field(default_factory=set[str])
    _told: set[Degraded] = field(default_factory=set[Degraded])

    def __post_init__(self) -> None:
        self.ends = self.started + self.task.seconds - min(_LAST_WORDS_SECONDS, self.task.seconds / 10)
        self.tools_end = self.ends - min(self.limits.reserve_seconds, self.task.seconds / 3)
        self.evidence = Evidence(self.limits.observation_chars)
        self._citations = CitationFilter(self.evidence.__contains__)

    def must_end(self) -> bool:
        """Whether a budget is used up. A turn with tools must leave tokens for itself and the last turn."""
        prompt = max(sum(message.tokens for message in self.messages), self.turn.usage.total)
        if self.iterations >= self.task.max_iterations:
            self.reason = self.reason or "iterations"
        elif self.iterations and self.spent.total + 2 * prompt > self.limits.run_tokens:
            self.reason = self.reason or "tokens"
        return self.out_of_time() or bool(self.reason)

    @property
    def spent(self) -> Usage:
        """Tokens of the run's turns and of those that its tools made."""
        return self.usage + self.tools.toolset.spent.usage

    def out_of_time(self) -> bool:
        """Whether no tool can run any more."""
        if self.tool_seconds() < _LEAST_TOOL_SECONDS:
            self.reason = self.reason or "deadline"
            return True
        return False

    def tool_seconds(self) -> float:
        """Time left for tools."""
        return self.tools_end - time.monotonic()

    @property
    def called_tools(self) -> bool:
        """Whether the model has called any tool."""
        return bool(self._call_ids)

    def begin_turn(self) -> None:
        """Counts a model turn."""
        self.iterations += 1
        self.turn, self.turn_is_over, self.broken_off = Turn(), False, False

    def take(self, part: Delta | Turn, *, live: bool, final: bool) -> Iterator[Event]:
        """The events of the next part of a turn. `live`: pieces are shown as they come; `final`: calls do not count."""
        if isinstance(part, Delta):
            # Many models begin a turn with empty lines, even one of calls only.
            text = part.text if self.broken_off else part.text.lstrip()
            if live and text:
                self.broken_off = True
                yield from self.say(text)
            return
        self.turn, self.turn_is_over, self.broken_off = part, True, False
        self.usage += part.usage
        calls = bool(part.calls) and not final
        if live or not calls:
            yield from self.say("" if live else part.text.lstrip(), last=True)
        if calls:
            self.pause()
        elif part.text.strip():
            self.answered = True
            if part.cut:
                self.reason = self.reason or "tokens"

    def take_calls(self) -> Sequence[ToolCall]:
        """The turn's calls under ids that are unique in the run, noted in the transcript."""
        calls: list[ToolCall] = []
        for call in self.turn.calls:
            if not call.id or call.id in self._call_ids:
                call = replace(call, id=f"call_{secrets.token_hex(6)}")
            self._call_ids.add(call.id)
            calls.append(call)
        self.messages.append(Message("assistant", self.turn.text, tuple(calls)))
        return calls

    def observe(self, outcome: Outcome) -> None:
        """Adds a call's result to evidence and transcript."""
        call, result = outcome.call, outcome.result
        if isinstance(result, Failure):
            text = error_observation(
                call.name, result.message, code=result.code, position=result.position, hint=result.hint
            )
        else:
            text = self.evidence.add(result)
        self.messages.append(Message("tool", text, call_id=call.id))

    def finished(self, outcome: Outcome) -> Iterator[Event]:
        """The events of a call's end."""
        result = outcome.result
        failed = isinstance(result, Failure)
        line = result.message if isinstance(result, Failure) else summary(result)
        call, took = outcome.call, outcome.duration_seconds
        found = result if isinstance(result, Passages) else Passages(())
        yield CallFinished(
            self.iterations,
            call.id,
            call.name,
            not failed,
            Cached(hit.age_seconds, hit.matched_text, hit.similarity) if (hit := outcome.hit) else None,
            took,
            line,
            found.queries,
            found.transform,
            found.collections,
        )
        if isinstance(result, Failure):
            yield from self.degrade(*([result.degraded] if result.degraded else ()))
        else:
            yield from self.degrade(*result.degraded)

    def say(self, text: str, *, last: bool = False) -> Iterator[Event]:
        """The events that show `text`, and the citations that it uses first. `last`: nothing is held back."""
        before = len(self._citations.used)
        shown = self._citations.feed(text) + (self._citations.flush() if last else "")
        if shown:
            yield Text("\n\n" + shown if self._gap else shown)
            self._said, self._gap = True, False
        yield from (Cited(mark, self.evidence.sources[mark]) for mark in self._citations.used[before:])

    def pause(self) -> None:
        """What is said next begins a new paragraph."""
        self._gap = self._said

    def say_partial(self) -> Iterator[Event]:
        """An answer that we write ourselves from the evidence."""
        self.pause()
        self.reason = self.reason or "tool_failed"
        used = self._citations.used
        yield from self.say(
            partial_answer(self.task.question, self.evidence, self.reason, said=self._said, used=used), last=True
        )

    def degrade(self, *degraded: Degraded) -> Iterator[Event]:
        """Each thing that was skipped, told once."""
        for one in degraded:
            if one not in self._told:
                self._told.add(one)
                yield one

    def end(self) -> Finished:
        """The last event."""
        finish, reason = Finish.ANSWERED, self.reason
        if self.tools.failed_tools:
            reason = reason or "tool_failed"
        if self.called_tools and not self.evidence.has_content:
            finish, reason = Finish.REFUSED, reason or "no_evidence"
        elif reason:
            finish = Finish.PARTIAL
        total = time.monotonic() - self.started
        timings = Timings(self.model_seconds, self.tools.tools_seconds, self.tools.cache_seconds, total)
        answer_id = f"ans_{secrets.token_hex(12)}"
        return Finished(answer_id, finish, reason, self.iterations, self.spent, timings, self.tools.cache_hits)
