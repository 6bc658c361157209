"""How sure a mean or a difference of means is: bootstrap intervals and paired permutation tests, both by scipy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from services.evaluation.score import Mean, Score, Status, valued

RESAMPLES = 5_000
# At most so many assignments are drawn; fewer pairs than log2 of it, and all are gone through: the p value is exact.
PERMUTATIONS = 9_999
_SEED = 7
# Resamples held in memory at once.
_BATCH = 500
# Its types are not strict ones.
_scipy: Any = scipy.stats


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Paired:
    """By how much the second of two is above the first, item by item, and how likely chance alone does as much.

    `p_value`: two-sided, of the permutation test that swaps the two within pairs. `lost_count`: items that have no
    value on one side or both; they are in neither mean.
    """

    difference: Estimate
    p_value: float
    pair_count: int
    lost_count: int = 0


def interval(values: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = _SEED) -> Estimate:
    """95 % percentile interval of the mean by the bootstrap (Efron 1979; for retrieval Sakai 2006), seeded.

    Of paired differences it is the paired bootstrap. One value is its own interval. Raises ValueError for none.
    """
    if not len(values):
        raise ValueError("there is no mean of no values")
    mean = float(np.mean(values))
    if len(values) == 1:
        return Estimate(mean, mean, mean)
    draw = np.random.default_rng(seed)
    found = _scipy.bootstrap(
        (values,), np.mean, n_resamples=resamples, batch=_BATCH, method="percentile", rng=draw, vectorized=True
    ).confidence_interval
    return Estimate(mean, float(found.low), float(found.high))


def paired(first: Sequence[float], second: Sequence[float], *, permutations: int = PERMUTATIONS) -> Paired:
    """Compares two systems on the same items, in the same order, seeded (Smucker, Allan and Carterette 2007).

    On yes-or-no values with few pairs it is McNemar's exact test. Raises ValueError for unequal lengths or no pair.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values cannot be paired with {len(second)}")
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    return Paired(interval(differences), _p_value(differences, permutations), len(differences))


def paired_scores(first: Mapping[str, Score], second: Mapping[str, Score]) -> Paired | None:
    """Compares one metric's scores by item id, where both have a value; None where no item has both."""
    ids = sorted(first.keys() | second.keys())
    pairs = [(_value(first, key), _value(second, key)) for key in ids]
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    if not both:
        return None
    found = paired([one for one, _ in both], [other for _, other in both])
    return Paired(found.difference, found.p_value, found.pair_count, len(ids) - len(both))


def summarise(metric: str, scores: Sequence[Score]) -> Mean:
    """The mean of the values there are, with its interval; those that are missing are counted by reason."""
    values = valued(scores)
    missing = {status: count for status in Status if (count := sum(one.status is status for one in scores))}
    missing.pop(Status.OK, None)
    if not values:
        return Mean(metric, None, None, None, 0, missing)
    found = interval(np.array(values))
    return Mean(metric, found.mean, found.low, found.high, len(values), missing)


def _value(scores: Mapping[str, Score], key: str) -> float | None:
    return scores[key].value if key in scores else None


def _p_value(differences: NDArray[np.float64], permutations: int) -> float:
    if not differences.any():
        return 1.0
    # A pair of equals is the same whichever way round; without it small sets are gone through whole.
    unequal = differences[differences != 0]
    if len(unequal) == 1:
        return 1.0
    return float(
        _scipy.permutation_test(
            (unequal,),
            np.sum,
            permutation_type="samples",
            n_resamples=permutations,
            batch=_BATCH,
            vectorized=True,
            rng=np.random.default_rng(_SEED),
        ).pvalue
    )
