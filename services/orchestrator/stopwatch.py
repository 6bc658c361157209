"""Where the time of a run goes. At any moment it counts for one part, however much is under way at once."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from enum import IntEnum

from services.orchestrator.events import Timings


class Part(IntEnum):
    """What is waited for. Where several are, the first of these counts."""

    MODEL = 0
    CHECKING = 1
    TOOLS = 2
    CACHE = 3


_FOLLOWED: ContextVar["Stopwatch | None"] = ContextVar("stopwatch", default=None)


class Stopwatch:
    """Runs from its making on. Parallel and nested waiting counts once, so the parts add up to the whole."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds; the deadlines of the run are of the same clock."""
        self.now = clock
        self.started = self._since = clock()
        self._under_way = [0] * len(Part)
        self._seconds = [0.0] * len(Part)
        self._else = 0.0

    def follow(self) -> None:
        """From now on `waiting` in this task, and in those that it begins, is told to this one."""
        _FOLLOWED.set(self)

    def during(self, part: Part) -> "_Waiting":
        """A context: what happens within counts as waiting for `part`."""
        return _Waiting(self, part)

    def begin(self, part: Part) -> None:
        """Waiting for `part` begins, once more."""
        self._lap()
        self._under_way[part] += 1

    def end(self, part: Part) -> None:
        """Waiting for `part` ends."""
        self._lap()
        self._under_way[part] -= 1

    def read(self) -> Timings:
        """The times up to now. The model's includes that of checking by it."""
        self._lap()
        seconds = self._seconds
        model = seconds[Part.MODEL] + seconds[Part.CHECKING]
        return Timings(model, seconds[Part.TOOLS], seconds[Part.CACHE], self._else)

    def seconds(self, part: Part) -> float:
        """The time up to now of one part."""
        self._lap()
        return self._seconds[part]

    def _lap(self) -> None:
        now = self.now()
        passed, self._since = now - self._since, now
        for part, count in enumerate(self._under_way):
            if count:
                self._seconds[part] += passed
                return
        self._else += passed


def waiting(part: Part) -> AbstractContextManager[None]:
    """A context: what happens within counts as waiting for `part` of the run that this task works for, if any."""
    watch = _FOLLOWED.get()
    return watch.during(part) if watch else nullcontext()


class _Waiting:
    """Entered for every piece of an answer: a class costs less than a generator."""

    __slots__ = ("_part", "_watch")

    def __init__(self, watch: Stopwatch, part: Part) -> None:
        self._watch, self._part = watch, part

    def __enter__(self) -> None:
        self._watch.begin(self._part)

    def __exit__(self, *_: object) -> None:
        self._watch.end(self._part)
