"""What happens during a run, in the order in which the caller sees it."""

from dataclasses import dataclass
from enum import Enum

from services.orchestrator.model import Usage
from services.orchestrator.results import Degraded, Source


@dataclass(frozen=True)
class Thought:
    """What the model said before it called tools. May be empty."""

    iteration: int
    text: str


@dataclass(frozen=True)
class CallStarted:
    """A tool is about to run. `arguments_json` is as the model wrote it."""

    iteration: int
    call_id: str
    tool: str
    arguments_json: str


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


class Finish(Enum):
    """How a run ended."""

    ANSWERED = "answered"
    PARTIAL = "partial"
    REFUSED = "refused"


@dataclass(frozen=True)
class Timings:
    """Where the time went, in seconds of wall time; parallel tools count once."""

    model: float
    tools: float
    cache: float
    total: float

    @property
    def overhead(self) -> float:
        """Everything else."""
        return max(0.0, self.total - self.model - self.tools - self.cache)


@dataclass(frozen=True)
class Finished:
    """The end. `reason`: iterations, tokens, deadline, tool_failed, no_evidence, or empty when answered."""

    answer_id: str
    finish: Finish
    reason: str
    iterations: int
    usage: Usage
    timings: Timings
    cache_hits: int


Event = Thought | CallStarted | CallFinished | Text | Cited | Degraded | Finished
