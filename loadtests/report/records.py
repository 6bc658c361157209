"""A run as its folder keeps it: `run.json` (what was offered, and the verdict), `samples.jsonl` (a line a request)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

RUN, SAMPLES = "run.json", "samples.jsonl"
SCHEMA = 1


class BadFolder(ValueError):
    """A folder that holds no run; the message says which file is wrong, where, and why."""


class _Kept(BaseModel):
    """Fields that a later version adds are no harm; numbers are finite."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Budget(_Kept):
    """Milliseconds that a percentile may take; None: as long as it wants."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None

    def said(self) -> dict[str, float]:
        """The percentiles that have one."""
        return {name: value for name in ("p50", "p95", "p99") if (value := getattr(self, name)) is not None}


class Relative(_Kept):
    """The median of answers is at most so many `times` that of the scenario `of`."""

    of: str
    times: float


class Scenario(_Kept):
    """What was offered, and what it may take. Shares are of the requests, 0 to 1."""

    name: str
    planned_per_second: float = 0.0
    budgets: Mapping[str, Budget] = Field(default_factory=dict)
    max_error_share: float | None = None
    max_refused_share: float | None = None
    median: Relative | None = None

    def budget(self, what: str) -> Budget:
        """Of `answer` or `first_event`; of anything else one without limits."""
        return self.budgets.get(what, Budget())


class Finding(_Kept):
    """One thing that was judged."""

    scenario: str = ""
    what: str = ""
    failed: bool
    text: str = ""


class Machine(_Kept):
    """Where the run was made; empty or 0 where nobody knows."""

    cores: int = 0
    memory_gib: float = 0.0
    cpu: str = ""


class Watched(_Kept):
    """A process at one time, in seconds from the start."""

    at: float
    process: str
    rss_bytes: int | None = None
    file_descriptors: int | None = None
    leases: int | None = None


class Run(_Kept):
    """`run.json`."""

    schema_: Literal[1] = Field(alias="schema")
    file: str
    started_at: str = ""
    seconds: float = Field(ge=0)
    profile: str = ""
    url: str = ""
    machine: Machine = Machine()
    revision: str = ""
    # Processes that made the load, and what was not offered and why.
    workers: int = 1
    left_out: Sequence[str] = ()
    scenarios: Sequence[Scenario] = ()
    verdict: Sequence[Finding] = ()
    watched: Sequence[Watched] = ()


class Sample(_Kept):
    """A request. Times in seconds from the run's start, on one monotonic clock; durations in milliseconds.

    `due` is when it was planned: what it waited beyond that is part of its latency.
    """

    scenario: str
    tenant: str = ""
    question: str = ""
    due: float
    sent: float
    first_event: float | None = None
    first_token: float | None = None
    ended: float
    status: int = 0
    problem: str = ""
    refused: bool = False
    finish: str = ""
    degraded: bool = False
    stages_ms: Mapping[str, float] = Field(default_factory=dict)
    gap_ms_p50: float | None = None
    gap_ms_max: float | None = None
    warm_up: bool = False

    @property
    def is_answered(self) -> bool:
        """Neither refused by a limit nor wrong: its times count."""
        return not self.problem and not self.refused

    @property
    def answer_ms(self) -> float:
        """From when it was due to its end."""
        return 1000 * (self.ended - self.due)

    def until_ms(self, what: Literal["first_event", "first_token"]) -> float | None:
        """From when it was due; None where there was none."""
        at = getattr(self, what)
        return None if at is None else 1000 * (at - self.due)


class Offered(BaseModel):
    """A run with its samples, warm-ups left out, in the order in which they were due."""

    model_config = ConfigDict(frozen=True)

    run: Run
    samples: Sequence[Sample]

    @property
    def failed(self) -> list[Finding]:
        """What the verdict found wanting."""
        return [one for one in self.run.verdict if one.failed]

    def scenarios(self) -> list[Scenario]:
        """Those that the run names, then those that only samples name."""
        named = {one.name for one in self.run.scenarios}
        others = dict.fromkeys(one.scenario for one in self.samples if one.scenario not in named)
        return [*self.run.scenarios, *(Scenario(name=name) for name in others)]

    def of(self, scenario: str) -> list[Sample]:
        """The samples of one scenario."""
        return [one for one in self.samples if one.scenario == scenario]


def read(folder: Path) -> Offered:
    """The run in a folder. Raises BadFolder."""
    if not folder.is_dir():
        raise BadFolder(f"{folder}: there is no such folder")
    run = _parsed(Run, _text(folder / RUN), str(folder / RUN))
    samples = [one for one in _samples(folder / SAMPLES) if not one.warm_up]
    return Offered(run=run, samples=sorted(samples, key=lambda one: one.due))


def _samples(path: Path) -> Iterator[Sample]:
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if line.strip():
            yield _parsed(Sample, line, f"{path}, line {number}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadFolder(f"{path.parent}: no run is here, {path.name} is missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadFolder(f"{path}: it cannot be read ({error})") from None


_Model = TypeVar("_Model", bound=BaseModel)


def _parsed(model: type[_Model], text: str, where: str) -> _Model:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        if field == "schema":
            raise BadFolder(f"{where}: this report reads schema {SCHEMA}, and it is another one") from None
        raise BadFolder(f"{where}: {field + ': ' if field else ''}{first['msg']}") from None
