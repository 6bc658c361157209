from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.answers import Question
from loadtests.offering.arrivals import constant, poisson, schedule, share
from loadtests.offering.plan import Load, Row, Scenario

ONE = Question("one", "¿Uno?", [])
TWO = Question("two", "¿Dos?", [])


def row(name="a", per_second=5.0, **more):
    scenario = Scenario(name=name, questions=("one", "two"), arrivals_per_second=per_second)
    fields = {"name": name, "scenario": scenario, "asked": (ONE, TWO), "seconds": 20.0, "per_second": per_second}
    return Row(**fields | more)


def load(*rows, **more):
    return Load(file="test", profile="instant", rows=rows, **more)


def test_arrivals_are_at_random_gaps_with_the_planned_rate_and_the_same_each_time():
    due = poisson(50, 60, "1 a")
    assert due == poisson(50, 60, "1 a") != poisson(50, 60, "2 a")
    assert due == sorted(due)
    assert due[-1] < 60
    assert 0.9 < len(due) / 3000 < 1.1
    steps = [b - a for a, b in pairwise(due)]
    assert min(steps) < 0.002 < 0.08 < max(steps)


def test_constant_arrivals_have_equal_gaps_within_the_window():
    assert constant(2, 3) == [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]


def test_each_row_has_its_window_and_its_own_randomness():
    arrivals = schedule(load(row("a"), row("b", begins=30)))
    assert arrivals == sorted(arrivals)
    first, second = ([one.due for one in arrivals if one.row == place] for place in (0, 1))
    assert max(first) < 20
    assert 30 <= min(second) <= max(second) < 50
    assert [round(due - 30, 6) for due in second] != [round(due, 6) for due in first]


def test_questions_take_turns():
    assert [one.question for one in schedule(load(row()))][:4] == [0, 1, 0, 1]


def test_before_a_window_each_question_is_asked_once_uncounted():
    arrivals = schedule(load(row(begins=10, warm_up_seconds=2)))
    assert [(one.due, one.question) for one in arrivals if one.warm_up] == [(8, 0), (9, 1)]


def test_a_window_too_short_for_its_rate_still_asks_once():
    for process in ("poisson", "constant"):
        assert len(schedule(load(row(per_second=0.001, seconds=1.0, process=process)))) == 1


@given(st.integers(1, 9), st.integers(0, 3))
def test_every_arrival_is_offered_by_exactly_one_process(of, seed):
    arrivals = schedule(load(row("a"), row("b", begins=5), seed=seed))
    shares = [share(arrivals, place, of) for place in range(of)]
    assert sorted(one for part in shares for one in part) == arrivals
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_load_is_the_same_after_its_way_to_a_worker():
    sent = load(row("a", warm_up_seconds=1, factor=1.3), documents_from=3.0)
    assert Load.model_validate_json(sent.model_dump_json()) == sent
    assert sent.seconds == pytest.approx(20)
