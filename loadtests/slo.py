"""Are answers in time under load? `make load` offers the scenarios of slo.yaml; exit status 1 when a budget is broken.

Arrivals are open: they come by the clock, at random gaps, whether or not earlier answers are there. A time counts from
when the question was due, so that a stack, or this program, that falls behind cannot hide it.
SABUESO_URL and SABUESO_API_KEY name a stack to measure; without them it starts one of its own, with the model's
latency of slo.yaml.
"""

import argparse
import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Literal

import httpx2
import yaml
from pydantic import BaseModel, ConfigDict, Field

from loadtests.answers import Question, StreamedAnswer, questions
from loadtests.bench_answers import ask_streaming, client_of
from loadtests.measuring import NotMeasured, percentile
from loadtests.own_stack import OwnStack

_ENOUGH = 0.98
_LONGEST_SECONDS = 20.0

Ask = Callable[[Question], Awaitable[StreamedAnswer]]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Relative(_Part):
    """The median of answers is at most so many `times` that of another scenario."""

    of: str
    times: float = Field(gt=0)


class Scenario(_Part):
    """Questions in turn, answered by `strategy`. `p95_ms`: the budgets of `answer` and `first_event`.

    `turns`: what each answer must take of the model's, so that what is measured is what the name says.
    """

    name: str
    questions: tuple[str, ...] = Field(min_length=1)
    strategy: Literal["auto", "react", "router", "rag", "plan"]
    turns: int = Field(ge=1)
    cache: Literal["off", "use"] = "off"
    arrivals_per_second: float = Field(gt=0)
    p95_ms: Mapping[Literal["answer", "first_event"], float]
    median: Relative | None = None


