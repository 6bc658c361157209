"""Times things several times over, in turn with a peer where there is one, and sums the times up as a figure."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

# What is measured: the time it takes, unless it answers with a number of its own, in the figure's unit.
Run = Callable[[], Awaitable[float | None]]

_WARM_UPS = 3
_FEWEST_ROUNDS = 3


class NotMeasured(Exception):
    """What was to be measured did not do its work; the message says what went wrong."""


@dataclass(frozen=True)
class Peer:
    """Something else that does the same work."""

    name: str
    run: Run


@dataclass(frozen=True)
class Figure:
    """What was measured. `peer_values` has one value for each of `values` where there is a peer."""

    name: str
    unit: str
    values: Sequence[float]
    peer: str = ""
    peer_values: Sequence[float] = ()

    def fields(self, **extra: Any) -> dict[str, Any]:
        """For a JSON line. `ratio` is the median over the peer's: below 1 is better for times."""
        found: dict[str, Any] = {"name": self.name, "unit": self.unit, **_summary(self.values), "n": len(self.values)}
        if self.peer_values:
            found["peer"] = {"name": self.peer, **_summary(self.peer_values)}
            found["ratio"] = round(percentile(self.values, 50) / percentile(self.peer_values, 50), 3)
        return found | extra

    def of_peer(self, name: str) -> "Figure":
        """The peer's times as a figure of their own."""
        return Figure(name, self.unit, self.peer_values)

    def minus_peer(self, name: str) -> "Figure":
        """What it takes longer than the peer in the same round."""
        return Figure(name, self.unit, [a - b for a, b in zip(self.values, self.peer_values, strict=True)])


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` % of all do not exceed (nearest rank): always one that was measured.

    Raises ValueError without values.
    """
    if not values:
        raise ValueError("no values, no percentile")
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


async def measure(
    name: str, run: Run, *, rounds: int, peer: Peer | None = None, unit: str = "ms", seconds: float = 12
) -> Figure:
    """Runs `run` `rounds` times, or until `seconds` are over, but three times at least.

    Each round runs the peer too, before or after in turn, so that both meet the same noise of the machine.
    """
    for _ in range(min(_WARM_UPS, rounds)):
        await run()
        if peer:
            await peer.run()
    values: list[float] = []
    peer_values: list[float] = []
    end = time.monotonic() + seconds
    while len(values) < rounds and (len(values) < _FEWEST_ROUNDS or time.monotonic() < end):
        both = [(run, values), (peer.run, peer_values)] if peer else [(run, values)]
        for work, times in both if len(values) % 2 == 0 else reversed(both):
            times.append(await _value_of(work))
    return Figure(name, unit, values, peer.name if peer else "", peer_values)


async def _value_of(run: Run) -> float:
    started = time.perf_counter()
    said = await run()
    return (time.perf_counter() - started) * 1000 if said is None else said


def _summary(values: Sequence[float]) -> dict[str, float]:
    return {f"p{percent}": round(percentile(values, percent), 3) for percent in (50, 95, 99)}
