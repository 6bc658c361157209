"""What a figure means: where each metric raises an alarm, what to do below it, and what one number would hide."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.evaluation.metrics.catalogue import METRICS
from services.evaluation.metrics.noise_sensitivity import ALARM_ABOVE, NAME
from services.evaluation.runs import deterministic
from services.evaluation.score import Mean
from services.evaluation.tools.descriptions import THRESHOLD

# Where a mean is no longer called low.
_GOOD_RECALL, _GOOD_ANSWER = 0.85, 0.80


@dataclass(frozen=True)
class Bound:
    """A threshold. `above`: it is the high values that are bad."""

    value: float
    above: bool = False

    def is_broken(self, mean: float) -> bool:
        """Whether the alarm is due."""
        return mean > self.value if self.above else mean < self.value

    @property
    def text(self) -> str:
        """As a reader sees it."""
        return f"{'≤' if self.above else '≥'} {self.value:.2f}"


BOUNDS: Mapping[str, Bound] = {
    **{metric.name: Bound(metric.alarm_below) for metric in METRICS if metric.alarm_below is not None},
    **{one.name: Bound(one.alarm_below) for one in deterministic.METRICS if one.alarm_below is not None},
    NAME: Bound(ALARM_ABOVE, above=True),
    deterministic.TOOLS: Bound(THRESHOLD),
}

_ADVICE: Mapping[str, str] = {
    "faithfulness": "the synthesis prompt, its rules of citing, the temperature. Below 0.75 users complain.",
    "answer_relevance": "the synthesis prompt: the answers speak of something else than was asked.",
    "context_precision": "a reranker, a smaller K, a threshold of score. It drags faithfulness down with it.",
    "context_precision_ranked": "the reranker: what is relevant stands too far down.",
    "context_recall": "chunking (larger chunks), metadata, more languages or words in the index.",
    "noise_sensitivity": "the synthesis prompt and the reranker: the model takes up what is irrelevant.",
    "tool_selection_accuracy": "the descriptions of the tools that are confused (below), before the model.",
    "refusal_accuracy": "what is refused although it has an answer, or answered although it has none (below).",
}


@dataclass(frozen=True)
class Alarm:
    """A threshold that is broken, and what to look at. `is_sure`: by the whole interval."""

    metric: str
    mean: float
    bound: Bound
    advice: str
    is_sure: bool


def alarms(means: Mapping[str, Mean]) -> list[Alarm]:
    """Of one variant, in the order of the metrics."""
    found: list[Alarm] = []
    for metric, one in means.items():
        bound = BOUNDS.get(metric)
        if bound is None or one.mean is None or not bound.is_broken(one.mean):
            continue
        edge = one.low if bound.above else one.high
        sure = edge is not None and bound.is_broken(edge)
        found.append(Alarm(metric, one.mean, bound, _ADVICE.get(metric, ""), sure))
    return found


def hidden(means: Mapping[str, Mean]) -> list[str]:
    """The three failures that a single number would hide, where the figures show them."""
    value = {name: one.mean for name, one in means.items() if one.mean is not None}
    faithful, relevant = value.get("faithfulness"), value.get("answer_relevance")
    recall, precision = value.get("context_recall"), value.get("context_precision")
    found: list[str] = []
    if faithful is not None and recall is not None and _low("faithfulness", faithful) and recall >= _GOOD_RECALL:
        found.append(
            "The right passages were found and the model invents all the same: see to the prompt, not the search."
        )
    facts = value.get("reference_facts", faithful)
    badly_found = (recall is not None and _low("context_recall", recall)) or (
        precision is not None and _low("context_precision", precision)
    )
    if badly_found and facts is not None and facts >= _GOOD_ANSWER:
        found.append(
            "The answers are right although the wrong passages were found: the model knows them by itself. That ends "
            "with the first question that it does not know."
        )
    if (
        relevant is not None
        and faithful is not None
        and _low("answer_relevance", relevant)
        and not _low("faithfulness", faithful)
        and not badly_found
    ):
        found.append("Passages and claims are right, and another question is answered than the one that was asked.")
    return found


def _low(metric: str, value: float) -> bool:
    return BOUNDS[metric].is_broken(value)
