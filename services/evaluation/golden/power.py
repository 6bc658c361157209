"""How many questions show which difference, where two configurations answer the same ones.

Shares (right or wrong): McNemar's test by its normal approximation, Connor, Biometrics 43 (1987) 207-211; Miettinen,
Biometrics 24 (1968) 339-352. Means (a score within [0, 1]): the paired t test with Guenther's correction, The American
Statistician 35 (1981) 243-244.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Design:
    """A two-sided paired test."""

    # Of seeing a difference where there is none.
    alpha: float = 0.05
    # Of seeing the difference where there is one.
    power: float = 0.8


DEFAULT = Design()


def pairs_for_shares(difference: float, discordant: float, test: Design = DEFAULT) -> int:
    """Pairs that show a difference of two shares.

    `discordant` is the share of questions that exactly one of the two answers rightly, within [|difference|, 1].
    Raises ValueError.
    """
    gap = _gap(difference)
    if not gap <= discordant <= 1:
        raise ValueError(f"the discordant share is within [{gap}, 1], not {discordant}")
    wide = _upper(test) * math.sqrt(discordant)
    narrow = _NORMAL.inv_cdf(test.power) * math.sqrt(discordant - gap * gap)
    return math.ceil(((wide + narrow) / gap) ** 2)


def pairs_for_means(difference: float, deviation: float, test: Design = DEFAULT) -> int:
    """Pairs that show a difference of two means; `deviation` is that of the differences. Raises ValueError."""
    gap = _gap(difference)
    if deviation <= 0:
        raise ValueError(f"a deviation is above 0, not {deviation}")
    upper = _upper(test)
    return math.ceil(((upper + _NORMAL.inv_cdf(test.power)) * deviation / gap) ** 2 + upper * upper / 2)


def power_for_shares(pairs: int, difference: float, discordant: float, alpha: float = 0.05) -> float:
    """Probability that `pairs` questions show the difference. Raises ValueError."""
    gap = _gap(difference)
    if not gap <= discordant <= 1 or pairs < 1:
        raise ValueError(f"{pairs} pairs with a discordant share of {discordant} show nothing")
    spread = math.sqrt(discordant - gap * gap)
    distance = gap * math.sqrt(pairs) - _upper(Design(alpha)) * math.sqrt(discordant)
    return _NORMAL.cdf(distance / spread) if spread else float(distance > 0)


def power_for_means(pairs: int, difference: float, deviation: float, alpha: float = 0.05) -> float:
    """Probability that `pairs` questions show the difference. Raises ValueError."""
    if pairs < 2 or deviation <= 0:
        raise ValueError(f"{pairs} pairs with a deviation of {deviation} show nothing")
    upper = _upper(Design(alpha))
    corrected = max(pairs - upper * upper / 2, 0)
    return _NORMAL.cdf(_gap(difference) * math.sqrt(corrected) / deviation - upper)


def least_difference(pairs: int, discordant: float, test: Design = DEFAULT) -> float:
    """The smallest difference of two shares that `pairs` questions show; above 1 where they show none."""
    low, high = 1e-6, discordant
    if power_for_shares(pairs, high, discordant, test.alpha) < test.power:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        if power_for_shares(pairs, middle, discordant, test.alpha) < test.power:
            low = middle
        else:
            high = middle
    return high


def table(differences: Sequence[float] = (0.02, 0.03, 0.05, 0.08, 0.1, 0.15), test: Design = DEFAULT) -> str:
    """Markdown: pairs by difference, for shares with few and many discordant questions and for a score."""
    shares, deviations = (0.1, 0.2, 0.3), (0.2, 0.3)
    header = [
        "difference",
        *(f"share, {share:.0%} discordant" for share in shares),
        *(f"score, deviation {deviation}" for deviation in deviations),
    ]
    lines = [_row(header), _row(["---"] * len(header))]
    for one in differences:
        cells = [f"{pairs_for_shares(one, share, test):,}" if one <= share else "–" for share in shares]
        cells += [f"{pairs_for_means(one, deviation, test):,}" for deviation in deviations]
        lines.append(_row([f"{one:.2f}", *cells]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _gap(difference: float) -> float:
    gap = abs(difference)
    if not 0 < gap <= 1:
        raise ValueError(f"a difference of shares or scores is within (0, 1], not {difference}")
    return gap


def _upper(test: Design) -> float:
    return _NORMAL.inv_cdf(1 - test.alpha / 2)
