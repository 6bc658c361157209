"""When a dependency is asked, and when it is left alone."""

import asyncio

import pytest

from services.tool_cache.breaker import Breaker, Open


class Clock:
    seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return Breaker(1, clock)


def ask(breaker, error=None, insist=False):
    with breaker.asking((OSError,), insist=insist):
        if error:
            raise error


def fail(breaker, **fields):
    with pytest.raises(OSError, match="lost"):
        ask(breaker, OSError("lost"), **fields)


def test_after_a_failure_nobody_asks_for_a_while(breaker, clock):
    ask(breaker)
    fail(breaker)
    clock.seconds += 0.9
    with pytest.raises(Open):
        ask(breaker)
    clock.seconds += 0.1
    ask(breaker)
    ask(breaker)


def test_one_asks_for_all_after_the_pause(breaker, clock):
    fail(breaker)
    clock.seconds += 1
    with breaker.asking((OSError,)), pytest.raises(Open):
        ask(breaker)
    ask(breaker)


def test_a_second_failure_begins_a_second_pause(breaker, clock):
    fail(breaker)
    clock.seconds += 1
    fail(breaker)
    clock.seconds += 0.9
    with pytest.raises(Open):
        ask(breaker)


@pytest.mark.parametrize("error", [ValueError("a bug"), asyncio.CancelledError()])
def test_what_says_nothing_of_the_dependency_lets_the_next_one_ask(breaker, clock, error):
    ask_badly = pytest.raises(type(error))
    with ask_badly:
        ask(breaker, error)
    ask(breaker)
    fail(breaker)
    clock.seconds += 1
    with pytest.raises(type(error)):
        ask(breaker, error)
    fail(breaker)  # it was asked, not refused
    with pytest.raises(Open):
        ask(breaker)


def test_who_insists_asks_in_any_case_and_ends_the_pause(breaker):
    fail(breaker)
    fail(breaker, insist=True)
    ask(breaker, insist=True)
    ask(breaker)
