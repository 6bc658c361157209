"""What a run comes to: means with intervals by variant, stratum and language, coverage, times, tool selection."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from services.evaluation.golden.item import Item
from services.evaluation.runs.record import Evidence, Record, Scored, by_variant
from services.evaluation.score import Mean, Score, Status
from services.evaluation.statistics import summarise

ALL = "all"


@dataclass(frozen=True)
class Times:
    """Milliseconds that the stack says an answer took."""

    median: float
    p95: float


@dataclass(frozen=True)
class VariantSummary:
    """One variant. `parts`: by (stratum, language), each or both of them `all`, then by metric."""

    variant: str
    asked_count: int
    answered_count: int
    failures: Mapping[str, int]
    evidence: Mapping[str, int]
    parts: Mapping[tuple[str, str], Mapping[str, Mean]]
    times: Times | None = None
    tokens: int = 0

    @property
    def coverage(self) -> float:
        """Share of the questions that have an answer."""
        return self.answered_count / self.asked_count if self.asked_count else 0.0

    @property
    def means(self) -> Mapping[str, Mean]:
        """Over everything."""
        return self.parts.get((ALL, ALL), {})


@dataclass(frozen=True)
class Summary:
    """All variants in the order of the run; metrics in the order in which they were first measured."""

    variants: Sequence[VariantSummary]
    metrics: Sequence[str] = field(default_factory=list[str])

    def of(self, variant: str) -> VariantSummary:
        """Raises KeyError."""
        for one in self.variants:
            if one.variant == variant:
                return one
        raise KeyError(variant)


def summary_of(
    items: Sequence[Item], variants: Sequence[str], records: Sequence[Record], scored: Sequence[Scored]
) -> Summary:
    """Of a whole run. A part without a single value of a metric does not have it."""
    scores = by_variant(scored)
    # One that applies to no question of the set is no row of a report.
    metrics = list(dict.fromkeys(one.score.metric for one in scored if one.score.status is not Status.NO_REFERENCE))
    made = [
        _variant(name, items, [one for one in records if one.variant == name], scores.get(name, {}))
        for name in variants
    ]
    return Summary(made, metrics)


def _variant(
    name: str, items: Sequence[Item], records: Sequence[Record], scores: Mapping[str, Mapping[str, Score]]
) -> VariantSummary:
    answers = [one.answered for one in records if one.answered is not None]
    totals = [one.milliseconds["total"] for one in answers if "total" in one.milliseconds]
    return VariantSummary(
        name,
        len(records),
        len(answers),
        Counter(one.failure.partition(":")[0] for one in records if one.answered is None),
        Counter(
            one.evidence.value for one in records if one.answered is not None and one.evidence is not Evidence.NONE
        ),
        _parts(items, scores),
        Times(float(np.median(totals)), float(np.quantile(totals, 0.95))) if totals else None,
        sum(sum(one.tokens.values()) for one in answers),
    )


def _parts(items: Sequence[Item], scores: Mapping[str, Mapping[str, Score]]) -> dict[tuple[str, str], dict[str, Mean]]:
    strata = [ALL, *sorted({item.stratum.value for item in items})]
    languages = [ALL, *sorted({item.language for item in items})]
    means = _Means()
    found: dict[tuple[str, str], dict[str, Mean]] = {}
    for stratum in strata:
        for language in languages:
            ids = {
                item.id for item in items if stratum in (ALL, item.stratum.value) and language in (ALL, item.language)
            }
            part = {
                metric: means.of(metric, [by_item[key] for key in by_item if key in ids])
                for metric, by_item in scores.items()
            }
            # Why there is no value at all is told of the whole.
            is_whole = (stratum, language) == (ALL, ALL)
            found[stratum, language] = {name: mean for name, mean in part.items() if mean.scored_count or is_whole}
    return found


class _Means:
    """Means of scores. The same values have the same interval, and in small parts most values are the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[float | None, Status], ...], Mean] = {}

    def of(self, metric: str, scores: Sequence[Score]) -> Mean:
        """See `summarise`."""
        key = tuple((one.value, one.status) for one in scores)
        if key not in self._known:
            self._known[key] = summarise(metric, scores)
        return replace(self._known[key], metric=metric)
