"""Two runs beside each other: by how much percentiles differ, how sure that is, and what it means."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from loadtests.report.figures import spread
from loadtests.report.records import Offered, Sample

_RESAMPLES = 2_000
_SEED = 7
# Answers that come at the same time wait for the same things: they are drawn together.
_PIECE_SECONDS = 1.0
_FEWEST_PIECES, _FEWEST_ANSWERS = 5, 20
_np: Any = np


class Verdict(Enum):
    """Of the second run against the first."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SHOWN = "not shown"
    TOO_FEW = "too few"


@dataclass(frozen=True)
class Compared:
    """A percentile of one scenario in both runs, in milliseconds; below 0 the second run is faster.

    `what`: "answer" or "first event". `low` to `high`: 99 % of the difference, as many are compared; None: too few.
    """

    scenario: str
    what: str
    percent: int
    first: float
    second: float
    low: float | None
    high: float | None

    @property
    def difference(self) -> float:
        """Second less first."""
        return self.second - self.first

    @property
    def verdict(self) -> Verdict:
        """Better or worse where the whole interval says so."""
        if self.low is None or self.high is None:
            return Verdict.TOO_FEW
        if self.high < 0:
            return Verdict.BETTER
        return Verdict.WORSE if self.low > 0 else Verdict.NOT_SHOWN


@dataclass(frozen=True)
class Shares:
    """What failed and was refused in both runs, of all requests of a scenario."""

    scenario: str
    first_failed: float
    second_failed: float
    first_refused: float
    second_refused: float


@dataclass(frozen=True)
class Comparison:
    """`notes`: what makes the two runs unlike each other, so that the difference is not the code's alone."""

    first: Offered
    second: Offered
    rows: Sequence[Compared]
    shares: Sequence[Shares]
    only_in_one: Sequence[str]
    notes: Sequence[str]


def compare(first: Offered, second: Offered, resamples: int = _RESAMPLES) -> Comparison:
    """Scenario by scenario, where both have it. `resamples`: of the bootstrap; the more, the finer the interval."""
    names = [one.name for one in first.scenarios()]
    others = [one.name for one in second.scenarios()]
    both = [name for name in names if name in others]
    return Comparison(
        first=first,
        second=second,
        rows=[row for name in both for row in _rows(name, first.of(name), second.of(name), resamples)],
        shares=[_shares(name, first.of(name), second.of(name)) for name in both],
        only_in_one=[name for name in dict.fromkeys([*names, *others]) if name not in both],
        notes=_notes(first, second),
    )


def _rows(name: str, first: Sequence[Sample], second: Sequence[Sample], resamples: int) -> list[Compared]:
    kinds: dict[str, Callable[[Sample], float | None]] = {
        "answer": lambda one: one.answer_ms,
        "first event": lambda one: one.until_ms("first_event"),
    }
    found: list[Compared] = []
    for what, value in kinds.items():
        pieces = [_pieces(samples, value) for samples in (first, second)]
        values = [[one for piece in side for one in piece] for side in pieces]
        spreads = [spread(side) for side in values]
        if spreads[0] is None or spreads[1] is None:
            continue
        for percent in (50, 95):
            low, high = _interval(pieces[0], pieces[1], percent, resamples)
            before, after = (float(getattr(one, f"p{percent}")) for one in spreads)
            found.append(Compared(name, what, percent, before, after, low, high))
    return found


def _pieces(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> list[list[float]]:
    """Values of what was answered, by the second in which it was due."""
    found: dict[int, list[float]] = {}
    for one in samples:
        told = value(one) if one.is_answered else None
        if told is not None:
            found.setdefault(int(one.due // _PIECE_SECONDS), []).append(told)
    return list(found.values())


def _interval(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], percent: int, resamples: int
) -> tuple[float | None, float | None]:
    """99 % of the difference of percentiles, by a bootstrap over seconds (Davison and Hinkley 1997, section 3.8)."""
    import scipy.stats  # slow to import, and a report of one run needs none

    library: Any = scipy.stats
    if any(len(side) < _FEWEST_PIECES or sum(map(len, side)) < _FEWEST_ANSWERS for side in (first, second)):
        return None, None
    drawn_of = [[_np.asarray(piece) for piece in side] for side in (first, second)]

    def difference(*drawn: Any) -> float:
        before, after = (
            _rank(_np.concatenate([side[at] for at in places.astype(int)]), percent)
            for side, places in zip(drawn_of, drawn, strict=True)
        )
        return after - before

    found = library.bootstrap(
        [_np.arange(len(side)) for side in drawn_of],
        difference,
        n_resamples=resamples,
        confidence_level=0.99,
        method="percentile",
        vectorized=False,
        rng=_np.random.default_rng(_SEED),
    ).confidence_interval
    return float(found.low), float(found.high)


def _rank(values: Any, percent: int) -> float:
    """The percentile by nearest rank, as `spread` has it, without its checks: it is asked for thousands of times."""
    place = -(-len(values) * percent // 100) - 1
    return float(_np.partition(values, place)[place])


def _shares(name: str, first: Sequence[Sample], second: Sequence[Sample]) -> Shares:
    failed = [_share(side, lambda one: bool(one.problem) and not one.refused) for side in (first, second)]
    refused = [_share(side, lambda one: one.refused) for side in (first, second)]
    return Shares(name, failed[0], failed[1], refused[0], refused[1])


def _share(samples: Sequence[Sample], is_one: Callable[[Sample], bool]) -> float:
    return sum(map(is_one, samples)) / len(samples) if samples else 0.0


def _notes(first: Offered, second: Offered) -> list[str]:
    found: list[str] = []
    for what, one, other in (
        ("file", first.run.file, second.run.file),
        ("profile of the model", first.run.profile, second.run.profile),
        ("machine", _machine(first), _machine(second)),
    ):
        if one != other:
            found.append(f"The {what} is another one: {one or 'unknown'}, then {other or 'unknown'}.")
    rates = {one.name: one.planned_per_second for one in first.run.scenarios}
    found += [
        f"{one.name}: {rates[one.name]:g} requests a second were planned, then {one.planned_per_second:g}."
        for one in second.run.scenarios
        if one.name in rates and rates[one.name] != one.planned_per_second
    ]
    return found


def _machine(offered: Offered) -> str:
    machine = offered.run.machine
    return f"{machine.cpu} × {machine.cores}" if machine.cores else machine.cpu
