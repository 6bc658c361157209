"""The circuit breaker, by the clock."""

from services.runtime.model_server import Breaker


class Clock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_server_that_fails_in_a_row_is_left_alone_and_then_tried_by_one():
    clock = Clock()
    breaker = Breaker(failures=3, open_seconds=2, clock=clock)
    for _ in range(3):
        assert breaker.seconds_until_free() == 0
        breaker.failed()
    assert breaker.seconds_until_free() == 2
    clock.now += 2
    assert breaker.seconds_until_free() == 0
    assert breaker.seconds_until_free() == 2  # the others wait for the first one's answer
    breaker.failed()
    clock.now += 1
    assert breaker.seconds_until_free() == 1
    clock.now += 1
    assert breaker.seconds_until_free() == 0
    breaker.succeeded()
    assert breaker.seconds_until_free() == breaker.seconds_until_free() == 0


def test_failures_with_a_success_between_them_do_not_count():
    breaker = Breaker(failures=2, clock=Clock())
    for _ in range(5):
        breaker.failed()
        breaker.succeeded()
    assert breaker.seconds_until_free() == 0


def test_a_trial_whose_caller_has_gone_does_not_close_the_way_for_ever():
    clock = Clock()
    breaker = Breaker(failures=1, open_seconds=2, clock=clock)
    breaker.failed()
    clock.now += 2
    assert breaker.seconds_until_free() == 0  # asked, and never told how it ended
    clock.now += 2
    assert breaker.seconds_until_free() == 0
