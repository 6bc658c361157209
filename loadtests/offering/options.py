"""What may be said on the command line of every load file, and the load that follows from it."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from loadtests.offering.plan import SLO, BadPlan, Load, PlanFile, Row, read_plan
from loadtests.offering.target import KEYS, Target

# Before the first window: a stack that has just started answers its first questions slowly.
_LEAD_SECONDS = 3.0
_RUNS = Path(".sabueso/load")


@dataclass(frozen=True)
class Asked:
    """`seconds`: of each window, None for those of the plan; `rate`: a factor; `only`: beginnings of rows' names."""

    seconds: float | None = None
    rate: float = 1
    only: tuple[str, ...] = ()
    seed: int = 1
    plan: str = ""
    questions: str = ""
    out: str = ""

    def folder(self, file: str, now: datetime) -> Path:
        """Where the run is kept."""
        return Path(self.out) if self.out else _RUNS / f"{file}-{now:%Y%m%d-%H%M%S}"


@dataclass(frozen=True)
class Offer:
    """What a load file makes of the plan: groups of rows, one group after the other, `gap_seconds` apart.

    `documents_with`: the place of the group during which documents come in.
    """

    file: str
    groups: Sequence[Sequence[Row]]
    gap_seconds: float = 0
    documents_with: int | None = None
    document_pages: int = 10
    watched_every_seconds: float = 0


Build = Callable[[PlanFile, Asked], Offer]


def add_options(parser: argparse.ArgumentParser) -> None:
    """To Locust's own."""
    own = parser.add_argument_group("sabueso")
    own.add_argument("--seconds", type=float, default=None, help="of each window, instead of those of the plan")
    own.add_argument("--rate", type=float, default=1.0, help="factor of all rates")
    own.add_argument("--only", nargs="+", default=[], metavar="NAME", help="scenarios whose names begin so")
    own.add_argument("--seed", type=int, default=1, help="of the random gaps between arrivals")
    own.add_argument("--plan", default="", metavar="FILE", help="in place of loadtests/slo.yaml")
    own.add_argument("--questions", default="", metavar="FILE", help="in place of the demo's questions")
    own.add_argument("--out", default="", metavar="FOLDER", help="for samples and report; else .sabueso/load/…")
    own.add_argument("--no-report", action="store_true", help="samples and verdict only, no HTML and Markdown")


def asked_of(options: Any) -> Asked:
    """What was said. Raises BadPlan for a value out of bounds."""
    asked = Asked(
        options.seconds, options.rate, tuple(options.only), options.seed, options.plan, options.questions, options.out
    )
    if asked.rate <= 0 or (asked.seconds is not None and asked.seconds <= 0):
        raise BadPlan("--rate and --seconds: give numbers above 0")
    return asked


def plan_of(asked: Asked) -> PlanFile:
    """The plan that was named, else slo.yaml. Raises BadPlan."""
    return read_plan(Path(asked.plan) if asked.plan else SLO, Path(asked.questions) if asked.questions else None)


def load_of(build: Build, asked: Asked, goal: Target) -> Load:
    """The load that is offered to this target. Raises BadPlan."""
    plan = plan_of(asked)
    offer = build(plan, asked)
    groups = [[row for row in group if not asked.only or row.name.startswith(asked.only)] for group in offer.groups]
    without_key = [row for group in groups for row in group if row.scenario.tenant not in goal.keys]
    kept = [[row for row in group if row not in without_key] for group in groups]
    if not any(kept):
        names = ", ".join(dict.fromkeys(row.name for group in offer.groups for row in group))
        raise BadPlan(f"nothing is left to offer; there are {names}" if not without_key else _no_key(without_key[0]))
    left_out = [_no_key(row) for row in without_key]
    if offer.watched_every_seconds and goal.home is None:
        left_out.append("memory and file descriptors: the stack is elsewhere, its processes cannot be watched")
    starts, rows = _in_sequence(kept, offer.gap_seconds, asked.rate)
    documents = offer.documents_with
    return Load(
        file=offer.file,
        profile=plan.profile,
        rows=tuple(rows),
        seed=asked.seed,
        left_out=tuple(left_out),
        documents_from=None if documents is None else starts[documents],
        document_pages=offer.document_pages,
        watched_every_seconds=offer.watched_every_seconds,
    )


def _no_key(row: Row) -> str:
    return f"{row.name}, for there is no key of its tenant; set {KEYS[row.scenario.tenant][0]}"


def _in_sequence(groups: Sequence[Sequence[Row]], gap: float, rate: float) -> tuple[list[float], list[Row]]:
    """When each group begins, and the rows with their windows."""
    starts: list[float] = []
    rows: list[Row] = []
    at = _LEAD_SECONDS
    for group in groups:
        at += max((row.warm_up_seconds for row in group), default=0)
        starts.append(at)
        rows += [row.model_copy(update={"begins": at, "per_second": rate * row.per_second}) for row in group]
        at += max((row.seconds for row in group), default=-gap) + gap
    return starts, rows
