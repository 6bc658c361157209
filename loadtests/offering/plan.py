"""What is offered and what it must keep: slo.yaml, read with errors that name the field, and the rows of one run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from loadtests.answers import Question, known_questions

What = Literal["answer", "first_event", "first_token"]
Tenant = Literal["main", "second", "noisy"]
Percent = Literal["p50", "p95", "p99"]
PERCENTS: tuple[Percent, ...] = get_args(Percent)
WHATS: tuple[What, ...] = get_args(What)
SLO = Path(__file__).parents[1] / "slo.yaml"


class BadPlan(ValueError):
    """The file cannot be used; the message has a line a fault, with the field and what to do."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Relative(_Part):
    """The median of answers is at most so many `times` that of another scenario."""

    of: str
    times: float = Field(gt=0)


class Scenario(_Part):
    """Questions in turn. Budgets are milliseconds from when a question was due.

    `turns`: what each answer of the agent must take of the model's, so that what is measured is what the name says.
    `max_refused_share`: of 429, and of 503 that say when to come again; null sets no bound. `weight`: in a mix.
    """

    name: str = Field(min_length=1)
    kind: Literal["agent", "chat", "embeddings"] = "agent"
    questions: tuple[str, ...] = Field(min_length=1)
    strategy: Literal["auto", "react", "router", "rag", "plan"] = "auto"
    turns: int | None = Field(default=None, ge=1)
    cache: Literal["off", "use"] = "off"
    tenant: Tenant = "main"
    arrivals_per_second: float = Field(gt=0, le=1000)
    weight: float = Field(default=1, ge=0)
    p50_ms: Mapping[What, float] = {}
    p95_ms: Mapping[What, float] = {}
    p99_ms: Mapping[What, float] = {}
    max_error_share: float = Field(default=0, ge=0, le=1)
    max_refused_share: float | None = Field(default=0, ge=0, le=1)
    min_refused_share: float = Field(default=0, ge=0, le=1)
    median: Relative | None = None

    def budgets(self, factor: float = 1) -> dict[What, dict[Percent, float]]:
        """Milliseconds by what is timed and percentile; only those that are set."""
        by_percent: dict[Percent, Mapping[What, float]] = {"p50": self.p50_ms, "p95": self.p95_ms, "p99": self.p99_ms}
        found: dict[What, dict[Percent, float]] = {}
        for percent, of in by_percent.items():
            for what, milliseconds in of.items():
                found.setdefault(what, {})[percent] = factor * milliseconds
        return found


class Mix(_Part):
    """All scenarios at once by their weights, at this rate in all. `factor`: of their budgets."""

    seconds: float = Field(gt=0, le=86_400)
    per_second: float = Field(gt=0, le=1000)
    factor: float = Field(default=1, gt=0)


class Spike(_Part):
    """`per_second` in all, `times` as much for a while; in order again within `recovers_within_seconds`."""

    scenarios: tuple[str, ...] = Field(min_length=1)
    per_second: float = Field(gt=0, le=1000)
    times: float = Field(default=5, gt=1)
    before_seconds: float = Field(gt=0)
    spike_seconds: float = Field(gt=0)
    recovers_within_seconds: float = Field(gt=0)
    after_seconds: float = Field(gt=0)


class Ingest(_Part):
    """The same questions without documents coming in and with them; `factor`: of the budgets while they come in."""

    scenarios: tuple[str, ...] = Field(min_length=1)
    seconds: float = Field(gt=0)
    factor: float = Field(default=1.3, gt=0)
    pages: int = Field(default=10, ge=1, le=1000)


class Row(_Part):
    """A scenario within a window of the run: what a line of the verdict is about. Seconds count from the run's start.

    `warm_up_seconds`: before the window each question is asked once, uncounted. `asked`: texts with what is true.
    `timed`: whether its budgets count. `may_refuse`: whether refusals are no fault, whatever the scenario says.
    `grace_seconds`: after the window, within which its last answers are still in time.
    """

    name: str
    scenario: Scenario
    asked: tuple[Question, ...]
    begins: float = 0
    seconds: float
    per_second: float
    process: Literal["poisson", "constant"] = "poisson"
    warm_up_seconds: float = 0
    factor: float = 1
    timed: bool = True
    may_refuse: bool = False
    grace_seconds: float = 2

    def budgets(self) -> dict[What, dict[Percent, float]]:
        """Milliseconds; none where times are not judged."""
        return self.scenario.budgets(self.factor) if self.timed else {}


