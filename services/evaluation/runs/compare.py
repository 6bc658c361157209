"""Which of two is better, metric by metric, on the same questions: better, worse, or not shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from services.evaluation.golden import power
from services.evaluation.golden.item import Item
from services.evaluation.score import Score
from services.evaluation.statistics import Paired, paired

ALPHA = 0.05
# Metrics of which less is better.
LESS_IS_BETTER = frozenset({"noise_sensitivity"})


class Verdict(StrEnum):
    """Of the second against the first."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Compared:
    """One metric. Means are over the pairs, so both are of the same questions.

    `unit_count`: families of questions, which are what is paired: a question and its translation are one observation,
    and counted twice they would make chance look like knowledge. `p_adjusted`: after Holm's correction over all metrics
    of the comparison. `needed_units`: so many would show a difference as large as the observed one (80 % power); None
    where it is shown, or there is none. `changed`: questions with different values, worst first.
    """

    metric: str
    first: float
    second: float
    paired: Paired
    p_adjusted: float
    verdict: Verdict
    item_count: int
    changed: tuple[str, ...] = ()
    needed_units: int | None = None

    @property
    def unit_count(self) -> int:
        """Pairs that were compared."""
        return self.paired.pair_count


def compare(
    first: Mapping[str, Mapping[str, Score]],
    second: Mapping[str, Mapping[str, Score]],
    families: Mapping[str, str],
    *,
    alpha: float = ALPHA,
    only_worse: bool = False,
) -> list[Compared]:
    """Metrics that both have, in the order of `first`; scores by metric and item, `families` by item.

    Paired bootstrap interval, permutation test, Holm (1979) over the metrics. `only_worse`: one-sided, for who
    asks whether the second is worse and does not want to know whether it is better.
    """
    found = [
        (metric, one)
        for metric in first
        if metric in second and (one := _one(metric, first[metric], second[metric], families)) is not None
    ]
    adjusted = holm([_p_of_worse(one) if only_worse else one.paired.p_value for _, one in found])
    return [_decided(one, p, alpha) for (_, one), p in zip(found, adjusted, strict=True)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values (Holm, Scandinavian Journal of Statistics 6 (1979) 65-70), in the order given."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted


def families_of(items: Sequence[Item]) -> dict[str, str]:
    """By item; an item without a family is its own."""
    return {item.id: f"family {item.family}" if item.family else item.id for item in items}


@dataclass(frozen=True)
class _Found:
    metric: str
    paired: Paired
    first: float
    second: float
    units: Sequence[float]
    item_count: int
    changed: tuple[str, ...]


def _one(
    metric: str, first: Mapping[str, Score], second: Mapping[str, Score], families: Mapping[str, str]
) -> _Found | None:
    ids = sorted(first.keys() | second.keys())
    values = {key: (_value(first, key), _value(second, key)) for key in ids}
    both = {key: (one, other) for key, (one, other) in values.items() if one is not None and other is not None}
    if not both:
        return None
    units: dict[str, list[str]] = {}
    for key in both:
        units.setdefault(families.get(key, key), []).append(key)
    before = [fmean(both[key][0] for key in keys) for keys in units.values()]
    after = [fmean(both[key][1] for key in keys) for keys in units.values()]
    compared = paired(before, after)
    compared = Paired(compared.difference, compared.p_value, compared.pair_count, len(ids) - len(both))
    sign = -1 if metric in LESS_IS_BETTER else 1
    moved = sorted((sign * (other - one), key) for key, (one, other) in both.items() if other != one)
    differences = [other - one for one, other in zip(before, after, strict=True)]
    return _Found(metric, compared, fmean(before), fmean(after), differences, len(both), tuple(key for _, key in moved))


def _p_of_worse(found: "_Found") -> float:
    """Half of the two-sided one on the side of a loss: signs are swapped at random, so both tails are alike."""
    loss = found.paired.difference.mean * (-1 if found.metric not in LESS_IS_BETTER else 1)
    half = found.paired.p_value / 2
    return half if loss > 0 else 1 - half if loss < 0 else 1.0


def _decided(found: _Found, p_adjusted: float, alpha: float) -> Compared:
    difference = found.paired.difference.mean
    # The test decides; the interval must not contradict it, as it may where few values are extreme.
    apart = found.paired.difference.low > 0 or found.paired.difference.high < 0
    shown = p_adjusted <= alpha and apart
    gain = -difference if found.metric in LESS_IS_BETTER else difference
    verdict = Verdict.NOT_SHOWN if not shown else Verdict.BETTER if gain > 0 else Verdict.WORSE
    return Compared(
        found.metric,
        found.first,
        found.second,
        found.paired,
        p_adjusted,
        verdict,
        found.item_count,
        found.changed,
        None if shown else needed(found.units),
    )


def needed(differences: Sequence[float]) -> int | None:
    """Units that would show a mean difference as large as that of `differences`; None where there is none to show."""
    if len(differences) < 2:
        return None
    gap, deviation = fmean(differences), stdev(differences)
    if not gap or not deviation or not math.isfinite(deviation):
        return None
    return max(len(differences) + 1, power.pairs_for_means(max(-1.0, min(1.0, gap)), deviation))


def _value(scores: Mapping[str, Score], key: str) -> float | None:
    return scores[key].value if key in scores else None
