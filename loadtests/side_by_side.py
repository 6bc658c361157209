"""Times things several times over, in turn with their peers where there are some, and sums the times up as figures."""

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadtests.measuring import percentile

# What is measured: the time it takes, unless it answers with a number of its own, in the figure's unit.
Run = Callable[[], Awaitable["float | Took | None"]]

_WARM_UPS = 3
_FEWEST_ROUNDS = 3
_RESAMPLES, _OUTSIDE_PERCENT = 2000, 2.5


@dataclass(frozen=True)
class Took:
    """Milliseconds that passed, and those of the processor: on a machine that is busy otherwise only these compare."""

    passed: float
    worked: float


@dataclass
class Times:
    """Of one side, a value a round; `worked` is empty where it is not known."""

    passed: list[float] = field(default_factory=list[float])
    worked: list[float] = field(default_factory=list[float])

    def add(self, took: Took) -> None:
        """One more round."""
        self.passed.append(took.passed)
        if not math.isnan(took.worked):
            self.worked.append(took.worked)


@dataclass(frozen=True)
class Peer:
    """Something else that does the same work."""

    name: str
    run: Run


@dataclass(frozen=True)
class Figure:
    """What was measured. `peer_values` has one value for each of `values` where there is a peer.

    `cpu` and `peer_cpu` are milliseconds of the processor, where they are known.
    """

    name: str
    unit: str
    values: Sequence[float]
    peer: str = ""
    peer_values: Sequence[float] = ()
    cpu: Sequence[float] = ()
    peer_cpu: Sequence[float] = ()

    def fields(self, **extra: Any) -> dict[str, Any]:
        """For a JSON line. `ratio` is the median over the peer's, with its interval: below 1 is better for times."""
        found: dict[str, Any] = {"name": self.name, "unit": self.unit, **_summary(self.values), "n": len(self.values)}
        if self.peer_values:
            found["peer"] = {"name": self.peer, **_summary(self.peer_values)}
            found |= self.ratio().fields()
        if self.cpu:
            found["cpu_p50"] = round(percentile(self.cpu, 50), 3)
        if self.cpu and self.peer_cpu:
            found |= ratio_of(self.cpu, self.peer_cpu).fields("cpu_ratio")
        return found | extra

    def ratio(self) -> "Ratio":
        """Of the medians; rounds are drawn again as wholes, as both met the same noise in each."""
        return ratio_of(self.values, self.peer_values, paired=len(self.values) == len(self.peer_values))

    def of_peer(self, name: str) -> "Figure":
        """The peer's times as a figure of their own."""
        return Figure(name, self.unit, self.peer_values)

    def minus_peer(self, name: str) -> "Figure":
        """What it takes longer than the peer in the same round."""
        return Figure(name, self.unit, [a - b for a, b in zip(self.values, self.peer_values, strict=True)])


@dataclass(frozen=True)
class Ratio:
    """How many times the peer's, and where that lies with 95 % (bootstrap of the percentiles)."""

    value: float
    low: float
    high: float

    def fields(self, name: str = "ratio") -> dict[str, float]:
        """For a JSON line."""
        return {
            name: round(self.value, 3),
            f"{name}_low": round(self.low, 3),
            f"{name}_high": round(self.high, 3),
        }


def ratio_of(
    values: Sequence[float],
    peer_values: Sequence[float],
    *,
    less: Sequence[float] = (),
    paired: bool = False,
) -> Ratio:
    """Median over median. With `less` its median is taken off both before: what is common to them is not compared.

    Without `paired` each side is drawn again by itself. Raises ValueError without values.
    """
    if not values or not peer_values:
        raise ValueError("no values, no ratio")
    dice = np.random.default_rng(5)
    draws = _drawn(dice, len(values))
    ours = _medians(values, draws)
    theirs = _medians(peer_values, draws if paired else _drawn(dice, len(peer_values)))
    off = _medians(less, _drawn(dice, len(less))) if less else np.zeros(1)
    said = percentile(less, 50) if less else 0.0
    value = (percentile(values, 50) - said) / (percentile(peer_values, 50) - said)
    ratios = (ours - off) / (theirs - off)
    low, high = np.percentile(ratios[np.isfinite(ratios)], [_OUTSIDE_PERCENT, 100 - _OUTSIDE_PERCENT])
    return Ratio(value, float(low), float(high))


def _drawn(dice: np.random.Generator, count: int) -> np.ndarray:
    return dice.integers(count, size=(_RESAMPLES, count))


def _medians(values: Sequence[float], draws: np.ndarray) -> np.ndarray:
    middle = math.ceil(len(values) / 2) - 1
    return np.partition(np.asarray(values)[draws], middle, axis=1)[:, middle]


async def measure(
    name: str,
    run: Run,
    *,
    rounds: int,
    peer: Peer | None = None,
    unit: str = "ms",
    seconds: float = 12,
    in_process: bool = False,
) -> Figure:
    """Runs `run` `rounds` times, or until `seconds` are over, but three times at least.

    Each round runs the peer too, before or after in turn, so that both meet the same noise of the machine. With
    `in_process` the work is done here and by nobody else, and the processor's time is measured as well.
    """
    runs = {"": run} | ({peer.name: peer.run} if peer else {})
    times = await take_turns(runs, rounds=rounds, seconds=seconds, in_process=in_process)
    ours, theirs = times[""], times[peer.name] if peer else Times()
    return Figure(name, unit, ours.passed, peer.name if peer else "", theirs.passed, ours.worked, theirs.worked)


async def take_turns(
    runs: Mapping[str, Run], *, rounds: int, seconds: float = 12, in_process: bool = False
) -> dict[str, Times]:
    """Each round runs all of them, forwards and backwards in turn; their times by name. For the rest see `measure`."""
    for _ in range(min(_WARM_UPS, rounds)):
        for run in runs.values():
            await run()
    times = {name: Times() for name in runs}
    end, done = time.monotonic() + seconds, 0
    while done < rounds and (done < _FEWEST_ROUNDS or time.monotonic() < end):
        for name in list(runs)[:: -1 if done % 2 else 1]:
            times[name].add(await _took(runs[name], in_process))
        done += 1
    return times


def figures_beside(name: str, times: Mapping[str, Times], ours: str, unit: str = "ms") -> list[Figure]:
    """One figure a peer: all but `ours` are peers."""
    own = times[ours]
    return [
        Figure(name, unit, own.passed, peer, its.passed, own.worked, its.worked)
        for peer, its in times.items()
        if peer != ours
    ]


async def _took(run: Run, in_process: bool) -> Took:
    passed, worked = time.perf_counter(), time.process_time()
    said = await run()
    if isinstance(said, Took):
        return said
    if said is not None:
        return Took(said, math.nan)
    passed, worked = time.perf_counter() - passed, time.process_time() - worked
    return Took(1000 * passed, 1000 * worked if in_process else math.nan)


def _summary(values: Sequence[float]) -> dict[str, float]:
    return {f"p{percent}": round(percentile(values, percent), 3) for percent in (50, 95, 99)}
