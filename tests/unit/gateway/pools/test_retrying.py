from hypothesis import given
from hypothesis import strategies as st

from services.gateway.pools.retrying import RetryBudget


def test_retries_are_a_fifth_of_requests_in_the_long_run():
    budget = RetryBudget(0.2)
    retries = 0
    for _ in range(1000):
        budget.deposit()
        retries += budget.withdraw()
    assert 200 <= retries <= 211


def test_zero_is_no_retry_at_all():
    budget = RetryBudget(0)
    budget.deposit()
    assert not budget.withdraw()


@given(st.lists(st.booleans(), max_size=500), st.floats(0, 1))
def test_never_more_than_the_part_and_some_at_the_start(steps, part):
    budget, requests, retries = RetryBudget(part), 0, 0
    for is_request in steps:
        if is_request:
            budget.deposit()
            requests += 1
        else:
            retries += budget.withdraw()
        assert retries <= 10 + part * requests + 1e-6
