"""The numbers of a report, worked out of samples: percentiles, time lines, stages, processes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np

from loadtests.report.records import Offered, Sample, Scenario, Watched

PERCENTS = (50, 95, 99)
# What `Server-Timing` sums up is no stage of its own.
_SUM = "total"
# Between the stages' sum and what the caller waited.
REST = "client and network"
_BIN_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600)
_MOST_BINS = 180
_np: Any = np


@dataclass(frozen=True)
class Spread:
    """Percentiles in milliseconds, by nearest rank: each is a value that was measured."""

    p50: float
    p95: float
    p99: float
    count: int


@dataclass(frozen=True)
class Figures:
    """How one scenario fared. Times are of what was answered, from when it was due, in milliseconds."""

    scenario: Scenario
    planned_count: int
    answered_count: int
    failed_count: int
    refused_count: int
    degraded_count: int
    answers: Sequence[float]
    answer: Spread | None
    first_event: Spread | None
    first_token: Spread | None
    gap: Spread | None
    longest_gap: Spread | None
    stages: Mapping[str, float]
    points: Sequence["Point"]

    def broken(self, what: str, percent: str) -> bool:
        """Whether that percentile of `answer` or `first_event` is over its budget."""
        found: Spread | None = getattr(self, what)
        budget = self.scenario.budget(what).said().get(percent)
        return budget is not None and found is not None and getattr(found, percent) > budget


@dataclass(frozen=True)
class Point:
    """What was due in one piece of time: seconds from the start to its middle; None where nothing was answered."""

    at: float
    p50: float | None
    p95: float | None
    failed_count: int
    refused_count: int


@dataclass(frozen=True)
class ProcessLine:
    """One process over time. Numbers are (seconds, value); those that nobody measured are left out."""

    name: str
    rss_mib: Sequence[tuple[float, float]]
    file_descriptors: Sequence[tuple[float, float]]
    leases: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class TenantFigures:
    """How one tenant fared over all scenarios."""

    name: str
    planned_count: int
    failed_count: int
    refused_count: int
    answer: Spread | None


def spread(values: Sequence[float]) -> Spread | None:
    """None without values."""
    if not values:
        return None
    p50, p95, p99 = _np.percentile(np.asarray(values), PERCENTS, method="inverted_cdf")
    return Spread(float(p50), float(p95), float(p99), len(values))


def figures_of(offered: Offered) -> list[Figures]:
    """Of each scenario, in the order of the run."""
    width = bin_seconds(offered)
    return [_figures(one, offered.of(one.name), width) for one in offered.scenarios()]


def bin_seconds(offered: Offered) -> int:
    """Width of a piece of time: a second, or as many as keep a time line readable."""
    last = max([offered.run.seconds, *(one.due for one in offered.samples)])
    return next((one for one in _BIN_SECONDS if last / one <= _MOST_BINS), _BIN_SECONDS[-1])


def points(samples: Sequence[Sample], width: int) -> list[Point]:
    """Percentiles of what was due in each piece of time; pieces without requests are left out."""
    pieces: dict[int, list[Sample]] = {}
    for one in samples:
        pieces.setdefault(int(one.due // width), []).append(one)
    return [_point((place + 0.5) * width, found) for place, found in sorted(pieces.items())]


def _point(at: float, samples: Sequence[Sample]) -> Point:
    found = spread([one.answer_ms for one in samples if one.is_answered])
    failed = sum(bool(one.problem) and not one.refused for one in samples)
    return Point(at, found and found.p50, found and found.p95, failed, sum(one.refused for one in samples))


def _figures(scenario: Scenario, samples: Sequence[Sample], width: int) -> Figures:
    fine = [one for one in samples if one.is_answered]
    refused = sum(one.refused for one in samples)
    answers = [one.answer_ms for one in fine]
    return Figures(
        scenario=scenario,
        planned_count=len(samples),
        answered_count=len(fine),
        failed_count=len(samples) - len(fine) - refused,
        refused_count=refused,
        degraded_count=sum(one.degraded for one in fine),
        answers=answers,
        answer=spread(answers),
        first_event=_told(fine, lambda one: one.until_ms("first_event")),
        first_token=_told(fine, lambda one: one.until_ms("first_token")),
        gap=_told(fine, lambda one: one.gap_ms_p50),
        longest_gap=_told(fine, lambda one: one.gap_ms_max),
        stages=stages_of(fine),
        points=points(samples, width),
    )


def _told(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> Spread | None:
    return spread([found for one in samples if (found := value(one)) is not None])


def stages_of(samples: Sequence[Sample]) -> dict[str, float]:
    """Mean milliseconds of each stage over the answers that told them, and what their callers waited beyond those."""
    told = [one for one in samples if one.stages_ms]
    if not told:
        return {}
    names = dict.fromkeys(name for one in told for name in one.stages_ms if name != _SUM)
    means = {name: fmean(one.stages_ms.get(name, 0.0) for one in told) for name in names}
    rest = fmean(one.answer_ms for one in told) - sum(means.values())
    return means | ({REST: rest} if rest > 0 else {})


def problems_of(offered: Offered, most: int = 20) -> list[tuple[str, str, int]]:
    """(scenario, problem, how often) of what failed, the most frequent first."""
    found = Counter((one.scenario, one.problem) for one in offered.samples if one.problem and not one.refused)
    return [(scenario, problem, count) for (scenario, problem), count in found.most_common(most)]


def tenants_of(offered: Offered) -> list[TenantFigures]:
    """Of each tenant; nothing where all are one."""
    found: dict[str, list[Sample]] = {}
    for one in offered.samples:
        found.setdefault(one.tenant, []).append(one)
    return [_tenant(name, samples) for name, samples in sorted(found.items())] if len(found) > 1 else []


def _tenant(name: str, samples: Sequence[Sample]) -> TenantFigures:
    fine = [one.answer_ms for one in samples if one.is_answered]
    refused = sum(one.refused for one in samples)
    return TenantFigures(name, len(samples), len(samples) - len(fine) - refused, refused, spread(fine))


def processes_of(watched: Sequence[Watched]) -> list[ProcessLine]:
    """Each watched process over time, by name."""
    by_name: dict[str, list[Watched]] = {}
    for one in sorted(watched, key=lambda one: one.at):
        by_name.setdefault(one.process, []).append(one)
    return [
        ProcessLine(
            name,
            [(one.at, one.rss_bytes / 2**20) for one in found if one.rss_bytes is not None],
            [(one.at, float(one.file_descriptors)) for one in found if one.file_descriptors is not None],
            [(one.at, float(one.leases)) for one in found if one.leases is not None],
        )
        for name, found in sorted(by_name.items())
    ]


def ends(line: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Medians of the first and of the last tenth: what a process had after its start, and at the end."""
    if not line:
        return None
    size = max(1, len(line) // 10)
    values = [value for _, value in line]
    return median(values[:size]), median(values[-size:])