class PlanFile(_Part):
    """slo.yaml: scenarios with their budgets, and what each load file makes of them."""

    profile: Literal["instant", "h100-tp4", "h100-tp2"]
    seconds: float = Field(gt=0, le=600)
    scenarios: tuple[Scenario, ...] = Field(min_length=1)
    noisy_neighbour: Scenario | None = None
    mixed: Mix
    spike: Spike
    soak: Mix
    ingest: Ingest
    smoke_seconds: float = Field(default=20, gt=0)
    texts: Mapping[str, Question] = Field(default={}, exclude=True)

    @model_validator(mode="after")
    def _refers_to_what_there_is(self) -> Self:
        names = [one.name for one in self.scenarios]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"scenarios: two are called {', '.join(sorted(twice))}; give each a name of its own")
        asked_for = {"spike": self.spike.scenarios, "ingest": self.ingest.scenarios}
        asked_for |= {f"median of {one.name}": (one.median.of,) for one in self.scenarios if one.median}
        for where, wanted in asked_for.items():
            if unknown := [name for name in wanted if name not in names]:
                raise ValueError(f"{where}: there is no scenario {', '.join(unknown)}; there are {', '.join(names)}")
        return self

    def named(self, wanted: Sequence[str]) -> list[Scenario]:
        """The scenarios of these names, in their order."""
        return [one for one in self.scenarios if one.name in wanted]

    def row(self, scenario: Scenario, name: str, seconds: float, per_second: float, **more: Any) -> Row:
        """A row with the texts of the scenario's questions, whose window is not placed yet."""
        asked = tuple(self.texts[one] for one in scenario.questions)
        return Row(name=name, scenario=scenario, asked=asked, seconds=seconds, per_second=per_second, **more)

    def mix(self, of: Mix, suffix: str = "", **more: Any) -> list[Row]:
        """A row a scenario, at once: a mix by weights is as many independent arrivals."""
        weighed = [one for one in self.scenarios if one.weight]
        rate = of.per_second / sum(one.weight for one in weighed)
        return [
            self.row(one, one.name + suffix, of.seconds, rate * one.weight, factor=of.factor, **more) for one in weighed
        ]


class Load(_Part):
    """All that one run offers. `left_out`: what is not offered, and why. `documents_from`: when documents come in."""

    file: str
    profile: str
    rows: tuple[Row, ...]
    seed: int = 1
    left_out: tuple[str, ...] = ()
    longest_seconds: float = 20
    documents_from: float | None = None
    document_pages: int = 10
    watched_every_seconds: float = 0

    @property
    def seconds(self) -> float:
        """From the start to the end of the last window."""
        return max(row.begins + row.seconds for row in self.rows)


def read_plan(path: Path = SLO, questions: Path | None = None) -> PlanFile:
    """What the file says, with the questions of the other file, or of the demo. Raises BadPlan."""
    try:
        texts = known_questions(*([questions] if questions else []))
        plan = PlanFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadPlan(f"{error.filename}: {error.strerror}; name another with --plan or --questions") from None
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise BadPlan(f"{path.name}, or the questions: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise BadPlan("\n".join(f"{path.name}: {_fault(one)}" for one in error.errors())) from None
    offered = [*plan.scenarios, *([plan.noisy_neighbour] if plan.noisy_neighbour else [])]
    unknown = [f"{one.name}: {name}" for one in offered for name in one.questions if name not in texts]
    if unknown:
        raise BadPlan(f"{path.name}: there are no such questions: {'; '.join(unknown)}")
    return plan.model_copy(update={"texts": texts})


def _fault(error: Any) -> str:
    where = ".".join(map(str, error["loc"])) or "file"
    match error["type"]:
        case "extra_forbidden":
            return f"{where}: there is no such field; correct its name, or take it out"
        case "missing":
            return f"{where}: is missing; add it"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            return f"{where}: {error['msg'][0].lower()}{error['msg'][1:]}, not {error['input']!r}"
