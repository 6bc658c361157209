"""When a provider is asked, and when it is left to rest."""

from services.web_tool.search.breaker import Breaker, State


class Clock:
    """A time that the test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def opened(failures=3, rest_seconds=10):
    clock = Clock()
    breaker = Breaker(failures=failures, rest_seconds=rest_seconds, clock=clock)
    for _ in range(failures):
        assert breaker.admits()
        breaker.failed()
    return breaker, clock


def test_it_opens_after_failures_in_a_row():
    breaker, _ = opened()
    assert breaker.state is State.OPEN
    assert not breaker.admits()
    assert breaker.rest_seconds == 10


def test_a_success_in_between_starts_the_count_anew():
    breaker = Breaker(failures=2, rest_seconds=10)
    for _ in range(5):
        breaker.failed()
        breaker.succeeded()
    assert breaker.state is State.CLOSED


def test_after_its_rest_one_call_tries():
    breaker, clock = opened()
    clock.now += 10
    assert breaker.state is State.TRIAL
    assert breaker.admits()
    assert not breaker.admits()
    breaker.succeeded()
    assert breaker.state is State.CLOSED
    assert breaker.admits()


def test_each_failed_try_doubles_the_rest_up_to_a_bound():
    breaker, clock = opened()
    rests = []
    for _ in range(8):
        clock.now += breaker.rest_seconds
        assert breaker.admits()
        breaker.failed()
        rests.append(breaker.rest_seconds)
    assert rests == [20, 40, 80, 160, 320, 320, 320, 320]


def test_it_opens_at_once_for_as_long_as_the_provider_asks():
    breaker = Breaker(failures=3, rest_seconds=10, clock=Clock())
    breaker.failed(120, at_once=True)
    assert breaker.rest_seconds == 120


def test_a_try_whose_caller_left_can_be_made_by_another():
    breaker, clock = opened()
    clock.now += 10
    assert breaker.admits()
    breaker.left()
    assert breaker.admits()


def test_a_failure_without_a_rest_of_its_own_does_not_open_early():
    breaker = Breaker(failures=2, rest_seconds=10, clock=Clock())
    breaker.failed(60)
    assert breaker.state is State.CLOSED
