"""What one process offers: its share of the arrivals, each at its time, and the samples of what became of them.

A user of Locust waits for its answer before it asks again, so that a stall holds up the load that it should meet. Here
nothing waits for an answer but the answer's own greenlet.
"""

import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import gevent
from gevent.pool import Group

from loadtests.offering.arrivals import Arrival, schedule, share
from loadtests.offering.asking import Asker
from loadtests.offering.connections import Connections
from loadtests.offering.plan import Load, Row
from loadtests.offering.samples import Sample
from loadtests.offering.target import Target


class Part:
    """`goal`: where to. `tell`: called with each sample as soon as it is there."""

    def __init__(self, goal: Target, tell: Callable[[Sample], None]) -> None:
        self._goal = goal
        self._tell = tell
        self._new: list[Sample] = []
        self._begun = False
        self._cpu_seconds = 0.0
        self._requests = 0
        self.done = False
        self.problem = ""

    def offer(self, load: Load, place: int, of: int) -> None:
        """Offers the share at `place` of `of`, once, and waits for the last answer."""
        if self._begun:
            return
        self._begun = True
        try:
            self._offer(load, share(schedule(load), place, of))
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
        self.done = True

    def report(self) -> dict[str, Any]:
        """What is new since the last report; plain enough for any wire."""
        new, self._new = self._new, []
        return {
            "samples": [one.fields() for one in new],
            "done": self.done,
            "problem": self.problem,
            "cpu_seconds": self._cpu_seconds,
            "requests": self._requests,
        }

    def _offer(self, load: Load, arrivals: Sequence[Arrival]) -> None:
        connections = Connections(self._goal.url, self._goal.ca_file)
        began, cpu = time.perf_counter(), _cpu_seconds()
        asker = Asker(load, connections, self._goal.keys, began)
        running = Group()
        for one in arrivals:
            gevent.sleep(max(0.0, began + one.due - time.perf_counter()))
            running.spawn(self._one, asker, load.rows[one.row], one)
        running.join()
        connections.close()
        self._cpu_seconds = _cpu_seconds() - cpu

    def _one(self, asker: Asker, row: Row, arrival: Arrival) -> None:
        sample = asker.ask(row, row.asked[arrival.question], arrival.due, arrival.warm_up)
        self._new.append(sample)
        self._requests += 1
        self._tell(sample)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
