import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluation.retrieval.collection import Question
from services.evaluation.retrieval.measures import (
    FIRST,
    MEASURES,
    MRR,
    NDCG,
    PRECISION,
    RECALL_10,
    RECALL_100,
    difference,
    interval,
    measure,
)


def question(number, *relevant):
    return Question(f"q{number}", "?", frozenset(relevant))


def test_measures_are_those_computed_by_hand():
    ranking = ["x", "a", "y", "b", *(f"n{n}" for n in range(10)), "c"]
    found = measure([question(1, "a", "b", "c", "d")], {"q1": ranking})
    # Relevant at places 2, 4 and 15 of 15, and one not found.
    ideal = sum(1 / math.log2(place + 1) for place in (1, 2, 3, 4))
    assert found.mean(NDCG) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert found.mean(RECALL_10) == pytest.approx(2 / 4)
    assert found.mean(RECALL_100) == pytest.approx(3 / 4)
    assert found.mean(MRR) == pytest.approx(1 / 2)
    assert found.mean(PRECISION) == pytest.approx(2 / 10)
    assert found.mean(FIRST) == 0
    assert found.coverage == 1


def test_a_first_relevant_passage_beyond_ten_places_has_no_reciprocal_rank():
    found = measure([question(1, "a")], {"q1": [*(f"n{n}" for n in range(10)), "a"]})
    assert found.mean(MRR) == 0
    assert found.mean(RECALL_100) == 1


def test_a_question_without_an_answer_counts_zero_and_lowers_the_coverage():
    questions = [question(n, "a") for n in range(1, 7)]
    answered = {one.question_id: ["a"] for at, one in enumerate(questions) if at % 3 != 2}
    found = measure(questions, answered)
    assert found.coverage == pytest.approx(4 / 6)
    assert all(found.mean(name) == pytest.approx(4 / 6 if name != PRECISION else 0.4 / 6) for name in MEASURES)


def test_an_empty_answer_is_an_answer():
    found = measure([question(1, "a"), question(2, "a")], {"q1": [], "q2": ["a"]})
    assert (found.coverage, found.mean(NDCG)) == (1, 0.5)


def test_nothing_answered_is_zero_everywhere():
    found = measure([question(1, "a")], {})
    assert found.coverage == 0
    assert {found.mean(name) for name in MEASURES} == {0.0}


@given(st.permutations(range(12)), st.sets(st.integers(0, 11), min_size=1))
def test_ndcg_is_that_of_its_definition(order, relevant):
    found = measure([question(1, *(f"p{n}" for n in relevant))], {"q1": [f"p{n}" for n in order]})
    gained = sum(1 / math.log2(at + 2) for at, n in enumerate(order[:10]) if n in relevant)
    ideal = sum(1 / math.log2(at + 2) for at in range(min(10, len(relevant))))
    assert found.mean(NDCG) == pytest.approx(gained / ideal)


def test_the_interval_of_a_coin_is_that_of_the_binomial_distribution():
    # 100 throws, 40 heads: the deviation of the mean is sqrt(0.4 * 0.6 / 100) = 0.049.
    found = interval(np.array([1.0] * 40 + [0.0] * 60))
    assert found.mean == pytest.approx(0.4)
    assert found.low == pytest.approx(0.4 - 1.96 * 0.049, abs=0.015)
    assert found.high == pytest.approx(0.4 + 1.96 * 0.049, abs=0.015)


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_an_interval_holds_the_mean_and_is_the_same_each_time(values):
    found = interval(np.array(values), resamples=500)
    assert found == interval(np.array(values), resamples=500)
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert min(values) - 1e-9 <= found.low
    assert found.high <= max(values) + 1e-9


def test_a_difference_is_taken_question_by_question():
    questions = [question(n, "a") for n in range(50)]
    good = {one.question_id: ["a"] if at % 2 else ["x", "a"] for at, one in enumerate(questions)}
    bad = {one.question_id: ["y", *good[one.question_id]] for one in questions}
    found = difference(measure(questions, good), measure(questions, bad), MRR)
    # Half of the questions lose 1 - 1/2, half 1/2 - 1/3: unpaired the interval would be four times as wide.
    assert found.mean == pytest.approx((1 / 2 + 1 / 6) / 2)
    assert found.half_width < 0.06
    assert difference(measure(questions, good), measure(questions, good), MRR).high == 0
