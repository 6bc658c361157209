"""When what is asked: arrivals by the clock, the same every time, split over the processes that offer them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.offering.plan import Load, Row


@dataclass(frozen=True, order=True)
class Arrival:
    """A question that is due at `due` seconds from the start. `row` and `question` are places in the load."""

    due: float
    row: int
    question: int
    warm_up: bool = False


def poisson(per_second: float, seconds: float, seed: str) -> list[float]:
    """Seconds from the window's start at random gaps: exponential, as of many people who do not know of each other."""
    dice = random.Random(seed)
    found: list[float] = []
    at = dice.expovariate(per_second)
    while at < seconds:
        found.append(at)
        at += dice.expovariate(per_second)
    return found


def constant(per_second: float, seconds: float) -> list[float]:
    """Seconds from the window's start at equal gaps."""
    return [(place + 0.5) / per_second for place in range(round(per_second * seconds))]


def schedule(load: Load) -> list[Arrival]:
    """All arrivals in the order in which they are due."""
    return sorted(one for place, row in enumerate(load.rows) for one in _of_row(row, place, load.seed))


def share(arrivals: Sequence[Arrival], place: int, of: int) -> list[Arrival]:
    """What the process at `place` offers of what `of` processes offer together: each arrival is offered by one."""
    return list(arrivals[place::of])


def _of_row(row: Row, place: int, seed: int) -> list[Arrival]:
    if row.process == "poisson":
        due = poisson(row.per_second, row.seconds, f"{seed} {row.name}")
    else:
        due = constant(row.per_second, row.seconds)
    # A window too short for its rate still asks once: no row is judged by nothing.
    due = due or [row.seconds / 2]
    found = [Arrival(row.begins + at, place, turn % len(row.asked)) for turn, at in enumerate(due)]
    if row.warm_up_seconds:
        step = row.warm_up_seconds / len(row.asked)
        first = row.begins - row.warm_up_seconds
        found += [Arrival(first + turn * step, place, turn, warm_up=True) for turn in range(len(row.asked))]
    return found
