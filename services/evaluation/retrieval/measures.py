"""Measures of a ranking, by ir-measures (MacAvaney et al. 2022), and how sure their means are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ir_measures
import numpy as np
from numpy.typing import NDArray

from services.evaluation.retrieval.collection import Question
from services.evaluation.statistics import Estimate, interval

# Passage ids by question id, best first. A question that got no answer is not there.
Rankings = Mapping[str, Sequence[str]]

NDCG, RECALL_10, RECALL_100, MRR, PRECISION, FIRST = "nDCG@10", "R@10", "R@100", "RR@10", "P@10", "P@1"
MEASURES = (NDCG, RECALL_10, RECALL_100, MRR, PRECISION, FIRST)
# Its types name those of pandas, which is not there.
_library: Any = ir_measures
_PARSED = [ir_measures.parse_measure(name) for name in MEASURES]


@dataclass(frozen=True)
class Measured:
    """Values by measure, one a question in the order asked, and the share of the questions that were answered."""

    values: Mapping[str, NDArray[np.float64]]
    coverage: float

    def mean(self, measure: str) -> float:
        """Over all questions that were asked."""
        return float(self.values[measure].mean())

    def estimate(self, measure: str) -> Estimate:
        """The mean with the interval that resampling the questions gives."""
        return interval(self.values[measure])


def measure(questions: Sequence[Question], rankings: Rankings) -> Measured:
    """Scores rankings; a question without an answer scores 0, so that failures never raise a mean.

    Places count, not scores: equal scores have been put in order before.
    """
    qrels = {one.question_id: dict.fromkeys(one.relevant, 1) for one in questions}
    run = {
        one.question_id: {passage: float(-place) for place, passage in enumerate(rankings[one.question_id])}
        for one in questions
        if rankings.get(one.question_id)
    }
    place = {one.question_id: at for at, one in enumerate(questions)}
    values = {name: np.zeros(len(questions)) for name in MEASURES}
    for found in _library.iter_calc(_PARSED, qrels, run) if run else ():
        values[str(found.measure)][place[found.query_id]] = found.value
    answered = sum(one.question_id in rankings for one in questions)
    return Measured(values, answered / len(questions) if questions else 0.0)


def difference(one: Measured, other: Measured, name: str) -> Estimate:
    """By how much `one` is above `other`, question by question."""
    return interval(one.values[name] - other.values[name])
