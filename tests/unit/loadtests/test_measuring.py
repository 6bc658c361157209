import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.measuring import percentile

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200)


def test_a_percentile_is_the_nearest_rank():
    hundred = [float(n) for n in range(100, 0, -1)]
    assert [percentile(hundred, p) for p in (1, 50, 95, 99, 100)] == [1, 50, 95, 99, 100]
    assert percentile([3.0, 1.0, 2.0], 50) == 2
    assert percentile([1.0, 2.0], 50) == 1
    assert percentile([7.0], 99) == 7


def test_there_is_no_percentile_of_nothing():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@given(NUMBERS, st.floats(0, 100))
def test_a_percentile_was_measured_and_is_not_exceeded_by_its_share(values, percent):
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-9
