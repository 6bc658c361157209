"""Whether two samples come from the same source: a distance and a p value for numbers, shares, words and vectors.

Numbers: Kolmogorov-Smirnov. Shares: Fisher's exact test. Words: chi-squared over those that are frequent enough.
Vectors: energy distance (Székely and Rizzo 2004) with a permutation test, as its law is not known.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.spatial.distance
import scipy.stats
from numpy.typing import NDArray

_stats: Any = scipy.stats
_distance: Any = scipy.spatial.distance
# Below it the chi-squared law is none: rarer words count as one.
_LEAST_EXPECTED = 5
_SEED = 7
_RARE = ""


@dataclass(frozen=True)
class Difference:
    """`distance` grows from 0; `p_value`: how often chance alone makes it as large."""

    distance: float
    p_value: float


def numbers_differ(reference: Sequence[float], window: Sequence[float]) -> Difference:
    """The largest distance of the distribution functions, 0 to 1."""
    found = _stats.ks_2samp(reference, window)
    return Difference(float(found.statistic), float(found.pvalue))


def shares_differ(reference: Sequence[bool], window: Sequence[bool]) -> Difference:
    """By how much the share of True differs, 0 to 1."""
    table = [[sum(one), len(one) - sum(one)] for one in (reference, window)]
    p_value = float(_stats.fisher_exact(table).pvalue)
    return Difference(abs(sum(reference) / len(reference) - sum(window) / len(window)), p_value)


def words_differ(reference: Sequence[str], window: Sequence[str]) -> Difference:
    """The total variation distance of the shares, 0 to 1."""
    counts = Counter(reference), Counter(window)
    least = _LEAST_EXPECTED * (len(reference) + len(window)) / min(len(reference), len(window))
    table: dict[str, list[int]] = {}
    for word in sorted({*reference, *window}):
        pair = [count[word] for count in counts]
        key = word if sum(pair) >= least else _RARE
        table[key] = [a + b for a, b in zip(table.get(key, [0, 0]), pair, strict=True)]
    columns = np.array(list(table.values()), dtype=np.float64).T
    if columns.shape[1] < 2:
        return Difference(0.0, 1.0)
    shares = columns / columns.sum(axis=1, keepdims=True)
    return Difference(float(np.abs(shares[0] - shares[1]).sum() / 2), float(_stats.chi2_contingency(columns).pvalue))


def vectors_differ(
    reference: Sequence[NDArray[np.float64]], window: Sequence[NDArray[np.float64]], permutations: int = 1999
) -> Difference:
    """The energy distance, of vectors of one length. The p value is never below 1 / (`permutations` + 1)."""
    both = np.vstack([*reference, *window])
    distances = np.asarray(_distance.cdist(both, both), dtype=np.float64)
    member = np.zeros(len(both))
    member[len(reference) :] = 1
    random = np.random.default_rng(_SEED)
    members = np.vstack([member, random.permuted(np.tile(member, (permutations, 1)), axis=1)])
    energies = _energies(distances, members)
    # Not smaller by rounding only is not smaller.
    as_large = int((energies[1:] >= energies[0] - 1e-12).sum())
    return Difference(max(0.0, float(energies[0])), (as_large + 1) / (permutations + 1))


def _energies(distances: NDArray[np.float64], members: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each row of `members` (1: of the window, 0: of the reference): 2 E|X-Y| - E|X-X'| - E|Y-Y'|."""
    others = 1 - members
    seen = members @ distances
    within_window = (seen * members).sum(axis=1) / members.sum(axis=1) ** 2
    between = (seen * others).sum(axis=1) / (members.sum(axis=1) * others.sum(axis=1))
    within_reference = ((others @ distances) * others).sum(axis=1) / others.sum(axis=1) ** 2
    return 2 * between - within_window - within_reference
