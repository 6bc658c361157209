from hypothesis import given
from hypothesis import strategies as st

from services.gateway.pools.outliers import Outlier


def ejected(failures=3, seconds=10.0):
    outlier = Outlier(failures, seconds)
    for _ in range(failures):
        outlier.failed(0)
    return outlier


def test_failures_in_a_row_eject_and_a_success_between_them_does_not():
    outlier = Outlier(3, 10)
    assert [outlier.failed(0), outlier.failed(0)] == [False, False]
    outlier.succeeded()
    assert [outlier.failed(0), outlier.failed(0), outlier.failed(0)] == [False, False, True]
    assert outlier.ejected(9.9)


def test_one_trial_goes_to_it_when_the_time_is_over():
    outlier = ejected()
    assert not outlier.ejected(10)
    outlier.chosen(10)
    assert outlier.ejected(10.1), "others wait for what the trial says"
    outlier.succeeded()
    assert not outlier.ejected(10.2)


def test_a_failed_trial_ejects_for_twice_as_long():
    outlier = ejected()
    outlier.chosen(10)
    assert outlier.failed(11)
    assert outlier.ejected(30.9)
    assert not outlier.ejected(31)


def test_the_time_grows_to_ten_times_at_most():
    outlier, now = ejected(), 10.0
    for _ in range(12):
        now = outlier.ejected_until
        outlier.chosen(now)
        outlier.failed(now)
    assert outlier.ejected_until - now == 100


def test_a_trial_whose_client_left_makes_way_for_another():
    outlier = ejected()
    outlier.chosen(10)
    outlier.abandoned()
    assert not outlier.ejected(10.1)


def test_a_trial_of_which_nothing_is_heard_does_not_last_for_ever():
    outlier = ejected()
    outlier.chosen(10)
    assert not outlier.ejected(20.1)


def test_none_is_ejected_where_too_many_are_out_already():
    outlier = Outlier(1, 10)
    assert not outlier.failed(0, may_eject=False)
    assert not outlier.ejected(0)
    assert outlier.failed(0)


@given(st.lists(st.sampled_from(["chosen", "succeeded", "failed", "abandoned", "wait"]), max_size=60))
def test_whatever_happens_it_comes_back_in_the_end(events):
    outlier, now = Outlier(2, 1), 0.0
    for event in events:
        now += 0.3
        match event:
            case "chosen":
                outlier.chosen(now)
            case "succeeded":
                outlier.succeeded()
                assert not outlier.ejected(now)
            case "failed":
                outlier.failed(now)
            case "abandoned":
                outlier.abandoned()
    assert not outlier.ejected(now + 21)
