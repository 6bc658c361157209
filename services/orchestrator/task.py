"""What a run is asked for, and the ceilings of every run."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from services.orchestrator.evidence import EvidenceBudgets
from services.orchestrator.model import Message, Sampling
from services.orchestrator.reflecting.reflection import Reflecting


@dataclass(frozen=True)
class Task:
    """One question and the ceilings of its answer. `seconds`: time for all of it.

    `max_iterations`: turns with tools, of the run and of each of its parts. `tenant_id` is what a router knows it by.
    `include_evidence`: what the model was shown is told too.
    """

    question: str
    history: Sequence[Message] = ()
    max_iterations: int = 6
    seconds: float = 60
    sampling: Sampling = field(default_factory=Sampling)
    strategy: str = "react"
    reflecting: Reflecting = Reflecting.OFF
    tenant_id: str = ""
    include_evidence: bool = False


@dataclass(frozen=True)
class Limits:
    """Ceilings of every run. The last `reserve_seconds` of a run are kept for its last turn."""

    run_tokens: int = 60_000
    history_tokens: int = 4_000
    observation_chars: int = 24_000
    reserve_seconds: float = 10
    evidence: EvidenceBudgets = field(default_factory=EvidenceBudgets)