class Plan(_Part):
    """What is offered, for `seconds` each."""

    profile: str
    seconds: float = Field(gt=0, le=600)
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True)
class Served:
    """How one question fared: milliseconds from when it was due, or the problem."""

    answer: float = 0.0
    first_event: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a scenario fared. `in_time_count`: answers that came in the window, or so soon after it as is allowed."""

    scenario: Scenario
    planned_count: int
    in_time_count: int
    served: Sequence[Served]

    def achieved(self) -> float:
        """Share of the planned rate that was answered."""
        return self.in_time_count / self.planned_count

    def p95(self, what: str) -> float:
        """Milliseconds; infinite when nothing was answered."""
        times = [getattr(one, what) for one in self.served if not one.problem]
        return percentile(times, 95) if times else float("inf")

    def median(self) -> float:
        """Of answers, in milliseconds; infinite when nothing was answered."""
        times = [one.answer for one in self.served if not one.problem]
        return percentile(times, 50) if times else float("inf")

    def broken(self, others: Mapping[str, "Outcome"] | None = None) -> list[str]:
        """What is not as it should be, in words; empty when all is well. `others`: by the names of their scenarios."""
        found = [
            f"p95 of {what} is {self.p95(what):.0f} ms, over its {budget:.0f} ms"
            for what, budget in self.scenario.p95_ms.items()
            if self.p95(what) > budget
        ]
        wanted = self.scenario.median
        if wanted and (other := (others or {}).get(wanted.of)) and self.median() > wanted.times * other.median():
            limit = f"{wanted.times:g} × the {other.median():.0f} ms of {wanted.of}"
            found.append(f"its median is {self.median():.0f} ms, over {limit}")
        problems = sorted({one.problem for one in self.served if one.problem})
        if problems:
            failed_count = sum(bool(one.problem) for one in self.served)
            found.append(f"{failed_count} of {self.planned_count} failed: {'; '.join(problems[:3])}")
        return found


def gaps(arrivals_per_second: float, seconds: float, seed: int = 1) -> list[float]:
    """When each question is due, in seconds from the start: a Poisson process, the same every time."""
    dice = random.Random(seed)
    due: list[float] = []
    at = dice.expovariate(arrivals_per_second)
    while at < seconds:
        due.append(at)
        at += dice.expovariate(arrivals_per_second)
    return due


async def offer(scenario: Scenario, seconds: float, ask: Ask) -> Outcome:
    """Asks by the clock and waits for the last answer."""
    turn = cycle(questions(*scenario.questions))
    due = gaps(scenario.arrivals_per_second, seconds)
    grace = max(scenario.p95_ms.values(), default=0) / 1000
    began = time.perf_counter()
    in_time: list[Served] = []

    async def one(question: Question, at: float) -> Served:
        await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                answer = await ask(question)
        except TimeoutError:
            return Served(problem=f"{question.id}: no answer after {_LONGEST_SECONDS:.0f} s")
        except (NotMeasured, httpx2.HTTPError) as error:
            return Served(problem=str(error) or type(error).__name__)
        ended = time.perf_counter() - began
        served = Served(1000 * (ended - at), 1000 * (answer.first_event - began - at))
        if ended <= seconds + grace:
            in_time.append(served)
        return served

    served = await asyncio.gather(*(one(next(turn), at) for at in due))
    return Outcome(scenario, len(due), len(in_time), served)


def table(outcomes: Sequence[Outcome]) -> str:
    """For people: a line a budget, then what is broken."""
    by_name = {outcome.scenario.name: outcome for outcome in outcomes}
    lines = [f"{'scenario':<32} {'what':<12} {'p50':>7} {'p95':>7} {'budget':>7}   answers/s"]
    for outcome in outcomes:
        fine = [one for one in outcome.served if not one.problem]
        rate = f"{outcome.achieved():.0%} of {outcome.scenario.arrivals_per_second:g}"
        for what, budget in outcome.scenario.p95_ms.items():
            p50 = percentile([getattr(one, what) for one in fine], 50) if fine else float("inf")
            lines.append(
                f"{outcome.scenario.name:<32} {what:<12} {p50:7.0f} {outcome.p95(what):7.0f} {budget:7.0f}   {rate}"
            )
    for outcome in outcomes:
        if outcome.achieved() < _ENOUGH:
            lines.append(
                f"! {outcome.scenario.name}: only {outcome.achieved():.0%} of the planned rate was answered in time;"
                " the figures are those of an overloaded stack, or machine"
            )
        lines += [f"✗ {outcome.scenario.name}: {what}" for what in outcome.broken(by_name)]
    return "\n".join(lines)


async def run(plan: Plan, url: str, key: str) -> list[Outcome]:
    """All scenarios, one after the other. Each question is asked once before the clock runs."""
    outcomes: list[Outcome] = []
    async with client_of(url, key) as http:
        for scenario in plan.scenarios:
            ask = partial(ask_once, http, scenario)
            for question in questions(*scenario.questions):
                # What is wrong here is wrong below too, and counted there.
                with suppress(NotMeasured, httpx2.HTTPStatusError, httpx2.TimeoutException):
                    await ask(question)
            outcomes.append(await offer(scenario, plan.seconds, ask))
    return outcomes


async def ask_once(http: httpx2.AsyncClient, scenario: Scenario, question: Question) -> StreamedAnswer:
    """The answer. Raises NotMeasured where it is not true, or came about in another way than is to be measured."""
    answer = await ask_streaming(http, question, scenario.cache, scenario.strategy)
    took = answer.summary.get("iterations")
    if took != scenario.turns:
        raise NotMeasured(f"{question.id}: it took {took} turns of the model, not {scenario.turns}")
    return answer


@contextmanager
def _target(profile: str) -> Iterator[tuple[str, str]]:
    if url := os.environ.get("SABUESO_URL"):
        yield url, os.environ.get("SABUESO_API_KEY", "")
        return
    print("starting a stack of its own", flush=True)
    with OwnStack() as stack:
        stack.up(profile)
        yield stack.url, stack.key


def read_plan() -> Plan:
    """What slo.yaml says."""
    text = Path(__file__).with_name("slo.yaml").read_text(encoding="utf-8")
    return Plan.model_validate(yaml.safe_load(text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when every budget was kept, 1 when not, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.slo", description=__doc__)
    parser.add_argument("--seconds", type=float, help="of each scenario, instead of those of slo.yaml")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="scenarios whose names begin so")
    asked = parser.parse_args(arguments)
    plan = read_plan()
    chosen = [one for one in plan.scenarios if not asked.only or one.name.startswith(tuple(asked.only))]
    plan = Plan(profile=plan.profile, seconds=asked.seconds or plan.seconds, scenarios=tuple(chosen))
    try:
        with _target(plan.profile) as (url, key):
            outcomes = asyncio.run(run(plan, url, key))
    except (NotMeasured, httpx2.HTTPError) as error:
        print(f"not measured: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    print(table(outcomes))
    by_name = {outcome.scenario.name: outcome for outcome in outcomes}
    return 1 if any(outcome.broken(by_name) for outcome in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
