"""Drift: no alarm while nothing changes, more often than alpha says; an alarm when something does."""

import numpy as np
import pytest

from services.evaluation.online import drift
from services.evaluation.online.drift import TenantDrift, Windows
from services.evaluation.online.two_samples import numbers_differ, shares_differ, vectors_differ, words_differ
from tests.unit.evaluation.online.world import answered, traffic

SMALL = Windows(reference=120, window=60, alpha=0.02)


def vectors(seed, shift=0.0, dimensions=16):
    random = np.random.default_rng(seed)
    while True:
        yield random.normal(size=dimensions) + shift


def verdicts(windows, *parts):
    """Of one tenant's traffic: parts are (answers, vectors)."""
    watched = TenantDrift(windows)
    return [one for answers, points in parts for answer in answers for one in watched.add(answer, next(points))]


def test_there_is_no_verdict_before_a_window_is_full():
    watched = TenantDrift(SMALL)
    found = [watched.add(answer, None) for answer in traffic(1, 179)]
    assert not any(found)
    (last,) = traffic(1, 1)
    assert {one.kind for one in watched.add(last, None)} == {drift.RETRIEVAL_SCORE, drift.REFUSALS, drift.TOOL_MIX}


def test_traffic_that_stays_as_it_is_alarms_no_more_often_than_alpha_says():
    """180 comparisons; of 0.02 each one expects 4, and more than 13 in one of 10,000 such tests."""
    found = [one for seed in range(15) for one in verdicts(SMALL, (traffic(seed, 300), vectors(seed)))]
    assert len(found) == 15 * 3 * 4
    assert sum(one.is_drift for one in found) <= 13
    assert {one.kind for one in found} == {drift.RETRIEVAL_SCORE, drift.REFUSALS, drift.TOOL_MIX, drift.QUESTIONS}


@pytest.mark.parametrize(
    ("kind", "changed", "shift"),
    [
        (drift.RETRIEVAL_SCORE, {"score": 0.6}, 0.0),
        (drift.REFUSALS, {"refused": 0.5}, 0.0),
        (drift.TOOL_MIX, {"sql": 0.8}, 0.0),
        (drift.QUESTIONS, {}, 0.8),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_planted_change_is_seen_in_its_kind_and_in_no_other(kind, changed, shift, seed):
    before = traffic(seed, 120), vectors(seed)
    after = traffic(seed + 100, 60, **changed), vectors(seed + 100, shift)
    found = verdicts(Windows(120, 60, 0.001), before, after)
    assert [one.kind for one in found if one.is_drift] == [kind]


def test_an_answer_without_a_ranking_or_a_vector_takes_part_in_the_other_kinds():
    watched = TenantDrift(Windows(reference=2, window=1, alpha=0.5))
    for _ in range(2):
        watched.add(answered(passages=()), None)
    assert {one.kind for one in watched.add(answered(passages=()), None)} == {drift.REFUSALS, drift.TOOL_MIX}


def test_after_an_alarm_the_next_window_is_judged_by_itself():
    found = verdicts(
        SMALL, (traffic(1, 120), vectors(1)), (traffic(2, 60, refused=0.9), vectors(2)), (traffic(3, 60), vectors(3))
    )
    refusals = [one.is_drift for one in found if one.kind == drift.REFUSALS]
    assert refusals == [True, False]


def test_samples_that_are_the_same_do_not_differ():
    points = list(np.eye(3)) * 4
    for found in (
        numbers_differ([0.5] * 9, [0.5] * 5),
        shares_differ([True, False] * 5, [True, False] * 3),
        words_differ(["a"] * 30, ["a"] * 20),
        words_differ(["a", "b"] * 20, ["a", "b"] * 20),
        vectors_differ(points, points[:6], 199),
    ):
        assert found.p_value > 0.2
        assert found.distance < 0.2


def test_words_that_are_new_count_though_each_is_rare():
    found = words_differ(["a"] * 200, [f"new {n}" for n in range(100)])
    assert found.p_value < 1e-6
    assert found.distance == pytest.approx(1)
