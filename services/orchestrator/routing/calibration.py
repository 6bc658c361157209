"""What a lead is worth: of decisions with confidence 0.9, 9 in 10 are right (Platt 1999)."""

import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import cast

import yaml


@dataclass(frozen=True)
class Calibration:
    """Probability that the best label is right: a logistic function of its lead over the second best.

    `fits`: the same where a reviewed query says every word of the question, which is more than a lead can tell.
    """

    slope: float
    intercept: float
    fits: float

    def confidence(self, lead: float, *, fits: bool = False) -> float:
        """Between 0 and 1. `lead` counts from 0 on."""
        if fits:
            return self.fits
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, self.slope * lead + self.intercept))))


@cache
def committed() -> Calibration:
    """The parameters of calibration.yaml, which says how they were made."""
    text = files("services.orchestrator.routing").joinpath("calibration.yaml").read_text(encoding="utf-8")
    return Calibration(**cast(dict[str, float], yaml.safe_load(text)))
