"""What judging live traffic may cost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.evaluation.judge.judge import OverBudget
from services.evaluation.online.allowance import DAY, HOUR, Bounds, TrafficBudget


class Clock:
    def __init__(self):
        self.now = 1_000_000_000.0
        self.tenant = "acme"

    def budget(self, *bounds, share=1.0):
        return TrafficBudget(bounds, lambda: self.tenant, share=share, now=lambda: self.now)


def test_calls_are_refused_when_the_hour_is_used_up_and_taken_again_in_the_next():
    clock = Clock()
    budget = clock.budget(Bounds(HOUR, 2, 1_000))
    budget.reserve(10)
    budget.reserve(10)
    with pytest.raises(OverBudget, match="2 calls for live traffic this hour"):
        budget.reserve(10)
    clock.now += HOUR
    budget.reserve(10)


def test_the_day_bounds_what_its_hours_would_allow():
    clock = Clock()
    budget = clock.budget(Bounds(HOUR, 2, 1_000), Bounds(DAY, 3, 10_000))
    for _ in range(3):
        budget.reserve(1)
        clock.now += HOUR / 2
    with pytest.raises(OverBudget, match="3 calls for live traffic today"):
        budget.reserve(1)


def test_tokens_that_were_set_aside_and_not_used_are_given_back():
    budget = Clock().budget(Bounds(HOUR, 100, 100))
    budget.reserve(80)
    with pytest.raises(OverBudget, match="tokens"):
        budget.reserve(30)
    budget.settle(80, 20)
    budget.reserve(30)


def test_one_tenant_uses_no_more_than_its_share():
    clock = Clock()
    budget = clock.budget(Bounds(HOUR, 4, 1_000), share=0.5)
    budget.reserve(1)
    budget.reserve(1)
    with pytest.raises(OverBudget, match="tenant's share"):
        budget.reserve(1)
    clock.tenant = "other"
    budget.reserve(1)
    budget.reserve(1)
    with pytest.raises(OverBudget):
        budget.reserve(1)


def test_a_call_that_ends_in_a_later_hour_gives_nothing_back_there():
    clock = Clock()
    budget = clock.budget(Bounds(HOUR, 100, 100))
    budget.reserve(90)
    clock.now += HOUR
    budget.reserve(50)
    budget.settle(90, 10)
    with pytest.raises(OverBudget, match="tokens"):
        budget.reserve(51)
    budget.settle(50, 20)
    budget.reserve(80)


def test_no_bound_of_calls_means_that_nothing_is_judged():
    with pytest.raises(OverBudget):
        Clock().budget(Bounds(HOUR, 0, 1_000)).reserve(1)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 1_800)), max_size=60))
def test_neither_calls_nor_tokens_of_an_hour_are_ever_exceeded(asked):
    clock = Clock()
    budget = clock.budget(Bounds(HOUR, 10, 200), share=0.6)
    taken = {}
    for tenant, tokens, later in asked:
        clock.now += later
        clock.tenant = tenant
        try:
            budget.reserve(tokens)
        except OverBudget:
            continue
        taken.setdefault(int(clock.now // HOUR), []).append((tenant, tokens))
    for hour in taken.values():
        assert len(hour) <= 10
        assert sum(tokens for _, tokens in hour) <= 200
        assert all([one for one, _ in hour].count(tenant) <= 6 for tenant in "abc")
