import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from services.evaluation.score import Score, Status
from services.evaluation.statistics import interval, paired, paired_scores, summarise

values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def scored(*scores):
    """Scores by id: a value, or why there is none."""
    return {
        f"i{n}": Score("m", None, one) if isinstance(one, Status) else Score("m", one) for n, one in enumerate(scores)
    }


def test_the_interval_of_no_values_is_refused_and_that_of_one_is_itself():
    with pytest.raises(ValueError, match="no values"):
        interval(np.array([]))
    found = interval(np.array([0.4]))
    assert (found.mean, found.low, found.high, found.half_width) == (0.4, 0.4, 0.4, 0)


def test_a_plain_difference_is_shown_and_none_is_not():
    draw = np.random.default_rng(1)
    before = draw.uniform(0.3, 0.7, 100)
    better = paired(before, before + 0.05 + draw.normal(0, 0.05, 100))
    assert better.p_value < 0.001
    assert better.difference.low > 0
    same = paired(before, before + draw.normal(0, 0.05, 100))
    assert same.p_value > 0.05
    assert same.difference.low < 0 < same.difference.high


def test_few_pairs_are_gone_through_whole_so_that_the_p_value_is_exact():
    # All six pairs differ to the same side: 2 of 64 assignments are as extreme.
    assert paired([0.0] * 6, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).p_value == 2 / 64


@given(better=st.integers(0, 9), worse=st.integers(0, 9), equal=st.integers(0, 20))
@settings(max_examples=40)
def test_on_yes_and_no_it_is_mcnemars_exact_test(better, worse, equal):
    first = [0.0] * better + [1.0] * worse + [1.0] * equal
    second = [1.0] * better + [0.0] * worse + [1.0] * equal
    if not first:
        return
    expected = binomtest(better, better + worse).pvalue if better + worse else 1.0
    found = paired(first, second).p_value
    # Beyond log2 of the assignments drawn they are a sample.
    assert found == pytest.approx(expected, abs=1e-9 if better + worse <= 13 else 0.02)


@given(first=values, data=st.data())
@settings(max_examples=30)
def test_swapping_the_two_turns_the_difference_and_keeps_the_p_value(first, data):
    second = data.draw(st.lists(st.floats(0, 1), min_size=len(first), max_size=len(first)))
    found, turned = paired(first, second), paired(second, first)
    assert turned.difference.mean == pytest.approx(-found.difference.mean)
    assert turned.p_value == pytest.approx(found.p_value, abs=0.03)
    assert 0 < found.p_value <= 1
    assert found == paired(first, second)


def test_what_is_not_paired_is_refused():
    with pytest.raises(ValueError, match="2 values cannot be paired with 1"):
        paired([1.0, 2.0], [1.0])


def test_scores_are_paired_by_item_and_those_without_a_partner_are_counted():
    first = scored(0.5, 0.5, Status.JUDGE_FAILED, 0.5)
    second = scored(0.7, Status.NO_CLAIMS, 0.9, 0.6) | {"new": Score("m", 1.0)}
    found = paired_scores(first, second)
    assert (found.pair_count, found.lost_count) == (2, 3)
    assert found.difference.mean == pytest.approx(0.15)
    assert paired_scores(scored(0.5), scored(Status.JUDGE_FAILED)) is None


def test_a_mean_leaves_out_what_is_missing_and_says_how_much_that_is():
    scores = scored(1.0, 0.5, Status.JUDGE_FAILED, Status.NO_REFERENCE, Status.NO_REFERENCE, Status.OVER_BUDGET)
    found = summarise("m", list(scores.values()))
    assert (found.mean, found.scored_count, found.missing_count, found.coverage) == (0.75, 2, 2, 0.5)
    assert found.missing == {Status.JUDGE_FAILED: 1, Status.NO_REFERENCE: 2, Status.OVER_BUDGET: 1}
    assert found.low <= 0.75 <= found.high


def test_a_judge_that_fails_every_third_time_lowers_the_coverage_and_not_the_mean():
    every = [Score("m", None, Status.JUDGE_FAILED) if n % 3 == 2 else Score("m", 0.8) for n in range(30)]
    found = summarise("m", every)
    assert (found.mean, found.coverage) == (pytest.approx(0.8), pytest.approx(2 / 3))


def test_nothing_scored_is_no_mean_and_not_zero():
    found = summarise("m", [Score("m", None, Status.NO_CLAIMS)])
    assert (found.mean, found.low, found.high, found.coverage) == (None, None, None, 0.0)
    nothing = summarise("m", [])
    assert (nothing.mean, nothing.coverage) == (None, 1.0)


@given(values)
@settings(max_examples=30)
def test_a_mean_lies_within_its_interval_and_the_interval_within_the_values(found):
    mean = summarise("m", [Score("m", value) for value in found])
    assert mean.low - 1e-9 <= mean.mean <= mean.high + 1e-9
    assert min(found) - 1e-9 <= mean.low <= mean.high <= max(found) + 1e-9


@pytest.mark.parametrize(("value", "status"), [(None, Status.OK), (0.5, Status.NO_CLAIMS)])
def test_a_score_without_a_value_must_say_why_and_one_with_a_value_must_not(value, status):
    with pytest.raises(ValueError, match="status"):
        Score("m", value, status)
