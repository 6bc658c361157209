"""The same installation as people use it, event by event: checks the formulas, and knows percentiles."""

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from services.cli.capacity.planning import MODEL, PREFILL, Installation, visits_of
from services.cli.capacity.profiles import Question

# How a time is spread about its mean.
Spread = Callable[[random.Random, float], float]


def exponential(source: random.Random, mean: float) -> float:
    """As the formulas suppose."""
    return source.expovariate(1 / mean) if mean else 0.0


def mostly_alike(source: random.Random, mean: float) -> float:
    """Within a fifth or so, as work of one kind is."""
    return mean * source.gammavariate(25, 1 / 25)


@dataclass
class Simulated:
    """Of the questions after the first tenth. Times in seconds."""

    answer_seconds: list[float] = field(default_factory=list[float])
    answers_per_second: float = 0.0
    at_model: float = 0.0

    @property
    def mean(self) -> float:
        """Of the answers' times."""
        return sum(self.answer_seconds) / len(self.answer_seconds)

    def percentile(self, share: float) -> float:
        """`share` 0.95 is p95."""
        ordered = sorted(self.answer_seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class _Visitor:
    user: int
    asked_at: float
    stages: Iterator[tuple[str, float]]
    seconds: float = 0.0


class _Queue:
    def __init__(self, servers: int) -> None:
        self.free = servers
        self.waiting: deque[_Visitor] = deque()


def simulate(
    installation: Installation, users: int, *, answers: int = 6_000, seed: int = 1, spread: Spread = mostly_alike
) -> Simulated:
    """`users` people who ask, read for a random time, and ask again, until there are so many `answers`."""
    return _Run(installation, users, random.Random(seed), spread).until(answers)


class _Run:
    def __init__(self, installation: Installation, users: int, source: random.Random, spread: Spread) -> None:
        self._installation, self._source, self._spread = installation, source, spread
        self._queues = {one.name: _Queue(one.servers) for one in installation.stations}
        self._order = count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._found = Simulated()
        self._model_seconds = 0.0
        for user in range(users):
            self._pause(0.0, user)

    def until(self, answers: int) -> Simulated:
        """The busy beginning is left out."""
        skipped, began, model_before = answers // 10, 0.0, 0.0
        now = 0.0
        while len(self._found.answer_seconds) < answers:
            now, _, happens = heapq.heappop(self._events)
            happens(now)
            if not began and len(self._found.answer_seconds) == skipped:
                began, model_before = now, self._model_seconds
        del self._found.answer_seconds[:skipped]
        self._found.answers_per_second = len(self._found.answer_seconds) / (now - began)
        self._found.at_model = (self._model_seconds - model_before) / (now - began)
        return self._found

    def _at(self, time: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), happens))

    def _pause(self, now: float, user: int) -> None:
        pause = exponential(self._source, self._installation.pause_seconds)
        self._at(now + pause, lambda time: self._ask(time, user))

    def _ask(self, now: float, user: int) -> None:
        kinds, shares = zip(*self._installation.mix.items(), strict=True)
        [kind] = self._source.choices(kinds, shares)
        self._go_on(now, _Visitor(user, now, stages(self._installation.questions[kind], self._installation)))

    def _go_on(self, now: float, visitor: _Visitor) -> None:
        name, mean = next(visitor.stages, ("", 0.0))
        if not name:
            self._found.answer_seconds.append(now - visitor.asked_at)
            return self._pause(now, visitor.user)
        visitor.seconds = self._spread(self._source, mean)
        if name not in self._queues:  # tools of others: nobody waits for us there
            return self._at(now + visitor.seconds, lambda time: self._go_on(time, visitor))
        queue = self._queues[name]
        if queue.free:
            queue.free -= 1
            return self._serve(now, name, visitor)
        return queue.waiting.append(visitor)

    def _serve(self, now: float, name: str, visitor: _Visitor) -> None:
        if name == MODEL:
            self._model_seconds += visitor.seconds
        self._at(now + visitor.seconds, lambda time: self._leave(time, name, visitor))

    def _leave(self, now: float, name: str, visitor: _Visitor) -> None:
        queue = self._queues[name]
        if queue.waiting:
            self._serve(now, name, queue.waiting.popleft())
        else:
            queue.free += 1
        self._go_on(now, visitor)


def stages(question: Question, installation: Installation) -> Iterator[tuple[str, float]]:
    """Where a question goes, one after the other, each with its mean seconds."""
    cpu: Mapping[str, float] = question.cpu_seconds
    for turn in range(question.turns):
        for service in ("gateway", "orchestrator"):
            yield service, cpu[service] / visits_of(question, service)
        if turn == 0:
            yield from ((name, seconds) for name, seconds in cpu.items() if name not in ("gateway", "orchestrator"))
            yield "tools", question.tool_seconds
        first, rest = installation.pool.turn(turn, question.turns - 1)
        yield PREFILL, first * installation.uncached
        yield MODEL, first * (1 - installation.uncached) + rest
