import math
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.limits.buckets import UNIT, Bucket

# The machine may be busy.
PATIENTLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

LIMITS = st.integers(1, 10_000_000)


@PATIENTLY
@given(limit=LIMITS, pauses=st.lists(st.integers(0, 30_000_000), max_size=60))
def test_never_more_than_the_limit_and_what_time_gives_back(limit, pauses):
    bucket, now, admitted = Bucket(), 0, 0
    for pause in pauses:
        now += pause
        bucket = bucket.leaked(now, limit)
        if not bucket.wait_us(1):
            bucket, admitted = bucket.filled(1), admitted + 1
        assert 0 <= bucket.used <= limit
        assert bucket.empty_in_us <= 60_000_000
    assert admitted <= limit + Fraction(now * limit, 60_000_000)


@PATIENTLY
@given(limit=LIMITS, before=st.integers(0, 20_000_000), units=st.integers(1, 10_000_000), since=st.integers(0, 10**8))
def test_the_wait_is_exact_to_the_microsecond(limit, before, units, since):
    units = min(units, limit)
    bucket = Bucket().leaked(1, limit).filled(before).leaked(1 + since, limit)
    wait = bucket.wait_us(units)
    now = 1 + since + wait
    assert bucket.leaked(now, limit).wait_us(units) == 0
    if wait:
        assert bucket.leaked(now - 1, limit).wait_us(units) == 1


@PATIENTLY
@given(limit=LIMITS, units=st.integers(-5_000, 5_000), spent=st.integers(0, 10_000))
def test_a_bucket_never_runs_below_empty_and_may_run_over(limit, units, spent):
    bucket = Bucket().leaked(0, limit).filled(spent).filled(units)
    assert bucket.level == max(0, spent + units) * UNIT
    assert bucket.used == max(0, spent + units)


@PATIENTLY
@given(old=LIMITS, new=LIMITS, used=st.integers(0, 10_000_000))
def test_under_another_limit_the_time_until_it_is_empty_stays(old, new, used):
    bucket = Bucket().leaked(0, old).filled(used)
    changed = bucket.leaked(0, new)
    assert changed.empty_in_us <= bucket.empty_in_us
    assert bucket.empty_in_us - changed.empty_in_us <= math.ceil(1 / new) + 1


def test_a_clock_that_goes_back_costs_the_time_in_between_and_no_more():
    bucket = Bucket().leaked(1_000_000_000, 60).filled(30)
    back = bucket.leaked(400_000_000, 60)
    assert back.used == 30
    assert back.leaked(410_000_000, 60).used == 20
