"""What all measurements need. Standard library only: load is offered from an image that has little else."""

import math
from collections.abc import Sequence


class NotMeasured(Exception):
    """What was to be measured did not do its work; the message says what went wrong."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` % of all do not exceed (nearest rank): always one that was measured.

    Raises ValueError without values.
    """
    if not values:
        raise ValueError("no values, no percentile")
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
