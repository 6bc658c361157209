"""A model on the function-calling leaderboard's questions: asked once, judged by our matching, told by category.

A question is right as the leaderboard has it: every expected call with its arguments, and no other call; where no
function fits, no call at all (Patil et al., ICML 2025). How our comparison differs from theirs is in `matching`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.evaluation.answered import Answered, Call, Json
from services.evaluation.golden.item import Stratum
from services.evaluation.runs.record import Record
from services.evaluation.runs.variant import Kind, Variant
from services.evaluation.score import Mean, Score
from services.evaluation.statistics import summarise
from services.evaluation.tools import accuracy, bfcl
from services.evaluation.tools.accuracy import Judged, Selection, summed
from services.evaluation.tools.assignment import Assigner
from services.evaluation.tools.bfcl import Case

ALL = "all"
METRIC = "right"
# Some of its functions are called as our own tools are, and are like any other here.
_NONE_IS_FREE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Questions:
    """What is asked: cases by category."""

    cases: Mapping[str, Sequence[Case]]

    @classmethod
    def read(cls, folder: Path, categories: Sequence[str] = (), limit: int = 0) -> "Questions":
        """From the leaderboard's files. `categories`: empty means all that are there; `limit`: of each, spread evenly.

        Raises BrokenFile.
        """
        names = list(categories) or bfcl.there(folder)
        if not names:
            raise bfcl.BrokenFile(f"{folder} has no file BFCL_v4_<category>.json of {', '.join(bfcl.CATEGORIES)}")
        return cls({name: _spread(bfcl.read(folder, name), limit) for name in names})

    @property
    def all(self) -> list[Case]:
        """In the order asked."""
        return [case for cases in self.cases.values() for case in cases]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what is asked and expected: another one is another run."""
        written = [
            [one.item.id, one.messages, [vars(each) for each in one.functions], repr(one.item.calls)]
            for one in self.all
        ]
        return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Figures:
    """One category, or all together. `right`: the share of questions that are right, with its interval.

    `first`: the same of whoever calls the first function that there is, without arguments; `silent`: of whoever calls
    none.
    """

    category: str
    asked_count: int
    failed_count: int
    right: Mean
    selection: Selection
    first: float
    silent: float
    # What was wrong, of the questions that are not right.
    faults: Mapping[str, int]


async def figures(questions: Questions, records: Sequence[Record]) -> list[Figures]:
    """By category, and over all of them last. Questions that failed are in no share; they are counted."""
    found = {one.item_id: one.answered for one in records}
    by_category: dict[str, list[_Trial]] = {}
    for name, cases in questions.cases.items():
        by_category[name] = [await _trial(case, found.get(case.item.id)) for case in cases]
    together = [one for trials in by_category.values() for one in trials]
    return [_figures(name, trials) for name, trials in {**by_category, ALL: together}.items()]


def macro(found: Sequence[Figures]) -> float | None:
    """The mean of the categories, each as heavy as the other; None where one has no value."""
    means = [one.right.mean for one in found if one.category != ALL]
    values = [one for one in means if one is not None]
    return sum(values) / len(values) if values and len(values) == len(means) else None


@dataclass(frozen=True)
class _Trial:
    judged: Judged | None
    first: Judged
    silent: Judged


async def _trial(case: Case, answered: Answered | None) -> _Trial:
    assigner = Assigner(case.parameters)
    item = case.item
    calls = (Call(case.functions[0].name, {}),) if case.functions else ()
    first, silent = (Answered(item.question, "", item.language, calls=each) for each in (calls, ()))
    return _Trial(
        await accuracy.judge(item, answered, assigner, _NONE_IS_FREE) if answered is not None else None,
        await accuracy.judge(item, first, assigner, _NONE_IS_FREE),
        await accuracy.judge(item, silent, assigner, _NONE_IS_FREE),
    )


def _figures(name: str, trials: Sequence[_Trial]) -> Figures:
    judged = [one.judged for one in trials if one.judged is not None]
    return Figures(
        name,
        len(trials),
        len(trials) - len(judged),
        summarise(METRIC, [Score(METRIC, float(not fault_of(one))) for one in judged]),
        summed(judged),
        _share([one.first for one in trials]),
        _share([one.silent for one in trials]),
        dict(Counter(fault for one in judged if (fault := fault_of(one)))),
    )


def fault_of(judged: Judged) -> str:
    """What is wrong with the calls of a question, the gravest first; empty where it is right."""
    assigned = judged.assigned
    if judged.item.stratum is Stratum.NO_TOOL:
        return "a call where no function fits" if judged.calls else ""
    if not judged.calls:
        return "no call"
    if assigned.missed:
        return "another function" if assigned.extra else "a call too few"
    if assigned.extra:
        return "a call too many"
    return "" if all(pair.arguments.all_right is True for pair in assigned.pairs) else "an argument"


def _share(judged: Sequence[Judged]) -> float:
    return sum(not fault_of(one) for one in judged) / len(judged) if judged else 0.0


def _spread(cases: list[Case], limit: int) -> list[Case]:
    if not limit or limit >= len(cases):
        return cases
    return [cases[index * len(cases) // limit] for index in range(limit)]


def plan(questions: Questions, url: str, model: str, max_tokens: int) -> dict[str, Json]:
    """What makes a run this run. `max_tokens` bound an answer: one that is cut off is another one."""
    return {
        "golden_set": "BFCL v4",
        "fingerprint": questions.fingerprint,
        "categories": list(questions.cases),
        "url": url,
        "model": model,
        "max_tokens": max_tokens,
    }


def asked_variant(model: str) -> Variant:
    """The one variant of such a run."""
    return Variant("model", Kind.MODEL, model=model)
