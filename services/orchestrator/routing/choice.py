"""Which tools a question needs together, and how sure that is: log-linear in what the head says of it and its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Any, cast

import numpy as np
import yaml

from services.orchestrator.routing.examples import NONE
from services.orchestrator.routing.head import SEVERAL

Scores = Mapping[str, float]
_MOST = 3


@dataclass(frozen=True)
class Choice:
    """Tools that are needed together, none where that is empty, and the probability that it is exactly these."""

    labels: frozenset[str]
    confidence: float


@dataclass(frozen=True)
class Calibration:
    """The parameters: a weight for each of `traits`.

    `fits`: the probability that is right where a reviewed query says every word of the question.
    """

    weights: Mapping[str, float]
    fits: float

    def choose(self, whole: Scores, parts: Sequence[Scores]) -> Choice:
        """The likeliest tools, given the scores of the question and of its parts.

        The probability of a set is the softmax of its weighted traits over all sets (McFadden 1974).
        """
        sets = candidates(whole, parts)
        found = traits(whole, parts, sets)
        logits = np.array([sum(self.weights.get(name, 0.0) * value for name, value in one.items()) for one in found])
        odds = np.exp(logits - logits.max())
        best = int(np.argmax(odds))
        return Choice(sets[best], float(odds[best] / odds.sum()))


def candidates(whole: Scores, parts: Sequence[Scores]) -> list[frozenset[str]]:
    """No tool, and each way to put together the tools that score best."""
    best = {name: max(one[name] for one in (whole, *parts)) for name in whole if name not in (NONE, SEVERAL)}
    names = sorted(best, key=lambda name: -best[name])[:_MOST]
    return [frozenset(one) for size in range(len(names) + 1) for one in combinations(names, size)]


def traits(whole: Scores, parts: Sequence[Scores], sets: Sequence[frozenset[str]]) -> list[Mapping[str, float]]:
    """What speaks for or against each set; those of the parts are 0 where there are none."""
    told = {name: max(one[name] for one in parts) for name in whole} if parts else dict.fromkeys(whole, 0.0)
    says = frozenset(max((name for name in one if name != SEVERAL), key=lambda name: one[name]) for one in parts) - {
        NONE
    }
    return [_traits(one, whole, told, says if parts else None) for one in sets]


def _traits(labels: frozenset[str], whole: Scores, told: Scores, says: frozenset[str] | None) -> Mapping[str, float]:
    """`told`: the best score of each label over the parts. `says`: the best labels of the parts."""
    size, several, three = len(labels), float(len(labels) > 1), float(len(labels) > 2)
    found = {
        "score": sum(whole[name] for name in labels),
        "size": float(size),
        "none": float(not size),
        "none_score": (not size) * whole.get(NONE, 0.0),
        "several": several,
        "several_score": several * whole.get(SEVERAL, 0.0),
        "several_none": several * whole.get(NONE, 0.0),
        "several_weakest": several * min((whole[name] for name in labels), default=0.0),
        "three": three,
        "three_score": three * whole.get(SEVERAL, 0.0),
    }
    if says is not None:
        found |= {
            "part_score": sum(told[name] for name in labels),
            "part_size": float(size),
            "part_none_score": (not size) * told.get(NONE, 0.0),
            "part_several": several,
            "part_several_score": several * told.get(SEVERAL, 0.0),
            "part_several_weakest": several * min((told[name] for name in labels), default=0.0),
            "parts_agree": float(labels == says),
            "parts_differ": several * float(len(says) > 1),
            "unsaid": float(len(labels - says)),
            "missing": float(len(says - labels)),
        }
    return found


@cache
def committed() -> Calibration:
    """The parameters of calibration.yaml, which says how they were made."""
    text = files("services.orchestrator.routing").joinpath("calibration.yaml").read_text(encoding="utf-8")
    known = cast(dict[str, Any], yaml.safe_load(text))
    return Calibration(known["weights"], known["fits"])
