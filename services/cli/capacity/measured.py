"""Times that a load test measured, in place of those that the plan supposes: `--from` a run's folder.

Its samples tell how long each answer waited for the model and for tools. CPU time they do not tell: those costs stay.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.cli.capacity.planning import Installation
from services.cli.capacity.profiles import QUESTIONS, Pool, Question

# What loadtests/slo.yaml calls a kind of question. Its mixes are other rows: their answers waited for each other.
KINDS: Mapping[str, str] = {
    "naive RAG": "rag",
    "hybrid question by the router": "router",
    "one SQL iteration": "one-iteration",
    "SQL and documents in parallel": "parallel",
    "two iterations in sequence": "two-iterations",
    "three iterations in sequence": "three-iterations",
    "with web search": "web",
}
# What works on an answer beside its tools.
_AROUND = ("gateway", "orchestrator")


class NoRun(ValueError):
    """A folder without a run that can be reckoned with; the message says why."""


class _Sample(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    scenario: str
    due: float
    ended: float
    problem: str = ""
    refused: bool = False
    degraded: bool = False
    warm_up: bool = False
    stages_ms: Mapping[str, float] = Field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Kind:
    """Means of a kind's answers, in seconds; `p95_seconds` is of the whole answer."""

    answer_count: int
    answer_seconds: float
    p95_seconds: float
    model_seconds: float
    tools_seconds: float


@dataclass(frozen=True)
class Measured:
    """`profile`: of the model, as the run has it; empty where it has none. `kinds`: by the names of QUESTIONS."""

    profile: str
    kinds: Mapping[str, Kind]

    def model_factor(self, pool: Pool) -> float:
        """How many times as long as the pool's the model took, over all answers."""
        took = sum(one.answer_count * one.model_seconds for one in self.kinds.values())
        return took / sum(one.answer_count * _model_seconds(pool, QUESTIONS[kind]) for kind, one in self.kinds.items())

    def questions(self) -> dict[str, Question]:
        """All kinds, with the measured times of tools where there are any."""
        return {
            kind: replace(question, tool_seconds=self._beside_our_cpu(kind)) if kind in self.kinds else question
            for kind, question in QUESTIONS.items()
        }

    def _beside_our_cpu(self, kind: str) -> float:
        """What tools took beyond the CPU time of our services, which is a station of its own."""
        ours = sum(seconds for name, seconds in QUESTIONS[kind].cpu_seconds.items() if name not in _AROUND)
        return max(0.0, self.kinds[kind].tools_seconds - ours)


def read(folder: Path) -> Measured:
    """What the run in a folder measured. Raises NoRun."""
    try:
        run: Mapping[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        samples = [_Sample.model_validate_json(line) for line in lines if line.strip()]
        profile = str(run.get("profile", ""))
    except OSError as error:
        raise NoRun(f"{error.filename}: {error.strerror}; name the folder of a load test") from None
    except (ValidationError, ValueError, AttributeError):
        raise NoRun(f"{folder}: these are no samples of a load test") from None
    kinds = {
        kind: found for name, kind in KINDS.items() if (found := _kind([s for s in samples if s.scenario == name]))
    }
    if not kinds:
        raise NoRun(f"{folder}: no answer tells where its time went; {', '.join(KINDS)} were looked for")
    return Measured(profile, kinds)


def measured_plan(plan: Installation, measured: Measured) -> Installation:
    """The plan with the run's times of the model and of tools."""
    factor = measured.model_factor(plan.pool)
    first, second, later = (factor * one for one in plan.pool.first_token)
    pool = replace(
        plan.pool,
        first_token=(first, second, later),
        call=factor * plan.pool.call,
        answer=factor * plan.pool.answer,
    )
    return replace(plan, pool=pool, questions=measured.questions())


def _kind(samples: Sequence[_Sample]) -> Kind | None:
    """Of right and whole answers that say where their time went; None without any."""
    fine = [
        one
        for one in samples
        if not (one.warm_up or one.problem or one.refused or one.degraded) and one.stages_ms.get("model", 0) > 0
    ]
    if not fine:
        return None
    ordered = sorted(one.ended - one.due for one in fine)
    return Kind(
        answer_count=len(fine),
        answer_seconds=fmean(ordered),
        p95_seconds=ordered[max(0, -(-len(ordered) * 95 // 100) - 1)],
        model_seconds=fmean(one.stages_ms["model"] for one in fine) / 1000,
        tools_seconds=fmean(one.stages_ms.get("tools", 0.0) for one in fine) / 1000,
    )


def _model_seconds(pool: Pool, question: Question) -> float:
    return sum(sum(pool.turn(number, question.turns - 1)) for number in range(question.turns))
