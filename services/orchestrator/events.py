"""What happens during a run, in the order in which the caller sees it."""

from dataclasses import dataclass, field
from enum import Enum

from services.orchestrator.model import Usage
from services.orchestrator.results import Degraded, Source


@dataclass(frozen=True)
class Thought:
    """What the model said before it called tools. May be empty."""

    iteration: int
    text: str
    step_id: str = ""


@dataclass(frozen=True)
class Chosen:
    """Which strategy answers, and why; `confidence` of the router, 0 where it was not asked."""

    strategy: str
    reason: str
    confidence: float = 0


@dataclass(frozen=True)
class PlanStep:
    """One sub-question. `specialist`: documents, sql or web; empty is all tools."""

    id: str
    question: str
    specialist: str = ""
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """How the question is taken apart. `revision` counts from 1."""

    steps: tuple[PlanStep, ...]
    revision: int = 1


@dataclass(frozen=True)
class StepFinished:
    """A step of the plan has ended. `reason`: why it found nothing, or not all, as in the proto; else empty."""

    step_id: str
    found: bool
    reason: str = ""


class FindingKind(Enum):
    """What a finding is about; see the proto."""

    CITATION = "citation"
    NUMBER = "number"
    UNSUPPORTED = "unsupported"
    NOT_USEFUL = "not_useful"
    LINK = "link"
    PROMPT_LEAK = "prompt_leak"


@dataclass(frozen=True)
class Finding:
    """Something of the answer is not supported by what it cites. `mark` is 0 where it is not about one."""

    kind: FindingKind
    text: str
    reason: str
    mark: int = 0


class SuspicionAction(Enum):
    """What was done about text that gives orders; see the proto."""

    FLAGGED = "flagged"
    REDACTED = "redacted"
    QUARANTINED = "quarantined"
    CALL_REFUSED = "call_refused"


@dataclass(frozen=True)
class Suspicion:
    """Text of a tool gives orders, or a call would have obeyed it. `reason` never holds the text itself."""

    call_id: str
    tool: str
    action: SuspicionAction
    reason: str
    score: float = 0


@dataclass(frozen=True)
class CallStarted:
    """A tool is about to run. `arguments_json` is as the model wrote it. `step_id`: of the plan, if there is one."""

    iteration: int
    call_id: str
    tool: str
    arguments_json: str
    step_id: str = ""


@dataclass(frozen=True)
class Cached:
    """A result came from the cache, and is `age_seconds` old.

    `matched_text`: what it was made for, where that is other words than the call's, and the `similarity` of both.
    """

    age_seconds: float
    matched_text: str = ""
    similarity: float = 0


@dataclass(frozen=True)
class CallFinished:
    """A tool answered or failed. `summary`: one line for people. The last three fields are those of Passages."""

    iteration: int
    call_id: str
    tool: str
    ok: bool
    cached: Cached | None
    duration_seconds: float
    summary: str
    queries: tuple[str, ...] = ()
    query_transform: str = ""
    collections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Text:
    """More text of the answer."""

    text: str


@dataclass(frozen=True)
class Cited:
    """The source behind a mark; once per mark, right after the text that uses it first."""

    mark: int
    source: Source


@dataclass(frozen=True)
class Shown:
    """A piece of evidence that the model was shown, by the mark under which it could cite it."""

    mark: int
    source: Source
    cited: bool


class Finish(Enum):
    """How a run ended."""

    ANSWERED = "answered"
    PARTIAL = "partial"
    REFUSED = "refused"


@dataclass(frozen=True)
class Timings:
    """Where the time went, in seconds of wall time; what goes on at the same time counts once. `overhead`: the rest."""

    model: float
    tools: float
    cache: float
    overhead: float

    @property
    def total(self) -> float:
        """The sum."""
        return self.model + self.tools + self.cache + self.overhead


@dataclass(frozen=True)
class Finished:
    """The end. `reason`: one of the proto's closed list, or empty when answered.

    `checking` is what of `usage` and, in seconds, of `timings.model` went into checking the answer by a model.
    `conversation_id`: what it has in common with the other answers of its conversation; empty where none is kept.
    """

    answer_id: str
    finish: Finish
    reason: str
    iterations: int
    usage: Usage
    timings: Timings
    cache_hits: int
    strategy: str = "react"
    checking: Usage = field(default_factory=Usage)
    checking_seconds: float = 0
    conversation_id: str = ""


Event = (
    Chosen
    | Planned
    | StepFinished
    | Thought
    | CallStarted
    | CallFinished
    | Text
    | Cited
    | Shown
    | Finding
    | Suspicion
    | Degraded
    | Finished
)
