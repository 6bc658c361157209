"""What became of each request, and the folder of a run that keeps all of it."""

import dataclasses
import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from loadtests.offering.plan import PERCENTS, Load, Row

SCHEMA = 1
_WRITTEN = (":(exclude)docs", ":(exclude)*.md", ":(exclude)loadtests/baseline.json")


@dataclass(frozen=True)
class Sample:
    """One request. Times are seconds from the run's start, None for what never came; `due` is when it was planned.

    `status`: of HTTP, 0 without one. `refused`: a limit's 429, or a 503 that says when to come again. `problem`: why it
    is neither a true answer nor such a refusal. `finish`: how it ended; of a refusal, the code of its reason.
    `stages_ms`: as the server says.
    """

    scenario: str
    tenant: str
    question: str
    due: float
    sent: float
    ended: float
    first_event: float | None = None
    first_token: float | None = None
    status: int = 0
    problem: str = ""
    refused: bool = False
    finish: str = ""
    degraded: bool = False
    stages_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    gap_ms_p50: float | None = None
    gap_ms_max: float | None = None
    warm_up: bool = False

    @property
    def answered(self) -> bool:
        """Whether it is a true answer."""
        return not self.problem and not self.refused

    def milliseconds(self, what: str) -> float:
        """From when it was due to its end (`answer`), its first event or its first token; infinite without one."""
        at = self.ended if what == "answer" else getattr(self, what)
        return math.inf if at is None else 1000 * (at - self.due)

    def fields(self) -> dict[str, Any]:
        """For a line of JSON; times to the microsecond."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Watched:
    """What a process held at `at` seconds; None where nobody could tell. `leases`: of the limiter, held by requests."""

    at: float
    process: str
    rss_bytes: int | None = None
    file_descriptors: int | None = None
    leases: int | None = None


@dataclass(frozen=True)
class Finding:
    """A sentence of the verdict about a row, or about the run (`scenario` is empty)."""

    scenario: str
    what: str
    failed: bool
    text: str


@dataclass
class Run:
    """One run, as it is kept."""

    load: Load
    url: str
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    samples: list[Sample] = field(default_factory=list[Sample])
    watched: list[Watched] = field(default_factory=list[Watched])
    findings: list[Finding] = field(default_factory=list[Finding])
    workers: int = 1
    documents: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def failed(self) -> bool:
        """Whether anything was not as it should be."""
        return any(one.failed for one in self.findings)

    def write(self, folder: Path) -> None:
        """Makes the folder with `run.json` and `samples.jsonl`; times in seconds from the start."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "samples.jsonl").open("w", encoding="utf-8") as lines:
            for sample in sorted(self.samples, key=lambda one: one.due):
                lines.write(json.dumps(sample.fields(), ensure_ascii=False, allow_nan=False) + "\n")
        half = folder / "run.json.new"
        half.write_text(json.dumps(self._fields(), ensure_ascii=False, indent=1, allow_nan=False), encoding="utf-8")
        half.replace(folder / "run.json")

    def _fields(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "file": self.load.file,
            "started_at": self.started_at.isoformat(timespec="seconds"),
            "seconds": self.load.seconds,
            "profile": self.load.profile,
            "url": self.url,
            "machine": machine(),
            "revision": revision(),
            "workers": self.workers,
            "left_out": list(self.load.left_out),
            "documents": dict(self.documents),
            "scenarios": [_scenario(row) for row in self.load.rows],
            "verdict": [asdict(one) for one in self.findings],
            "watched": [asdict(one) for one in self.watched],
        }


def sample_of(fields: Mapping[str, Any]) -> Sample:
    """The sample of a line, or of what a worker sent. Fields that we do not know are left out."""
    known = {one.name for one in dataclasses.fields(Sample)}
    return Sample(**{name: value for name, value in fields.items() if name in known})


def machine() -> dict[str, Any]:
    """Where the load came from."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cores": os.cpu_count() or 1, "memory_gib": round(memory, 1), "cpu": _cpu()}


@cache
def revision(folder: Path = Path(__file__).parents[2]) -> str:
    """Of the working copy, with `+` where files differ from it; empty where there is none.

    Pages, and the figures that measuring writes itself, do not count. Asked once: this is the code that runs.
    """
    if not (commit := _git(folder, "rev-parse", "HEAD")):
        return ""
    return commit + ("+" if _git(folder, "status", "--porcelain", "--", ".", *_WRITTEN) else "")


def _git(folder: Path, *arguments: str) -> str:
    try:
        ran = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def _scenario(row: Row) -> dict[str, Any]:
    budgets: dict[str, dict[str, float | None]] = {
        what: {percent: None for percent in PERCENTS} for what in ("answer", "first_event")
    }
    for what, of in row.budgets().items():
        budgets[what] = {percent: of.get(percent) for percent in PERCENTS}
    median = row.scenario.median
    return {
        "name": row.name,
        "planned_per_second": round(row.per_second, 4),
        "begins": row.begins,
        "seconds": row.seconds,
        "budgets": budgets,
        "max_error_share": row.scenario.max_error_share,
        "max_refused_share": None if row.may_refuse else row.scenario.max_refused_share,
        "median": median.model_dump() if median and row.timed else None,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
