"""The state of one run: transcript, evidence, what was said, and the budgets that end it."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from services.orchestrator.answer_text import AnswerText
from services.orchestrator.budget import Budget
from services.orchestrator.call_memory import Failure
from services.orchestrator.citing.marks import CitationFilter
from services.orchestrator.citing.support import Support
from services.orchestrator.dispatch import Dispatcher, Outcome
from services.orchestrator.events import Chosen, Event
from services.orchestrator.evidence import Evidence
from services.orchestrator.model import (
    LEAST_TURN_TOKENS,
    Delta,
    Message,
    Sampling,
    Spent,
    ToolCall,
    ToolSpec,
    Turn,
)
from services.orchestrator.reflecting.reflection import Reflecting, Reflection
from services.orchestrator.refusal import admits, refusal
from services.orchestrator.results import Degraded, has_content
from services.orchestrator.routing.router import Route
from services.orchestrator.shield.shield import Shield
from services.orchestrator.stopwatch import Part
from services.orchestrator.task import Limits, Task
from services.orchestrator.transcript import Transcript, described

# What is left for handing over an answer when the model has lost the race against the deadline.
_LAST_WORDS_SECONDS = 0.25
# Less is no time for a tool.
_LEAST_TOOL_SECONDS = 0.05
# A turn that may call tools needs room for a statement, however short the answer shall be.
_MIN_TOOL_TURN_TOKENS = 1024
# Turns in which a model only repeats itself.
_MOST_REPEATING_TURNS = 2


@dataclass
class Run:
    """`ends` and `tools_end` are of the stopwatch's clock. `reason` says why the run ends early.

    `broken_off`: the text of the current turn is being shown, and has not come to its end. `found`: tools gave
    something to answer from. `step`: number of the current turn in the whole run. A part of a run (`step_id`, `parent`)
    shares evidence, call ids and what was told.
    """

    task: Task
    limits: Limits
    tools: Dispatcher
    transcript: Transcript
    shield: Shield
    reflection: Reflection
    evidence: Evidence
    answer: AnswerText
    support: Support
    budget: Budget
    ends: float
    checking: Spent = field(default_factory=Spent)
    step_id: str = ""
    parent: "Run | None" = None
    told: set[Degraded] = field(default_factory=set[Degraded])
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    strategy: str = ""
    route: Route | None = None
    turn: Turn = field(default_factory=Turn)
    turn_is_over: bool = False
    broken_off: bool = False
    answered: bool = False
    called_tools: bool = False
    found: bool = False
    repairs: int = 0
    iterations: int = 0
    step: int = 0
    reason: str = ""
    _said_before: int = 0

    def __post_init__(self) -> None:
        self.messages = self.transcript.messages
        self.now = self.tools.stopwatch.now
        self.tools_end = self.ends - min(self.limits.reserve_seconds, self.task.seconds / 3)

    # ---- budgets

    def must_end(self) -> bool:
        """Whether a budget is used up. A turn with tools must leave tokens for itself and the last turn."""
        if self.iterations >= self.task.max_iterations:
            self.end_early("iterations")
        elif self.tools.repeating_turns >= _MOST_REPEATING_TURNS:
            self.end_early("repeated_calls")
        elif self.tools.is_used_up:
            self.end_early("calls")
        elif not self.sampling(with_tools=True).max_tokens:
            self.end_early("tokens")
        return self.out_of_time() or bool(self.reason)

    def end_early(self, reason: str) -> None:
        """Notes why there will be no further calls; the first reason stays."""
        self.reason = self.reason or reason

    def out_of_time(self) -> bool:
        """Whether no tool can run any more."""
        if self.tool_seconds() < _LEAST_TOOL_SECONDS:
            self.end_early("deadline")
            return True
        return False

    def tool_seconds(self) -> float:
        """Time left for tools."""
        return self.tools_end - self.now()

    def seconds_left(self) -> float:
        """Time left for the last turn, and for looking at the answer."""
        return max(0.0, self.ends - self.now())

    @cached_property
    def specs(self) -> Sequence[ToolSpec]:
        """The tools as the model sees them."""
        return [tool.spec for tool in self.tools.toolset.tools.values()]

    def offered(self, *, with_tools: bool) -> Sequence[ToolSpec]:
        """The tools that the next turn reads of, whether or not it may call them.

        They stay where an earlier turn read them: the prompt begins as before, and is not read anew. An only turn that
        may not call any need not read thousands of tokens about them.
        """
        return self.specs if with_tools or self.iterations else ()

    @cached_property
    def _described(self) -> int:
        return described(self.specs)

    def prompt_tokens(self, *, with_tools: bool) -> int:
        """What the next turn has to read."""
        return self.transcript.tokens(self._described if self.offered(with_tools=with_tools) else 0)

    def sampling(self, *, with_tools: bool) -> Sampling:
        """How the next turn is sampled: as asked, and within the tokens that are left. `max_tokens` 0 is no room.

        With tools what it reads is read once more after it, by the last turn.
        """
        asked, needed = replace(self.task.sampling, may_call=with_tools), self.prompt_tokens(with_tools=with_tools)
        if not with_tools:
            return self.within_budget(asked, needed)
        short = asked if self.found else replace(asked, max_tokens=max(asked.max_tokens, _MIN_TOOL_TURN_TOKENS))
        return self.within_budget(short, 2 * needed + LEAST_TURN_TOKENS)

    def within_budget(self, sampling: Sampling, needed: int) -> Sampling:
        """`sampling` with no more tokens than are left when `needed` are spent; 0 where that is no room for a turn."""
        room = self.budget.left - needed
        return replace(sampling, max_tokens=min(sampling.max_tokens, room) if room >= LEAST_TURN_TOKENS else 0)

    # ---- turns

    def shows(self, *, with_tools: bool) -> bool:
        """Whether a turn's text is shown as it comes: it is no thought, and there is something behind it."""
        return self.parent is None and (self.found or not (with_tools or self.called_tools))

    def begin_turn(self) -> None:
        """Counts a model turn."""
        self.iterations += 1
        self.step = next(self.numbers)
        self.turn, self.turn_is_over, self.broken_off = Turn(), False, False
        self._said_before = len(self.answer.text)

    def decide(self, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
        """Calls that are made without asking the model, as if it had asked for them."""
        self.step = next(self.numbers)
        self.turn = Turn(calls=calls)
        return self.take_calls()

    def take(self, part: Delta | Turn, *, live: bool, final: bool) -> Iterator[Event]:
        """The events of the next part of a turn. `live`: pieces are shown as they come; `final`: calls do not count."""
        if isinstance(part, Delta):
            # Many models begin a turn with empty lines, even one of calls only.
            text = part.text if self.broken_off else part.text.lstrip()
            if live and text:
                self.broken_off = True
                yield from self.answer.say(text)
            return
        self.turn, self.turn_is_over, self.broken_off = part, True, False
        self.budget.spend(part.usage)
        self.transcript.was_read(part.usage)
        calls, unread, text = bool(part.calls) and not final, part.malformed and not final, part.text.strip()
        if live or not (calls or unread):
            yield from self.answer.say("" if live else self._supported(part.text.lstrip()), last=True)
        if calls or unread:
            self.answer.pause()
        elif text and not unread and (final or not live or len(self.answer.text) > self._said_before):
            # Words of ours are taken out on their way: a turn of nothing else is as good as an empty one.
            self.answered = True
            if part.cut:
                self.end_early("tokens")

    def _supported(self, text: str) -> str:
        """A whole answer, unless tools were asked and nothing was found: then only one that says so."""
        if not text or self.found or not self.called_tools or admits(text):
            return text
        return refusal(self.task.question)

    def take_calls(self) -> Sequence[ToolCall]:
        """The turn's calls under ids that are unique in the run, noted in the transcript."""
        self._note(called=True)
        return self.transcript.add_calls(self.turn)

    def repair(self) -> None:
        """Tells the model what of its turn could not be read as a call."""
        self.repairs += 1
        self.transcript.add_complaint(self.turn)

    async def observe(self, outcome: Outcome) -> Sequence[Event]:
        """Adds a call's result to evidence and transcript, as far as the model may read it."""
        call, result = outcome.call, outcome.result
        if isinstance(result, Failure):
            # Why we refused it are our own words; the rest may be those of a foreign tool.
            said, noted = (
                (result.message, ()) if result.refused else await self.shield.admit_message(call, result.message)
            )
            self.transcript.add_failure(call, replace(result, message=said))
            return noted
        admitted, noted = await self.shield.admit(call, result)
        if self.task.reflecting is not Reflecting.OFF:
            with self.tools.stopwatch.during(Part.CHECKING):
                left = max(0.0, self.tool_seconds())
                admitted = await self.reflection.relevant(self.task.question, admitted, self.checking, left)
        self.transcript.add_result(call, admitted, self.answer.used())
        self.support.read_ahead()
        self._note(found=has_content(admitted))
        return noted

    async def wants_evidence(self) -> bool:
        """Whether tools are needed, as the model itself judges where reflection is on; True otherwise."""
        if self.task.reflecting is Reflecting.OFF or self.parent is not None:
            return True
        with self.tools.stopwatch.during(Part.CHECKING):
            left = max(0.0, self.tool_seconds())
            return await self.reflection.needs_evidence(self.task.question, self.task.history, self.checking, left)

    def _note(self, *, called: bool = False, found: bool = False) -> None:
        """What holds of a part holds of the whole."""
        self.called_tools, self.found = self.called_tools or called, self.found or found
        if self.parent is not None:
            self.parent._note(called=called, found=found)

    # ---- what is told

    def choose(self, strategy: str, reason: str, confidence: float = 0) -> Chosen:
        """The event that says how the answer comes about, or goes on."""
        self.strategy = strategy
        return Chosen(strategy, reason, confidence)

    def degrade(self, *degraded: Degraded) -> Iterator[Event]:
        """Each thing that was skipped, told once."""
        for one in degraded:
            if one not in self.told:
                self.told.add(one)
                yield one

    # ---- parts

    def child(
        self,
        step_id: str,
        question: str,
        opening: Sequence[Message],
        *,
        tools: Collection[str],
        seconds: float,
        iterations: int,
        tokens: int | None = None,
    ) -> "Run":
        """A part of this run, with its own question, transcript and tools (by name); its text is collected, not shown.

        The ceilings are cut to what this run has left; it keeps the time of its last turn.
        """
        now = self.now()
        ends = min(now + seconds, self.tools_end)
        return Run(
            replace(
                self.task,
                question=question,
                history=(),
                max_iterations=min(iterations, self.task.max_iterations),
                seconds=max(0.0, ends - now),
            ),
            self.limits,
            self.tools.part(tools),
            replace(self.transcript, messages=list(opening), reader=step_id, _read=(0, 0), _results=[]),
            self.shield,
            self.reflection,
            self.evidence,
            AnswerText((), lambda: (), {}, held=True),
            self.support,
            self.budget.part(tokens),
            ends,
            self.checking,
            step_id,
            self,
            self.told,
            numbers=self.numbers,
        )

    @property
    def text(self) -> str:
        """What was said."""
        return self.answer.text

    @property
    def observations(self) -> Sequence[str]:
        """What tools said, as the model was told."""
        return self.transcript.results


def begin(
    task: Task, limits: Limits, tools: Dispatcher, messages: list[Message], shield: Shield, reflection: Reflection
) -> Run:
    """A whole run. Its time counts from the start of the stopwatch of `tools`."""
    evidence, checking = Evidence(limits.observation_chars, limits.evidence), Spent()
    said = [message.text for message in task.history if message.role != "system"]
    support = Support(evidence.sources, task.question, *said)
    citations = CitationFilter(evidence.__contains__, support.judge)
    held = task.reflecting is not Reflecting.OFF
    cited_only = shield.cited_only(evidence.sources, lambda: citations.used)
    answer = AnswerText((shield.outgoing(), citations, cited_only), lambda: citations.used, evidence.sources, held)
    budget = Budget(limits.run_tokens, beside=(tools.toolset.spent, checking))
    tools.toolset.spent.room = checking.room = lambda: budget.left
    ends = tools.stopwatch.started + task.seconds - min(_LAST_WORDS_SECONDS, task.seconds / 10)
    transcript = Transcript(messages, evidence, shield)
    return Run(task, limits, tools, transcript, shield, reflection, evidence, answer, support, budget, ends, checking)
