"""Users, answers a second, utilisation and answer time of an installation, by Little's law and Erlang's formula.

answers a second = users ÷ (answer time + pause)          Little, 1961: for people who ask, read, and ask again
utilisation      = answers a second × seconds each ÷ servers
answer time      = tools + Σ (seconds at a station + wait for it)
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from services.cli.capacity.profiles import CORES, QUESTIONS, Pool, Question
from services.cli.capacity.queues import waiting_seconds

# Reading prompts, and places for sequences that are written.
PREFILL, MODEL = "prefill", "sequences"
_HALVINGS = 60
# A replica is not added for less than so much of one.
_SPARE = 0.05


@dataclass(frozen=True)
class Station:
    """What serves `servers` at a time. `seconds` of one visit and `visits` a question are means over the mix."""

    name: str
    servers: int
    seconds: float
    visits: float

    @property
    def demand(self) -> float:
        """Seconds a question."""
        return self.seconds * self.visits


@dataclass(frozen=True)
class Installation:
    """`replicas`: by service. `mix`: share of each kind of question, summing to 1. `pause_seconds`: between questions.

    `sequence_tokens`: prompt and answer together. `uncached`: share of the prompts that is not in the prefix cache.
    `questions`: what each kind of the mix costs.
    """

    pool: Pool
    pool_replicas: int
    replicas: Mapping[str, int]
    mix: Mapping[str, float]
    pause_seconds: float
    sequence_tokens: int
    uncached: float = 0.5
    questions: Mapping[str, Question] = field(default_factory=lambda: QUESTIONS)

    @cached_property
    def stations(self) -> list[Station]:
        """Those that the mix visits, the model last."""
        found = [
            Station(name, self.replicas.get(name, 1) * cores, *self._visited(name))
            for name, cores in CORES.items()
            if self._visited(name)[1]
        ]
        turns = self._mean(lambda question: question.turns)
        first, rest = (self._mean(lambda question, part=part: self._model_seconds(question)[part]) for part in (0, 1))
        # Prompts are read one after the other, at the speed of the hardware; what is cached costs time, but no room.
        prefill = Station(PREFILL, self.pool_replicas, first * self.uncached / turns, turns)
        slots = self.pool_replicas * self.pool.slots(self.sequence_tokens)
        return [*found, prefill, Station(MODEL, slots, (first * (1 - self.uncached) + rest) / turns, turns)]

    def _model_seconds(self, question: Question) -> tuple[float, float]:
        turns = [self.pool.turn(number, question.turns - 1) for number in range(question.turns)]
        return sum(first for first, _ in turns), sum(rest for _, rest in turns)

    def _visited(self, service: str) -> tuple[float, float]:
        """Seconds of a visit, and visits a question."""
        visits = self._mean(lambda question: visits_of(question, service))
        demand = self._mean(lambda question: question.cpu_seconds.get(service, 0.0))
        return (demand / visits if visits else 0.0), visits

    def _mean(self, value: Callable[[Question], float]) -> float:
        return sum(share * value(self.questions[kind]) for kind, share in self.mix.items())

    def answer_seconds(self, answers_per_second: float) -> float:
        """Mean time of an answer; inf where a station cannot keep up."""
        return self._mean(lambda question: question.tool_seconds) + sum(
            one.demand + one.visits * waiting_seconds(one.servers, answers_per_second * one.visits, one.seconds)
            for one in self.stations
        )

    def answers_per_second(self, users: float) -> float:
        """Of so many people."""
        low, high = 0.0, min(users / self.pause_seconds if self.pause_seconds else math.inf, self.most_per_second())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if middle * (self.answer_seconds(middle) + self.pause_seconds) < users:
                low = middle
            else:
                high = middle
        return low

    def most_per_second(self, utilisation: float = 1.0) -> float:
        """Answers a second at which the first station reaches that utilisation."""
        return min(one.servers * utilisation / one.demand for one in self.stations)

    def bottleneck(self) -> Station:
        """The station that is full first."""
        return min(self.stations, key=lambda one: one.servers / one.demand)

    def users(self, utilisation: float) -> int:
        """People who can be served while no station is busier than that."""
        rate = self.most_per_second(utilisation)
        return int(rate * (self.answer_seconds(rate) + self.pause_seconds))

    def each(self, station: str) -> int:
        """What one replica serves at a time; of prefill and sequences, one replica of the pool."""
        return {PREFILL: 1, MODEL: self.pool.slots(self.sequence_tokens), **CORES}[station]

    def users_per_replica(self, station: Station, utilisation: float) -> int:
        """People whom one replica of a station serves while it is no busier than that."""
        rate = self.each(station.name) * utilisation / station.demand
        return int(rate * (self.answer_seconds(self.most_per_second(utilisation)) + self.pause_seconds))

    def kind_seconds(self, kind: str) -> float:
        """Time of an answer of one kind while nobody waits."""
        question = self.questions[kind]
        return question.tool_seconds + sum(question.cpu_seconds.values()) + sum(self._model_seconds(question))


def visits_of(question: Question, service: str) -> int:
    """How often a question comes to a service: gateway and orchestrator work at each turn, the others once."""
    if service not in question.cpu_seconds:
        return 0
    return question.turns if service in ("gateway", "orchestrator") else 1


def needed(installation: Installation, users: int, utilisation: float) -> dict[str, int]:
    """Replicas of each station for so many people; of prefill and sequences, replicas of the pool."""
    # At the ceiling waits are short: the time without them and the pause say how often people ask.
    rate = users / (installation.answer_seconds(0.0) + installation.pause_seconds)
    found: dict[str, int] = {}
    for one in installation.stations:
        each = installation.each(one.name)
        found[one.name] = max(1, math.ceil(rate * one.demand / (each * utilisation) - _SPARE))
    return found
